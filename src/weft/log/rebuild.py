"""Writing the books of a log again, from the batches that are there. That includes who has sent them: a batch that is
sent again after a repair is not stored twice.

Where promised events are missing, a note takes their place: their loss stays visible, and their offsets are not given
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.log import index, keys
from weft.log.entries import Entry, Kind, note
from weft.log.errors import Loss
from weft.log.gathering import remember, rows_of_pieces
from weft.log.producers import Producers
from weft.log.promises import Promised, Promises
from weft.log.records import StreamState, meta_write, new_record
from weft.log.recovery import FORMAT
from weft.log.store import Delete, DeleteRange, Put, Space, Store, Write
from weft.log.survey import Found, Stored, Survey, losses
from weft.model.batch import Batch
from weft.model.stream import Epoch

WRITES_MAX: Final = 256  # at once; each may be a batch of 16 MiB, but there are few of that size
WRITE_BYTES_MAX: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair has done."""

    losses: tuple[Loss, ...]
    epoch_before: Epoch | None
    epoch: Epoch
    streams: int
    events: int


class Rebuild:
    """``target`` is the store that was surveyed, or an empty one that gets everything that can be read of it."""

    def __init__(self, survey: Survey, found: Mapping[int, Found], target: Store) -> None:
        self._survey = survey
        self._found = found
        self._target = target
        self._moving = target is not survey.store
        self._states: dict[int, StreamState] = {}
        # The books know the producers of segments that are flushed; those of the others are only in the batches.
        self._producers = Producers()
        self._pieces = rows_of_pieces(survey.table(keys.PIECES))
        self._flushed = 0 if survey.unreadable else survey.meta("flushed") or 0
        self._pending: list[Write] = []
        self._pending_bytes = 0

    def run(self, goes_on: Callable[[], Epoch] | Epoch) -> Repaired:
        """Write the books. ``goes_on``: the epoch of this node's streams from now on, or a function that makes one if
        the old epoch lost events."""
        survey = self._survey
        lost = tuple(losses(survey, self._found))
        before = survey.epoch()
        last = survey.last_segment()
        self._prepare()
        for stored in survey.batches():
            self._take(stored)
        self._note_lost_ends(before, last)
        # Offsets that may have been given to unknown events must not be given again.
        unsure = survey.marks_missing or survey.promises.damaged_at is not None or survey.promises.torn_at is not None
        if not callable(goes_on):
            epoch = goes_on
        else:
            epoch = goes_on() if before is None or unsure or any(loss.epoch == before for loss in lost) else before
        self._close_books(epoch, last)
        events = sum(each.events for number, each in self._found.items() if number in self._states)
        return Repaired(lost, before, epoch, len(self._states), events)

    def _prepare(self) -> None:
        for number, old in self._survey.streams.items():
            state = StreamState(number, new_record(old.stream, old.epoch, old.start, old.late_us))
            state.compacted = old.compacted
            self._states[number] = state
        self._producers.load(self._survey.table(keys.PRODUCERS))
        if self._moving:
            for table in (keys.PRODUCERS, keys.GROUPS, keys.LINKS):
                for key, value in self._survey.table(table):
                    self._write(Put(Space.TABLES, key, value))
        else:
            for table in (keys.STREAMS, keys.INDEX, keys.TIMES):
                self._write(DeleteRange(Space.TABLES, *keys.table_range(table)))

    def _take(self, stored: Stored) -> None:
        """Keep an entry that follows, or note what is missing before it. RocksDB's repair can bring back deleted
        batches: those overlap, or lie before the start of the stream."""
        state, entry = self._states.get(stored.stream_id), stored.entry
        if state is None or entry is None or entry.first < state.end:
            if not self._moving:
                self._write(Delete(Space.BATCHES, keys.batch_key(stored.segment, stored.stream_id, stored.offset)))
            return
        if entry.first > state.end:
            self._place(state, stored.segment, note(Kind.LOST, state.end, entry.first), is_new=True)
        self._place(state, stored.segment, entry, is_new=self._moving)
        if entry.kind is Kind.BATCH and stored.segment > self._flushed:
            remember(self._producers, state.id, Batch.read_stored(entry.data), self._pieces)

    def _note_lost_ends(self, own: Epoch | None, segment: int) -> None:
        """Note lost ends of this node's streams. Copies are cut there instead, and fetched again."""
        for number, promised in self._survey.promises.streams.items():
            state = self._states[number]
            if promised.epoch == own and promised.end > state.end:
                self._place(state, segment, note(Kind.LOST, state.end, promised.end), is_new=True)

    def _place(self, state: StreamState, segment: int, entry: Entry, *, is_new: bool) -> None:
        if state.needs_point(segment):
            for write in index.point_writes(state.id, state.point(segment)):
                self._write(write)
            state.pointed(segment)
        if is_new:
            self._write(Put(Space.BATCHES, keys.batch_key(segment, state.id, entry.first), entry.data))
        is_batch = entry.kind is Kind.BATCH
        latest_us = Batch.read_stored(entry.data).timestamp_us_max if is_batch else state.latest_us
        state.extend(entry.end, len(entry.data) if is_batch else 0, latest_us)

    def _close_books(self, epoch: Epoch, last: int) -> None:
        for state in self._states.values():
            self._write(state.record_write())
        for write in self._producers.writes(self._producers.take_touched(), last):
            self._write(write)
        books = {"format": FORMAT, "epoch": epoch, "segment": last + 1, "flushed": last}
        for name, value in books.items():
            self._write(meta_write(name, value))
        self._send()
        self._target.sync()
        self._target.flush(wait=True)
        kept = {
            number: Promised(state.stream, state.epoch, state.start, state.end)
            for number, state in self._states.items()
        }
        promises = Promises(kept, sequence=self._target.sequence(), settled=last, epoch=epoch)
        promises.fingerprint = self._target.fingerprint()
        self._target.replace_marks(promises.encode())

    def _write(self, write: Write) -> None:
        self._pending.append(write)
        self._pending_bytes += len(write.value) if isinstance(write, Put) else 0
        if len(self._pending) >= WRITES_MAX or self._pending_bytes >= WRITE_BYTES_MAX:
            self._send()

    def _send(self) -> None:
        self._target.write(self._pending)
        self._pending, self._pending_bytes = [], 0
