"""Requests and replies: what those who ask and those who serve see of them, with real nodes (CON-04)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.story import connect
from tests.node.running import running_node
from weft.client import (
    Client,
    Closed,
    NoReply,
    NoServer,
    NotAllowed,
    Request,
    RequestFailed,
    ServerLost,
    blocking,
)
from weft.client.requests import CORRELATION, REPLY_TO
from weft.errors import UsageError
from weft.model.topic import OwnedKind, read_owned
from weft.node.runtime import Node
from weft.testing.live_mesh import Mesh

pytestmark = pytest.mark.req("CON-04")


@asynccontextmanager
async def two_clients(data: Path) -> AsyncIterator[tuple[Client, Client, Node]]:
    """Of one node: the first asks, the second serves."""
    async with running_node(data) as node, connect(node.grpc_address) as asker, connect(node.grpc_address) as other:
        yield asker, other, node


def upper(request: Request) -> bytes:
    return request.payload.upper()


async def until(condition: Callable[[], object]) -> None:
    """The story's time-out bounds it."""
    while not condition():
        await asyncio.sleep(0.005)


# --- one node --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
async def test_a_request_gets_its_reply(tmp_path: Path, durable: bool) -> None:
    async with two_clients(tmp_path) as (asker, other, _node), other.serve("ask.*", upper):
        words = ("one", "two", "three")
        replies = await asyncio.gather(*(asker.request("ask.upper", word, durable=durable) for word in words))
        assert [reply.payload for reply in replies] == [b"ONE", b"TWO", b"THREE"]
        assert [bool(reply.event) for reply in replies] == 3 * [durable]


