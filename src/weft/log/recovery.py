"""Opening a log: read its books, look at what was written since the last flush, compare with what was promised.

Nothing is written here: recovery says what has to be cut, and ``Log`` cuts it. Named cases:

- *A torn or never synced tail.* Nothing promised is missing: the tail is cut behind the last sound batch, and reported.
- *Less than was promised*, because the write-ahead log was damaged or deleted, or a batch is not what was stored:
  LogDamaged, with the streams and offsets.
- *A gap in the middle* of what was not flushed yet: the tallies of the segments do not fit; a survey finds what is
  missing.
- *Books of RocksDB that are not those it had*: it would remove the files it no longer knows with the next write.
- *Positions that are gone*: the store has had fewer writes than it promised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from weft.log import keys
from weft.log.entries import Entry, Kind, read_sound_entry
from weft.log.errors import LogDamaged, Loss, StoreCorrupt
from weft.log.gathering import remember, rows_of_pieces
from weft.log.producers import Producers
from weft.log.promises import Promises, Tally, decode
from weft.log.records import StreamState, decode_record, meta_write
from weft.log.store import DeleteRange, Space, Store, Write
from weft.log.survey import SEGMENT_END, Survey, losses
from weft.model.batch import Batch
from weft.model.stream import Epoch

FORMAT: Final = 5
# Format 1 had producers without checksums, 2 no gathered batches, 3 no streams in parts, 4 no chunks; and up to format
# 4, the books of a segment were written together with its end. Logs of these formats are read, and become format 5 once
# they are open. Older versions of Weft must refuse them from then on: they would misread the checksums, would not
# recognise gathered batches that are sent again, would take a part of a stream for all of it or a chunk for a batch, or
# would trust records of streams that are older than the end of a segment.
FORMATS_READ: Final = (1, 2, 3, 4, FORMAT)


@dataclass(frozen=True, slots=True)
class Cut:
    """A tail that was never promised and is not sound: it is removed on opening."""

    loss: Loss
    why: str

    def __str__(self) -> str:
        return f"{self.loss}: {self.why}"


@dataclass(slots=True)
class Recovered:
    """A log's books, as they are after recovery."""

    epoch: Epoch
    segment: int
    flushed: int
    promises: Promises
    segment_bytes: int = 0
    tallies: dict[int, Tally] = field(default_factory=dict)  # of segments that are not flushed, and the current one
    states: dict[int, StreamState] = field(default_factory=dict)
    producers: Producers = field(default_factory=Producers)
    touched: set[int] = field(default_factory=set)  # streams in the current segment
    cuts: list[Cut] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)  # they make the cuts, and note this format in older logs
    stale: dict[int, dict[int, int]] = field(default_factory=dict)  # segment -> stream -> where it starts now


def read_promises(store: Store) -> Promises | None:
    marks = store.read_marks()
    return None if marks is None else decode(marks)


def read_meta(store: Store, name: str) -> int | None:
    value = store.get(Space.TABLES, keys.meta_key(name))
    return None if value is None else int(value)


def create(store: Store, mint_epoch: Callable[[], Epoch]) -> Recovered:
    """Make a new log. The marks are written first, so a log without marks has lost them."""
    if store.read_marks() is None:
        store.replace_marks(Promises().encode())
    recovered = Recovered(mint_epoch(), 1, 0, Promises(), tallies={1: Tally(1)})
    store.write(
        [
            meta_write("format", FORMAT),
            meta_write("epoch", recovered.epoch),
            meta_write("segment", recovered.segment),
            meta_write("flushed", recovered.flushed),
        ]
    )
    store.sync()
    store.flush(wait=True)  # RocksDB's repair knows a column family by its first table file
    return recovered


