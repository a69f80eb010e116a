"""Large batches are rows like others to whoever is above the store, also where only some of their chunks are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.log.laboratory import EPOCH, RocksLaboratory, numbered, numbers, payloads, read_out, settle, stream
from weft.log import MemoryStore, RocksStore, chunks, keys
from weft.log.chunks import KEY_BYTES, NUMBER
from weft.log.compaction import compact
from weft.log.errors import DiskFull, LogDamaged
from weft.log.repair import check
from weft.log.retention import RetentionRule, retain
from weft.log.store import Delete, DeleteRange, Put, Space, Write
from weft.model import Batch, Pattern

TEMP = stream("plant.temp")
CHUNK = 100
ROWS = st.builds(keys.batch_key, st.just(1), st.integers(1, 2), st.integers(0, 3))
VALUES = st.integers(0, 5 * CHUNK).map(lambda size: bytes(number % 251 for number in range(size)))
WRITES: st.SearchStrategy[Write] = st.one_of(
    st.builds(Put, st.just(Space.BATCHES), ROWS, VALUES),
    st.builds(Delete, st.just(Space.BATCHES), ROWS),
    st.builds(lambda one, other: DeleteRange(Space.BATCHES, min(one, other), max(one, other)), ROWS, ROWS),
)
GROUPS = st.lists(st.one_of(WRITES, st.tuples(ROWS, VALUES)), max_size=12)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", CHUNK)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[RocksLaboratory]:
    made = RocksLaboratory(tmp_path)
    yield made
    made.close()


def chunk_keys(store: object) -> list[bytes]:
    assert isinstance(store, RocksStore)
    rows = store._batches.iter()
    rows.seek_to_first()
    found: list[bytes] = []
    while rows.valid():
        found += [rows.key()] if len(rows.key()) == KEY_BYTES else []
        rows.next()
    return found


@given(GROUPS, st.lists(st.tuples(ROWS, ROWS, ROWS), min_size=1, max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rocksdb_equals_memory(
    tmp_path_factory: pytest.TempPathFactory,
    done: list[Write | tuple[bytes, bytes]],
    ranges: list[tuple[bytes, bytes, bytes]],
) -> None:
    """Batches of any size, put over each other, taken away one by one and in ranges, looked at from everywhere."""
    memory = MemoryStore()
    with closing(RocksStore(tmp_path_factory.mktemp("store"))) as rocks:
        for number, each in enumerate(done):
            for store in (memory, rocks):
                if isinstance(each, tuple):
                    store.put_batches([each], [Put(Space.TABLES, b"k", b"v")] if number % 2 else [])
                else:
                    store.write([each])
            if number % 4 == 3:
                rocks.flush(wait=True)
        for first, at, end in [(b"\0" * 20, b"\0" * 20, b"\xff" * 20), *ranges]:
            for store in (memory, rocks):
                forward = list(store.scan(Space.BATCHES, first, end))
                assert list(store.scan_back(Space.BATCHES, first, end)) == forward[::-1]
            for begin in (first, first + b"\0"):
                forward = list(memory.scan(Space.BATCHES, begin, end))
                assert forward == list(rocks.scan(Space.BATCHES, begin, end))
            if first <= at < end:
                held = [list(store.scan_holding(Space.BATCHES, first, at, end, 0)) for store in (memory, rocks)]
                assert held[0] == held[1]
            assert memory.get(Space.BATCHES, at) == rocks.get(Space.BATCHES, at)


# --- crashes ---------------------------------------------------------------------------------------------------------


class Stopped(Exception):
    """The process ends here."""


def append_and_stop(lab: RocksLaboratory, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of eleven chunks is appended, and after so many of them nothing more is written."""
    store = lab.log.store
    assert isinstance(store, RocksStore)
    put = store._batches.put
    written = 0

    class Stopping:
        def __getattr__(self, name: str) -> object:
            return getattr(batches, name)

        def put(self, key: bytes, chunk: bytes) -> None:
            nonlocal written
            if written == after:
                raise Stopped
            written += 1
            put(key, chunk)

        def write(self, *_: object) -> None:
            raise Stopped

    batches = store._batches
    store._batches = Stopping()  # type: ignore[assignment]
    try:
        with pytest.raises(Stopped):
            lab.log.append(TEMP, numbered(2, 1, size=450))
    finally:
        store._batches = batches


