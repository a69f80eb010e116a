"""What many streams cost: bytes written for a byte of events, space after retention; and opening after a crash."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from bench.figures import Figure
from bench.log_common import EPOCH, ROUNDS, Sizes, batch_of, new_log, opened_s, stream, to_tables

from weft.limits import SEGMENT_BYTES
from weft.log import Log, keys, open_log
from weft.log.retention import RetentionRule, retain
from weft.log.survey import SEGMENT_END
from weft.model import Batch, Stream, parse_pattern

# --- opening after a crash ---------------------------------------------------------------------------------------


def crash_figures(place: Path) -> list[Figure]:
    took: list[float] = []
    size = SEGMENT_BYTES - (4 << 20)  # nearly a segment: as much as can be in the write-ahead log alone
    for _ in range(ROUNDS):
        path = place / "crash"
        _fill_and_die(path, size)
        took.append(opened_s(path))
        with new_log(place, "crash") as log:
            assert log.streams()[0].bytes >= size, "everything that was synced is there"
    note = f"{size / 1e6:.0f} MB in the write-ahead log alone"
    return [Figure("open after kill -9", statistics.median(took) * 1e3, "ms", note=note)]


def _fill_and_die(path: Path, size: int) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_fill_and_wait, args=(path, size, theirs))
    child.start()
    ours.recv()
    child.kill()
    child.join()


def _fill_and_wait(path: Path, size: int, parent: Connection) -> None:
    """In the child: write, sync, say so, and wait for the end."""
    log = open_log(path, lambda: EPOCH)
    batch, target = batch_of(1000), stream("bench.crash")
    for _ in range(size // len(batch.data) + 1):
        log.append(target, batch)
    log.sync()
    parent.send("synced")
    parent.recv()


# --- many streams ------------------------------------------------------------------------------------------------


def interleaved_figures(place: Path, sizes: Sizes) -> list[Figure]:
    """64 streams in turn, 100 events a batch; then retention leaves a quarter, and the log goes on."""
    streams = [stream(f"bench.many{number}") for number in range(64)]
    batch = batch_of(100)
    with new_log(place, "interleaved") as log:
        before = _io()
        begin = time.perf_counter()
        _write_in_turn(log, streams, batch, sizes.interleaved_bytes)
        elapsed = time.perf_counter() - begin
        to_tables(log)
        _quiet()
        after = _io()
        written, device = (after[name] - before[name] for name in ("wchar", "write_bytes"))
        before_bytes = log.store.disk_bytes()
        rule = RetentionRule(parse_pattern(">"), stream_bytes_max=sizes.interleaved_bytes // 64 // 4)
        expired = sum(each.bytes for each in retain(log, [rule], 0))
        log.sync()
        _write_in_turn(log, streams, batch, 4 * SEGMENT_BYTES)
        to_tables(log)
        _quiet()
        by_itself = before_bytes + 4 * SEGMENT_BYTES - log.store.disk_bytes()
        log.store.reclaim(*keys.segment_range(0, SEGMENT_END))
        _quiet()
        live = sum(info.bytes for info in log.streams())
        total = log.store.disk_bytes()
    amount = sizes.interleaved_bytes
    return [
        Figure(
            "write amplification, 64 streams interleaved", written / amount, "times", goal=2.5, ceiling=True,
            note=f"by write(); {device / amount:.2f} to the device; {amount / elapsed / 1e6:.0f} MB/s, synced",
        ),
        Figure(
            "space that came back by itself, of what expired", by_itself / expired * 100, "%",
            note=f"{expired / 1e6:.0f} MB expired; after {4 * SEGMENT_BYTES / 1e6:.0f} MB more were written",
        ),
        Figure("disk after reclaim, of the events kept", total / live, "times", note="write-ahead log included"),
    ]  # fmt: skip


def _write_in_turn(log: Log, streams: Sequence[Stream], batch: Batch, size: int) -> None:
    for number in range(size // len(batch.data)):
        log.append(streams[number % len(streams)], batch)
        if number % 256 == 0:
            log.sync()
    log.sync()


def _io() -> dict[str, int]:
    """What this process has written: ``wchar`` by system calls, ``write_bytes`` to be sent to the device."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def _quiet() -> None:
    """Wait until RocksDB has nothing more to write."""
    last, still = -1, 0
    while still < 4:
        time.sleep(0.25)
        now = _io()["wchar"]
        still = still + 1 if now == last else 0
        last = now
