"""Compaction of a bucket of keys and values: over all of its streams at once, by the rule that readers follow.

Several nodes write a bucket, each into a stream of its own. A revision in one stream may supersede one in another, so
all streams are looked at together. Each key keeps its latest revisions, as many as the bucket's history has. A key that
was deleted or has expired keeps only the mark of that, for a time of grace, so that a node that was cut off learns that
the key is gone, and does not bring it back to the others. A later round removes the mark as well, once it hides
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from weft.limits import MIB
from weft.log.compaction import Compacted, rewrite, settled
from weft.log.errors import EventsLost, PositionAhead, PositionExpired
from weft.log.log import Log
from weft.log.records import StreamState
from weft.model import Batch, Stream, Topic
from weft.model.key_value import (
    HISTORY,
    SETTINGS_KEY,
    Op,
    Revision,
    read_record_untrusted,
    read_settings_untrusted,
)

WRITINGS_MAX: Final = 4_000_000  # in memory in one round, about 1 GB; a bucket with more is not compacted
UNSETTLED_BYTES: Final = 1 * MIB  # a segment is ended early only if this much can be gained


Rank: TypeAlias = tuple[Revision, bool, int, int, Stream]


class Written(NamedTuple):
    """One write of a key, as far as it matters here. ``rank`` orders writes by revision. Where a revision exists twice,
    because a disk was lost, it orders them as readers do (``weft.core.kv.bucket``). ``at`` is (stream id, offset)."""

    rank: Rank
    gone_ms: int  # since when the key is gone, if this is its latest write; 0: it is not gone
    expires_ms: int
    at: tuple[int, int]
    size: int


@dataclass(slots=True)
class Surplus:
    """What may be deleted. ``gone``: keys of which nothing is left after that. ``due_ms``: when more will be
    superfluous even if nobody writes."""

    places: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))  # offsets by stream
    gone: list[tuple[str, Revision, tuple[int, int]]] = field(default_factory=list)
    due_ms: int | None = None

    def drop(self, writings: Iterable[Written]) -> None:
        for each in writings:
            self.places[each.at[0]].add(each.at[1])

    def wait_for(self, due_ms: int) -> None:
        self.due_ms = due_ms if self.due_ms is None else min(self.due_ms, due_ms)


@dataclass(frozen=True, slots=True)
class Tidied:
    """What a round has done to a bucket."""

    streams: tuple[Compacted, ...]
    gone: tuple[tuple[str, Revision], ...]
    due_ms: int | None
    wants_segment: bool  # more could be deleted if it were in table files


def surplus(writings: dict[str, list[Written]], history: int, now_ms: int, grace_ms: int) -> Surplus:
    """Decide what may be deleted, from all writes of all keys."""
    found = Surplus()
    for key, each in writings.items():
        each.sort(reverse=True)
        latest = each[0]
        twice = [later for first, later in pairwise(each) if first.rank[0] == later.rank[0]]
        if twice:
            found.drop(twice)
            found.wait_for(now_ms)
            each = [one for one in each if one not in twice]
        gone_ms = latest.gone_ms or (latest.expires_ms if 0 < latest.expires_ms <= now_ms else 0)
        if not gone_ms:
            found.drop(each[1 if key == SETTINGS_KEY else history :])
            if latest.expires_ms:
                found.wait_for(latest.expires_ms + grace_ms)
        elif gone_ms + grace_ms > now_ms:
            found.drop(each[history:])
            found.wait_for(gone_ms + grace_ms)
        elif len(each) > 1:
            found.drop(each[1:])
            found.wait_for(now_ms)
        else:
            found.drop(each)
            found.gone.append((key, latest.rank[0], latest.at))
    return found


def compact_bucket(log: Log, topic: Topic, now_ms: int, *, grace_ms: int, skew_ms: int) -> Tidied | None:
    """One round over all streams of a bucket; None if it has too many entries for that.

    Raise EventsLost where a stream is damaged; what was done before that stays done. The event loop may restart a copy
    meanwhile: then the next round does what this one cannot.
    """
    with log.maintenance:
        states = [state for state in log.states() if state.stream.topic == topic]
        starts = {state.id: state.start for state in states}
        try:
            writings, history = _scan(log, states, now_ms + skew_ms)
        except (PositionExpired, PositionAhead):  # a copy was restarted
            return Tidied((), (), now_ms, wants_segment=False)
        if writings is None:
            return None
        found = surplus(writings, history, now_ms, grace_ms)
        done: list[Compacted] = []
        ends: dict[int, int] = {}
        for state in states:
            stretches = settled(log, state)
            ends[state.id] = stretches[-1].end if stretches else state.start
            drop = {offset for offset in found.places.get(state.id, ()) if offset < ends[state.id]}
            if not drop:
                continue
            try:
                compacted = rewrite(log, state, starts[state.id], stretches, ends[state.id], partial(_stays, drop))
            except EventsLost:
                if state.start == starts[state.id]:
                    raise
                compacted = None
            if compacted is None:  # a copy that was restarted meanwhile
                ends[state.id] = 0
            else:
                done.append(compacted)
        gone = tuple((key, revision) for key, revision, (stream, offset) in found.gone if offset < ends[stream])
        is_due = len(gone) < len(found.gone) or found.due_ms == now_ms
        wants_segment = is_due or _unsettled_bytes(writings, found, ends) >= UNSETTLED_BYTES
        return Tidied(tuple(done), gone, found.due_ms, wants_segment)


def _stays(drop: set[int], batch: Batch) -> list[bool]:
    return [offset not in drop for offset in range(batch.base_offset, batch.end_offset)]


def _scan(log: Log, states: Sequence[StreamState], ahead_ms: int) -> tuple[dict[str, list[Written]] | None, int]:
    """Collect all writes by key, and the length of the bucket's history. Some events are left out, and so they stay:
    writes that are ahead of the clock, and events that no node writes."""
    writings: dict[str, list[Written]] = defaultdict(list)
    settings: tuple[Rank, bytes] | None = None
    total = 0
    for state in states:
        at = state.start
        while stored := log.read(state.stream, state.epoch, at):
            for data in stored:
                batch = Batch.read_stored(data)
                first = max(at, batch.base_offset)
                for offset, event in enumerate(batch.events_from(first), first):
                    record = read_record_untrusted(event)
                    if record is None or (revision := record.revision(state.stream.origin)).time_ms > ahead_ms:
                        continue
                    rank = (revision, state.stream.origin != revision.node, state.epoch, offset, state.stream)
                    gone_ms = revision.time_ms if record.op is Op.DELETE else 0
                    written = Written(rank, gone_ms, record.expires_ms, (state.id, offset), len(record.value))
                    writings[record.key].append(written)
                    if record.op is Op.SETTINGS and (settings is None or settings[0] < rank):
                        settings = (rank, record.value)
                total += len(batch)
                at = batch.end_offset
            if total > WRITINGS_MAX:
                return None, HISTORY
    found = None if settings is None else read_settings_untrusted(settings[1])
    return writings, HISTORY if found is None else found.history


def _unsettled_bytes(writings: dict[str, list[Written]], found: Surplus, ends: dict[int, int]) -> int:
    """How many bytes of what may be deleted are not in table files yet."""
    return sum(
        each.size
        for some in writings.values()
        for each in some
        if each.at[1] >= ends[each.at[0]] and each.at[1] in found.places.get(each.at[0], ())
    )
