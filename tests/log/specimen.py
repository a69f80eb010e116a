"""Logs on RocksDB to be damaged: killed in the middle of their work, with everything known that they have promised."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tests.log.laboratory import EPOCH, Readout, batch, copy_live, read_out, settle, stream
from weft.log import Log, RocksStore, chunks, open_store
from weft.log.compaction import compact
from weft.log.retention import RetentionRule, retain
from weft.model import Epoch, Position, Stream, parse_pattern

COPY_EPOCH = Epoch(77)
PLAIN, SHORT, KEYED, COPY = stream("own.plain"), stream("own.short"), stream("own.keyed"), stream("copy", "node-b")
Name = tuple[Stream, Epoch]
NAMES: list[Name] = [(PLAIN, EPOCH), (SHORT, EPOCH), (KEYED, EPOCH), (COPY, COPY_EPOCH)]
GROUP = "group"
CHUNK_BYTES = 4000  # so that batches of one event are whole, and others in chunks


@dataclass(frozen=True)
class Specimen:
    """A log as kill -9 has left it. ``ever``: every payload that was ever stored, by offset."""

    path: Path
    truth: dict[Name, Readout]
    ever: dict[Name, dict[int, bytes]]
    positions: list[Position]

    def promised(self, name: Name) -> set[int]:
        return set(self.truth[name].events)

    def copy_to(self, place: Path) -> Path:
        shutil.copytree(self.path, place)
        return place


class StallingStore(RocksStore):
    """A store whose flushes of batches do not keep up while ``stalled``: so write-ahead logs pile up."""

    stalled = False

    def flush(self, *, wait: bool = False) -> None:
        if self.stalled:
            self._tables.flush(True)
        else:
            super().flush(wait=wait)

    def flushes_pending(self) -> int:
        return 100 if self.stalled else super().flushes_pending()


class Builder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._store = StallingStore(path)
        self.log: Log = open_store(self._store, lambda: EPOCH, disk_reserve_bytes=0, recent_bytes=0)
        self._ever: dict[Name, dict[int, bytes]] = {name: {} for name in NAMES}
        self._number = 0

    def append(self, rounds: int, size: int = 3000) -> None:
        """One batch to each stream in every round; a sync now and then."""
        for step in range(rounds):
            for at, epoch in NAMES:
                ends = self._ever[(at, epoch)]
                base = max(ends, default=-1) + 1
                names = [f"{at.topic} {self._number + each} ".encode() for each in range(1 + step % 3)]
                self._number += len(names)
                payloads = [name + b"." * size for name in names]
                keys = [b"key %d" % (offset % 5) for offset in range(len(names))] if at is KEYED else None
                made = batch(*payloads, keys=keys, at_us=self._number, base=base)
                if epoch == EPOCH:
                    assert self.log.append(at, made.with_base_offset(0)).first_offset == base
                else:
                    self.log.append_copy(at, epoch, made)
                ends.update(enumerate(payloads, base))
            if step % 4 == 3:
                self.log.sync()
        self.log.commit(GROUP, [Position(PLAIN, EPOCH, self._number)])
        self.log.sync()

    def settle(self) -> None:
        settle(self.log)

    def shrink(self) -> None:
        """Compaction and retention, as of a node that runs for a while."""
        compact(self.log, self.log.state(KEYED, EPOCH), now_us=0)
        retain(self.log, [RetentionRule(parse_pattern("own.short"), stream_bytes_max=150_000)], now_us=0)
        self.log.sync()

    def pile_up(self, segments: int, rounds: int) -> None:
        self._store.stalled = True
        for _ in range(segments):
            self.append(rounds)
            self.log.begin_segment()
            self.log.sync()

    def killed(self, place: Path) -> Specimen:
        truth = {name: read_out(self.log, *name) for name in NAMES}
        assert not any(each.losses for each in truth.values())
        copy_live(self._path, place)
        specimen = Specimen(place, truth, self._ever, self.log.positions(GROUP))
        self._store.stalled = False
        self.log.close()
        return specimen


@patch.object(chunks, "CHUNK_BYTES", CHUNK_BYTES)
def young(place: Path) -> Specimen:
    """Everything is still in one write-ahead log."""
    builder = Builder(place / "young")
    builder.append(24)
    return builder.killed(place / "young killed")


@patch.object(chunks, "CHUNK_BYTES", CHUNK_BYTES)
def grown(place: Path) -> Specimen:
    """Three segments in table files, and three more in as many write-ahead logs, some of which were used before."""
    builder = Builder(place / "grown")
    for _ in range(3):
        builder.append(20)
        builder.settle()
        builder.shrink()
    builder.pile_up(2, 8)
    builder.append(8)
    return builder.killed(place / "grown killed")
