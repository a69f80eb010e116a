"""Connecting, questions to nodes, and ranges of streams."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import weft
from tests.client.fake import FakeNode, running
from tests.client.story import connect, quick
from tests.client.test_subscribe import filled, numbers
from weft.client import BadNode, ClientTls, FetchRange, PositionUnknown, ReceivedBatch, Unavailable
from weft.errors import UsageError
from weft.model import Epoch, NodeId, Position, Stream, Topic
from weft.wire.mesh import mesh_pb2 as pb

STREAM = Stream(Topic("a"), NodeId("node-a"), 0)
NOWHERE = "127.0.0.1:1"  # nothing listens there


# --- connecting ------------------------------------------------------------------------------------------------------


async def test_a_client_goes_to_the_node_that_answers() -> None:
    async with running(FakeNode()) as addresses, connect([NOWHERE, *addresses]) as client:
        assert (await client.status()).node_id == "node-a"


async def test_nobody_there_is_said_in_time() -> None:
    with pytest.raises(Unavailable, match="no node answers") as raised:
        await connect(NOWHERE, connect_timeout_s=0.2)
    assert raised.value.facts == {"nodes": NOWHERE, "waited_s": 0.2}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "pass tls=.*insecure=True"),
        ({"insecure": True, "tls": ClientTls(b"root")}, "contradict"),
        ({"insecure": True, "nodes": "nonsense"}, "host:port"),
        ({"insecure": True, "partitions": 0}, "partition"),
    ],
)
def test_connect_says_what_is_wrong_at_once(how: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        weft.connect(**{"nodes": "h:1", **how})  # type: ignore[arg-type]


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(UsageError, match="go together"):
        ClientTls(b"root", certificate=b"cert")


async def test_tokens_go_with_every_call() -> None:
    node = FakeNode()
    async with running(node) as addresses:
        client = await weft.connect(addresses, insecure=True, token="secret", options=quick())
        await client.publish("a", b"1")
        await client.close()
    assert node.metadata[0]["authorization"] == "Bearer secret"


def test_importing_a_part_of_weft_does_not_import_the_rest() -> None:
    check = (
        "import sys, weft, weft.wire.emm; assert 'weft.client' not in sys.modules; "
        "weft.connect; assert 'weft.client' in sys.modules; assert 'grpc' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        weft.nonsense  # type: ignore[attr-defined]  # noqa: B018


# --- questions -------------------------------------------------------------------------------------------------------


async def test_answers_are_values() -> None:
    node = FakeNode()
    await filled(node, 10)
    async with running(node) as addresses, connect(addresses) as client:
        (topic,) = await client.topics()
        assert (topic.topic, topic.events) == ("a", 10)
        status = await client.status()
        assert (status.node_id, status.version, status.listeners) == ("node-a", "fake", (node.address,))
        (peer,) = await client.peers()
        assert (peer.node_id, peer.addresses, peer.rtt_us) == ("node-z", ("h:1",), 7)
        await client.commit("g", [Position(STREAM, Epoch(1), 4)])
        (group,) = await client.groups()
        assert (group.group, group.streams[0].lag_events) == ("g", 6)
        (recipient,) = await client.explain("a")
        assert (recipient.path, recipient.reason) == (("node-a",), "a subscriber here")


async def test_calls_are_tried_again_elsewhere_and_not_for_ever() -> None:
    node = FakeNode()
    async with running(node) as addresses:
        async with connect([*addresses, NOWHERE]) as client:
            node.faults.fail_calls = 3
            assert (await client.status()).node_id == "node-a"
        async with connect([*addresses, NOWHERE], call_timeout_s=0.5) as client:
            node.faults.fail_calls = 1_000_000
            with pytest.raises(Unavailable, match="Status") as raised:
                await client.status()
        assert "call failed" in str(raised.value.facts["last"])


async def test_a_group_is_not_put_where_nothing_is() -> None:
    node = FakeNode()
    await filled(node, 10)
    async with running(node) as addresses, connect(addresses) as client:
        with pytest.raises(PositionUnknown):
            await client.commit("g", [Position(STREAM, Epoch(1), 11)])
        with pytest.raises(UsageError, match="group"):
            await client.commit("", [])
        with pytest.raises(UsageError, match="where to move the group"):
            await client.seek("g", "a", "group")


async def test_a_place_that_cannot_be_is_the_nodes_mistake() -> None:
    node = FakeNode()
    node.log["no topic", "node-a", 1, 0] = []
    node._matching = lambda pattern: list(node.log)  # type: ignore[method-assign]
    async with running(node) as addresses, connect(addresses) as client:
        with pytest.raises(BadNode, match="cannot be"):
            await client.positions(">")


# --- ranges ----------------------------------------------------------------------------------------------------------


async def fetched(batches: object) -> list[tuple[int, list[bytes]]]:
    found: list[ReceivedBatch] = [batch async for batch in batches]  # type: ignore[attr-defined]
    return [(batch.first_offset, batch.record_batch.column("payload").to_pylist()) for batch in found]


async def test_a_range_is_cut_out_exactly() -> None:
    node = FakeNode()
    await filled(node, 40)
    async with running(node) as addresses, connect(addresses) as client:
        batches = await client.fetch(STREAM, 1, 15, 25)
        assert await fetched(batches) == [(15, numbers(5, 15)), (20, numbers(5, 20))]
        rest = await fetched(await client.fetch(STREAM, 1, 35))
        assert rest == [(35, numbers(5, 35))]
        assert await fetched(await client.fetch(STREAM, 1, 7, 7)) == []


@pytest.mark.req("SDK-01")
async def test_a_fetch_that_breaks_goes_on_where_it_was() -> None:
    node = FakeNode()
    await filled(node, 40)
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.fail_calls = 2
        batches = await fetched(await client.fetch(STREAM, 1, 0))
        assert [payload for _, payloads in batches for payload in payloads] == numbers(40)
        node.faults.fail_calls = 1_000_000
        with pytest.raises(Unavailable):
            await fetched(await client.fetch(STREAM, 1, 0))


async def test_fetch_refuses_what_cannot_be() -> None:
    node = FakeNode()
    await filled(node, 10)
    async with running(node) as addresses, connect(addresses) as client:
        with pytest.raises(UsageError, match="ends before"):
            await client.fetch(STREAM, 1, 5, 4)
        with pytest.raises(UsageError, match="no such column"):
            await client.fetch(STREAM, 1, 5, columns=["colour"])
        with pytest.raises(UsageError, match="epoch"):
            await client.fetch(STREAM, 0, 5)
        with pytest.raises(PositionUnknown):
            await fetched(await client.fetch(STREAM, 2, 0))


async def test_columns_are_read_as_arrow_and_checked() -> None:
    node = FakeNode()
    await filled(node, 20)
    async with running(node) as addresses, connect(addresses) as client:
        batches = [batch async for batch in await client.fetch(STREAM, 1, 5, 15, columns=["payload"])]
        assert [(batch.first_offset, len(batch)) for batch in batches] == [(5, 5), (10, 5)]
        assert batches[0].record_batch.schema.names == ["payload"]
        with pytest.raises(BadNode, match="columns"):
            node.faults.spoil_columns = lambda reply: reply.MergeFrom(pb.FetchedBatches(first_offsets=[9]))
            _ = [batch async for batch in await client.fetch(STREAM, 1, 5, 15, columns=["payload"])]
        with pytest.raises(BadNode, match="bad batch"):
            node.faults.spoil_columns = lambda reply: reply.batches.__setitem__(0, b"junk")
            _ = [batch async for batch in await client.fetch(STREAM, 1, 5, 15, columns=["payload"])]


async def told(replies: object) -> list[tuple[str, int, int]]:
    found: list[list[ReceivedBatch]] = [reply async for reply in replies]  # type: ignore[attr-defined]
    return [(batch.stream.topic, batch.first_offset, batch.end_offset) for reply in found for batch in reply]


@pytest.mark.req("SPK-01")
async def test_a_node_that_knows_only_one_range_at_a_time_is_asked_for_each() -> None:
    """As nodes before this version do: the fake one is such."""

    node = FakeNode()
    await filled(node, 40)
    ranges = [FetchRange(STREAM, 1, first, end) for first, end in ((0, 10), (7, 7), (15, 25), (35, None))]
    async with running(node) as addresses, connect(addresses) as client:
        whole = [("a", 0, 10), ("a", 15, 20), ("a", 20, 25), ("a", 35, 40)]
        assert await told(client.fetch_ranges(ranges)) == whole
        node.faults.fail_calls = 3
        assert await told(client.fetch_ranges(ranges)) == whole
        assert await told(client.fetch_ranges([])) == []
        with pytest.raises(PositionUnknown) as raised:
            await told(client.fetch_ranges([*ranges, FetchRange(STREAM, 2, 0), ranges[0]]))
        assert raised.value.facts["range"] == 4


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda reply: reply.ranges.append(5),
        lambda reply: reply.ranges.extend([0, 0]),
        lambda reply: setattr(reply, "ranges_done", 3),
        lambda reply: setattr(reply, "ranges_done", (1 << 32) - 1),
    ],
)
async def test_ranges_that_nobody_asked_for_are_the_nodes_mistake(spoil: Callable[[pb.FetchedBatches], None]) -> None:
    node = FakeNode()
    await filled(node, 20)
    node.faults.spoil_columns = spoil
    async with running(node) as addresses, connect(addresses) as client:
        ranges = [FetchRange(STREAM, 1, 0, 5), FetchRange(STREAM, 1, 10, 20)]
        with pytest.raises(BadNode, match="nobody asked for"):
            await told(client.fetch_ranges(ranges, ["payload"]))
