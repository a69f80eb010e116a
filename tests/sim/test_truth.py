"""Each checker finds the lie that it is there for, and lets the truth pass."""

from __future__ import annotations

import pytest

from weft.core.messages import Copy, Delivered
from weft.log import Log, MemoryStore, open_store
from weft.log.retention import Expired
from weft.model import Batch, Epoch, NodeId, Position, Receipt, Stream, parse_topic
from weft.testing.sim.schedule import Violation
from weft.testing.sim.truth import Truth
from weft.testing.sim.window import WINDOWS_MAX, Window

A, B = NodeId("a"), NodeId("b")
EPOCH = Epoch(7)
STREAM = Stream(parse_topic("t"), A, 0)
KEY = (STREAM, EPOCH)


class Origin:
    """A node's log, told to the truth sync by sync."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.store = MemoryStore()
        self.log: Log = open_store(self.store, lambda: EPOCH)
        self.log.on_synced(lambda advanced: self.truth.synced(A, self.log, advanced))

    def append(self, *payloads: bytes, keys: list[bytes | None] | None = None) -> None:
        self.log.append(STREAM, Batch.from_columns(list(payloads), 0, keys))
        self.log.sync()


def batch_at(offset: int, *payloads: bytes) -> bytes:
    return Batch.from_columns(list(payloads), 0).with_base_offset(offset).data


@pytest.fixture
def origin() -> Origin:
    origin = Origin()
    origin.append(b"x", b"y")
    origin.append(b"z")
    return origin


def test_a_receipt_has_to_be_for_what_is_durable_there(origin: Origin) -> None:
    origin.truth.check_receipt(Receipt(STREAM, EPOCH, 0, 2, 1), (b"x", b"y"))
    with pytest.raises(Violation, match="but \\(b'z',\\) is durable there"):
        origin.truth.check_receipt(Receipt(STREAM, EPOCH, 2, 1, 1), (b"other",))
    with pytest.raises(Violation, match="but \\(\\) is durable there"):
        origin.truth.check_receipt(Receipt(STREAM, EPOCH, 3, 1, 1), (b"later",))


def test_what_a_plain_peer_still_has_is_not_gone(origin: Origin) -> None:
    origin.truth.streams[KEY].forgotten = {1, 2}
    origin.truth.check_gone(B, KEY, 1, 3)
    with pytest.raises(Violation, match="b takes t@a/0:e7 from 0 to 1 for gone, and 0 is not"):
        origin.truth.check_gone(B, KEY, 0, 2)
    origin.truth.check_gap("b", KEY, 1, 3, retention=False)
    with pytest.raises(Violation, match="misses t@a/0:e7 from 0 on"):
        origin.truth.check_gap("b", KEY, 0, 2, retention=False)


def test_copies_have_to_be_on_as_many_disks(origin: Origin) -> None:
    two = Receipt(STREAM, EPOCH, 0, 2, 2)
    with pytest.raises(Violation, match="only 1 nodes"):
        origin.truth.check_receipt(two, (b"x", b"y"))
    origin.truth.synced(B, open_store(MemoryStore(), lambda: Epoch(1)), {KEY: 2})
    origin.truth.check_receipt(two, (b"x", b"y"))


def test_a_copy_counts_only_for_what_it_has(origin: Origin) -> None:
    late = open_store(MemoryStore(), lambda: Epoch(1))
    late.begin_late(STREAM, EPOCH, 2, 5)
    late.append_copy(STREAM, EPOCH, Batch.read_stored(batch_at(2, b"z")))
    late.sync()
    origin.truth.synced(B, late, {KEY: 3})
    with pytest.raises(Violation, match="only 1 nodes"):
        origin.truth.check_receipt(Receipt(STREAM, EPOCH, 0, 2, 2), (b"x", b"y"))
    origin.truth.check_receipt(Receipt(STREAM, EPOCH, 2, 1, 2), (b"z",))


def test_a_past_that_was_there_stays(origin: Origin) -> None:
    store = MemoryStore()
    late = open_store(store, lambda: Epoch(1))
    late.begin_late(STREAM, EPOCH, 2, 5)
    late.append_copy(STREAM, EPOCH, Batch.read_stored(batch_at(2, b"z")))
    late.sync()
    origin.truth.starts[B][KEY] = 0
    with pytest.raises(Violation, match="b had t@a/0:e7 from 0 on, and now from 2 on"):
        origin.truth.recovered(B, late)
    late.begin_past(STREAM, EPOCH, 0, None)
    late.append_past(STREAM, EPOCH, [Batch.read_stored(batch_at(0, b"x", b"y"))], 2)
    late.sync()
    origin.truth.recovered(B, late)


def test_who_wants_what_came_since_a_time_misses_nothing_that_is_as_late(origin: Origin) -> None:
    origin.truth.streams[KEY].times_us = [5, 9, 7]
    origin.truth.check_since("s", KEY, 6, 1)
    with pytest.raises(Violation, match="s wants t@a/0:e7 since 6, begins at 2 and misses 1"):
        origin.truth.check_since("s", KEY, 6, 2)


def test_an_ack_has_to_be_for_what_is_on_the_disk(origin: Origin) -> None:
    origin.truth.check_acks(A, origin.log, [Position(STREAM, EPOCH, 3)])
    with pytest.raises(Violation, match="acknowledges t@a/0:e7:4"):
        origin.truth.check_acks(A, origin.log, [Position(STREAM, EPOCH, 4)])


@pytest.mark.parametrize(
    ("data", "first", "lie"),
    [
        (batch_at(2, b"y"), 0, "is not what its origin has there"),
        (batch_at(3, b"later"), 0, "before it is durable"),
        (batch_at(0, b"x", b"y"), 2, "without an event that is meant"),
    ],
)
def test_a_delivery_has_to_be_durable_and_what_its_origin_had(
    origin: Origin, data: bytes, first: int, lie: str
) -> None:
    assert origin.truth.check_delivered(A, Delivered(STREAM, EPOCH, batch_at(0, b"x", b"y"), 1)) == (1, 2)
    with pytest.raises(Violation, match=lie):
        origin.truth.check_delivered(A, Delivered(STREAM, EPOCH, data, first))


def test_a_gap_is_fine_where_retention_or_compaction_took_something(origin: Origin) -> None:
    truth = origin.truth
    with pytest.raises(Violation, match="misses t@a/0:e7 from 1 on"):
        truth.check_gap("s", KEY, 1, 2, retention=True)
    truth.expired([Expired(STREAM, EPOCH, 0, 2, 10)])
    truth.check_gap("s", KEY, 0, 2, retention=True)
    with pytest.raises(Violation, match="from 0 on"):
        truth.check_gap("s", KEY, 0, 2, retention=False)
    origin.append(b"old", keys=[b"k"])
    origin.append(b"new", keys=[b"k"])
    truth.check_gap("s", KEY, 3, 4, retention=False)
    with pytest.raises(Violation, match="from 4 on"):
        truth.check_gap("s", KEY, 4, 5, retention=False)


def test_an_event_is_in_a_stream_once(origin: Origin) -> None:
    with pytest.raises(Violation, match="b'x' is in t@a/0:e7 twice, at 0, 3"):
        origin.append(b"x")


def test_what_was_durable_is_there_after_a_crash(origin: Origin) -> None:
    origin.store.crash()
    origin.truth.recovered(A, open_store(origin.store, lambda: EPOCH))
    with pytest.raises(Violation, match="now has nothing of it"):
        origin.truth.recovered(A, open_store(MemoryStore(), lambda: EPOCH))
    origin.truth.disk_lost(A, EPOCH)
    origin.truth.recovered(A, open_store(MemoryStore(), lambda: Epoch(8)))


def test_a_log_has_all_that_it_promised_and_nothing_that_it_refused(origin: Origin) -> None:
    origin.truth.check_log(A, origin.log)
    origin.truth.check_refusals()
    origin.truth.refused.add(b"y")
    with pytest.raises(Violation, match="b'y' was refused"):
        origin.truth.check_refusals()


def test_a_copy_has_to_be_what_its_origin_had(origin: Origin) -> None:
    copy = open_store(MemoryStore(), lambda: Epoch(1))
    copy.append_copy(STREAM, EPOCH, Batch.read_stored(batch_at(0, b"x", b"other")))
    copy.sync()
    with pytest.raises(Violation, match="is not what its origin has there"):
        origin.truth.check_log(B, copy)


def test_no_more_is_under_way_than_a_few_windows() -> None:
    batches = [Batch.read_stored(batch_at(number, b"x" * 100)) for number in range(20)]
    size = len(batches[0].data)
    window = Window(A, 6 * size // WINDOWS_MAX, timeout_s=5.0)
    for number, batch in enumerate(batches[:7]):
        window.sent(B, [Copy(STREAM, EPOCH, batch, number)], now_s=1.0)
    with pytest.raises(Violation, match="bytes under way to b"):
        window.sent(B, [Copy(STREAM, EPOCH, batches[7], 7)], now_s=1.0)
    window.acked(B, [Position(STREAM, EPOCH, 7)], now_s=1.0)
    for number, batch in enumerate(batches[8:13], 8):
        window.sent(B, [Copy(STREAM, EPOCH, batch, number)], now_s=2.0)
    window.resumed(B, [A])
    for number, batch in enumerate(batches[13:], 13):
        window.sent(B, [Copy(STREAM, EPOCH, batch, number)], now_s=2.0)
