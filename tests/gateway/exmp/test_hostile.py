"""Clients of a node that ask for much and take little: what they hold is bounded, and others are served."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.gateway.exmp.joined import PATIENCE_S, address_of, joined, until
from tests.transport.tcp.raw import Raw
from tests.wire.exmp.transcript import error, request, response
from weft import exmp
from weft.gateway.exmp.feed import EXMP_CREDIT_BYTES, Feed
from weft.limits import MIB
from weft.node.runtime import Node
from weft.port.held import Use
from weft.wire.exmp import messages_untrusted
from weft.wire.exmp.messages import Response

PUBLISH = '{"op":"publish","data":{"topic":"t","payload":"x"}}'


async def raw_of(node: Node) -> Raw:
    host, _, port = address_of(node).rpartition(":")
    raw = Raw(*await asyncio.open_connection(host, int(port)))
    await raw.greet()
    return raw


@pytest.mark.req("EXM-06", "EXM-11")
async def test_ten_thousand_publishes_in_one_go_have_ten_thousand_receipts_in_order(tmp_path: Path) -> None:
    count = 10_000

    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, _):
        raw = await raw_of(node)

        async def send() -> None:
            for first in range(1, count, 1000):
                raw.send("\n".join(request(number, PUBLISH) for number in range(first, first + 1000)))
                await raw.writer.drain()

        sending = asyncio.create_task(send())
        received = bytearray()
        while received.count(b'"copies":1') < count:
            received += await raw.reader.read(1 << 20)
        await sending
        answers = [message for _, _, message in messages_untrusted(bytes(received), MIB)]
        assert [each.id for each in answers if isinstance(each, Response)] == list(range(1, count + 1))
        assert all(f'"offset":{n},'.encode() in each.data for n, each in enumerate(answers))  # type: ignore[union-attr]
        await raw.close()


async def test_a_subscriber_that_never_answers_holds_its_credit_and_no_more(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        raw = await raw_of(node)
        raw.send(request(1, '{"op":"subscribe","data":{"pattern":"t","window":8}}'))
        await raw.expect(response(1, '{"status":"success","data":{"subscription":1}}'))
        payload = "x" * 10_000
        for _ in range(10):
            await asyncio.gather(
                *(client.call("publish", {"topic": "t", "payload": payload}) for _ in range(100))
            )  # 10 MB in all
        (subscriber,) = node.clients._subscribers.values()
        assert isinstance(subscriber, Feed)
        await until(lambda: len(subscriber._sent) == 8)
        waiting = sum(len(each.data) for each in subscriber._waiting)
        assert waiting <= EXMP_CREDIT_BYTES + 2 * MIB  # the last batch may exceed it
        assert len(subscriber._sent) == 8
        await raw.close()
        await until(lambda: node.clients.subscriptions == 0)


async def test_while_the_node_has_taken_as_much_as_it_may_publishers_wait(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        others = node.clients.held.holding("plain text", Use.PUBLISH)
        others.take(1 << 40)
        event = {"topic": "t", "payload": "x"}
        waiting = [asyncio.create_task(client.call("publish", event)) for _ in range(2)]
        async with exmp.connect(address_of(node)) as other:
            assert await other.call("$echo") == {}  # nobody else has to wait
            assert await other.call("$echo") == {}
        assert not any(task.done() for task in waiting)
        others.give_back(1 << 40)
        receipts = await asyncio.gather(*waiting)
        assert [receipt and receipt["offset"] for receipt in receipts] == [0, 1]


@pytest.mark.req("EXM-08")
async def test_one_connection_too_many_is_sent_away(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        joined(tmp_path, gateway__exmp__connections_max=1) as (node, client),
    ):
        raw = await raw_of(node)
        await raw.expect(error(2, "too many connections, the limit is 1: try again later"))
        await raw.expect_end()
        await raw.close()
        assert await client.call("$echo") == {}


async def test_thousands_of_refusals_in_one_go_are_answered_one_by_one(tmp_path: Path) -> None:
    count = 3000
    refused = '{"op":"publish","data":{"topic":"a..b","payload":"x"}}'

    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, _):
        raw = await raw_of(node)
        raw.send("\n".join(request(number, refused) for number in range(1, count + 1)))
        received = bytearray()
        while received.count(b'"code":"bad_request"') < count:
            received += await raw.reader.read(1 << 20)
        await raw.close()


async def test_large_events_are_not_all_written_to_a_subscriber_that_does_not_read(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        big = {"topic": "t", "payload": "x" * 500_000}
        await asyncio.gather(*(client.call("publish", big) for _ in range(20)))
        raw = await raw_of(node)
        raw.send(request(1, '{"op":"subscribe","data":{"pattern":"t","start":"earliest","window":1000}}'))
        await raw.expect(response(1, '{"status":"success","data":{"subscription":1}}'))
        (subscriber,) = node.clients._subscribers.values()
        assert isinstance(subscriber, Feed)
        await until(lambda: subscriber._sent)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert len(subscriber._sent) < 20  # what the sockets take, and one step more
        await raw.close()


async def test_a_client_that_goes_without_a_word_leaves_nothing_behind(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        raw = await raw_of(node)
        raw.send("\n".join(request(number, PUBLISH) for number in range(1, 101)))
        raw.send(request(101, '{"op":"subscribe","data":{"pattern":">"}}'))
        await raw.writer.drain()
        raw.writer.transport.abort()
        await until(lambda: node.clients.subscriptions == 0 and node.clients.held.bytes == 0)
        assert await client.call("$echo") == {}


@pytest.mark.req("SEC-05")
async def test_what_a_caller_fetches_and_does_not_read_counts_for_it_on_all_of_its_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.port.held.ROOM_WAIT_S", 0.2)
    fetch = '{"op":"fetch","data":{"topic":"t"}}'

    limits = {"limits__caller_bytes_max": 16 * MIB, "limits__held_bytes_max": 64 * MIB}
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path, **limits) as (node, client):
        big = {"topic": "t", "payload": "x" * 500_000}
        await asyncio.gather(*(client.call("publish", big) for _ in range(8)))
        raws = [await raw_of(node) for _ in range(3)]
        for raw in raws[:2]:
            raw.send("\n".join(request(number, fetch) for number in range(1, 11)))  # the sockets take some of it
        await until(lambda: node.clients.held.bytes >= 4 * MIB)  # a quarter of what the caller may hold
        raws[2].send(request(1, fetch))
        received = b""
        while b'"code":"busy"' not in received:
            received += await raws[2].reader.read(1 << 16)
        assert b"this node holds too much for you that you have not read" in received and b"fetches" in received
        assert node.clients.held.bytes < 16 * MIB
        for raw in raws:
            await raw.close()
        await until(lambda: node.clients.held.bytes == 0)
        reply = await client.call("fetch", {"topic": "t"})
        assert reply is not None and len(reply["events"]) == 8
        assert node.clients.held.bytes == 0
