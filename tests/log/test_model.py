"""The log equals a list: any order of appends, syncs, crashes, retention, compaction, reads and seeks."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.log.laboratory import (
    EPOCH,
    Laboratory,
    MemoryLaboratory,
    RocksLaboratory,
    read_out,
    settle,
    stream,
)
from weft.log import Log, books, chunks
from weft.log.compaction import compact
from weft.log.records import INDEX_BYTES
from weft.log.retention import RetentionRule, retain
from weft.model import Batch, Epoch, Event, Pattern, Position, Stream

COPY_EPOCH = Epoch(77)
OWN = [stream("plant.a"), stream("plant.b"), stream("office.a", partition=3)]
COPIES = [stream("plant.a", "node-b"), stream("plant.c", "node-b")]
PRODUCERS = [b"producer-number1", b"producer-number2"]
ALL = Pattern(">")

TIMES = st.integers(0, 100)
KEYS = st.sampled_from([None, b"k1", b"k2", b"k3"])
# Most are small; some fill an index stretch, so that retention and seeks have something to step over.
SIZES = st.sampled_from([0, 1, 2, INDEX_BYTES // 3, INDEX_BYTES])


class Sketch(NamedTuple):
    """An event to be: printed whole when a test fails."""

    size: int
    timestamp_us: int
    key: bytes | None


SKETCHES = st.lists(st.builds(Sketch, SIZES, TIMES, KEYS), min_size=1, max_size=5)


def draw(sketches: list[Sketch]) -> list[Event]:
    return [Event(b"." * each.size, each.timestamp_us, each.key) for each in sketches]


@dataclass
class Model:
    """A stream as a list."""

    first: int = 0  # the offset of events[0]
    events: list[Event | None] = field(default_factory=list)  # None: gone at the source of a copy
    durable: int = 0
    start: int = 0
    starts: set[int] = field(default_factory=lambda: {0})  # since the last sync: a crash may leave any of them
    removed: set[int] = field(default_factory=set)  # by compaction, durably
    fading: set[int] = field(default_factory=set)  # by compaction, since the last sync
    certain: int | None = None  # the end as of the last sync; None: a crash may take the stream as a whole

    @property
    def end(self) -> int:
        return self.first + len(self.events)

    def between(self, first: int, end: int) -> dict[int, Event]:
        """Without what is gone at the source."""
        found = enumerate(self.events[first - self.first : end - self.first], first)
        return {offset: event for offset, event in found if event is not None}

    def there(self) -> dict[int, Event]:
        gone = self.removed | self.fading
        found = self.between(self.start, self.durable)
        return {offset: event for offset, event in found.items() if offset not in gone}

    def skip(self, end: int) -> None:
        self.events += [None] * (end - self.end)

    def synced(self) -> None:
        self.durable = self.certain = self.end
        self.starts = {self.start}
        self.removed |= self.fading
        self.fading = set()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the books, so that a crash comes between them, and of batches."""
    monkeypatch.setattr(books, "AT_ONCE", 2)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", INDEX_BYTES // 5)


