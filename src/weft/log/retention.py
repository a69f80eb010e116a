"""Retention: by age and by size, for topics that match a pattern, in whole index points (1 MiB of a stream).

Retention deletes only what is in table files, and nothing from the segment that is being written. If that segment has
something to delete, the log begins a new one, and the next round deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from weft.errors import UsageError
from weft.log import index
from weft.log.dropping import dropping
from weft.log.errors import DiskFull, StoreCorrupt
from weft.log.keys import Point
from weft.log.log import Log
from weft.log.parts import whole_parts
from weft.log.records import StreamState
from weft.log.store import Store
from weft.model import Epoch, Pattern, Stream, Topic, matches


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long to keep the events of matching topics, and how much of each stream. The first rule that matches
    counts."""

    pattern: Pattern
    age_us_max: int | None = None
    stream_bytes_max: int | None = None

    def __post_init__(self) -> None:
        if self.age_us_max is None and self.stream_bytes_max is None:
            raise UsageError("a retention rule needs an age or a size", pattern=self.pattern)
        for name, value in (("age", self.age_us_max), ("size", self.stream_bytes_max)):
            if value is not None and value < 0:
                raise UsageError(f"the {name} of a retention rule is negative", pattern=self.pattern, value=value)


@dataclass(frozen=True, slots=True)
class Expired:
    """What one round of retention has deleted from a stream."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int
    bytes: int


def rule_for(topic: Topic, rules: Sequence[RetentionRule]) -> RetentionRule | None:
    return next((rule for rule in rules if matches(rule.pattern, topic)), None)


def retain(log: Log, rules: Sequence[RetentionRule], now_us: int) -> list[Expired]:
    """Delete what the rules do not keep. Readers positioned there get PositionExpired, which says what is left.

    If the index of a stream is damaged, the others are cut all the same, and StoreCorrupt is raised at the end. If the
    disk is too full even for this, the round ends early, reports what it has deleted, and the next round goes on.
    """
    expired: list[Expired] = []
    damage: StoreCorrupt | None = None
    wants_segment = False
    with log.maintenance:
        for state, bytes_behind in _first_parts(log.states()):
            rule = rule_for(state.stream.topic, rules)
            if rule is None:
                continue
            start = state.start
            try:
                wanted = _wanted(log.store, state, rule, bytes_behind, now_us)
                cut = None if wanted is None else _in_tables(log.store, state, wanted, log.flushed_segment)
                wants_segment = wants_segment or cut is not wanted
                taken = _take(log, state, start, cut) if cut is not None and cut.offset > start else None
                expired += [] if taken is None else [taken]
            except StoreCorrupt as error:
                damage = error
            except DiskFull:
                break
        _forget_pasts(log)
        if wants_segment:
            with suppress(DiskFull):
                log.begin_segment()
    if damage is not None:
        raise damage
    return expired


def cut_before(log: Log, state: StreamState, offset: int) -> tuple[Expired | None, bool]:
    """Delete a stream's events before an offset, in whole index points, as far as they are in table files; all of them
    if the stream ends there. Return also whether more could be deleted if the segment were ended."""
    with log.maintenance:
        start = state.start
        if offset >= state.end == state.durable:
            wanted: Point | None = Point(state.durable, 0, state.bytes_end, state.latest_us)
        else:
            wanted = index.point_at(log.store, state.id, min(offset, state.durable))
        if wanted is None or wanted.offset <= start:
            return None, False
        cut = _in_tables(log.store, state, wanted, log.flushed_segment)
        taken = _take(log, state, start, cut) if cut is not None and cut.offset > start else None
        return taken, cut is not wanted


def _forget_pasts(log: Log) -> None:
    """Drop pasts that will never reach their copies, because the beginnings of the copies have expired."""
    for state in log.states():
        if state.past is not None and log.info(state.stream, state.epoch).late_us is None:
            with suppress(DiskFull):
                log.forget_past(state.stream, state.epoch)


def _first_parts(states: Iterable[StreamState]) -> Iterator[tuple[StreamState, int]]:
    """Yield the first part of each stream that has events, because the beginning is deleted first, and the number of
    bytes behind it. A part that is still being fetched does not count."""
    for state in states:
        bytes_behind = 0
        first = state
        for part in reversed(whole_parts(state)[:-1]):
            if part.start < part.end:
                bytes_behind += first.bytes_end - first.bytes_start
                first = part
        yield first, bytes_behind


def _wanted(store: Store, state: StreamState, rule: RetentionRule, bytes_behind: int, now_us: int) -> Point | None:
    """The last point before which everything may be deleted; None if the stream begins there."""
    cuts: list[Point] = []
    everything = Point(state.durable, 0, state.bytes_end, state.latest_us)
    if rule.age_us_max is not None:
        fresh_us = now_us - rule.age_us_max
        if state.latest_us < fresh_us and state.durable == state.end:
            cuts.append(everything)
        else:
            offset = index.offset_before_time(store, state.id, fresh_us)
            cuts += [] if offset is None else _point(store, state, offset)
    if rule.stream_bytes_max is not None:
        surplus = min(state.bytes_end + bytes_behind - rule.stream_bytes_max, state.bytes_end)
        if surplus >= state.bytes_end and state.durable == state.end:
            cuts.append(everything)
        elif surplus > state.bytes_start:
            found = index.last_point_where(
                store, state.id, state.start, state.durable + 1, lambda point: point.bytes_before <= surplus
            )
            cuts += [] if found is None else [found]
    cut = max(cuts, default=None)
    return cut if cut is not None and cut.offset > state.start else None


def _point(store: Store, state: StreamState, offset: int) -> list[Point]:
    found = index.point_at(store, state.id, min(offset, state.durable))
    return [] if found is None else [found]


def _in_tables(store: Store, state: StreamState, wanted: Point, flushed: int) -> Point | None:
    """Return ``wanted`` if everything before it is in table files, else the last point of which this is true."""
    cut = wanted
    for point in index.points_back(store, state.id, wanted.offset):
        if point.segment <= flushed:
            break
        cut = point
    return cut


def _take(log: Log, state: StreamState, start: int, cut: Point) -> Expired | None:
    writes, _ = dropping(log.store, state.id, cut.offset, cut.latest_us, log.flushed_segment)
    expired = Expired(state.stream, state.epoch, start, cut.offset, cut.bytes_before - state.bytes_start)
    # No ``late_us`` from now on: whatever the source has from before the copy's beginning has expired here.
    taken = {"start": cut.offset, "bytes_start": cut.bytes_before, "late_us": None}
    return expired if log.change(state, start, writes, **taken) else None
