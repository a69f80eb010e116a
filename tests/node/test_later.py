"""Events that wait at a node, on a log in memory, with a disk that fills up at will (CON-03)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import cast

import pytest

from tests.log import wounds
from tests.log.laboratory import copy_live, settle
from weft.core.messages import Receipted
from weft.errors import StorageError, WeftError
from weft.limits import BATCH_BYTES_MAX, EVENT_HEADER_VALUE_BYTES_MAX
from weft.log import Log, MemoryStore, RocksStore, open_log, open_store
from weft.log.backup import copy_log
from weft.log.errors import LogDamaged, PositionExpired
from weft.log.repair import repair
from weft.log.store import Store
from weft.model import Batch, Epoch, Event, EventId, NodeId, Stream, Topic
from weft.model.later import HEADERS_MAX
from weft.node.later import Later
from weft.node.maintenance import LaterTidying
from weft.port.errors import Busy
from weft.port.later import LaterSettings
from weft.port.node import MeshNode, Part, PublishClient
from weft.security.acl import owner_of

pytestmark = pytest.mark.req("CON-03")
T = Topic("shop.orders")
NOW_US = 1_700_000_000_000_000
OWNER = owner_of("key", "shop")


class Node:
    """As much of a node as ``Later`` needs. What it publishes is durable at once, or refused while the disk is full."""

    node_id = NodeId("a")

    def __init__(self, store: Store | None = None, log: Log | None = None) -> None:
        self.log: Log = log or open_store(store or MemoryStore(), lambda: Epoch(7), disk_reserve_bytes=0)
        self.store = self.log.store
        self.is_full = False
        self.is_crowded = False  # as many clients as there may be

    def join(self, publisher: PublishClient) -> None:
        if self.is_crowded:
            raise Busy("this node has as many clients as it may")

    def leave(self, publisher: PublishClient) -> None: ...
    def check_open(self) -> None: ...
    def count_refusal(self, error: WeftError) -> None: ...

    def serves(self, publisher: PublishClient) -> bool:
        return True

    def publish(
        self, publisher: PublishClient, request: int, topic: Topic, partition: int, batch: Batch, copies: int
    ) -> None:
        self.publish_as_one(publisher, [Part(request, topic, partition, batch)])

    def publish_as_one(self, publisher: PublishClient, parts: Sequence[Part]) -> None:
        if self.is_full:
            for part in parts:
                publisher.refused(part.request, StorageError("the disk is full"))
            return
        wanted = [(Stream(part.topic, self.node_id, part.partition), part.batch) for part in parts]
        places = self.log.append_all(wanted)
        self.log.sync()
        receipts = [
            (part.request, Receipted(part.request, place, 1))
            for part, place in zip(parts, places, strict=True)
            if not isinstance(place, WeftError)
        ]
        publisher.receipts(receipts)

    def delivered(self) -> list[bytes]:
        stream = Stream(T, self.node_id, 0)
        if self.log.find(stream, self.log.epoch) is None:
            return []
        stored = self.log.read(stream, self.log.epoch, 0, bytes_max=1 << 30)
        return [event.payload for data in stored for event in Batch.read_stored(data)]


class Publisher:
    def __init__(self) -> None:
        self.places: list[EventId] = []

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        for _, receipted in receipts:
            place = receipted.place
            self.places.append(EventId(place.stream, place.epoch, place.first_offset))

    def refused(self, request: int, error: WeftError) -> None:
        raise AssertionError(f"the node has room: {error}")

    def drain(self) -> None: ...


async def test_an_event_whose_cancellation_failed_comes_once() -> None:
    node, publisher, clock = Node(), Publisher(), [NOW_US]
    later = Later(cast("MeshNode", node), LaterSettings(), lambda: clock[0])
    later.start()
    batch = Batch.from_events([Event(b"tea", NOW_US + 60_000_000)])
    later.publish(publisher, 1, OWNER, T, 0, batch)
    later._look()
    node.is_full = True
    with pytest.raises(StorageError):
        await later.cancel(publisher.places[0], OWNER)
    node.is_full = False
    clock[0] += 61_000_000
    later._look()
    assert node.delivered() == [b"tea"]


async def test_what_is_due_comes_also_when_clients_have_taken_all_places_after_a_restart() -> None:
    node, clock = Node(), [NOW_US]
    _, cancelled = _wait(_later(node, NOW_US), b"tea", b"cup")
    later = Later(cast("MeshNode", node), LaterSettings(), lambda: clock[0])
    later.start()
    node.is_crowded = True
    await later.cancel(cancelled, OWNER)
    clock[0] += 61_000_000
    for _ in range(100):  # a slot has several turns of the loop
        later._look()
        await asyncio.sleep(0)
    assert node.delivered() == [b"tea"]


async def test_events_that_do_not_fit_into_one_batch_are_delivered_in_several() -> None:
    node, clock = Node(), [NOW_US]
    later = Later(cast("MeshNode", node), LaterSettings(), lambda: clock[0])
    later.start()
    headers = {f"h{number}": "x" * EVENT_HEADER_VALUE_BYTES_MAX for number in range(HEADERS_MAX)}
    of_a_batch = BATCH_BYTES_MAX // (HEADERS_MAX * EVENT_HEADER_VALUE_BYTES_MAX)
    payloads = [b"%d" % number for number in range(4 * of_a_batch // 3)]
    half = len(payloads) // 2
    for request, some in enumerate((payloads[:half], payloads[half:])):
        batch = Batch.from_events([Event(each, NOW_US + 60_000_000, None, headers) for each in some])
        later.publish(Publisher(), request, OWNER, T, 0, batch)
    clock[0] += 61_000_000
    for _ in range(100):
        later._look()
        await asyncio.sleep(0)
    assert sorted(node.delivered()) == sorted(payloads)
    assert later.figures().pending == 0


async def test_a_list_of_waiting_events_has_pages_however_much_is_in_their_headers() -> None:
    node = Node()
    later = _later(node, NOW_US)
    headers = {f"h{number}": "x" * EVENT_HEADER_VALUE_BYTES_MAX for number in range(HEADERS_MAX)}
    batch = Batch.from_events([Event(b"", NOW_US + 60_000_000, None, headers)] * 20)
    later.publish(Publisher(), 1, OWNER, T, 0, batch)
    found, more = await later.waiting(OWNER, None, 1 << 20)
    assert more and len(found) == 5, "of a quarter of a mebibyte each"
    rest, more = await later.waiting(OWNER, found[-1].id, 1 << 30)
    assert not more and len(rest) == 15


async def test_a_slot_whose_front_is_tidied_away_while_it_is_read_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    _wait(_later(node, NOW_US), b"tea")
    read, raced = node.log.read, list[int]()

    def reads(stream: Stream, epoch: Epoch, first: int, **bounds: int) -> list[bytes]:
        if not raced and not stream.topic.endswith(".done"):
            raced.append(first)
            raise PositionExpired("retention has passed this offset", offset=first)
        return read(stream, epoch, first, **bounds)

    with monkeypatch.context() as patch:
        patch.setattr(node.log, "read", reads)
        later = _later(node, NOW_US)
        while not later.figures().indexed:
            await asyncio.sleep(0)
    assert raced and [each.id.offset for each in (await later.waiting(OWNER, None, 1 << 20))[0]] == [0]


def _later(node: Node, now_us: int) -> Later:
    later = Later(cast("MeshNode", node), LaterSettings(), lambda: now_us)
    later.start()
    return later


def _wait(later: Later, *payloads: bytes) -> list[EventId]:
    """They are due a minute from now, one batch each."""
    publisher = Publisher()
    for number, payload in enumerate(payloads):
        batch = Batch.from_events([Event(payload, NOW_US + 60_000_000 + number)])
        later.publish(publisher, number, OWNER, T, 0, batch)
    return publisher.places


def _restored(node: Node, tmp_path: Path) -> Node:
    """The node as it goes on after ``weft restore``."""
    epoch = node.log.epoch
    node.log.close()
    copy_log(tmp_path / str(epoch), tmp_path / str(epoch + 1), lambda before: Epoch(before + 1))
    return Node(RocksStore(tmp_path / str(epoch + 1)))


async def _ids(later: Later) -> list[EventId]:
    found, more = await later.waiting(OWNER, None, 1 << 20)
    assert not more
    return [each.id for each in found]


async def test_what_waited_before_a_restore_comes_once_in_the_new_epoch(tmp_path: Path) -> None:
    node = Node(RocksStore(tmp_path / "7"))
    later = _later(node, NOW_US)
    old = _wait(later, b"tea", b"cup", b"milk", b"sugar")
    await later.cancel(old[1], OWNER)

    node = _restored(node, tmp_path)
    later = _later(node, NOW_US)
    assert await _ids(later) == [old[0], old[2], old[3]]
    new = _wait(later, b"cake")
    assert (new[0].epoch, new[0].offset) == (8, 0)
    assert await _ids(later) == [old[0], old[2], old[3], *new]
    await later.cancel(old[2], OWNER)

    node = _restored(node, tmp_path)  # once more, with marks in two epochs
    later = _later(node, NOW_US)
    assert await _ids(later) == [old[0], old[3], *new]
    assert later.figures().pending == 3
    later = _later(node, NOW_US + 61_000_000)
    for _ in range(100):  # a slot has several turns of the loop
        await asyncio.sleep(0)
    assert sorted(node.delivered()) == [b"cake", b"sugar", b"tea"]
    assert await _ids(later) == [] and later.figures().pending == 0
    _later(node, NOW_US + 62_000_000)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(node.delivered()) == 3, "none comes again"
    node = _restored(node, tmp_path)
    _later(node, NOW_US + 63_000_000)
    for _ in range(100):
        await asyncio.sleep(0)
    assert node.delivered() == [], "nor after another restore"
    node.log.close()


async def test_what_waited_before_a_repair_comes_once_in_the_new_epoch(tmp_path: Path) -> None:
    def opened() -> Log:
        return open_log(tmp_path / "hurt", lambda: Epoch(7), disk_reserve_bytes=0)

    log = open_log(tmp_path / "sound", lambda: Epoch(7), disk_reserve_bytes=0)
    later = _later(Node(log=log), NOW_US)
    old = _wait(later, b"tea", b"cup", b"milk")
    await later.cancel(old[1], OWNER)
    settle(log)
    _wait(later, b"lost")
    copy_live(tmp_path / "sound", tmp_path / "hurt")
    log.close()

    wounds.delete(wounds.wals, slice(-1, None))(tmp_path / "hurt", Random(1))  # noqa: S311
    with pytest.raises(LogDamaged):
        opened()
    repaired = repair(tmp_path / "hurt", lambda: Epoch(8))
    assert repaired.epoch == 8 and [(each.first, each.end) for each in repaired.losses] == [(3, 4)]
    node = Node(log=opened())
    assert await _ids(_later(node, NOW_US)) == [old[0], old[2]]
    for _ in range(2):  # the second is a restart
        _later(node, NOW_US + 61_000_000)
        for _ in range(100):  # a slot has several turns of the loop
            await asyncio.sleep(0)
        assert sorted(node.delivered()) == [b"milk", b"tea"]
    node.log.close()


async def test_marks_stay_as_long_as_an_event_of_an_earlier_epoch_waits(tmp_path: Path) -> None:
    node = Node(RocksStore(tmp_path / "7"))
    first, second = _wait(_later(node, NOW_US), b"tea", b"cup")
    node = _restored(node, tmp_path)
    later = _later(node, NOW_US)
    await later.cancel(second, OWNER)
    _tidy(node, later)
    later = _later(node, NOW_US)
    assert await _ids(later) == [first]
    await later.cancel(first, OWNER)
    _tidy(node, later)
    assert all(state.start == state.end for state in node.log.states())
    assert await _ids(_later(node, NOW_US)) == []
    node.log.close()


def _tidy(node: Node, later: Later) -> None:
    """Some rounds of maintenance: one ends a segment, the next takes it."""
    tidying = LaterTidying(node.log, node.node_id, later.tidied)
    for _ in range(3):
        tidying.round()
        node.log.sync()
        until_s = time.monotonic() + 60
        while node.store.flushes_pending() and time.monotonic() < until_s:  # a segment goes when its flush is done
            time.sleep(0.005)
