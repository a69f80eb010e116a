"""Durable appends, beside what the disk does when nobody stands between."""

from __future__ import annotations

import os
import statistics
import threading
import time
from dataclasses import astuple, dataclass, field
from pathlib import Path

from bench.figures import Figure
from bench.log_common import ROUNDS, Sizes, batch_of, latency_figures, new_log, stream

from weft.errors import StorageError
from weft.log import Log
from weft.log.syncer import Syncer
from weft.model import Batch

IN_FLIGHT_BYTES_MAX, IN_FLIGHT_BATCHES_MAX = 32 << 20, 4096  # what publishers have sent and have no receipt for
DISK_FILE_BYTES = 256 << 20


def disk_syncs(place: Path, chunk: bytes, seconds: float, *, in_place: bool) -> list[float]:
    """How long each write of a chunk with fdatasync took, one behind the other in one file.

    ``in_place``: in a file that has its blocks already, as a recycled write-ahead log has.
    """
    path = place / "raw"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    chunks = max(4, DISK_FILE_BYTES // len(chunk)) if len(chunk) > 1 << 16 else 2000
    took: list[float] = []
    try:
        if in_place:
            for _ in range(chunks):
                os.write(file, chunk)
            os.fsync(file)
        while sum(took) < seconds or len(took) < 4:
            if in_place and len(took) % chunks == 0:
                os.lseek(file, 0, os.SEEK_SET)
            begin = time.perf_counter()
            os.write(file, chunk)
            os.fdatasync(file)
            took.append(time.perf_counter() - begin)
    finally:
        os.close(file)
        path.unlink()
    return took


@dataclass(frozen=True)
class Appended:
    events_per_s: float
    bytes_per_s: float
    group_bytes: float


class Publisher:
    """Appends as fast as it can, with a bounded amount in flight, and counts what is durable."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._durable = 0
        self._syncs = 0
        self._more = threading.Condition()
        self._syncer = Syncer(log, self._on_durable, self._on_failed)

    def run(self, batch: Batch, seconds: float) -> Appended:
        window = max(1, min(IN_FLIGHT_BATCHES_MAX, IN_FLIGHT_BYTES_MAX // len(batch.data)))
        target, appended = stream("bench.append"), 0
        self._syncer.start()
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            appended = self._log.append(target, batch).ticket
            self._syncer.wake()
            if appended - self._durable > window:
                self._wait(appended - window // 2)
        self._wait(appended)
        elapsed = time.perf_counter() - begin
        self._syncer.stop()
        size = appended * len(batch.data)
        return Appended(appended * len(batch) / elapsed, size / elapsed, size / self._syncs)

    def _wait(self, ticket: int) -> None:
        with self._more:
            self._more.wait_for(lambda: self._durable >= ticket)

    def _on_durable(self, ticket: int) -> None:
        with self._more:
            self._durable = ticket
            self._syncs += 1
            self._more.notify()

    def _on_failed(self, error: StorageError) -> None:
        raise error


@dataclass(slots=True)
class Measured:
    """Every size in turn, and the disk with as much per sync as the largest had, over several rounds."""

    appends: dict[int, list[Appended]] = field(default_factory=dict)
    small_syncs_s: list[float] = field(default_factory=list)
    disk_in_place: list[float] = field(default_factory=list)
    disk_growing: list[float] = field(default_factory=list)

    def round(self, place: Path, batches: dict[int, Batch], sizes: Sizes) -> None:
        self.small_syncs_s += disk_syncs(place, os.urandom(4096), sizes.disk_s / 4, in_place=True)
        for events, batch in batches.items():
            with new_log(place, "append") as log:
                self.appends.setdefault(events, []).append(Publisher(log).run(batch, sizes.append_s))
        chunk = os.urandom(int(self.appends[max(batches)][-1].group_bytes))
        for rates, in_place in ((self.disk_in_place, True), (self.disk_growing, False)):
            took = disk_syncs(place, chunk, sizes.disk_s, in_place=in_place)
            rates.append(len(chunk) * len(took) / sum(took))


def append_figures(place: Path, sizes: Sizes) -> list[Figure]:
    batches = {events: batch_of(events) for events in (1, 10, 100, 1000)}
    measured = Measured()
    for _ in range(ROUNDS):
        measured.round(place, batches, sizes)
    in_place, growing = statistics.median(measured.disk_in_place), statistics.median(measured.disk_growing)
    largest = measured.appends[1000]
    note = f"{statistics.median(each.group_bytes for each in largest) / 1e6:.1f} MB per sync, as appends of 1,000 had"
    figures = [
        *latency_figures("disk: write and fdatasync of 4 KiB in place", measured.small_syncs_s, limit=True),
        Figure("disk: sequential, fdatasync, in place", in_place / 1e6, "MB/s", limit=True, note=note),
        Figure("disk: sequential, fdatasync, growing file", growing / 1e6, "MB/s", limit=True),
    ]
    for events, each in measured.appends.items():
        rate, size, group = (statistics.median(values) for values in zip(*map(astuple, each), strict=True))
        note = f"{size / 1e6:.0f} MB/s, {group / 1e3:,.0f} kB per sync"
        figures.append(Figure(f"durable append, {events:,} per batch", rate, "events/s", note=note))
    share = statistics.median(each.bytes_per_s for each in largest) / max(in_place, growing) * 100
    figures.append(Figure("durable append, 1,000 per batch, of the disk's rate", share, "%", goal=25))
    return figures
