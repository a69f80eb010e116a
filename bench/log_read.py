"""Seeking in a long stream, replaying it, and reading one topic among many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from bench.figures import Figure
from bench.harness import Case, measure
from bench.log_common import (
    EPOCH,
    PAYLOAD_BYTES,
    Sizes,
    batch_of,
    latency_figures,
    new_log,
    opened_s,
    stream,
    to_tables,
)

from weft.log import Log, open_log
from weft.log.log import RECENT_BYTES_MAX
from weft.model import Batch, Stream


def fill(log: Log, target: Stream, events: int) -> None:
    """One stream, 1,000 events a batch, one microsecond apart."""
    payloads = [os.urandom(PAYLOAD_BYTES) for _ in range(1000)]
    for first in range(0, events, 1000):
        log.append(target, Batch.from_columns(payloads, range(first, first + 1000)))
        if first % 200_000 == 0:
            log.sync()
    log.sync()


def seek_figures(log: Log, target: Stream, sizes: Sizes) -> list[Figure]:
    events = sizes.seek_events
    offsets = np.random.default_rng(seed=1).integers(events, size=sizes.seeks).tolist()
    assert all(log.seek(target, EPOCH, offset) == offset for offset in offsets[:20]), "event n has timestamp n"
    works: dict[str, Callable[[int], object]] = {
        "seek by offset": lambda at: log.read(target, EPOCH, at, bytes_max=1),
        "seek by time": lambda at: log.seek(target, EPOCH, at),
    }
    figures = latency_figures("a loop of nothing", _timed(_idle, offsets), limit=True, note="how quiet the machine is")
    for name, work in works.items():
        note = f"at {events:,} events, 1,000 a batch; the batch is read"
        figures += latency_figures(name, _timed(work, offsets), goal_p99_us=1000, note=note)
    return figures


def _timed(work: Callable[[int], object], values: Sequence[int]) -> list[float]:
    took: list[float] = []
    for value in values:
        begin = time.perf_counter()
        work(value)
        took.append(time.perf_counter() - begin)
    return took


def _idle(_: int) -> None:
    """About as long as a seek: what takes longer here was interrupted by others."""
    for _ in range(10_000):
        pass


def tail_figures(place: Path, sizes: Sizes) -> list[Figure]:
    """Reading each batch right after its sync, as a subscriber at the end of a stream does."""
    target, batch = stream("bench.tail"), batch_of(100)
    figures: list[Figure] = []
    for where, recent_bytes in (("in memory", RECENT_BYTES_MAX), ("in RocksDB", 0)):
        with new_log(place, "tail", recent_bytes=recent_bytes) as log:
            took: list[float] = []
            for _ in range(min(sizes.seeks, 1000)):
                first = log.append(target, batch).first_offset
                log.sync()
                took += _timed(lambda at: log.read(target, EPOCH, at), [first])
            figures += latency_figures(f"read the newest batch, {where}", took, note="of 100 events")
    return figures


def read_all(log: Log, target: Stream, first: int, end: int) -> None:
    at = first
    while at < end:
        stored = log.read(target, EPOCH, at, end)
        at = Batch.read_stored(stored[-1]).end_offset


def many_topics(log: Log, topics: int, sizes: Sizes) -> None:
    """The target's batches, and between them small ones of all other topics, if there are any."""
    target, large, small = stream("bench.target"), batch_of(1000), batch_of(1)
    others = [stream(f"bench.other{number}") for number in range(topics - 1)]
    per_batch = sizes.other_batches // sizes.topic_batches
    for number in range(sizes.topic_batches):
        log.append(target, large)
        if others:
            for each in range(number * per_batch, (number + 1) * per_batch):
                log.append(others[each % len(others)], small)
        log.sync()
    to_tables(log)


def read_figures(place: Path, replayed: Log, target: Stream, sizes: Sizes) -> list[Figure]:
    """Replay, and one topic among few and many; all in turn."""
    events = min(sizes.seek_events, 1_000_000)
    replay = Case("replay of stored batches, warm", partial(read_all, replayed, target, 0, events), events)
    paths = {topics: place / f"topics{topics}" for topics in sizes.topic_counts}
    logs = {topics: open_log(path, lambda: EPOCH, recent_bytes=0) for topics, path in paths.items()}
    by_topics: list[Case] = []
    for topics, log in logs.items():
        many_topics(log, topics, sizes)
        end = sizes.topic_batches * 1000
        work = partial(read_all, log, stream("bench.target"), 0, end)
        by_topics.append(Case(f"read one topic of {topics:,}", work, end))
    measure([replay, *by_topics], rounds=5, slice_s=0.5)
    for log in logs.values():
        log.close()
    slowest = min(case.rate for case in by_topics[1:]) / by_topics[0].rate * 100
    most = sizes.topic_counts[-1]
    return [
        Figure(replay.name, replay.rate, "events/s", goal=5_000_000, note="1,000 a batch"),
        *(Figure(case.name, case.rate, "events/s") for case in by_topics),
        Figure("slowest of many topics, of the rate with one", slowest, "%", goal=80),
        Figure(f"open a log of {most:,} topics", opened_s(paths[most]) * 1e3, "ms", note="closed properly"),
    ]
