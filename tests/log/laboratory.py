"""What the tests of the log share: short ways to make streams and batches, logs that can be killed, and readers that
account for every offset."""

from __future__ import annotations

import contextlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from weft.limits import SEGMENT_BYTES
from weft.log import Log, MemoryStore, open_log, open_store
from weft.log.errors import EventsLost, Loss
from weft.model import Batch, Epoch, NodeId, Stream, parse_topic

EPOCH = Epoch(1)
PRODUCER = b"producer-0000001"
RECENT_BYTES = 3000  # of the last batches in memory: a few small ones, so that both ways of reading are gone


def stream(topic: str = "plant.temp", origin: str = "node-a", partition: int = 0) -> Stream:
    return Stream(parse_topic(topic), NodeId(origin), partition)


def batch(
    *payloads: bytes,
    at_us: int | Sequence[int] = 0,
    keys: Sequence[bytes | None] | None = None,
    producer: bytes | None = None,
    sequence: int = 0,
    base: int = 0,
) -> Batch:
    made = Batch.from_columns(payloads, at_us, keys, producer=producer, sequence=sequence)
    return made.with_base_offset(base) if base else made


def numbered(first: int, events: int, size: int = 0) -> Batch:
    """Events whose payloads say which they are, and are ``size`` bytes long at least."""
    return batch(*(b"%d" % number + b"." * size for number in range(first, first + events)))


def numbers(payloads: Sequence[bytes]) -> list[int]:
    return [int(payload.rstrip(b".")) for payload in payloads]


# --- reading -----------------------------------------------------------------------------------------------------


@dataclass
class Readout:
    """All that there is to read of a stream: payloads by offset, and what was said to be lost."""

    events: dict[int, bytes] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)

    @property
    def lost_offsets(self) -> set[int]:
        return {offset for loss in self.losses for offset in range(loss.first, loss.end)}


def read_out(log: Log, of: Stream, epoch: Epoch = EPOCH, first: int | None = None, bytes_max: int = 1 << 20) -> Readout:
    """Read from ``first``, or the beginning, to the end, over what is lost."""
    found = Readout()
    info = log.info(of, epoch)
    at = info.start if first is None else first
    while at < info.end:
        try:
            stored = log.read(of, epoch, at, bytes_max=bytes_max)
        except EventsLost as error:
            assert at <= error.loss.first < error.loss.end, "before the loss there is only what compaction has taken"
            found.losses.append(error.loss)
            at = error.loss.end
            continue
        if not stored:
            break  # compaction has taken the rest
        for each in map(Batch.read_stored, stored):
            assert each.intact
            assert each.end_offset > at, "batches come in order"
            for offset, event in enumerate(each.events_from(at), max(at, each.base_offset)):
                found.events[offset] = event.payload
            at = each.end_offset
    return found


def payloads(log: Log, of: Stream, epoch: Epoch = EPOCH, first: int | None = None) -> list[bytes]:
    """The payloads of a stream that has lost nothing."""
    found = read_out(log, of, epoch, first)
    assert not found.losses
    return list(found.events.values())


def settle(log: Log) -> None:
    """Move everything to table files."""
    log.sync()
    log.begin_segment()
    log.store.flush(wait=True)
    log.sync()


# --- logs that can be killed -------------------------------------------------------------------------------------


class Laboratory(ABC):
    """A place for one log, which is opened, closed, and killed."""

    def __init__(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.segment_bytes = segment_bytes
        self._epochs = count(1)
        self.log = self.open()

    def mint(self) -> Epoch:
        return Epoch(next(self._epochs))

    @abstractmethod
    def open(self) -> Log: ...

    @abstractmethod
    def kill(self) -> Log:
        """The log as kill -9 would leave it: what the process has written is there, synced or not."""

    def reopen(self) -> Log:
        self.log.close()
        self.log = self.open()
        return self.log

    def lives(self) -> Iterator[Log]:
        """The log as it is, after closing and opening it, and after a kill."""
        yield self.log
        yield self.reopen()
        yield self.kill()

    def close(self) -> None:
        self.log.close()


class MemoryLaboratory(Laboratory):
    def __init__(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.store = MemoryStore()
        super().__init__(segment_bytes)

    def open(self) -> Log:
        return open_store(self.store, self.mint, segment_bytes=self.segment_bytes, recent_bytes=RECENT_BYTES)

    def kill(self) -> Log:
        self.store.crash(self.store.unsynced_writes)
        self.log = self.open()
        return self.log

    def power_cut(self, unsynced_kept: int = 0, marks_lost: int = 0) -> Log:
        self.store.crash(unsynced_kept, marks_lost)
        self.log = self.open()
        return self.log


class RocksLaboratory(Laboratory):
    def __init__(self, place: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._places = (place / f"log-{number}" for number in count())
        self.path = next(self._places)
        super().__init__(segment_bytes)

    def open(self) -> Log:
        return open_log(
            self.path, self.mint, segment_bytes=self.segment_bytes, disk_reserve_bytes=0, recent_bytes=RECENT_BYTES
        )

    def kill(self) -> Log:
        before, self.path = self.path, next(self._places)
        copy_live(before, self.path)
        self.log.store.close()  # so that it is not in the way; what that writes is not in the copy
        self.log = self.open()
        return self.log


def copy_live(source: Path, target: Path) -> None:
    """Copy the files of a running database as they are at one moment. It may move data to new files meanwhile, in the
    background: then again."""
    for _ in range(100):
        before = _files(source)
        with contextlib.suppress(shutil.Error):  # a file is gone
            shutil.copytree(source, target)
            if _files(source) == before:
                return
        shutil.rmtree(target)
    raise AssertionError("the database did not hold still for a copy in 100 tries")


def _files(place: Path) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for each in place.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            now = each.stat()
            found[str(each)] = (now.st_ino, now.st_size, now.st_mtime_ns)
    return found


LABORATORIES = ("memory", "rocks")


def laboratory(kind: str, place: Path, segment_bytes: int = SEGMENT_BYTES) -> Laboratory:
    return MemoryLaboratory(segment_bytes) if kind == "memory" else RocksLaboratory(place, segment_bytes)