@pytest.mark.req("LOG-01", "LOG-03")
@pytest.mark.parametrize("size", [10, 150, 450, 900])
@pytest.mark.parametrize("after", [0, 1, 5, 10, 11])
def test_a_crash_between_the_chunks_leaves_nothing_to_see(
    lab: RocksLaboratory, after: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next batch at that place is right, whether it is smaller or larger, in every life."""
    lab.log.append(TEMP, numbered(0, 2))
    lab.log.sync()
    append_and_stop(lab, after, monkeypatch)
    log = lab.kill()
    assert not log.cuts
    assert numbers(payloads(log, TEMP)) == [0, 1]
    assert log.append(TEMP, numbered(2, 1, size=size)).first_offset == 2
    log.append(TEMP, numbered(3, 1))
    log.sync()
    for log in lab.lives():
        assert numbers(payloads(log, TEMP)) == [0, 1, 2, 3]
        assert numbers(payloads(log, TEMP, first=3)) == [3]
    settle(lab.log)
    assert check(lab.path).is_sound


@pytest.mark.req("LOG-01")
def test_several_large_batches_are_there_together_or_not_at_all(
    lab: RocksLaboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = stream("plant.other")
    store = lab.log.store
    assert isinstance(store, RocksStore)

    def full(*_: object) -> None:
        raise Exception("No space left on device")  # as rocksdict says it

    with monkeypatch.context() as patched:
        patched.setattr(store, "_write_batch", full)
        with pytest.raises(DiskFull):
            lab.log.append_as_one([(TEMP, numbered(0, 1, size=450)), (other, numbered(0, 1, size=450))])
    assert len(chunk_keys(store)) == 2 * 11
    store._failure = None
    for log in (lab.log, lab.kill()):
        assert log.streams() == []
    lab.log.append_as_one([(TEMP, numbered(0, 1, size=450)), (other, numbered(0, 1, size=450))])
    lab.log.sync()
    for log in lab.lives():
        assert [numbers(payloads(log, at)) for at in (TEMP, other)] == [[0], [0]]


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("LOG-03")
@pytest.mark.parametrize("missing", [0, 5, 10])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_batch_without_one_of_its_chunks_is_damaged_and_others_are_not(
    tmp_path: Path, missing: int, flushed: bool
) -> None:
    lab = RocksLaboratory(tmp_path)
    for number in range(3):
        lab.log.append(TEMP, numbered(number, 1, size=450))
    if flushed:
        settle(lab.log)
    lab.log.sync()
    key = keys.batch_key(1, lab.log.state(TEMP, EPOCH).id, 1)
    assert len([each for each in chunk_keys(lab.log.store) if each.startswith(key)]) == 11
    lab.log.store._batches.delete(key + NUMBER.pack(missing))  # type: ignore[attr-defined]
    lab.log.sync()
    lab.log._recent.forget(lab.log.state(TEMP, EPOCH).id)
    found = read_out(lab.log, TEMP)
    assert list(found.events) == [0, 2]
    assert found.lost_offsets == {1}
    if flushed:
        lab.reopen()
        lab.close()
        assert [(loss.first, loss.end) for loss in check(lab.path).losses] == [(1, 2)]
    else:
        with pytest.raises(LogDamaged) as refused:
            lab.kill()
        assert [(loss.first, loss.end) for loss in refused.value.losses] == [(1, 2)]


# --- what goes, goes with its chunks ---------------------------------------------------------------------------------


def test_retention_takes_chunks_too(lab: RocksLaboratory) -> None:
    for number in range(6):
        lab.log.append(TEMP, numbered(number, 1, size=1 << 20))
    settle(lab.log)
    retain(lab.log, [RetentionRule(Pattern(">"), stream_bytes_max=2 << 20)], now_us=0)
    start = lab.log.info(TEMP, EPOCH).start
    assert start == 4
    left = {keys.BATCH_KEY.unpack(key[:-2])[2] for key in chunk_keys(lab.log.store)}
    assert left == {4, 5}


def test_compaction_takes_chunks_too_and_may_put_others_in_their_place(lab: RocksLaboratory) -> None:
    """The first batch loses its first event and stays large, the second loses all, the third is small and stays."""
    for names in ((b"a", b"b", b"b", b"c"), (b"b", b"b"), (b"a", b"b")):
        lab.log.append(TEMP, Batch.from_columns([b"." * 150] * len(names), 1, list(names)))
    settle(lab.log)
    before = chunk_keys(lab.log.store)
    done = compact(lab.log, lab.log.state(TEMP, EPOCH), now_us=0)
    assert done is not None and done.events_removed == 5
    for log in lab.lives():
        assert list(read_out(log, TEMP).events) == [3, 6, 7]
    after = chunk_keys(lab.log.store)
    heads = {keys.BATCH_KEY.unpack(key[:-2])[2] for key in after}
    assert heads == {3, 6}
    assert len(after) < len(before)
    assert check(lab.path).is_sound
