"""What a job's nodes have, all together, of the streams that the job reads. Pure.

Several nodes may have copies of one stream, and each may have a different part of it: every node has its own retention,
and a copy may lag behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

from weft.client import StreamPositions
from weft.spark.offsets import EARLIEST, LATEST, NamedOffsets, NamedTimes, Place
from weft.spark.option_values import BadOption
from weft.spark.options import Edge, Where

ARCHIVED_EVENT_BYTES: Final = 256  # assumed where no log says how large events are; it only affects the number of tasks


@dataclass(frozen=True, slots=True)
class Copy:
    """What one node has of a stream: offsets from ``first`` up to, not including, ``end``. ``late``: the node began to
    copy the stream at ``first``; earlier events are elsewhere. ``archived``: they are in the node's archive table."""

    address: str
    first: int
    end: int
    late: bool = False
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """What all nodes that were asked have of a stream together."""

    copies: tuple[Copy, ...]
    event_bytes: int  # the mean, at least 1
    time_offset: int | None = None  # the offset of the time that was asked for

    @property
    def earliest(self) -> int:
        """The first offset. If no node that answered knows where the stream begins, this is 0: what is missing is then
        reported as a loss."""
        logs = [copy for copy in self.copies if not copy.archived]
        if logs and all(copy.late for copy in logs):
            return 0
        return min(copy.first for copy in self.copies)

    @property
    def latest(self) -> int:
        return max(copy.end for copy in self.copies)

    def next_from(self, offset: int) -> int:
        """The first offset from ``offset`` on that some node has; if there is none, the end of the stream. Never less
        than ``offset``."""
        there = (max(copy.first, offset) for copy in self.copies if max(copy.first, offset) < copy.end)
        return min(there, default=max(offset, self.latest))

    def home_of(self, offset: int) -> str | None:
        """The first node that has this offset in its log, or whose log ends there."""
        return next(
            (copy.address for copy in self.copies if copy.first <= offset <= copy.end and not copy.archived), None
        )

    def reach(self, offset: int) -> int:
        """How far a reader gets from ``offset`` without a gap."""
        while further := [copy.end for copy in self.copies if copy.first <= offset < copy.end]:
            offset = max(further)
        return offset


Holdings = Mapping[Place, Held]


def union(found: Mapping[str, Sequence[StreamPositions]]) -> dict[Place, Held]:
    """Combine what each node reported."""
    said: dict[Place, list[tuple[str, StreamPositions]]] = {}
    for address, streams in found.items():
        for each in streams:
            said.setdefault(Place(each.stream, each.epoch), []).append((address, each))
    return {place: _held(copies) for place, copies in said.items()}


def _held(said: Sequence[tuple[str, StreamPositions]]) -> Held:
    logs = tuple(
        Copy(address, each.earliest_offset, each.latest_offset, each.late_us is not None)
        for address, each in said
        if not each.only_history
    )
    tables = tuple(Copy(address, first, end, archived=True) for address, each in said for first, end in each.history)
    events = sum(copy.end - copy.first for copy in logs)
    size_bytes = sum(each.size_bytes for _, each in said)
    event_bytes = size_bytes // events if events else ARCHIVED_EVENT_BYTES if tables else 1
    return Held(logs + tables, max(event_bytes, 1), _time_offset([each for _, each in said]))


def _time_offset(said: Sequence[StreamPositions]) -> int | None:
    """The offset of the time that was asked for. A node whose copy ends before that time answers with the end of its
    copy, so other nodes' answers come first."""
    asked = [(each.timestamp_offset, each.latest_offset) for each in said if each.timestamp_offset is not None]
    if not asked:
        return None
    return min((offset for offset, end in asked if offset < end), default=max(offset for offset, _ in asked))


# --- where to begin and to end ---------------------------------------------------------------------------------------


def resolve(option: str, where: Where, held: Holdings, *, otherwise: Edge) -> dict[Place, int]:
    """Turn the value of a starting or ending option into an offset for every stream. ``otherwise`` is for streams that
    the option's JSON does not name.

    For times, ``held`` must come from a survey that asked for these times.
    """
    match where:
        case str():
            return {place: _edge(stream, where) for place, stream in held.items()}
        case datetime():
            return {place: _at_time(stream) for place, stream in held.items()}
        case NamedTimes():
            return {
                place: _edge(stream, otherwise) if where.of(place) is None else _at_time(stream)
                for place, stream in held.items()
            }
        case NamedOffsets():
            found = {place: _edge(stream, otherwise) for place, stream in held.items()}
            for place in {*held, *where.places()}:
                if (offset := where.of(place)) is not None:
                    found[place] = _named(option, place, offset, held.get(place))
            return found
        case _:
            assert_never(where)


def _at_time(stream: Held) -> int:
    return stream.latest if stream.time_offset is None else stream.time_offset


def _edge(stream: Held, edge: Edge) -> int:
    return stream.earliest if edge == "earliest" else stream.latest


def _named(option: str, place: Place, offset: int, stream: Held | None) -> int:
    if stream is None:
        if offset < 0:
            raise BadOption(f"option {option} names {place}, which none of the nodes has")
        return offset
    if offset > stream.latest:
        raise BadOption(
            f"option {option}: {place} has no offset {offset} yet", earliest=stream.earliest, latest=stream.latest
        )
    return {EARLIEST: stream.earliest, LATEST: stream.latest}.get(offset, offset)
