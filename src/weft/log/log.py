"""The event log: streams of batches, appended at once, durable with the next sync, read as stored.

One thread appends (a node's event loop), another syncs (``syncer``), a third may retain and compact; any thread may
read. Nothing that is not yet durable is ever handed out.

There are three locks, always taken in this order: ``maintenance`` (retention, compaction), the one for syncing, the one
for the books.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Final

import msgspec

from weft.errors import StorageError, UsageError, WeftError
from weft.limits import DISK_RESERVE_BYTES, MIB, OFFSET_MAX, READ_BYTES_MAX, SEGMENT_BYTES
from weft.log import index, keys
from weft.log.books import Books
from weft.log.catalogue import Catalogue, StreamInfo, info_of
from weft.log.dropping import dropping
from weft.log.entries import Kind, note
from weft.log.errors import DiskFull, GapInCopy
from weft.log.gathering import NewEntry, Run, entry_of_batch, entry_of_run, rounds
from weft.log.ledger import Group, Ledger
from weft.log.parts import part_fetched, whole_parts
from weft.log.places import Places
from weft.log.producers import check_same
from weft.log.promises import Promised, Promises
from weft.log.reading import read_range, seek_time
from weft.log.recent import Recent
from weft.log.records import StreamState, new_record
from weft.log.recovery import Cut, Recovered
from weft.log.segments import Segments
from weft.log.store import Put, Row, Space, Store, Write
from weft.model import Batch, Epoch, Pattern, Position, Stream

RECENT_BYTES_MAX: Final = 32 * MIB  # the last batches, in memory, for readers at the end of a stream
CLOSING_PAUSE_S: Final = 0.0005  # without it, a thread that releases a lock would take it again before others can

NOT_STORED: Final = StorageError("not stored yet")  # a placeholder that no caller sees: some round sets every outcome

Advanced = Mapping[tuple[Stream, Epoch], int]  # how far these streams are durable now


class Appended(msgspec.Struct, frozen=True):
    """Where a batch went. It is durable once ``Log.sync`` has returned a number of at least ``ticket``.

    It is a struct because one is made for every batch, and a struct takes a tenth of the time.
    """

    stream: Stream
    epoch: Epoch
    first_offset: int
    count: int
    ticket: int
    repeated: bool = False  # the log had it already, in this place


class Log:
    """Open one with ``weft.log.open_log``, or with ``weft.log.open_read_only`` to read it without changing it."""

    def __init__(
        self,
        store: Store,
        recovered: Recovered,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        disk_reserve_bytes: int = DISK_RESERVE_BYTES,
        recent_bytes: int = RECENT_BYTES_MAX,
        read_only: bool = False,
    ) -> None:
        self.store = store
        self.epoch = recovered.epoch
        self.cuts: tuple[Cut, ...] = tuple(recovered.cuts)  # unsound tails that were removed on opening
        self.maintenance = threading.Lock()
        self.appended = 0  # tickets given
        self.synced = 0  # tickets that are durable
        self.closed = False
        self._disk_reserve_bytes = disk_reserve_bytes
        self._catalogue = Catalogue(recovered.states.values(), recovered.promises.streams)
        self._states = self._catalogue.by_name
        self._producers = recovered.producers
        self._books = Books(store, self._catalogue.by_id, recovered.producers, recovered.segment - 1)
        self._segments = Segments(store, recovered, segment_bytes, self._books)
        self.unsynced_bytes = 0  # the size of the events appended since the last sync began
        self._dirty: dict[int, int] = {}  # stream -> end, appended since the last sync began
        self._named: list[int] = []  # streams that are new since the last sync began
        self._recent = Recent(recent_bytes)
        self._unchecked_bytes = 0  # how much may be appended before the free space is checked again
        self._refused_bytes = 0  # the size of the last batch, if there was no room for it
        self._lock = threading.RLock()
        self._sync_lock = threading.Lock()
        self._groups = Places(store, keys.GROUPS)
        self._links = Places(store, keys.LINKS)
        self._on_synced: list[Callable[[Advanced], None]] = []
        self._ledger: Ledger | None = None
        if not read_only:
            self._ledger = self._take_over(recovered)

    def _take_over(self, recovered: Recovered) -> Ledger:
        """Make the cuts, and promise everything that was found, which may be more than was promised before a crash.

        The store moved all of it to table files when it was opened.
        """
        self.store.write([*recovered.writes, *self._segments.take_over()])
        self.store.sync()
        found = {
            number: Promised(state.stream, state.epoch, state.start, state.end)
            for number, state in self._catalogue.by_id.items()
        }
        flushed, tallies = self._segments.flushed, self._segments.tallies()
        return Ledger(self.store, Promises(found, tallies, self.store.sequence(), flushed, self.epoch))

    # --- appending -----------------------------------------------------------------------------------------------

    def append(self, stream: Stream, batch: Batch) -> Appended:
        """Give a batch of this node its offsets. A batch that its producer sent before gets its first place again.
        Raise SequenceReused if its events are not the ones that were sent before."""
        (outcome,) = self.append_all([(stream, batch)])
        if isinstance(outcome, WeftError):
            raise outcome
        return outcome

    def append_all(self, wanted: Sequence[tuple[Stream, Batch]]) -> list[Appended | WeftError]:
        """Append many batches in as few writes as possible, and return what became of each. Small batches of one stream
        are stored as one."""
        outcomes: list[Appended | WeftError] = [NOT_STORED] * len(wanted)
        with self._lock:
            for one_round in rounds(wanted):
                entries = self._entries(one_round, outcomes)
                try:
                    if entries:
                        self._store(entries)
                except WeftError as error:
                    for number, _ in chain.from_iterable(entry.run for entry in entries):
                        outcomes[number] = error
                else:
                    for entry in entries:
                        self._note_own(entry, outcomes)
        return outcomes

    def append_as_one(self, wanted: Sequence[tuple[Stream, Batch]]) -> list[Appended]:
        """Append batches of different streams of this node in one write: after a crash the log has all of them or none.

        Nothing is stored if one of them cannot be. They have no producers: nobody sends them again.
        """
        streams = {stream for stream, _ in wanted}
        assert len(streams) == len(wanted), "one batch of each stream, or it would take several writes"
        assert all(batch.producer is None for _, batch in wanted), "what may be there already is not stored as one"
        outcomes: list[Appended | WeftError] = [NOT_STORED] * len(wanted)
        with self._lock:
            runs = [(stream, [(number, batch)]) for number, (stream, batch) in enumerate(wanted)]
            entries = self._entries(runs, outcomes)
            self._store(entries)
            for entry in entries:
                self._note_own(entry, outcomes)
        return [each for each in outcomes if isinstance(each, Appended)]

    def _entries(self, one_round: list[tuple[Stream, Run]], outcomes: list[Appended | WeftError]) -> list[NewEntry]:
        """Find out what is to be stored. Batches that are in the log already get their outcome here."""
        entries = []
        new_ids = count(self._catalogue.next_id)
        for stream, run in one_round:
            state = self._states.get((stream, self.epoch))
            is_new = state is None
            if state is None:
                state = StreamState(next(new_ids), new_record(stream, self.epoch, 0))
            else:
                run = self._fresh(state, run, outcomes)
            if run:
                entries.append(entry_of_run(state, is_new, run))
        return entries

    def _fresh(self, state: StreamState, run: Run, outcomes: list[Appended | WeftError]) -> Run:
        fresh: Run = []
        for number, batch in run:
            sent, producer = None, batch.producer
            try:
                if producer is not None:
                    sent = self._producers.find((state.id, producer), batch.sequence)
                if sent is None:
                    fresh.append((number, batch))
                else:
                    check_same(self.store, state, sent, batch)
                    place = (state.stream, self.epoch, sent.first_offset, len(batch))
                    outcomes[number] = Appended(*place, self.appended, repeated=True)
            except WeftError as error:
                outcomes[number] = error
        return fresh

    def _note_own(self, entry: NewEntry, outcomes: list[Appended | WeftError]) -> None:
        """Note the place of each batch in an entry that was stored."""
        at, state = entry.first, entry.state
        stream, epoch, ticket, note_sent = state.stream, self.epoch, self.appended, self._producers.note
        for number, batch in entry.run:
            count, producer = len(batch), batch.producer
            outcomes[number] = Appended(stream, epoch, at, count, ticket)
            if producer is not None:
                note_sent((state.id, producer), batch.sequence, at, batch.body_crc)
            at += count

    def append_copy(self, stream: Stream, epoch: Epoch, batch: Batch) -> Appended | None:
        """Keep another node's batch with the offsets it has. None if it is here already."""
        with self._lock:
            state = self._states.get((stream, epoch))
            if state is not None:
                if batch.end_offset <= state.end:
                    return None
                if batch.base_offset != state.end:
                    raise GapInCopy(f"a batch of {stream} does not follow", base=batch.base_offset, expected=state.end)
            copy = state or StreamState(self._catalogue.next_id, new_record(stream, epoch, batch.base_offset))
            self._store([entry_of_batch(copy, state is None, [], batch)])
            return Appended(stream, epoch, batch.base_offset, len(batch), self.appended)

    def append_gap(self, stream: Stream, epoch: Epoch, end: int, *, lost: bool = False) -> int:
        """Note that a copy's source no longer has the offsets from the end of the copy up to but not including ``end``.
        Readers skip them, as they skip what compaction deletes here; if they are ``lost``, because a repair has given
        them up, readers get EventsLost. A copy that does not exist yet begins at ``end``.

        Durable with the ticket returned. Nothing happens to a copy that goes as far already.
        """
        with self._lock:
            state = self._states.get((stream, epoch))
            if state is None:
                return self._begin_copy(stream, epoch, end)
            if end > state.end:
                self._append_gone(state, end, Kind.LOST if lost else Kind.COMPACTED)
            return self.appended

    def _append_gone(self, state: StreamState, end: int, kind: Kind = Kind.COMPACTED) -> None:
        gone = note(kind, state.end, end)
        self._check_room(len(gone.data))
        segment = self._segments.current
        point = index.point_writes(state.id, state.point(segment)) if state.needs_point(segment) else []
        self.store.write([*point, Put(Space.BATCHES, keys.batch_key(segment, state.id, gone.first), gone.data)])
        if point:
            state.pointed(segment)
            self._segments.touched.add(state.id)
        self._extended(state, end, gone.data, 0, state.latest_us)
        self.appended += 1

    def restart_copy(self, stream: Stream, epoch: Epoch, first: int) -> int:
        """Drop all events of a copy and go on at ``first``, because retention at its source has overtaken it.

        Readers positioned before ``first`` get PositionExpired. Durable with the ticket returned; after a crash there
        is either the old copy or the new one. Refused if the copy goes beyond ``first``.
        """
        with self._lock:
            state = self._states.get((stream, epoch))
            if state is None:
                return self._begin_copy(stream, epoch, first)
            if first < state.end:
                raise UsageError(f"the copy of {stream} goes beyond {first}", first=first, end=state.end)
            if first > state.start:
                self._restart(state, first)
            return self.appended

    def _begin_copy(self, stream: Stream, epoch: Epoch, first: int, late_us: int | None = None) -> int:
        """Begin a copy without events."""
        state = StreamState(self._catalogue.next_id, new_record(stream, epoch, first, late_us))
        self._write([state.record_write()])
        self._name(state)
        self._dirty[state.id] = first
        return self.appended

    def _restart(self, state: StreamState, first: int, late_us: int | None = None) -> None:
        """Delete at once what is in table files. The rest is deleted after it has moved there, because recovery counts
        it until then."""
        if state.past is not None:  # otherwise recent batches would not join up with what comes now
            past, state.past = state.past, None
            self._restart(past, past.end)
        writes, stale = dropping(self.store, state.id, first, state.latest_us, self._segments.flushed)
        taken = {"start": first, "bytes_start": state.bytes_end, "end": first, "durable": first}
        self._change(state, writes, {**taken, "latest_us": keys.NO_TIME_US, "segment": 0, "late_us": late_us})
        for segment in stale:
            self._segments.drop_later(segment, state.id, first)
        self._named.append(state.id)  # the next sync promises the new copy instead of the old one
        self._dirty[state.id] = first

    def _name(self, state: StreamState) -> None:
        """Enter a new stream in the books."""
        self._catalogue.add(state)
        self._named.append(state.id)

    # --- copies that begin in the middle -------------------------------------------------------------------------

    def begin_late(self, stream: Stream, epoch: Epoch, first: int, since_us: int) -> int:
        """Begin a copy at ``first``, because nobody here wants what came before ``since_us``. The copy does not exist
        yet, or is still empty. Durable with the ticket returned."""
        with self._lock:
            state = self._states.get((stream, epoch))
            if state is None:
                return self._begin_copy(stream, epoch, first, since_us)
            if state.end:
                raise UsageError(f"there is a copy of {stream}", end=state.end)
            self._restart(state, first, since_us)
            return self.appended

    def begin_past(self, stream: Stream, epoch: Epoch, first: int, late_us: int | None) -> int:
        """Prepare to fetch what a copy lacks, from ``first`` up to where the copy begins now. ``late_us``: events
        before that time are still not wanted; None: the stream begins at ``first`` at its source.

        An earlier past that does not reach the copy is dropped if its source no longer has what follows it. Durable
        with the ticket returned.
        """
        with self._lock:
            behind = whole_parts(self.state(stream, epoch))[0]
            begun = behind.past
            if first > behind.start or (begun is not None and first < begun.end):
                raise UsageError(f"that is no past of {stream}", first=first, start=behind.start)
            if begun is not None:
                self._restart(begun, first, late_us)
                return self.appended
            part = StreamState(self._catalogue.next_id, new_record(stream, epoch, first, late_us))
            self._write([part.record_write()])
            self._catalogue.add_past(behind, part)
            self._named.append(part.id)
            self._dirty[part.id] = first
            return self.appended

    def append_past(
        self, stream: Stream, epoch: Epoch, batches: Iterable[Batch], end: int, *, lost: bool = False
    ) -> int:
        """Append the next batches of a past that was begun. The source no longer has the offsets that are missing
        between these batches, and from the last batch up to ``end``. Offsets that the copy already has are cut off.
        ``lost``: a repair has given up what is missing before the first batch."""
        with self._lock:
            state = self.state(stream, epoch)
            part = part_fetched(state)
            if part is None:
                raise UsageError(f"no past of {stream} was begun")
            until = whole_parts(state)[0].start
            kind = Kind.LOST if lost else Kind.COMPACTED
            for batch in batches:
                if batch.base_offset >= until:
                    break
                if batch.base_offset < part.end:
                    raise GapInCopy(f"a batch of {stream} does not follow", base=batch.base_offset, expected=part.end)
                if batch.base_offset > part.end:
                    self._append_gone(part, batch.base_offset, kind)
                kind = Kind.COMPACTED
                kept = batch.slice(batch.base_offset, until) if batch.end_offset > until else batch
                self._store([entry_of_batch(part, False, [], kept)])
            if min(end, until) > part.end:
                self._append_gone(part, min(end, until), kind)
            return self.appended

    def forget_past(self, stream: Stream, epoch: Epoch) -> None:
        """Drop a past that was begun and that nobody waits for."""
        with self._lock:
            part = part_fetched(self.state(stream, epoch))
            if part is not None and part.start < part.end:
                self._restart(part, part.end)

    def past_end(self, stream: Stream, epoch: Epoch) -> int | None:
        """Return the end of what was fetched of a past so far, durable or not; None if no past is being fetched."""
        part = part_fetched(self.state(stream, epoch))
        return None if part is None else part.end

    def _store(self, entries: Sequence[NewEntry]) -> None:
        """Store entries of different streams in one write, add index points where they are due, and note the entries in
        the books."""
        segment, size = self._segments.current, 0
        pack_key = keys.BATCH_KEY.pack
        rows: list[Row] = []
        others: list[Write] = []
        for entry in entries:
            state, data = entry.state, entry.data
            size += len(data)
            rows.append((pack_key(segment, state.id, entry.first), data))
            if entry.is_new or entry.pieces or state.needs_point(segment):
                others += self._books_of(entry, segment)
        self._check_room(size)
        self.store.put_batches(rows, others)
        self.appended += 1
        for entry in entries:
            state, data = entry.state, entry.data
            if others and state.needs_point(segment):
                state.pointed(segment)
                self._segments.touched.add(state.id)
            if entry.is_new:
                self._name(state)
            self._extended(state, entry.end, data, len(data), entry.latest_us)
            self._recent.add(state.id, entry.first, entry.end, data)

    def _books_of(self, entry: NewEntry, segment: int) -> list[Write]:
        """Return what is written beside an entry; mostly nothing."""
        state = entry.state
        writes = index.point_writes(state.id, state.point(segment)) if state.needs_point(segment) else []
        if entry.is_new:
            writes.append(state.record_write())
        if entry.pieces:
            writes.append(Put(Space.TABLES, keys.pieces_key(segment, state.id, entry.first), entry.pieces))
        return writes

    def _extended(self, state: StreamState, end: int, data: bytes, size: int, latest_us: int) -> None:
        """Note in the books that an entry is stored. ``size`` is the size of its events."""
        state.extend(end, size, latest_us)
        self.unsynced_bytes += size
        self._dirty[state.id] = end
        self._segments.count(data)

    def _check_room(self, size: int) -> None:
        """Look up the free space now and then, so that RocksDB never meets a full disk in the middle of its work."""
        self._unchecked_bytes -= size
        if self._unchecked_bytes < 0:
            self._refused_bytes = size
            if (full := self.disk_full()) is not None:
                raise full
            self._refused_bytes = 0
            room = self.store.free_bytes() - self._disk_reserve_bytes
            self._unchecked_bytes = min(room, self._disk_reserve_bytes) // 4

    def disk_full(self) -> DiskFull | None:
        """Return why batches are refused at the moment: the last one was refused, and less than the reserve is free."""
        free = self.store.free_bytes()
        if free >= self._disk_reserve_bytes + self._refused_bytes:
            return None
        return DiskFull("the disk is full: publishing is refused", free=free, reserve=self._disk_reserve_bytes)

    # --- syncing -------------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """Make everything appended so far durable, and tell the listeners. Blocks as long as the disk needs.

        If it fails, none of it counts as durable, and the next sync covers it.
        """
        with self._sync_lock:
            group = self._begin_group()
            try:
                self.store.sync()
                if self._ledger is not None and group.ticket > self.synced:
                    self._ledger.synced(group)
            except BaseException:
                self._take_back(group)
                raise
            advanced = self._advance(group)
            for callback in list(self._on_synced):
                callback(advanced)
            if self._books.are_open:
                with contextlib.suppress(DiskFull):  # then the next sync goes on with them
                    self._close_some()
            self._note_flushed()
            return group.ticket

    def _begin_group(self) -> Group:
        with self._lock:
            self.store.revive()
            if self._segments.is_due:
                with contextlib.suppress(DiskFull):  # then the segment grows a little longer
                    self._segments.flush()
                    if self._segments.is_full:
                        self._begin_segment()
            named = {number: self._catalogue.by_id[number] for number in self._named}
            group = Group(
                self.appended,
                self.store.sequence(),
                self._segments.take_unpromised(current=bool(self._dirty)),
                {number: Promised(each.stream, each.epoch, each.start, each.start) for number, each in named.items()},
                self._dirty,
            )
            self._dirty, self._named = {}, []
            self.unsynced_bytes = 0
            return group

    def _take_back(self, group: Group) -> None:
        with self._lock:
            self._dirty = {**group.ends, **self._dirty}
            self._named = [*group.named, *self._named]
            self._segments.give_back(group.tallies)

    def _advance(self, group: Group) -> Advanced:
        advanced: dict[tuple[Stream, Epoch], int] = {}
        with self._lock:
            for number, end in group.ends.items():
                state = self._catalogue.by_id[number]
                state.durable = max(state.durable, end)  # a copy may have been restarted meanwhile
                name = (state.stream, state.epoch)
                advanced[name] = self._states[name].durable  # of the last part, even if an earlier one advanced
            self.synced = group.ticket
        return advanced

    def on_synced(self, callback: Callable[[Advanced], None]) -> None:
        """Call back from the syncing thread after every sync, with the streams that advanced."""
        self._on_synced.append(callback)

    def remove_on_synced(self, callback: Callable[[Advanced], None]) -> None:
        self._on_synced.remove(callback)

    def settle(self) -> None:
        """Make sure that the record of what was promised survives a power cut, too. Call it when there is no other
        work."""
        if self._ledger is not None:
            self._ledger.tidy()

    # --- segments ------------------------------------------------------------------------------------------------

    @property
    def flushed_segment(self) -> int:
        """The last segment that is completely in table files."""
        return self._segments.flushed

    def begin_segment(self) -> None:
        """End the current segment before it is full, so that everything in it moves to table files."""
        with self._lock:
            if not self._segments.is_empty:
                self._begin_segment()
        self._close_all()

    def _begin_segment(self) -> None:
        """Let the data of the segment move to a table file. Its books are written some at a time."""
        self._segments.begin()
        self._segments.flush()

    def _close_some(self) -> None:
        with self._lock:
            self._books.write_some()

    def _close_all(self) -> None:
        """Write what is left of the books of segments that have ended. Others have their turn in between."""
        self._close_some()
        while self._books.are_open:
            time.sleep(CLOSING_PAUSE_S)
            self._close_some()

    def look_flushed(self) -> None:
        """Note what is in table files by now. Maintenance calls this: no sync does it while nothing is appended.

        Only durable data may count as settled. While something is not durable, the sync that follows does this.
        """
        with contextlib.suppress(DiskFull):  # then it is not noted
            self._close_all()
        with self._sync_lock:
            if self.appended == self.synced:
                self._note_flushed()

    def _note_flushed(self) -> None:
        done = None
        with self._lock:
            if not self._segments.awaits_flushes:
                return
            with contextlib.suppress(DiskFull):  # then the next sync notes it
                done = self._segments.note_flushed()
        if self._ledger is not None and done is not None:
            with contextlib.suppress(DiskFull):
                self._ledger.settled(done)

    # --- looking -------------------------------------------------------------------------------------------------

    def streams(self, pattern: Pattern | None = None) -> list[StreamInfo]:
        """The streams whose topics match, with their durable offsets."""
        with self._lock:
            found = self._catalogue.matching(pattern)
        return list(map(info_of, found))

    def streams_after(
        self, pattern: Pattern, after: tuple[Stream, Epoch] | None, look_max: int
    ) -> tuple[list[StreamInfo], tuple[Stream, Epoch] | None]:
        """Do the same in pieces: look at ``look_max`` streams, and return where to go on as well (None at the end)."""
        with self._lock:
            found, last = self._catalogue.page(pattern, after, look_max)
        return list(map(info_of, found)), last

    def info(self, stream: Stream, epoch: Epoch) -> StreamInfo:
        return info_of(self.state(stream, epoch))

    def find(self, stream: Stream, epoch: Epoch) -> StreamState | None:
        """The state of a stream, including what is not yet durable; callers only read it."""
        return self._states.get((stream, epoch))

    def state(self, stream: Stream, epoch: Epoch) -> StreamState:
        """The state of a stream that must exist; only for ``weft.log``."""
        state = self._states.get((stream, epoch))
        if state is None:
            with self._lock:
                raise self._catalogue.unknown(stream, epoch)
        return state

    def states(self) -> Iterator[StreamState]:
        """The states of all streams; only for ``weft.log``."""
        with self._lock:
            return iter(list(self._states.values()))

    def last_sequence(self, stream: Stream, producer: bytes) -> int | None:
        """The last sequence of this producer in this node's stream; None if the log remembers none."""
        with self._lock:
            state = self._states.get((stream, self.epoch))
            return None if state is None else self._producers.last_sequence((state.id, producer))

    # --- reading -------------------------------------------------------------------------------------------------

    def read(
        self, stream: Stream, epoch: Epoch, first: int, end: int = OFFSET_MAX, bytes_max: int = READ_BYTES_MAX
    ) -> list[bytes]:
        """Read the stored batches with the offsets from ``first`` up to but not including ``end``, as far as they are
        durable.

        The first batch may begin before ``first`` and the last may end behind ``end``. Between two batches, offsets may
        be missing that compaction has deleted, here or at the source of a copy. Empty if there are no events from
        ``first`` to the end of the stream. Raise EventsLost if ``first`` is damaged or gone; PositionExpired,
        PositionAhead or UnknownStream if it is no longer, or was never, there.
        """
        state = self.state(stream, epoch)
        if state.start <= first or state.past is None:
            return self._read_part(state, first, end, bytes_max)
        parts = whole_parts(state)
        holding = next((number for number, part in enumerate(parts) if first < part.durable), len(parts) - 1)
        found: list[bytes] = []
        for part in parts[holding:]:
            found = self._read_part(part, first if part is parts[holding] else part.start, end, bytes_max)
            if found or end <= part.durable:
                break
        return found

    def _read_part(self, state: StreamState, first: int, end: int, bytes_max: int) -> list[bytes]:
        if state.start <= first:
            recent = self._recent.read(state.id, first, min(end, state.durable), bytes_max)
            if recent:
                return recent
        return read_range(self.store, state, first, end, bytes_max)

    def seek(self, stream: Stream, epoch: Epoch, timestamp_us: int) -> int:
        """The offset of the first event at or after a time; the end of the stream if there is none yet."""
        state = self.state(stream, epoch)
        for part in whole_parts(state)[:-1]:
            found = seek_time(self.store, part, timestamp_us)
            if found < part.durable:
                return found
        return seek_time(self.store, state, timestamp_us)

    # --- where others stand --------------------------------------------------------------------------------------

    def commit(self, group: str, positions: Iterable[Position]) -> int:
        """Move a group's positions; durable with the ticket returned."""
        return self._write(self._groups.moves(group, positions))

    def positions(self, group: str) -> list[Position]:
        return self._groups.of(group)

    def groups(self) -> list[str]:
        return self._groups.owners()

    def forget_group(self, group: str) -> int:
        return self._write(self._groups.leaving(group))

    def move_cursor(self, peer: str, positions: Iterable[Position]) -> int:
        """Note how far a peer has acknowledged our streams; durable with the ticket returned."""
        return self._write(self._links.moves(peer, positions))

    def cursors(self, peer: str) -> list[Position]:
        return self._links.of(peer)

    def peers(self) -> list[str]:
        return self._links.owners()

    def forget_peer(self, peer: str) -> int:
        return self._write(self._links.leaving(peer))

    def _write(self, writes: list[Write]) -> int:
        with self._lock:
            if writes:
                self.store.write(writes)
                self.appended += 1
            return self.appended

    # --- for retention and compaction ----------------------------------------------------------------------------

    def change(self, state: StreamState, seen_start: int, writes: list[Write], **values: int | None) -> bool:
        """Give fields of a state new values, and store ``writes`` and the new record together: all or nothing.

        Return False and do nothing if the stream no longer starts where the caller saw it start: then it is a copy that
        was restarted, and what the caller saw of it is gone.
        """
        with self._lock:
            if state.start != seen_start:
                return False
            self._change(state, writes, values)
        if self._ledger is not None:
            with contextlib.suppress(DiskFull):  # the record has it, too
                self._ledger.started(state.id, state.start)
        return True

    def _change(self, state: StreamState, writes: list[Write], values: Mapping[str, int | None]) -> None:
        """Change the state before the writes: a reader that does not find deleted events learns the reason from it."""
        before = {name: getattr(state, name) for name in values}
        _set(state, values)
        try:
            self._write([*writes, state.record_write()])
        except BaseException:
            _set(state, before)
            raise

    def forget_recent(self, state: StreamState) -> None:
        """Forget the recent batches of a stream, because compaction has put others in their place."""
        with self._lock:
            self._recent.forget(state.id)

    def _end_books(self) -> None:
        """End the segment, so that the next process that opens the log need not read it again; RocksDB makes a table
        file of it anyway. If this fails, the log is closed all the same."""
        with contextlib.suppress(StorageError):
            self.begin_segment()
            self.store.flush(wait=True)
            self.sync()

    def close(self) -> None:
        """Sync, and close the store. Readers that wait for more are woken."""
        if self.closed:
            return
        self.closed = True
        try:
            if self._ledger is not None:
                self.sync()
                self._end_books()
        finally:
            for callback in list(self._on_synced):
                callback({key: state.durable for key, state in self._states.items()})
            self.store.close()


def _set(state: StreamState, values: Mapping[str, int | None]) -> None:
    for name, value in values.items():
        setattr(state, name, value)
