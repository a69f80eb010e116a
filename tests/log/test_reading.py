"""Reading where something is missing: said exactly, in the middle, at the ends, and never skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.log.laboratory import EPOCH, Readout, batch, numbered, numbers, read_out, settle, stream
from weft.log import Log, MemoryStore, keys, open_store
from weft.log.entries import Kind, note, read_entry, read_sound_entry
from weft.log.errors import EventsLost, StoreCorrupt
from weft.log.records import INDEX_BYTES
from weft.log.repair import examine
from weft.log.store import Delete, Put, Row, Space

TEMP = stream("plant.temp")


class BlockyStore(MemoryStore):
    """As RocksDB with a damaged block: iterators that reach certain keys fail, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[bytes] = set()

    def scan(self, space: Space, first: bytes, end: bytes, bytes_expected: int = 0) -> Iterator[Row]:
        return self._breaking(super().scan(space, first, end))

    def scan_back(self, space: Space, first: bytes, end: bytes) -> Iterator[Row]:
        return self._breaking(super().scan_back(space, first, end))

    def scan_holding(self, space: Space, first: bytes, at: bytes, end: bytes, bytes_expected: int) -> Iterator[Row]:
        return self._breaking(super().scan_holding(space, first, at, end, bytes_expected))

    def _breaking(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            if row[0] in self.bad:
                raise StoreCorrupt("block checksum mismatch")
            yield row


@pytest.fixture
def store() -> BlockyStore:
    return BlockyStore()


@pytest.fixture
def log(store: BlockyStore) -> Log:
    """Forty batches of two events in two segments, two batches to an index point."""
    log = open_store(store, lambda: EPOCH, recent_bytes=0)
    for number in range(0, 80, 2):
        log.append(TEMP, numbered(number, 2, size=INDEX_BYTES // 4))
        if number == 38:
            settle(log)
    settle(log)
    return log


def key(log: Log, offset: int) -> bytes:
    return keys.batch_key(1 if offset < 40 else 2, log.state(TEMP, EPOCH).id, offset)


def lost(found: Readout) -> list[tuple[int, int]]:
    return [(loss.first, loss.end) for loss in found.losses]


@pytest.mark.req("LOG-01", "LOG-02")
@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ([10], [(10, 12)]),
        ([0], [(0, 2)]),
        ([78], [(78, 80)]),
        ([38], [(38, 40)]),
        ([40], [(40, 42)]),
        ([38, 40], [(38, 40), (40, 42)]),
        ([10, 12, 14], [(10, 16)]),
        ([4, 30, 60], [(4, 6), (30, 32), (60, 62)]),
        (range(0, 40, 2), [(0, 40)]),
        (range(40, 80, 2), [(40, 80)]),
        (range(0, 80, 2), [(0, 80)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("how", ["unreadable", "deleted", "garbled"])
def test_what_is_lost_is_said_exactly(
    log: Log, store: BlockyStore, bad: list[int], expected: list[tuple[int, int]], how: str
) -> None:
    for offset in bad:
        if how == "unreadable":
            store.bad.add(key(log, offset))
        elif how == "deleted":
            store.write([Delete(Space.BATCHES, key(log, offset))])
        else:
            store.write([Put(Space.BATCHES, key(log, offset), b"\1garbage")])
    found = read_out(log, TEMP)
    gone = {offset for first, end in expected for offset in range(first, end)}
    assert found.lost_offsets == gone
    assert list(found.events) == [offset for offset in range(80) if offset not in gone]
    health = examine(store)
    assert {offset for loss in health.losses for offset in range(loss.first, loss.end)} == gone
    if how == "garbled":
        assert [each.first for each in health.damaged] == list(bad)


@pytest.mark.req("LOG-01", "LOG-02")
@pytest.mark.parametrize("recent_bytes", [0, 1 << 20], ids=["from the store", "from memory"])
def test_what_is_not_durable_is_not_handed_out(recent_bytes: int) -> None:
    log = open_store(MemoryStore(), lambda: EPOCH, recent_bytes=recent_bytes)
    log.append(TEMP, numbered(0, 2))
    log.sync()
    log.append(TEMP, numbered(2, 2))
    assert numbers(list(read_out(log, TEMP).events.values())) == [0, 1]
    assert log.read(TEMP, EPOCH, 0, 4) == log.read(TEMP, EPOCH, 0, 2) != []
    assert log.read(TEMP, EPOCH, 2) == []
    log.sync()
    assert numbers(list(read_out(log, TEMP).events.values())) == [0, 1, 2, 3]


@pytest.mark.req("LOG-02")
def test_what_comes_before_the_loss_is_read_first(log: Log, store: BlockyStore) -> None:
    store.bad.add(key(log, 20))
    stored = log.read(TEMP, EPOCH, 0, bytes_max=1 << 30)
    assert len(stored) == 10
    with pytest.raises(
        EventsLost, match=r"plant.temp@node-a/0 has lost events: .*`weft log check` \(first 20, end 22\)"
    ):
        log.read(TEMP, EPOCH, 20)
    with pytest.raises(EventsLost, match="first 21, end 22"):
        log.read(TEMP, EPOCH, 21)
    assert log.read(TEMP, EPOCH, 22)


@pytest.mark.req("LOG-06")
def test_a_time_that_may_be_lost_is_found_at_the_loss(store: BlockyStore) -> None:
    log = open_store(store, lambda: EPOCH, recent_bytes=0)
    for number in range(10):
        log.append(TEMP, batch(b"." * INDEX_BYTES, at_us=number))
    settle(log)
    store.bad.add(keys.batch_key(1, 1, 5))
    assert log.seek(TEMP, EPOCH, 4) == 4
    assert log.seek(TEMP, EPOCH, 5) == 5
    assert log.seek(TEMP, EPOCH, 6) == 6


def test_a_damaged_index_is_not_taken_for_lost_events(log: Log, store: BlockyStore) -> None:
    store.bad = {row[0] for row in store.scan(Space.TABLES, *keys.table_range(keys.INDEX))}
    with pytest.raises(StoreCorrupt, match="the index is damaged; `weft log repair` makes it again"):
        log.read(TEMP, EPOCH, 0)
    with pytest.raises(StoreCorrupt, match="the index is damaged"):
        log.seek(TEMP, EPOCH, 0)
    health = examine(store)
    assert health.trouble
    assert not health.losses


def test_damage_to_batches_and_index_at_once(log: Log, store: BlockyStore) -> None:
    """The survey then looks for every stream in every segment that cannot be read as a whole."""
    store.bad = {row[0] for row in store.scan(Space.TABLES, *keys.table_range(keys.INDEX))}
    store.bad.add(key(log, 10))
    health = examine(store)
    (loss,) = health.losses
    assert loss.first == 10
    assert loss.end in (12, 40), "without index points only the ends of the segment are reached"


# --- entries -----------------------------------------------------------------------------------------------------

SAMPLE = numbered(0, 3).with_base_offset(7)
KEY = keys.batch_key(1, 1, 7)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (SAMPLE.data, (7, 10, Kind.BATCH)),
        (note(Kind.COMPACTED, 7, 9).data, (7, 9, Kind.COMPACTED)),
        (note(Kind.LOST, 7, 8).data, (7, 8, Kind.LOST)),
        (note(Kind.LOST, 3, 7).data, None),
        (b"", None),
        (b"\1", None),
        (b"\xc2" + bytes(8), None),
        (numbered(0, 3).data, None),
        (SAMPLE.data[:-1], None),
    ],
)
def test_entries(data: bytes, expected: tuple[int, int, Kind] | None) -> None:
    entry = read_entry((KEY, data))
    assert (entry and entry[:3]) == expected
    assert read_sound_entry((KEY, data)) == entry


def test_a_batch_with_a_wrong_checksum_is_not_sound() -> None:
    data = bytearray(SAMPLE.data)
    data[-1] ^= 1
    assert read_entry((KEY, bytes(data))) is not None
    assert read_sound_entry((KEY, bytes(data))) is None


def test_numbers_are_read_back() -> None:
    assert numbers([b"7....", b"12"]) == [7, 12]
