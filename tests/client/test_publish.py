"""Publishing to nodes that fail: nothing is lost, nothing is there twice, and what cannot be known is said."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from tests.client.fake import FakeNode, error, running, until
from tests.client.story import Record, connect
from weft.client import (
    Backpressure,
    BadRequest,
    Closed,
    CopiesMissing,
    NotAllowed,
    OutOfSequence,
    PublishInDoubt,
    SequenceReused,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from weft.errors import UsageError, WeftError
from weft.model import Batch
from weft.wire.mesh import mesh_pb2 as pb

pytestmark = pytest.mark.usefixtures("either_client")


def numbers(count: int, begin: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(begin, begin + count)]


async def test_an_event_and_its_receipt() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        receipt = await client.publish("plant.temp", "21.5", key="k", headers={"unit": "C"}, timestamp_us=7)
        assert str(receipt) == "plant.temp@node-a/0:e1:0+1 synced"
        (batch,) = node.log["plant.temp", "node-a", 1, 0]
        (event,) = batch
        assert (event.payload, event.key, event.headers, event.timestamp_us) == (b"21.5", b"k", {"unit": "C"}, 7)


@pytest.mark.asyncio_only
async def test_a_thousand_events_are_few_batches_in_order() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        await client.publish("a", b"first")
        tickets = [client.publish_nowait("a", payload) for payload in numbers(1000)]
        receipts = [await ticket for ticket in tickets]
        assert [receipt.first_offset for receipt in receipts] == list(range(1, 1001))
        assert node.payloads("a") == [b"first", *numbers(1000)]
        assert len(node.requests) == 2


@pytest.mark.asyncio_only
async def test_gathered_publishes_share_batches() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        receipts = await asyncio.gather(*(client.publish("a", payload) for payload in numbers(100)))
        assert sorted(receipt.first_offset for receipt in receipts) == list(range(100))
        assert len(node.requests) <= 2


async def test_arrow_goes_in_as_one_batch() -> None:
    node = FakeNode()
    rows = pa.table({"payload": pa.array(numbers(50)), "key": pa.array(["k"] * 50)})
    async with running(node) as addresses, connect(addresses) as client:
        receipt = await client.publish_batch("a", rows, partition=3, copies=1)
        assert (receipt.stream.partition, receipt.count) == (3, 50)
        assert node.payloads("a", partition=3) == numbers(50)
        again = await client.publish_batch("a", Batch.from_columns([b"x"], 5), partition=3)
        assert again.first_offset == 50
        with pytest.raises(UsageError, match="column is missing"):
            await client.publish_batch("a", pa.table({"key": ["k"]}))
        with pytest.raises(UsageError, match="not dict"):
            await client.publish_batch("a", {"payload": []})


# --- nodes that fail -------------------------------------------------------------------------------------------------


@pytest.mark.req("SDK-01")
@pytest.mark.parametrize("fault", ["drop_before_storing", "drop_after_storing"])
async def test_a_stream_that_breaks_leaves_neither_gap_nor_duplicate(fault: str) -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses, batch_bytes=2000) as client:
        setattr(node.faults, fault, 3)
        tickets = [client.publish_nowait("a", payload) for payload in numbers(500)]
        await client.flush()
        assert node.payloads("a") == numbers(500)
        assert [ticket.result().first_offset for ticket in tickets] == list(range(500))
        assert getattr(node.faults, fault) == 0


@pytest.mark.req("SDK-01", "NFR-02")
async def test_a_node_that_is_killed_and_comes_back_recognises_what_it_has() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.hold_receipts = True
        first = client.publish_nowait("a", b"1")
        await until(lambda: node.payloads("a") == [b"1"])
        await node.stop()
        second = client.publish_nowait("a", b"2")
        node.release_receipts()
        await node.start()
        assert ((await first).first_offset, (await second).first_offset) == (0, 1)
        assert node.payloads("a") == [b"1", b"2"]


@pytest.mark.req("SDK-01")
async def test_new_events_go_to_another_node_while_those_in_doubt_wait_for_theirs() -> None:
    one, two = FakeNode("node-a"), FakeNode("node-b")
    async with running(one, two) as addresses, connect(addresses) as client:
        await client.publish("a", b"0")
        home, other = (one, two) if one.payloads("a") else (two, one)
        home.faults.hold_receipts = True
        doubtful = client.publish_nowait("a", b"1")
        await until(lambda: home.payloads("a") == [b"0", b"1"])
        await home.stop()
        receipt = await client.publish("a", b"2")
        assert receipt.stream.origin == other.node_id
        assert not doubtful.done()
        home.release_receipts()
        await home.start()
        assert (await doubtful).stream.origin == home.node_id
        assert (home.payloads("a"), other.payloads("a")) == ([b"0", b"1"], [b"2"])


@pytest.mark.req("SDK-01")
async def test_what_stays_in_doubt_is_said_to_be() -> None:
    one, two = FakeNode("node-a"), FakeNode("node-b")
    async with running(one, two) as addresses, connect(addresses, in_doubt_timeout_s=0.2) as client:
        await client.publish("a", b"0")
        home, other = (one, two) if one.payloads("a") else (two, one)
        home.faults.hold_receipts = True
        doubtful = client.publish_nowait("a", b"1")
        await until(lambda: len(home.payloads("a")) == 2)
        await home.stop()
        with pytest.raises(PublishInDoubt, match="may be in the log or not") as raised:
            await doubtful
        assert raised.value.facts["node"] == home.node_id
        assert other.payloads("a") == []
        await client.publish("a", b"2")
        home.release_receipts()


@pytest.mark.req("SDK-01")
async def test_a_node_that_lost_its_log_gets_what_was_in_doubt_again() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        await client.publish("a", b"0")
        node.faults.hold_receipts = True
        doubtful = client.publish_nowait("a", b"1")
        await until(lambda: len(node.payloads("a")) == 2)
        await node.stop()
        node.lose_log()
        node.release_receipts()
        await node.start()
        receipt = await doubtful
        assert (receipt.epoch, receipt.first_offset) == (2, 0)
        assert node.payloads("a") == [b"1"]


async def test_addresses_that_nodes_tell_of_are_used() -> None:
    known, told, hooks = FakeNode("node-a"), FakeNode("node-b"), Record()
    async with running(known, told):
        known.told_addresses = [told.address]
        async with connect(known.address, hooks) as client:
            await client.publish("a", b"1")
            await known.stop()
            await until(lambda: bool(hooks.of("disconnected")))
            assert (await client.publish("a", b"2")).stream.origin == "node-b"


# --- nodes that refuse -----------------------------------------------------------------------------------------------


@pytest.mark.req("SDK-01")
@pytest.mark.asyncio_only
@pytest.mark.req("MSH-01")
@pytest.mark.parametrize("refused", [0, 2])
async def test_nothing_overtakes_a_refused_batch(refused: int) -> None:
    """Several batches of a topic are under way when the node refuses one of them, which is sent again."""

    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        await client.publish("a", b"first")
        node.faults.refuse_request = len(node.requests) + refused
        batches = [Batch.from_columns([payload], 1) for payload in numbers(6)]
        await asyncio.gather(*(client.publish_batch("a", batch) for batch in batches))
        assert node.payloads("a") == [b"first", *numbers(6)]


@pytest.mark.parametrize("code", [pb.ERROR_BUSY, pb.ERROR_DISK_FULL, pb.ERROR_SHUTTING_DOWN])
async def test_what_is_worth_it_is_tried_again_in_order(code: int) -> None:
    node, hooks = FakeNode(), Record()
    async with running(node) as addresses, connect(addresses, hooks) as client:
        node.faults.refuse = [error(code), error(code)]
        tickets = []
        for payload in numbers(10):
            tickets.append(client.publish_nowait("a", payload))
            await asyncio.sleep(0)
        await client.flush()
        assert node.payloads("a") == numbers(10)
        assert [ticket.result().first_offset for ticket in tickets] == list(range(10))
        assert hooks.of("retry")


async def test_a_node_that_shuts_down_is_left_for_another() -> None:
    one, two = FakeNode("node-a"), FakeNode("node-b")
    async with running(one, two) as addresses, connect(addresses) as client:
        home = (await client.publish("a", b"1")).stream.origin
        leaving, staying = (one, two) if home == "node-a" else (two, one)
        leaving.faults.refuse = [error(pb.ERROR_SHUTTING_DOWN)]
        receipts = [await client.publish("a", b"2"), await client.publish("a", b"3")]
        assert {receipt.stream.origin for receipt in receipts} == {staying.node_id}
        assert staying.payloads("a") == [b"2", b"3"]


@pytest.mark.req("SDK-01")
async def test_what_was_in_doubt_and_is_refused_stays_in_doubt() -> None:
    """A busy node has not looked whether it has the batch already: a new number would make it a second one."""

    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.drop_after_storing = 1
        ticket = client.publish_nowait("a", b"1")
        await until(lambda: node.payloads("a") == [b"1"])
        node.faults.refuse = [error(pb.ERROR_BUSY), error(pb.ERROR_DISK_FULL)]
        assert (await ticket).first_offset == 0
        assert node.payloads("a") == [b"1"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (pb.ERROR_BAD_REQUEST, BadRequest),
        (pb.ERROR_BAD_BATCH, BadRequest),
        (pb.ERROR_NOT_ALLOWED, NotAllowed),
        (pb.ERROR_TOO_LARGE, TooLarge),
        (pb.ERROR_OUT_OF_SEQUENCE, OutOfSequence),
        (pb.ERROR_SEQUENCE_REUSED, SequenceReused),
        (pb.ERROR_COPIES, CopiesMissing),
        (pb.ERROR_UNSPECIFIED, BadRequest),
    ],
)
async def test_other_refusals_are_the_callers(code: int, kind: type[WeftError]) -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.refuse = [error(code, "because", limit="7")]
        with pytest.raises(kind, match="because") as raised:
            await client.publish("a", b"1")
        assert raised.value.facts == {"node": "node-a", "limit": "7"}
        assert (await client.publish("a", b"2")).first_offset == 0


async def test_a_node_that_lets_nobody_in_is_the_callers_to_know() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.refuse_open = [error(pb.ERROR_UNAUTHENTICATED, "who are you")]
        with pytest.raises(Unauthenticated, match="who are you"):
            await client.publish("a", b"1")
        assert (await client.publish("a", b"2")).first_offset == 0


# --- bounds and ends -------------------------------------------------------------------------------------------------


async def test_publish_waits_where_publish_nowait_refuses() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses, unacknowledged_bytes_max=1000) as client:
        node.faults.hold_receipts = True
        for _ in range(100):
            try:
                client.publish_nowait("a", b"x" * 36)
            except Backpressure as refused:
                assert refused.facts["limit"] == 1000
                break
        else:
            pytest.fail("there is no bound")
        waiting = asyncio.create_task(client.publish("a", b"last"))
        whole = asyncio.create_task(client.publish_batch("a", pa.table({"payload": [b"x" * 500]})))
        await until(lambda: len(node.requests) == 1)
        assert not waiting.done()
        node.release_receipts()
        await waiting
        await whole
        await client.wait_for_room()


async def test_what_needs_more_room_than_half_waits_for_that_much() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses, unacknowledged_bytes_max=1000) as client:
        node.faults.hold_receipts = True
        client.publish_nowait("a", b"x" * 100)
        large = asyncio.create_task(client.publish("a", b"y" * 800))
        whole = asyncio.create_task(client.publish_batch("a", pa.table({"payload": [b"z" * 5000]})))
        await until(lambda: len(node.requests) == 1)
        assert not large.done()
        assert not whole.done()
        node.release_receipts()
        await asyncio.gather(large, whole)
        assert sorted(map(len, node.payloads("a"))) == [100, 800, 5000]


@pytest.mark.asyncio_only
async def test_who_stops_waiting_does_not_unsend() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.hold_receipts = True
        ticket = client.publish_nowait("a", b"1")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ticket
        with pytest.raises(asyncio.InvalidStateError):
            ticket.result()
        node.release_receipts()
        assert (await ticket).first_offset == 0
        assert node.payloads("a") == [b"1"]


async def test_flush_raises_what_nobody_has_waited_for_once() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.refuse = [error(pb.ERROR_NOT_ALLOWED, "no"), error(pb.ERROR_NOT_ALLOWED, "no")]
        client.publish_nowait("a", b"1")
        with pytest.raises(NotAllowed):
            await client.flush()
        await client.flush()
        with pytest.raises(NotAllowed):
            await client.publish("a", b"2")
        await client.flush()


async def test_closing_drains() -> None:
    node = FakeNode()
    async with running(node) as addresses:
        async with connect(addresses) as client:
            tickets = [client.publish_nowait("a", payload) for payload in numbers(100)]
        assert all(ticket.done() for ticket in tickets)
        assert node.payloads("a") == numbers(100)
        with pytest.raises(Closed):
            client.publish_nowait("a", b"x")
        with pytest.raises(Closed):
            client.subscribe("a")
        await client.close()


async def test_closing_says_what_became_of_the_rest() -> None:
    node = FakeNode()
    async with running(node) as addresses:
        client = await connect(addresses, close_timeout_s=0.1)
        node.faults.hold_receipts = True
        sent = client.publish_nowait("a", b"1")
        await until(lambda: len(node.requests) == 1)
        unsent = client.publish_nowait("a", b"2")
        await client.close()
        with pytest.raises(PublishInDoubt):
            await sent
        with pytest.raises(Unavailable, match="closed"):
            await unsent
        node.release_receipts()


async def test_bad_events_are_refused_one_by_one() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        with pytest.raises(UsageError, match="payload must be bytes or str, not int"):
            client.publish_nowait("a", 5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="key must be bytes or str"):
            client.publish_nowait("a", b"", key=5)  # type: ignore[arg-type]
        good = client.publish_nowait("a", "1")
        bad = client.publish_nowait("a", b"2", headers={"h": "\ud800"})
        assert (await good).first_offset == 0
        with pytest.raises(UsageError, match="surrogate"):
            await bad
        with pytest.raises(UsageError, match="surrogate"):
            await client.publish("a", b"3", headers={"h": "\ud800"})
        assert node.payloads("a") == [b"1"]


@pytest.mark.parametrize("lie", ["count", "topic", "origin", "request", "epoch"])
async def test_a_receipt_that_cannot_be_is_not_believed(lie: str) -> None:
    """The node is left; the batch is in doubt, and a correct answer to it is taken."""

    node = FakeNode()
    honest = node._take

    async def lying(request: pb.PublishBatch) -> pb.PublishReply:
        reply = await honest(request)
        receipt = reply.receipts.receipts[0]
        match lie:
            case "count":
                receipt.count += 1
            case "topic":
                receipt.stream.topic = "other"
            case "origin":
                receipt.stream.origin = "node-z"
            case "request":
                receipt.request += 7
            case _:
                receipt.stream.epoch = 0
        node._take = honest  # type: ignore[method-assign]
        return reply

    node._take = lying  # type: ignore[method-assign]
    hooks = Record()
    async with running(node) as addresses, connect(addresses, hooks) as client:
        assert (await client.publish("a", b"1")).first_offset == 0
        assert node.payloads("a") == [b"1"]
    assert len(hooks.of("disconnected")) == 1
