"""Batches of several streams in one write: after a crash all of them are there, or none is (CON-03)."""

from __future__ import annotations

import pytest

from weft.log import Log, MemoryStore, open_store
from weft.log.errors import DiskFull
from weft.model import Batch, Epoch, NodeId, Stream, Topic

pytestmark = pytest.mark.req("CON-03")
EVENTS, MARKS = (Stream(Topic(name), NodeId("a"), 0) for name in ("events", "marks"))


def opened(store: MemoryStore) -> Log:
    return open_store(store, lambda: Epoch(1), segment_bytes=1 << 20, disk_reserve_bytes=0)


def ends(log: Log) -> dict[str, int]:
    return {info.stream.topic: info.end for info in log.streams()}


@pytest.mark.parametrize("known", [False, True])
def test_a_crash_leaves_all_or_nothing(known: bool) -> None:
    """Whether the streams are new or not, and however much of what was not synced is left."""
    for kept in range(12):
        store = MemoryStore()
        log = opened(store)
        before = 0
        if known:
            log.append(EVENTS, Batch.from_columns([b"x"], 1))
            log.append(MARKS, Batch.from_columns([b"x"], 1))
            log.sync()
            before = 1
        for number in range(4):
            log.append_as_one([(each, Batch.from_columns([b"%d" % number], 1)) for each in (EVENTS, MARKS)])
        store.crash(min(kept, store.unsynced_writes), 0)
        found = ends(opened(store))
        assert found.get("events", 0) == found.get("marks", 0) >= before


def test_without_room_nothing_is_kept() -> None:
    store = MemoryStore()
    log = opened(store)
    log.append(EVENTS, Batch.from_columns([b"x"], 1))
    log.sync()
    store.disk_bytes_max = store.disk_bytes()
    with pytest.raises(DiskFull):
        log.append_as_one([(each, Batch.from_columns([bytes(10_000)], 1)) for each in (EVENTS, MARKS)])
    assert log.find(MARKS, log.epoch) is None
    state = log.find(EVENTS, log.epoch)
    assert state is not None and state.end == 1