async def test_without_durable_nothing_is_written(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (asker, other, node), other.serve("ask", upper):
        before = node.log.appended
        assert (await asker.request("ask", b"?", durable=False)).payload == b"?"
        assert node.log.appended == before
        assert await asker.topics() == []


@pytest.mark.req("SEC-03")
async def test_with_durable_both_are_events_and_the_reply_is_in_an_inbox(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (asker, other, _node), other.serve("ask", upper):
        reply = await asker.request("ask", b"a?", headers={"trace": "7"})
        (asked,) = [each async for each in _events(asker, "ask", 1)]
        assert asked.payload == b"a?"
        assert asked.headers["trace"] == "7"
        inbox = asked.headers[REPLY_TO]
        assert read_owned(inbox) == (OwnedKind.INBOX, await asker.owner())
        (kept,) = [each async for each in _events(asker, inbox, 1)]
        assert (kept.payload, kept.headers[CORRELATION]) == (b"A?", asked.headers[CORRELATION])
        assert reply.event.startswith(f"{inbox}@")


async def _events(client: Client, topic: str, count: int) -> AsyncIterator[Any]:
    async with client.subscribe(topic, start="earliest") as events:
        for _ in range(count):
            yield await anext(aiter(events))


async def test_nobody_serves_is_told_at_once_and_nothing_is_published(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (asker, other, _node):
        async with other.subscribe("ask") as reading:  # reading is not serving
            await reading.opened()
            for durable in (True, False):
                with pytest.raises(NoServer) as raised:
                    await asker.request("ask", b"?", timeout_s=3600, durable=durable)
                assert raised.value.facts["topic"] == "ask"
        assert await asker.topics() == []
        async with other.serve("ask", upper):
            (found,) = [each for each in await asker.explain("ask") if each.serves]
            assert (found.node_id, found.pattern, found.reason) == ("a", "weft.serve.ask", "1 server here")
        assert not [each for each in await asker.explain("ask") if each.serves]


async def test_a_handler_that_fails_is_told_and_nothing_but_its_message(tmp_path: Path) -> None:
    def fail(request: Request) -> bytes:
        secret = "0xdeadbeef"  # of a frame that nobody else sees
        raise ValueError(f"no number: {request.payload.decode()}, {len(secret)}")

    async with (
        two_clients(tmp_path) as (asker, other, _node),
        other.serve("ask", fail),
        other.serve("wrong", lambda _: 7),
        other.serve("large", lambda _: b"x" * (1 << 21)),
    ):
        with pytest.raises(RequestFailed) as raised:
            await asker.request("ask", b"x", durable=False)
        assert "ValueError: no number: x, 10" in str(raised.value)
        assert "deadbeef" not in str(raised.value)
        with pytest.raises(RequestFailed, match="a reply is bytes or str, not int"):
            await asker.request("wrong", b"x", durable=False)
        with pytest.raises(RequestFailed, match=r"reply is too large.*1048576"):
            await asker.request("large", b"x", durable=False)
        with pytest.raises(UsageError, match="request is too large"):
            await asker.request("ask", b"x" * (1 << 21), durable=False)
        with pytest.raises(NotAllowed, match="belong to the mesh"):
            await asker.request("weft.x", b"", durable=False)
        with pytest.raises(UsageError, match="mesh itself"):
            async with other.serve("weft.>", upper):
                pass


async def test_time_runs_out_and_the_server_hears_of_it(tmp_path: Path) -> None:
    cancelled = asyncio.Event()

    async def slow(request: Request) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with two_clients(tmp_path) as (asker, other, _node), other.serve("ask", slow):
        with pytest.raises(NoReply) as raised:
            await asker.request("ask", b"?", timeout_s=0.1, durable=False)
        assert raised.value.facts == {"topic": "ask", "waited_s": 0.1}
        await cancelled.wait()


async def test_a_stream_of_replies(tmp_path: Path) -> None:
    ended = []

    async def numbers(request: Request) -> AsyncIterator[str]:
        try:
            for number in range(int(request.payload)):
                yield str(number)
        finally:
            ended.append(request.payload)

    def plainly(request: Request) -> Iterator[bytes]:
        yield from (b"a", b"b")

    async with (
        two_clients(tmp_path) as (asker, other, _node),
        other.serve("count", numbers),
        other.serve("two", plainly),
    ):
        found = [each.payload async for each in asker.request_many("count", b"100", durable=False)]
        assert found == [str(number).encode() for number in range(100)]
        assert [each.payload async for each in asker.request_many("two", b"")] == [b"a", b"b"]
        assert [each async for each in asker.request_many("count", b"0", durable=False)] == []
        with pytest.raises(NoReply, match="without a reply"):
            await asker.request("count", b"0", durable=False)
        # Who has enough ends it; the server stops.
        ended.clear()
        replies = asker.request_many("count", b"1000000", durable=False)
        assert (await anext(replies)).payload == b"0"
        await replies.aclose()
        await until(lambda: ended == [b"1000000"])


async def test_each_reply_and_all_together_have_their_time(tmp_path: Path) -> None:
    async def two(request: Request) -> None:
        await request.reply(b"1", last=False)
        await asyncio.Event().wait()

    async with two_clients(tmp_path) as (asker, other, _node), other.serve("ask", two):
        for timeout_s, total_s, waited_s in ((0.2, 60.0, 0.2), (60.0, 0.2, 0.2)):
            replies = asker.request_many("ask", b"", timeout_s=timeout_s, total_timeout_s=total_s, durable=False)
            assert (await anext(replies)).payload == b"1"
            with pytest.raises(NoReply) as raised:
                await anext(replies)
            assert raised.value.facts["waited_s"] == waited_s


async def test_work_is_shared_and_each_request_is_handled_once(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (asker, other, _node):
        handled: Counter[tuple[int, bytes]] = Counter()

        def server(number: int) -> Callable[[Request], bytes]:
            def handle(request: Request) -> bytes:
                handled[number, request.payload] += 1
                return request.payload

            return handle

        async with other.serve("ask", server(1), concurrency=2), asker.serve("*", server(2), concurrency=2):
            for number in range(20):
                await asker.request("ask", str(number), durable=False)
            assert Counter(number for number, _ in handled) == {1: 10, 2: 10}, "by turns"
            handled.clear()
            asked = [str(number).encode() for number in range(100)]
            replies = await asyncio.gather(*(asker.request("ask", each, durable=False) for each in asked))
            assert [each.payload for each in replies] == asked
            assert Counter(payload for _, payload in handled) == Counter(asked), "each once"


async def test_a_server_that_is_lost_is_told_and_another_is_asked_if_the_asker_wants_that(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (asker, other, node):
        asked: list[bytes] = []

        async def die(request: Request) -> None:
            asked.append(request.payload)
            await asyncio.Event().wait()

        async def ask_and_kill(attempts: int) -> Any:
            async with connect(node.grpc_address) as mortal:
                server = mortal.serve("ask", die)
                await server.opened()
                asking = asyncio.create_task(asker.request("ask", b"?", durable=False, attempts=attempts))
                await until(lambda: asked)
                asked.clear()
                await mortal._nodes.close()  # as a process that is killed
                return await asyncio.gather(asking, return_exceptions=True)

        (lost,) = await ask_and_kill(attempts=1)
        assert isinstance(lost, ServerLost)

        async with other.serve("ask", upper, concurrency=1), connect(node.grpc_address) as mortal:
            server = mortal.serve("ask", die, concurrency=4)
            await server.opened()
            asking = [asyncio.create_task(asker.request("ask", b"x", durable=False, attempts=5)) for _ in range(8)]
            await until(lambda: asked)
            await mortal._nodes.close()
            assert {each.payload for each in await asyncio.gather(*asking)} == {b"X"}


async def test_requests_can_be_taken_one_by_one(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (asker, other, _node):
        requests = other.requests("ask.>")
        await requests.opened()
        asking = asyncio.create_task(asker.request("ask.it", b"?", headers={"h": "1"}))
        request = await anext(requests)
        assert (request.topic, request.payload, request.headers["h"], request.durable) == ("ask.it", b"?", "1", True)
        receipt = await request.reply(b"!", headers={"by": "me"})
        assert receipt is not None
        reply = await asking
        assert (reply.payload, reply.headers["by"], reply.event) == (b"!", "me", str(receipt))
        with pytest.raises(Closed, match="nobody waits"):
            await request.reply(b"again")
        asking = asyncio.create_task(asker.request("ask.it", b"?", durable=False))
        await (await anext(requests)).fail("not today")
        with pytest.raises(RequestFailed, match="not today"):
            await asking
        await requests.close()
        with pytest.raises(StopAsyncIteration):
            await anext(requests)


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize("named", ["orders.pay", "weft.staging." + "0" * 16 + "." + "0" * 32, "weft.inbox.x", ""])
async def test_an_asker_cannot_have_an_answer_published_anywhere_but_in_an_inbox(tmp_path: Path, named: str) -> None:
    """The answer goes out with the rights of who answers."""

    async with two_clients(tmp_path) as (asker, other, _node), other.serve("ask", upper):
        headers = {REPLY_TO: named, CORRELATION: "1"}
        asked = await asker._calls.ask("ask", b"pay me", headers, 60.0, durable=True, probe=False)
        answer = await asked.next()
        assert answer is not None and answer.failed
        assert b"replies go to inboxes only" in answer.payload
        assert await asker.topics("weft.>") == [] and await asker.topics() == []


async def test_who_closes_finishes_what_is_in_hand(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (asker, other, node):
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: Request) -> bytes:
            begun.set()
            await go_on.wait()
            return b"done"

        server = other.serve("ask", slow)
        await server.opened()
        asking = asyncio.create_task(asker.request("ask", b"?", durable=False, timeout_s=60))
        await begun.wait()
        closing = asyncio.create_task(server.close())
        await until(lambda: not node.broker.calls.patterns())
        with pytest.raises(NoServer):
            await asker.request("ask", b"?", durable=False)
        go_on.set()
        assert (await asking).payload == b"done"
        await closing


async def test_the_blocking_twin(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await asyncio.to_thread(blocking_story, node.grpc_address)


def blocking_story(address: str) -> None:
    def handle(request: blocking.Request) -> Any:
        if request.payload == b"many":
            return iter(["1", "2"])
        if request.payload == b"fail":
            raise ValueError("no")
        return request.payload.upper()

    with blocking.connect(address, insecure=True) as client, client.serve("ask", handle, concurrency=2):
        assert client.request("ask", "x").payload == b"X"
        assert client.request("ask", "x", durable=False).payload == b"X"
        assert [each.payload for each in client.request_many("ask", "many", durable=False)] == [b"1", b"2"]
        with pytest.raises(RequestFailed, match="ValueError: no"):
            client.request("ask", "fail", durable=False)
        with pytest.raises(NoServer):
            client.request("other", "x")
        with ThreadPoolExecutor(1) as pool:
            requests = client.requests("one")
            answering = pool.submit(lambda: next(requests).reply(b"!"))
            while True:
                try:
                    assert client.request("one", "?", durable=False).payload == b"!"
                    break
                except NoServer:
                    continue
            answering.result(60.0)
            requests.close()  # type: ignore[attr-defined]


# --- several nodes ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def clients(mesh: Mesh) -> AsyncIterator[list[Client]]:
    async with mesh.client("n0") as first, mesh.client("n1") as second, mesh.client("n2") as third:
        yield [first, second, third]


async def test_requests_cross_the_mesh_and_are_shared_by_servers_that_come_and_go(tmp_path: Path) -> None:
    async with Mesh(3, "chain") as mesh, clients(mesh) as (first, second, third):
        handled: Counter[str] = Counter()

        def at(name: str) -> Callable[[Request], bytes]:
            def handle(request: Request) -> bytes:
                handled[name] += 1
                return request.payload.upper()

            return handle

        async def known(client: Client, count: int) -> None:
            while len([each for each in await client.explain("ask") if each.serves]) != count:
                await asyncio.sleep(0.01)

        async with third.serve("ask", at("n2")):
            await known(first, 1)
            reply = await first.request("ask", b"far", durable=True)
            assert reply.payload == b"FAR"
            assert "@n2/" in reply.event, "kept where it was answered"
            (found,) = [each for each in await first.explain("ask") if each.serves]
            assert found.path == ("n0", "n1", "n2")
            async with second.serve("ask", at("n1"), concurrency=10):
                await known(first, 2)
                for _ in range(40):
                    await first.request("ask", b"x", durable=False)
                assert min(handled["n1"], handled["n2"]) >= 10, handled
            await asyncio.gather(*(first.request("ask", b"x", durable=False) for _ in range(20)))
            assert sum(handled.values()) == 61, "each once"
            many = [each.payload async for each in first.request_many("ask", b"m", durable=False)]
            assert many == [b"M"]
        await known(first, 0)
        with pytest.raises(NoServer):
            await first.request("ask", b"?", durable=False)


async def test_a_node_that_stops_with_requests_in_hand_and_its_servers_go_on_elsewhere(tmp_path: Path) -> None:
    async with Mesh(2) as mesh, mesh.client("n0") as asker, mesh.client("n1") as at_both:
        server = at_both.serve("ask", upper)
        await server.opened()
        while not [each for each in await asker.explain("ask") if each.serves]:
            await asyncio.sleep(0.01)
        assert (await asker.request("ask", b"a", durable=False)).payload == b"A"
        await mesh.stop("n1")
        answered = False
        while not answered:  # the server finds its way to the other node
            try:
                answered = (await asker.request("ask", b"b", durable=False)).payload == b"B"
            except NoServer:
                await asyncio.sleep(0.01)
