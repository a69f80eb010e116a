"""Subscribing to nodes that fail: every event once, in order, and an error instead of a silent jump."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.client.fake import FakeNode, error, running, until
from tests.client.story import Record, connect
from weft.client import (
    BadNode,
    Client,
    LogCorrupt,
    NotAllowed,
    PositionExpired,
    PositionUnknown,
    Received,
    Subscription,
    Unavailable,
)
from weft.errors import UsageError, WeftError
from weft.model import Batch, Epoch, NodeId, Position, Stream, Topic
from weft.wire.mesh import mesh_pb2 as pb

pytestmark = pytest.mark.usefixtures("either_client")

STREAM = Stream(Topic("a"), NodeId("node-a"), 0)


async def take(subscription: Subscription, count: int) -> list[Received]:
    events: list[Received] = []
    while len(events) < count:
        events.append(await anext(subscription))
    return events


def payloads(events: list[Received]) -> list[bytes]:
    return [event.payload for event in events]


def numbers(count: int, begin: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(begin, begin + count)]


async def filled(node: FakeNode, count: int, *, per_batch: int = 10, topic: str = "a") -> None:
    for begin in range(0, count, per_batch):
        await node.store(topic, Batch.from_columns(numbers(per_batch, begin), range(begin, begin + per_batch)))


async def test_events_carry_all_that_is_known_of_them() -> None:
    async with running(FakeNode()) as addresses, connect(addresses) as client:
        async with client.subscribe("plant.*") as subscription:
            await subscription.opened()
            await client.publish("plant.t", b"1", key=b"k", headers={"h": "v"}, timestamp_us=9)
            event = await anext(subscription)
        assert (event.topic, event.origin, event.epoch, event.partition) == ("plant.t", "node-a", 1, 0)
        assert (event.offset, event.timestamp_us, event.key, event.headers) == (0, 9, b"k", {"h": "v"})
        assert str(event.id) == str(event.position) == "plant.t@node-a/0:e1:0"
        assert event.next_position.offset == 1


async def first_of(client: Client, start: object) -> bytes:
    async with client.subscribe("a", start=start) as subscription:  # type: ignore[arg-type]
        await subscription.opened()
        await client.publish("a", b"new", timestamp_us=1_000)
        return (await anext(subscription)).payload


async def test_readers_of_large_events_share_a_connection() -> None:
    """Together they are sent more at a time than a server would take of one client."""

    async def read(client: Client) -> int:
        async with client.subscribe("a", start="earliest") as events:
            return len((await anext(events)).payload)

    node = FakeNode()
    await node.store("a", Batch.from_columns([bytes(15 << 20)], 1))
    async with running(node) as addresses, connect(addresses) as client:
        assert set(await asyncio.gather(*(read(client) for _ in range(8)))) == {15 << 20}


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", b"0"),
        ("latest", b"new"),
        ("group", b"new"),
        (None, b"new"),
        (25, b"25"),
        (datetime.fromtimestamp(17 / 1_000_000, UTC), b"17"),
        ([Position(STREAM, Epoch(1), 28)], b"28"),
    ],
)
async def test_starts(start: object, first: bytes) -> None:
    node = FakeNode()
    await filled(node, 30)
    async with running(node) as addresses, connect(addresses) as client:
        assert await first_of(client, start) == first


@pytest.mark.parametrize("start", ["soon", -1, True, datetime(2026, 1, 1), [5]])
async def test_no_starts(start: object) -> None:
    async with running(FakeNode()) as addresses, connect(addresses) as client:
        with pytest.raises(UsageError):
            client.subscribe("a", start=start)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="pattern"):
            client.subscribe("a..b")
        with pytest.raises(UsageError, match="commit"):
            client.subscribe("a", commit="never")  # type: ignore[arg-type]


async def test_a_position_that_is_gone_or_never_was_is_an_error_that_says_what_is_there() -> None:
    node = FakeNode()
    await filled(node, 30)
    node.earliest["a", "node-a", 1, 0] = 10
    async with running(node) as addresses, connect(addresses) as client:
        with pytest.raises(PositionExpired) as raised:
            await anext(client.subscribe("a", start=5))
        assert raised.value.facts["earliest"] == "10"
        with pytest.raises(PositionUnknown):
            await client.subscribe("a", start=31).opened()
        with pytest.raises(PositionUnknown):
            await client.subscribe("a", start=[Position(STREAM, Epoch(9), 0)]).opened()


async def test_batches_are_arrow_and_only_what_is_wanted() -> None:
    node = FakeNode()
    await filled(node, 30)
    async with running(node) as addresses, connect(addresses) as client:
        subscription = client.subscribe("a", start=15)
        seen = []
        async for batch in subscription.batches():
            seen.append((batch.first_offset, batch.record_batch.column("payload").to_pylist()))
            assert list(batch.offsets) == list(range(batch.first_offset, batch.end_offset))
            if batch.end_offset == 30:
                await subscription.close()
        assert seen == [(15, numbers(5, 15)), (20, numbers(10, 20))]


# --- nodes that fail -------------------------------------------------------------------------------------------------


@pytest.mark.req("SDK-01", "NFR-02")
@pytest.mark.parametrize("drop_after", [0, 1, 2, 5])
async def test_a_stream_that_breaks_goes_on_without_gap_or_repetition(drop_after: int) -> None:
    node, hooks = FakeNode(), Record()
    await filled(node, 100)
    node.faults.drop_subscribers_after = drop_after
    async with running(node) as addresses, connect(addresses, hooks) as client:
        events = await take(client.subscribe("a", start="earliest"), 100)
        assert payloads(events) == numbers(100)
        assert len(hooks.of("disconnected")) == 1


@pytest.mark.req("NFR-02")
async def test_a_subscription_resumes_on_another_node_that_has_the_streams() -> None:
    one, two = FakeNode("node-a"), FakeNode("node-b")
    await filled(one, 50)
    two.log = one.log
    async with running(one, two), connect([one.address]) as client:
        one.told_addresses = [two.address]
        subscription = client.subscribe("a", start="earliest")
        assert payloads(await take(subscription, 25)) == numbers(25)
        await until(lambda: [place.offset for place in subscription._intake.cursors.resume_at()] == [50])
        await one.stop()
        assert payloads(await take(subscription, 25)) == numbers(25, 25)
        await until(lambda: bool(two.opens))
        resumed = two.opens[-1].start.positions.positions
        assert [place.next_offset for place in resumed] == [50]


@pytest.mark.req("NFR-02")
async def test_streams_that_appear_while_it_is_away_are_read_from_their_beginning() -> None:
    node, hooks = FakeNode(), Record()
    async with running(node) as addresses, connect(addresses, hooks) as client:
        subscription = client.subscribe("a")
        await subscription.opened()
        await node.stop()
        await until(lambda: bool(hooks.of("disconnected")))
        await filled(node, 10)
        await node.start()
        assert payloads(await take(subscription, 10)) == numbers(10)


async def test_a_node_that_lost_the_stream_is_no_silent_jump() -> None:
    node, hooks = FakeNode(), Record()
    await filled(node, 10)
    async with running(node) as addresses, connect(addresses, hooks) as client:
        subscription = client.subscribe("a", start="earliest")
        await take(subscription, 10)
        await node.stop()
        node.lose_log()
        await node.start()
        with pytest.raises(PositionUnknown):
            await anext(subscription)


async def test_a_node_that_lacks_the_positions_is_passed_over_for_one_that_has_them() -> None:
    one, lacking = FakeNode("node-a"), FakeNode("node-b")
    await filled(one, 20)
    async with running(one, lacking):
        one.told_addresses = [lacking.address]
        async with connect([one.address]) as client:
            subscription = client.subscribe("a", start="earliest")
            await take(subscription, 10)
            await one.stop()
            await until(lambda: len(lacking.opens) >= 1)
            await one.start()
            assert payloads(await take(subscription, 10)) == numbers(10, 10)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(pb.ERROR_NOT_ALLOWED, NotAllowed), (pb.ERROR_CORRUPT, LogCorrupt), (pb.ERROR_POSITION_EXPIRED, PositionExpired)],
)
async def test_refusals_are_raised_to_whoever_waits(code: int, kind: type[WeftError]) -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.refuse_open = [error(code, "no"), error(code, "no")]
        with pytest.raises(kind):
            await client.subscribe("a").opened()
        subscription = client.subscribe("a")
        for _ in range(2):
            with pytest.raises(kind):
                await anext(subscription)
        await subscription.close()


async def test_busy_nodes_are_tried_again() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.refuse_open = [error(pb.ERROR_BUSY), error(pb.ERROR_SHUTTING_DOWN)]
        await client.subscribe("a").opened()


async def test_a_node_that_shuts_down_is_left_for_another() -> None:
    one, two = FakeNode("node-a"), FakeNode("node-b")
    await filled(one, 10)
    two.log = one.log
    async with running(one, two), connect([one.address, two.address]) as client:
        one.faults.end_subscribers_with = error(pb.ERROR_SHUTTING_DOWN, "going down")
        two.faults.end_subscribers_with = error(pb.ERROR_SHUTTING_DOWN, "going down")
        subscription = client.subscribe("a", start="earliest")
        assert payloads(await take(subscription, 10)) == numbers(10)
        await until(lambda: bool(one.opens) and bool(two.opens))


async def test_our_own_mistake_is_nobodys_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    node = FakeNode()
    await filled(node, 10)
    async with running(node) as addresses, connect(addresses) as client:
        monkeypatch.setattr("weft.client.intake.EventIntake.delivered", fail)
        with pytest.raises(Unavailable, match="oops"):
            await anext(client.subscribe("a", start="earliest"))
        monkeypatch.setattr("weft.client.chunk.Chunk.seal", fail)
        client.publish_nowait("a", b"1")
        with pytest.raises(Unavailable, match="oops"):
            await client.flush()


async def test_a_bad_batch_is_an_error_that_names_node_stream_and_offset() -> None:
    node = FakeNode()
    await filled(node, 10)
    node.faults.spoil_deliveries = True
    async with running(node) as addresses, connect(addresses) as client:
        with pytest.raises(BadNode, match="checksum") as raised:
            await anext(client.subscribe("a", start="earliest"))
        assert raised.value.facts == {"node": "node-a", "stream": STREAM, "offset": 0}


# --- flow control and ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ignore_credit", [False, True])
async def test_a_slow_application_holds_the_window_and_little_more(ignore_credit: bool) -> None:
    """A node that cares for credit sends one batch over it at most; one that does not is held up at twice as much."""

    node = FakeNode()
    node.faults.ignore_credit = ignore_credit
    await filled(node, 1000)
    largest = max(len(batch.data) for batch in node.log["a", "node-a", 1, 0])
    bound = 8 * largest * (2 if ignore_credit else 1)
    async with running(node) as addresses, connect(addresses, credit_bytes=8 * largest) as client:
        subscription = client.subscribe("a", start="earliest")
        await until(lambda: subscription._intake.held_bytes > bound - largest)
        for _ in range(50):
            await asyncio.sleep(0)
        assert subscription._intake.held_bytes <= bound + largest
        assert payloads(await take(subscription, 1000)) == numbers(1000)
        assert node.credit_given <= sum(len(batch.data) for batch in node.log["a", "node-a", 1, 0])


async def test_closing_ends_the_iteration() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        subscription = client.subscribe("a")
        await subscription.opened()
        waiting = asyncio.create_task(anext(subscription, None))
        await asyncio.sleep(0)
        await subscription.close()
        assert await waiting is None
        assert await anext(subscription, None) is None
        await subscription.close()


@pytest.mark.asyncio_only
async def test_closing_does_not_wait_for_nodes_that_are_not_there() -> None:
    node = FakeNode()
    async with running(node) as addresses:
        hooks = Record()
        client = await connect(addresses, hooks, close_timeout_s=3600.0)
        subscription = client.subscribe("a")
        await subscription.opened()
        await node.stop()
        await until(lambda: bool(hooks.of("disconnected")))
        await client.close()
        assert await anext(subscription, None) is None