def recover(store: Store, promises: Promises | None) -> Recovered | None:
    """Read the books of a log; None if there is no log. Raise LogDamaged, which does not name the losses yet, if it has
    less than it promised."""
    epoch = read_meta(store, "epoch")
    if epoch is None and (promises is None or not (promises.streams or promises.damaged_at is not None)):
        return None
    trouble = find_trouble(store, promises, epoch)
    if trouble or promises is None or epoch is None:
        raise LogDamaged(trouble)
    recovered = Recovered(Epoch(epoch), read_meta(store, "segment") or 1, read_meta(store, "flushed") or 0, promises)
    for key, value in store.scan(Space.TABLES, *keys.table_range(keys.STREAMS)):
        number = keys.STREAM_KEY.unpack(key)[1]
        recovered.states[number] = StreamState(number, decode_record(value))
    recovered.producers.load(store.scan(Space.TABLES, *keys.table_range(keys.PRODUCERS)))
    if read_meta(store, "format") != FORMAT:
        recovered.writes.append(meta_write("format", FORMAT))
    tail = _Tail(store, recovered)
    tail.read()
    if not tail.adds_up():
        survey = Survey(store, promises)
        if losses(survey, survey.found()) or survey.unreadable:
            raise LogDamaged("the log has less than it promised")
        if tail.breaks_promises():
            raise LogDamaged("the books of the log do not fit what is in it")
    tail.cut()
    tail.make_up_books()
    return recovered


def find_trouble(store: Store, promises: Promises | None, epoch: int | None) -> str:
    """Say what is wrong with the log's books; empty if nothing is."""
    if epoch is None:
        return "the log is empty, but it promised events"
    if promises is None:
        return "the record of what was promised is missing"
    if promises.damaged_at is not None:
        return f"the record of what was promised is damaged at byte {promises.damaged_at}"
    if read_meta(store, "format") not in FORMATS_READ:
        return f"the log has a format that this version of Weft does not know; it knows {FORMATS_READ[0]} to {FORMAT}"
    if contradiction := store.contradiction(promises.fingerprint):
        return f"the books of the storage engine are damaged: {contradiction}"
    if store.sequence() < promises.sequence:
        return (
            f"the log has less than it promised: {promises.sequence - store.sequence()} of the last writes are gone; "
            "positions of groups and peers may be older than they were"
        )
    return ""


