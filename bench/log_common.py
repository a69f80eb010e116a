"""What the benchmarks of the log share: how much of everything, streams and batches, logs that go away again."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure

from weft.limits import SEGMENT_BYTES
from weft.log import Log, open_log
from weft.log.log import RECENT_BYTES_MAX
from weft.model import Batch, Epoch, NodeId, Stream, parse_topic

PAYLOAD_BYTES = 100
EPOCH = Epoch(1)
ROUNDS = 3


@dataclass(frozen=True)
class Sizes:
    """How much of everything. ``scale`` 1 is what the goals speak of."""

    append_s: float
    disk_s: float
    seek_events: int
    seeks: int
    interleaved_bytes: int
    topic_counts: tuple[int, int, int]
    topic_batches: int
    other_batches: int

    @staticmethod
    def of(scale: float) -> Sizes:
        return Sizes(
            append_s=max(0.2, 1.5 * scale),
            disk_s=max(0.2, 1.0 * scale),
            seek_events=max(100_000, int(10_000_000 * scale) // 1000 * 1000),
            seeks=max(500, int(5_000 * scale)),
            interleaved_bytes=max(2 * SEGMENT_BYTES, int((1 << 30) * scale)),
            topic_counts=(1, 1_000, max(2_000, int(100_000 * scale))),
            topic_batches=max(50, int(250 * scale)),
            other_batches=max(2_000, int(100_000 * scale)),
        )


def stream(topic: str) -> Stream:
    return Stream(parse_topic(topic), NodeId("bench"), 0)


def batch_of(events: int, first_us: int = 0) -> Batch:
    """As a node has it: read and checked, its payloads not compressible."""
    payloads = [os.urandom(PAYLOAD_BYTES) for _ in range(events)]
    return Batch.read_untrusted(Batch.from_columns(payloads, list(range(first_us, first_us + events))).data)


@contextmanager
def new_log(place: Path, name: str, recent_bytes: int = RECENT_BYTES_MAX) -> Iterator[Log]:
    log = open_log(place / name, lambda: EPOCH, recent_bytes=recent_bytes)
    try:
        yield log
    finally:
        log.close()
        shutil.rmtree(place / name)


def to_tables(log: Log) -> None:
    log.begin_segment()
    while log.store.is_flushing():
        time.sleep(0.01)
    log.sync()


def latency_figures(
    name: str, took_s: Sequence[float], *, goal_p99_us: float | None = None, limit: bool = False, note: str = ""
) -> list[Figure]:
    ordered = sorted(took_s)
    p50_us, p99_us = (ordered[int(len(ordered) * share)] * 1e6 for share in (0.5, 0.99))
    return [
        Figure(f"{name}, p50", p50_us, "µs", limit=limit, note=note),
        Figure(f"{name}, p99", p99_us, "µs", goal=goal_p99_us, ceiling=True, limit=limit),
    ]


def opened_s(path: Path) -> float:
    """How long it takes to open a log."""
    begin = time.perf_counter()
    log = open_log(path, lambda: EPOCH)
    took = time.perf_counter() - begin
    log.close()
    return took
