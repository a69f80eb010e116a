"""A copy begins anew while retention or compaction is at work on it: nothing of the old one comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.log.laboratory import EPOCH, Readout, batch, read_out, settle, stream
from weft.log import Log, MemoryStore, keys, open_store
from weft.log.compaction import compact
from weft.log.kv_compaction import compact_bucket
from weft.log.records import INDEX_BYTES
from weft.log.repair import examine
from weft.log.retention import RetentionRule, retain
from weft.log.store import Row, Space
from weft.log.survey import SEGMENT_END
from weft.model import Batch, Epoch, parse_pattern
from weft.model.key_value import COUNTER_BITS, Op, Record

COPY, COPY_EPOCH = stream("weft.kv.plant", "node-b"), Epoch(5)


class Interrupted(MemoryStore):
    """Does something just after the n-th look at it."""

    looks_left = -1
    interrupt: Callable[[], object]

    def scan(self, space: Space, first: bytes, end: bytes, bytes_expected: int = 0) -> Iterator[Row]:
        rows = super().scan(space, first, end, bytes_expected)
        self._looked()
        return rows

    def scan_back(self, space: Space, first: bytes, end: bytes) -> Iterator[Row]:
        rows = super().scan_back(space, first, end)
        self._looked()
        return rows

    def scan_holding(self, space: Space, first: bytes, at: bytes, end: bytes, bytes_expected: int) -> Iterator[Row]:
        rows = super().scan_holding(space, first, at, end, bytes_expected)
        self._looked()
        return rows

    def _looked(self) -> None:
        self.looks_left -= 1
        if self.looks_left == 0:
            self.interrupt()


def by_size(log: Log) -> None:
    retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=INDEX_BYTES)], now_us=0)


def by_age(log: Log) -> None:
    retain(log, [RetentionRule(parse_pattern(">"), age_us_max=2)], now_us=5)


def by_key(log: Log) -> None:
    compact(log, log.state(COPY, COPY_EPOCH), 0)


def by_bucket(log: Log) -> None:
    compact_bucket(log, COPY.topic, 5000, grace_ms=1000, skew_ms=100)


def written(number: int) -> Batch:
    """An event that every kind of work takes away, some sooner, some later."""
    record = Record(Op.DELETE if number == 4 else Op.PUT, "k", number + 1 << COUNTER_BITS, 0, "", b"")
    made = Batch.from_columns([b"%d" % number * INDEX_BYTES], number, [b"k"], [record.headers()])
    return made.with_base_offset(number)


@pytest.mark.req("LOG-07", "MSH-03")
@pytest.mark.parametrize("work", [by_size, by_age, by_key, by_bucket])
def test_a_copy_is_restarted_at_any_moment(work: Callable[[Log], None]) -> None:
    moments = 0
    while True:
        store = Interrupted()
        log = open_store(store, lambda: EPOCH, recent_bytes=0)
        for base in range(5):
            log.append_copy(COPY, COPY_EPOCH, written(base))
        settle(log)
        log.append_copy(COPY, COPY_EPOCH, batch(b"in the write-ahead log", base=5))
        store.interrupt = lambda log=log: log.restart_copy(COPY, COPY_EPOCH, 50)  # type: ignore[misc]
        store.looks_left = moments + 1
        work(log)
        if store.looks_left > 0:
            break
        moments += 1
        info = log.info(COPY, COPY_EPOCH)
        assert (info.start, info.end, info.bytes) == (50, 50, 0)
        log.append_copy(COPY, COPY_EPOCH, batch(b"new", base=50))
        settle(log)
        assert read_out(log, COPY, COPY_EPOCH) == Readout({50: b"new"})
        assert len(list(store.scan(Space.BATCHES, *keys.segment_range(0, SEGMENT_END)))) == 1
        assert len(list(store.scan(Space.TABLES, *keys.table_range(keys.INDEX)))) == 1
        assert examine(store).is_sound
        log.close()
        log = open_store(store, lambda: EPOCH, recent_bytes=0)
        assert read_out(log, COPY, COPY_EPOCH) == Readout({50: b"new"})
    assert moments > 3, "there are moments in which to interrupt"
