"""Somebody whose key may read one topic sees and touches nothing of others: inboxes, and what Spark jobs keep."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.gateway.exmp.test_under_weft_up import configured, tls_of
from tests.up import END_TIMEOUT_S, RunningNode, up
from weft import exmp
from weft.client import Client, Connecting, NoServer, NotAllowed, Reply, Request, SequenceReused
from weft.client.requests import CORRELATION, REPLY_TO
from weft.model import Batch, Receipt
from weft.model.batch_header import HEADER_BYTES, PRODUCER_AT
from weft.model.topic import OWNED_ID_BYTES, OwnedKind, owned_topic
from weft.security import SALT_BYTES, SECRET_BYTES, KeyRequest, create_key
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import stream_ref


def key_of(data: Path, name: str, **rights: Any) -> str:
    entropy = secrets.token_bytes(SECRET_BYTES + SALT_BYTES)
    return create_key(data, KeyRequest(name, **rights), entropy, time.time())[1].reveal()


def connect(node: RunningNode, key: str) -> Connecting:
    root = node.context.tls_root
    assert root is not None, "of a secured node"
    return weft.connect(node.grpc, tls=weft.TlsFiles(Path(root)), token=key)


async def one_request(client: Client) -> Request:
    async for request in client.requests("ask.>"):
        return request
    raise AssertionError("subscriptions do not end by themselves")


async def asked_when_served(client: Client, topic: str) -> Reply:
    while True:
        try:
            return await client.request(topic, b"?", timeout_s=END_TIMEOUT_S)
        except NoServer:
            await asyncio.sleep(0.01)


async def see_nothing(spy: Client, receipts: list[Receipt]) -> None:
    """Neither in lists, nor by name."""
    assert [each.topic for each in await spy.topics("weft.>")] == []
    for receipt in receipts:
        topic = receipt.stream.topic
        with pytest.raises(NotAllowed, match="not allowed to subscribe"):
            async for _ in await spy.fetch(receipt.stream, receipt.epoch, receipt.first_offset):
                pass
        with pytest.raises(NotAllowed, match="not allowed to subscribe"):
            await spy.positions(topic)
        with pytest.raises(NotAllowed, match="not allowed to subscribe"):
            async with spy.subscribe(topic, start="earliest") as events:
                await anext(aiter(events))


@pytest.mark.req("SEC-03")
async def test_inboxes_and_what_jobs_stage_belong_to_the_name_of_a_key(tmp_path: Path) -> None:
    """They were open to everybody who knew their names, and ``Topics`` told everybody their names."""

    with up(tmp_path / "a", *configured(tmp_path)) as node:
        rights: dict[str, dict[str, Any]] = {
            "asker": {"publish": ("ask.>",)},
            "server": {"subscribe": ("weft.serve.ask.>",)},
            "spy": {"subscribe": ("news", "ask.>", ">"), "publish": ("news",)},
        }
        keys = {name: key_of(tmp_path / "a", name, **some) for name, some in rights.items()}
        keys["asker again"] = key_of(tmp_path / "a", "asker", publish=("other",))
        async with (
            asyncio.timeout(END_TIMEOUT_S),
            connect(node, keys["asker"]) as asker,
            connect(node, keys["server"]) as server,
            connect(node, keys["spy"]) as spy,
        ):
            # A request and its reply, by keys that have no right but to the request's topic.
            with pytest.raises(NotAllowed, match=r'not allowed to serve "ask.>".*"weft.serve.ask.>"'):
                async with spy.serve("ask.>", lambda _: b"mine"):
                    pass
            with pytest.raises(NotAllowed, match="not allowed to publish"):
                await spy.request("ask.price", b"?", durable=False)
            serving = asyncio.create_task(one_request(server))
            asking = asyncio.create_task(asked_when_served(asker, "ask.price"))
            reply = await (await serving).reply(b"42")
            assert reply is not None
            assert (await asking).payload == b"42"
            # What a job keeps.
            own_id = secrets.token_hex(OWNED_ID_BYTES)
            kept = [
                await asker.publish(owned_topic(kind, await asker.owner(), own_id), b"rows")
                for kind in (OwnedKind.STAGING, OwnedKind.DECISIONS)
            ]
            assert len(await asker.topics("weft.>")) == 3, "its own"
            await see_nothing(spy, [reply, *kept])
            await see_nothing(server, [reply, *kept])
            for receipt in kept:
                with pytest.raises(NotAllowed, match="not allowed to publish"):
                    await spy.publish(receipt.stream.topic, b"forged")
            # Another key of the same name is the same owner; who administers sees all.
            async with connect(node, keys["asker again"]) as again, node.client() as admin:
                for client in (again, admin):
                    found = {each.topic for each in await client.topics("weft.>")}
                    assert {each.stream.topic for each in (reply, *kept)} <= found
            async with exmp.connect(node.gateway("exmps"), tls=tls_of(node, "exmps")) as peer:
                await peer.call("authenticate", {"key": keys["spy"]})
                assert await peer.call("topics", {"pattern": "weft.>"}) == {"topics": []}
                with pytest.raises(exmp.Failure, match="not allowed to subscribe"):
                    await peer.call("fetch", {"topic": reply.stream.topic})
        node.end_quietly()


@pytest.mark.req("SEC-03")
async def test_who_was_asked_one_thing_cannot_answer_another(tmp_path: Path) -> None:
    """Whoever is asked knows the inbox, and can write there. That answers nothing: replies do not come by it."""

    with up(tmp_path / "a") as node:
        async with asyncio.timeout(END_TIMEOUT_S), node.client() as asker, node.client() as server:
            requests = server.requests("ask.>")
            await requests.opened()
            asking = [asyncio.create_task(asker.request(f"ask.{name}", b"?", timeout_s=60)) for name in "ab"]
            asked = [await anext(requests) for _ in asking]
            first, second = (each.headers[CORRELATION] for each in asked)
            assert len(first) == len(second) == 32
            assert first != second
            for correlation in ("1", first, second):
                await server.publish(asked[0].headers[REPLY_TO], b"forged", headers={CORRELATION: correlation})
            for each in asked:
                await each.reply(each.topic)
            assert [(await each).payload for each in asking] == [b"ask.a", b"ask.b"]
        node.end_quietly()


# --- producers -------------------------------------------------------------------------------------------------------

PRODUCER = b"of the victim..."


def numbered(payload: bytes, sequence: int) -> Batch:
    return Batch.from_columns([payload], 7, producer=PRODUCER, sequence=sequence)


async def shown_of_producers(client: Client, receipt: Receipt) -> bytes:
    """Producer and sequence in the header of a batch, as the node sends it: the SDK does not show them."""
    request = pb.FetchRequest(stream=stream_ref(receipt.stream, receipt.epoch), end_offset=1)
    reply = await client._nodes.call("/weft.mesh.v1.Mesh/Fetch", request, pb.FetchReply)
    (data,) = reply.fetched.batches
    assert Batch.read_untrusted(data).producer is None, "its checksum is right"
    return bytes(data[PRODUCER_AT:HEADER_BYTES])


@pytest.mark.req("SEC-03")
async def test_nobody_uses_up_the_numbers_of_another_publisher(tmp_path: Path) -> None:
    """Whoever knew a producer could publish under its numbers: what it sent next got receipts and was dropped. And
    whoever could read a topic knew its producers."""

    with up(tmp_path / "a") as node:
        both = {"publish": ("orders",), "subscribe": ("orders",)}
        keys = {name: key_of(tmp_path / "a", name, **both) for name in ("victim", "attacker")}
        keys["victim again"] = key_of(tmp_path / "a", "victim", **both)
        async with (
            asyncio.timeout(END_TIMEOUT_S),
            connect(node, keys["victim"]) as victim,
            connect(node, keys["victim again"]) as again,
            connect(node, keys["attacker"]) as attacker,
        ):
            first = await victim.publish_batch("orders", numbered(b"one", 1))
            for place, (sequence, payload) in enumerate([(1, b"forged"), (2, b"two"), (90, b"forged")], 1):
                stolen = await attacker.publish_batch("orders", numbered(payload, sequence))
                assert stolen.first_offset == place, "under numbers of the attacker's own"
            second = await victim.publish_batch("orders", numbered(b"two", 2))
            assert second.first_offset == 4, "stored, and no repetition of what the attacker sent"
            retried = await again.publish_batch("orders", numbered(b"two", 2))
            assert retried == second, "who has a new key of the same name can try again what it is not sure of"
            with pytest.raises(SequenceReused):
                await victim.publish_batch("orders", numbered(b"another", 2))
            assert await shown_of_producers(attacker, first) == bytes(24), "nothing, to whoever reads the topic"
        node.end_quietly()