class LogMachine(RuleBasedStateMachine):
    """Against a log in memory, which can lose any part of what was not synced."""

    def __init__(self) -> None:
        super().__init__()
        self.lab = self.make_laboratory()
        self.models: dict[tuple[Stream, Epoch], Model] = {}
        self.unsynced: list[tuple[tuple[Stream, Epoch], int]] = []  # appends in order: stream, end
        self.sent: dict[tuple[Stream, bytes], list[tuple[Batch, int]]] = {}
        self.positions: dict[Stream, set[int]] = {}  # that a crash may leave; the last one is the current one
        self.position: dict[Stream, int] = {}

    def make_laboratory(self) -> Laboratory:
        return MemoryLaboratory(segment_bytes=3 * INDEX_BYTES)

    @property
    def log(self) -> Log:
        return self.lab.log

    # --- appending -----------------------------------------------------------------------------------------------

    @rule(at=st.sampled_from(OWN), sketches=SKETCHES)
    def append(self, at: Stream, sketches: list[Sketch]) -> None:
        events = draw(sketches)
        self._appended((at, EPOCH), events, self.log.append(at, Batch.from_events(events)).first_offset)

    @rule(at=st.sampled_from(OWN), sketches=SKETCHES, producer=st.sampled_from(PRODUCERS), skip=st.integers(0, 2))
    def append_with_producer(self, at: Stream, sketches: list[Sketch], producer: bytes, skip: int) -> None:
        events = draw(sketches)
        sent = self.sent.setdefault((at, producer), [])
        sequence = (sent[-1][0].sequence + 1 if sent else 0) + skip
        made = Batch.from_events(events, producer=producer, sequence=sequence)
        appended = self.log.append(at, made)
        assert not appended.repeated
        self._appended((at, EPOCH), events, appended.first_offset)
        sent.append((made, appended.first_offset))

    @precondition(lambda self: any(self.sent.values()))
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        """A producer that did not hear of its receipt."""
        at, producer = data.draw(st.sampled_from([key for key, sent in self.sent.items() if sent]))
        made, offset = data.draw(st.sampled_from(self.sent[(at, producer)]))
        appended = self.log.append(at, made)
        assert (appended.repeated, appended.first_offset, appended.count) == (True, offset, len(made))

    @rule(at=st.sampled_from(COPIES), sketches=SKETCHES, base=st.integers(0, 50))
    def append_copy(self, at: Stream, sketches: list[Sketch], base: int) -> None:
        events = draw(sketches)
        model = self.models.get((at, COPY_EPOCH))
        made = Batch.from_events(events).with_base_offset(base if model is None else model.end)
        appended = self.log.append_copy(at, COPY_EPOCH, made)
        assert appended is not None
        self._appended((at, COPY_EPOCH), events, made.base_offset)
        assert self.log.append_copy(at, COPY_EPOCH, made) is None

    def _appended(self, key: tuple[Stream, Epoch], events: list[Event], offset: int) -> None:
        model = self.models.get(key)
        if model is None:
            model = self.models[key] = Model(offset, [], offset, offset, {offset})
        assert offset == model.end, "offsets follow each other"
        model.events += events
        self.unsynced.append((key, model.end))

    @rule(at=st.sampled_from(COPIES), skip=st.integers(-3, 20))
    def append_gap(self, at: Stream, skip: int) -> None:
        """What compaction has taken at the source of a copy."""
        end = self._skipped(at, skip)
        self.log.append_gap(at, COPY_EPOCH, end)
        model = self._copy(at, end)
        if end > model.end:
            model.skip(end)
            self.unsynced.append(((at, COPY_EPOCH), end))

    @rule(at=st.sampled_from(COPIES), skip=st.integers(0, 20))
    def restart_copy(self, at: Stream, skip: int) -> None:
        """Retention at the source has overtaken a copy."""
        first = self._skipped(at, skip)
        self.log.restart_copy(at, COPY_EPOCH, first)
        model = self._copy(at, first)
        if first > model.end:  # else nobody can tell by the end whether it was lost
            self.unsynced.append(((at, COPY_EPOCH), first))
        model.skip(first)
        model.start = model.durable = first
        model.starts.add(first)

    def _skipped(self, at: Stream, skip: int) -> int:
        model = self.models.get((at, COPY_EPOCH))
        return max(0, skip + (0 if model is None else model.end))

    def _copy(self, at: Stream, first: int) -> Model:
        """The model of a copy, which begins at ``first`` if it is new."""
        key = (at, COPY_EPOCH)
        if key not in self.models:
            self.models[key] = Model(first, [], first, first, {first})
            self.unsynced.append((key, first))
        return self.models[key]

    @rule(at=st.sampled_from(OWN), offset=st.integers(0, 1000))
    def commit(self, at: Stream, offset: int) -> None:
        self.log.commit("group", [Position(at, EPOCH, offset)])
        self.position[at] = offset
        self.positions.setdefault(at, {-1}).add(offset)

    # --- durability ----------------------------------------------------------------------------------------------

    @rule()
    def sync(self) -> None:
        assert self.log.sync() == self.log.appended
        self._synced()

    @rule()
    def settle(self) -> None:
        settle(self.log)
        self._synced()

    @rule()
    def reopen(self) -> None:
        self.lab.reopen()
        self._synced()

    def _synced(self) -> None:
        for model in self.models.values():
            model.synced()
        self.unsynced.clear()
        self.positions = {at: {offset} for at, offset in self.position.items()}

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.crash_somehow(data)
        self._lose_what_was_not_synced()

    def crash_somehow(self, data: st.DataObject) -> None:
        assert isinstance(self.lab, MemoryLaboratory)
        store = self.lab.store
        kept = data.draw(st.integers(0, store.unsynced_writes), label="unsynced writes kept")
        lost = data.draw(st.integers(0, store.unsettled_marks), label="bytes of the marks lost")
        self.lab.power_cut(kept, lost)

    def _lose_what_was_not_synced(self) -> None:
        """What is left must be all that was synced, and of the rest the beginning, in the order of the appends."""
        ends = {(info.stream, info.epoch): info.end for info in self.log.streams()}
        kept = [ends.get(key, -1) >= end for key, end in self.unsynced]
        assert kept == sorted(kept, reverse=True), "of what was not synced, a beginning is left"
        for key, model in list(self.models.items()):
            if key not in ends:
                assert model.certain is None, "a stream that was synced is there"
                del self.models[key]
                continue
            assert (model.certain or 0) <= ends[key] <= model.end
            del model.events[ends[key] - model.first :]
            info = self.log.info(*key)
            assert info.start in model.starts
            model.start = info.start
            left = read_out(self.log, *key).events
            model.removed |= {offset for offset in model.fading if offset not in left and offset >= model.start}
            model.fading = set()
        for (at, _), sent in self.sent.items():
            sent[:] = [(made, offset) for made, offset in sent if offset < ends.get((at, EPOCH), 0)]
        left_at = {each.stream: each.offset for each in self.log.positions("group")}
        for at, possible in self.positions.items():
            assert left_at.get(at, -1) in possible
        self.position = left_at
        self._synced()

    # --- taking away ---------------------------------------------------------------------------------------------

    @rule(age=st.integers(0, 60), now=TIMES)
    def retain_by_age(self, age: int, now: int) -> None:
        bytes_before = {key: self.log.info(*key).bytes for key in self.models}
        for key, model, start in self._retain(RetentionRule(ALL, age_us_max=age), now):
            assert all(event.timestamp_us < now - age for event in model.between(model.start, start).values()), key
        assert all(self.log.info(*key).bytes <= bytes_before[key] for key in self.models)

    @rule(size=st.sampled_from([0, 1, INDEX_BYTES, 4 * INDEX_BYTES]))
    def retain_by_size(self, size: int) -> None:
        before = {key: self.log.info(*key).bytes for key in self.models}
        for key, _, _ in self._retain(RetentionRule(ALL, stream_bytes_max=size), 0):
            assert self.log.info(*key).bytes >= min(before[key], size)

    def _retain(self, how: RetentionRule, now: int) -> list[tuple[tuple[Stream, Epoch], Model, int]]:
        expired = retain(self.log, [how], now)
        taken = [((each.stream, each.epoch), self.models[(each.stream, each.epoch)], each.end) for each in expired]
        checked = []
        for key, model, end in taken:
            info = self.log.info(*key)
            assert model.start < info.start == end <= model.durable
            checked.append((key, Model(model.first, model.events, model.durable, model.start), end))
            model.start = end
            model.starts.add(end)
        return checked

    @rule(now=TIMES, keys_max=st.sampled_from([1, 2, 1000]))
    def compact(self, now: int, keys_max: int) -> None:
        for key, model in self.models.items():
            done = compact(self.log, self.log.state(*key), now, keys_max=keys_max, tombstone_age_us=10)
            if done is None:
                continue
            assert done.end <= model.end
            later: set[bytes] = set()
            before = model.removed | model.fading
            for offset, event in sorted(model.between(model.start, done.end).items(), reverse=True):
                if event.key is None or offset in before:
                    continue
                if event.key in later or (not event.payload and event.timestamp_us < now - 10):
                    model.fading.add(offset)
                later.add(event.key)
            new = model.removed | model.fading
            assert done.events_removed == len(new) - len(before)

    # --- looking -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.models)
    @rule(data=st.data(), bytes_max=st.sampled_from([1, INDEX_BYTES, 1 << 22]))
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[key]
        first = data.draw(st.integers(model.start, model.durable))
        found = read_out(self.log, *key, first=first, bytes_max=bytes_max)
        assert not found.losses
        expected = {offset: event.payload for offset, event in model.there().items() if offset >= first}
        assert found.events == expected

    @precondition(lambda self: self.models)
    @rule(data=st.data(), wanted=TIMES)
    def seek(self, data: st.DataObject, wanted: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[key]
        late = (offset for offset, event in model.there().items() if event.timestamp_us >= wanted)
        assert self.log.seek(*key, wanted) == next(late, model.durable)

    @rule(at=st.sampled_from(OWN))
    def look_at_positions(self, at: Stream) -> None:
        assert {each.stream: each.offset for each in self.log.positions("group")} == self.position

    @invariant()
    def the_books_are_right(self) -> None:
        infos = {(info.stream, info.epoch): info for info in self.log.streams()}
        assert set(infos) == set(self.models)
        for key, model in self.models.items():
            assert (infos[key].start, infos[key].end) == (model.start, model.durable)
        assert self.log.synced <= self.log.appended
        assert not self.log.cuts, "a crash leaves nothing to cut"

    def teardown(self) -> None:
        self.log.sync()
        self._synced()
        for key, model in self.models.items():
            found = read_out(self.log, *key)
            assert not found.losses
            assert found.events == {offset: event.payload for offset, event in model.there().items()}
        self.lab.close()


class RocksMachine(LogMachine):
    """Against RocksDB, which is killed."""

    def make_laboratory(self) -> Laboratory:
        self.place = Path(tempfile.mkdtemp(prefix="weft-model-"))
        return RocksLaboratory(self.place, segment_bytes=3 * INDEX_BYTES)

    def crash_somehow(self, data: st.DataObject) -> None:
        self.lab.kill()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.place)


@pytest.mark.req("LOG-01", "LOG-02", "LOG-03", "LOG-04", "LOG-07")
class TestMemory(LogMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=150, stateful_step_count=50, report_multiple_bugs=False)


@pytest.mark.req("LOG-01", "LOG-02", "LOG-03", "LOG-04", "LOG-07")
class TestRocks(RocksMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=12, stateful_step_count=30, report_multiple_bugs=False)
