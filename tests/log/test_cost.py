"""What a read costs, counted in rows that the store hands out: not in time, which a busy machine changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.log.laboratory import EPOCH, batch, numbered, stream
from weft.limits import KIB
from weft.log import Log, MemoryStore, open_store
from weft.log.keys import BATCH_KEY
from weft.log.store import Row, Space

ROWS_MAX = 8  # of one read: an index point before it, the batch, and what a scan looks at to know that it has it
BATCH_BYTES = 64 * KIB


class CountingStore(MemoryStore):
    """Notes the rows that a read takes out, and how often it looks."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.rows: list[tuple[Space, bytes]] = []

    def _noted(self, space: Space, found: Iterator[Row]) -> Iterator[Row]:
        self.looks += 1
        for row in found:
            self.rows.append((space, row[0]))
            yield row

    def get(self, space: Space, key: bytes) -> bytes | None:
        self.looks += 1
        self.rows.append((space, key))
        return super().get(space, key)

    def scan(self, space: Space, *place: Any) -> Iterator[Row]:
        return self._noted(space, super().scan(space, *place))

    def scan_back(self, space: Space, *place: Any) -> Iterator[Row]:
        return self._noted(space, super().scan_back(space, *place))

    def scan_holding(self, space: Space, *place: Any) -> Iterator[Row]:
        return self._noted(space, super().scan_holding(space, *place))

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.looks, self.rows = 0, []
        yield


def opened() -> tuple[CountingStore, Log]:
    """A log without the batches in memory that readers at the end of a stream get."""
    store = CountingStore()
    return store, open_store(store, lambda: EPOCH, disk_reserve_bytes=0, recent_bytes=0)


def cost(store: CountingStore, read: Callable[[], object]) -> int:
    with store.counting():
        read()
    return max(store.looks, len(store.rows))


@pytest.mark.req("LOG-04")
def test_a_seek_costs_the_same_in_a_stream_a_hundred_times_as_long() -> None:
    """The rows. To find a key is the store's: a tree, so it grows with the logarithm."""
    store, log = opened()
    costs = []
    for batches in (20, 2000):
        while (end := log.append(stream(), batch(bytes(BATCH_BYTES))).first_offset + 1) < batches:
            pass
        log.sync()
        places = [0, 1, end // 3, end // 2, end - 2, end - 1]
        costs.append(max(cost(store, lambda at=at: log.read(stream(), EPOCH, at, at + 1)) for at in places))  # type: ignore[misc]
    assert costs[1] <= costs[0] <= ROWS_MAX


@pytest.mark.parametrize("bytes_max", [1, BATCH_BYTES])
def test_a_read_takes_out_no_batch_that_it_does_not_hand_out(bytes_max: int) -> None:
    """It may be large."""
    store, log = opened()
    for _ in range(3):
        log.append(stream(), batch(bytes(BATCH_BYTES)))
    log.sync()
    with store.counting():
        assert len(log.read(stream(), EPOCH, 0, bytes_max=bytes_max)) == 1
    assert sum(space is Space.BATCHES for space, _ in store.rows) == 1


@pytest.mark.req("LOG-04", "LOG-06")
def test_a_time_is_found_by_its_index_and_not_by_reading_the_stream() -> None:
    store, log = opened()
    for number in range(2000):
        log.append(stream(), batch(bytes(BATCH_BYTES), at_us=number * 1000))
    log.sync()
    between_points = 1024 * KIB // BATCH_BYTES
    for number in (0, 7, 1000, 1999):
        with store.counting():
            assert log.seek(stream(), EPOCH, number * 1000) == number
        assert len(store.rows) <= between_points + ROWS_MAX


@pytest.mark.req("LOG-05")
def test_reading_one_topic_touches_no_other() -> None:
    store, log = opened()
    streams = [stream(f"plant.t{number}") for number in range(2000)]
    for some in (streams[:1], streams):
        for each in some:
            log.append(each, numbered(0, 1))
    log.sync()
    alone = log.state(streams[0], EPOCH)
    for first in (0, 1):
        with store.counting():
            assert len(log.read(streams[0], EPOCH, first, first + 1)) == 1
        assert max(store.looks, len(store.rows)) <= ROWS_MAX
        batches = [key for space, key in store.rows if space is Space.BATCHES]
        assert batches and {BATCH_KEY.unpack(key)[1] for key in batches} == {alone.id}