class _Tail:
    """The segments that may not be in table files yet, batch by batch."""

    def __init__(self, store: Store, recovered: Recovered) -> None:
        self._store = store
        self._recovered = recovered
        self._counted: dict[int, Tally] = {}  # per segment, how much of what was promised is there
        self._seen: set[int] = set()
        self._stopped: dict[int, tuple[int, str]] = {}  # stream -> where it stops being sound, and why
        self._ends: dict[int, int] = {}  # stream -> the end of the last batch that is there at all
        self._unreadable = False
        self._strangers = False  # batches of unknown streams
        self._ended: set[int] = set()  # streams in segments before the current one
        self._pieces = rows_of_pieces(store.scan(Space.TABLES, *keys.table_range(keys.PIECES)))

    def read(self) -> None:
        recovered = self._recovered
        recovered.tallies[recovered.segment] = Tally(recovered.segment)
        first, end = keys.segment_range(recovered.flushed + 1, SEGMENT_END)
        try:
            for key, value in self._store.scan(Space.BATCHES, first, end):
                self._take(key, value)
        except StoreCorrupt:
            self._unreadable = True
        for number in self._seen:
            state = recovered.states[number]
            state.durable = state.end

    def _take(self, key: bytes, value: bytes) -> None:
        segment, number, offset = keys.BATCH_KEY.unpack(key)
        state = self._recovered.states.get(number)
        if state is None:
            self._strangers = True
            return
        entry = read_sound_entry((key, value))
        if offset < state.start:  # of a copy that was restarted; it is deleted once it is in table files
            self._recovered.stale.setdefault(segment, {})[number] = state.start
            self._count(segment, number, offset if entry is None else entry.end, value)
            return
        if segment < self._recovered.segment:
            self._ended.add(number)
        self._ends[number] = max(self._ends.get(number, 0), offset + 1 if entry is None else entry.end)
        if number not in self._seen:
            self._seen.add(number)
            self._begin(state, offset)
        if number in self._stopped:
            return
        if entry is None:
            self._stopped[number] = (state.end, "a batch is not what was stored")
        elif offset != state.end:
            self._stopped[number] = (state.end, f"the next batch begins at {offset}")
        else:
            self._extend(segment, state, entry)

    def _begin(self, state: StreamState, offset: int) -> None:
        """The stream's books were closed before this segment: continue them from its first batch."""
        key = keys.index_key(state.id, offset)
        value = self._store.get(Space.TABLES, key)
        if value is None:
            state.end = min(state.end, offset)
            self._stopped[state.id] = (state.end, "the index has no entry for it")
            return
        point = keys.unpack_point(key, value)
        state.end, state.bytes_end, state.latest_us = point.offset, point.bytes_before, point.latest_us

    def _extend(self, segment: int, state: StreamState, entry: Entry) -> None:
        recovered = self._recovered
        self._count(segment, state.id, entry.end, entry.data)
        if entry.kind is Kind.BATCH:
            batch = Batch.read_stored(entry.data)
            state.extend(entry.end, len(entry.data), batch.timestamp_us_max)
            remember(recovered.producers, state.id, batch, self._pieces)
        else:
            state.extend(entry.end, 0, state.latest_us)
        if segment == recovered.segment:
            recovered.touched.add(state.id)
            state.pointed(segment)  # one point more, or a point one mebibyte later than usual, does no harm

    def _count(self, segment: int, number: int, end: int, data: bytes) -> None:
        recovered = self._recovered
        promised = recovered.promises.streams.get(number)
        if promised is not None and end <= promised.end:
            self._counted.setdefault(segment, Tally(segment)).add(data)
        recovered.tallies.setdefault(segment, Tally(segment)).add(data)
        if segment == recovered.segment:
            recovered.segment_bytes += len(data)

    def adds_up(self) -> bool:
        """Whether everything that was promised is here, as far as the tail can tell."""
        if self._unreadable or self.breaks_promises():
            return False
        states, promises = self._recovered.states, self._recovered.promises
        for number, each in promises.streams.items():
            if number not in states or states[number].end < each.end:
                return False
        for segment, tally in promises.tallies.items():
            if segment > self._recovered.flushed and self._counted.get(segment, Tally(segment)) != tally:
                return False
        return True

    def breaks_promises(self) -> bool:
        """Whether streams that were promised are unknown, or would have to be cut."""
        promised = self._recovered.promises.streams
        return self._strangers or any(
            number in promised and first < promised[number].end for number, (first, _) in self._stopped.items()
        )

    def cut(self) -> None:
        """Add the writes that remove what is not sound, and report it; none of it was promised."""
        recovered = self._recovered
        for number, (first, why) in self._stopped.items():
            state = recovered.states[number]
            for segment in range(recovered.flushed + 1, recovered.segment + 1):
                begin, end = keys.batch_key(segment, number, first), keys.batch_key(segment, number + 1, 0)
                recovered.writes.append(DeleteRange(Space.BATCHES, begin, end))
            for table, begin in (
                (keys.INDEX, keys.index_key(number, first)),
                (keys.TIMES, keys.time_key(number, state.latest_us, first)),
            ):
                recovered.writes.append(DeleteRange(Space.TABLES, begin, keys.stream_range(table, number)[1]))
            lost = Loss(state.stream, state.epoch, first, max(self._ends[number], first + 1))
            recovered.cuts.append(Cut(lost, why))
            state.segment = 0

    def make_up_books(self) -> None:
        """Add the writes for the books of the segments that have ended: a crash may have come before them. They are
        needed, because from now on nobody reads these segments to learn what is in them."""
        recovered = self._recovered
        if self._ended:
            recovered.writes += [recovered.states[number].record_write() for number in sorted(self._ended)]
            producers = recovered.producers
            recovered.writes += producers.writes(producers.take_touched(), recovered.segment - 1)
