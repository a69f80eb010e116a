"""What a child tells a new parent: the origins that it wants, and how far it has each of their streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from weft.core.errands import Errand
from weft.core.messages import Effect, ReceivedResume, SendResume, StreamKey
from weft.log import Log, StreamInfo
from weft.model import NodeId, Pattern, Position
from weft.model.topic import REST

RESUME_POSITIONS_MAX: Final = 1024  # in one message of about 75 KiB: it takes 2 ms to write, and 2 ms to read
RESUME_STREAMS_MAX: Final = 1 << 20  # named by one resume: ten times as many as a log is designed for
WALKED_AT_ONCE: Final = 16  # streams of the log that are looked through in one step of an errand: 50 µs


@dataclass(slots=True)
class Resuming:
    """The parts of a resume that came so far."""

    origins: set[NodeId] = field(default_factory=set)
    has: dict[StreamKey, int] = field(default_factory=dict)  # up to which offset the child has each stream
    began: dict[StreamKey, int] = field(default_factory=dict)  # first offsets of copies that begin in the middle
    size: int = 0

    def add(self, part: ReceivedResume) -> None:
        self.origins.update(part.origins)
        self.has.update(((each.stream, each.epoch), each.offset) for each in part.positions)
        self.began.update(((each.stream, each.epoch), each.offset) for each in part.begins)
        self.size += max(len(part.origins), len(part.positions), len(part.begins))

    @property
    def is_too_large(self) -> bool:
        return self.size > RESUME_STREAMS_MAX


def resume(log: Log, peer: NodeId, origins: set[NodeId], known: set[NodeId], leave: Iterable[NodeId]) -> Errand:
    """Ask a parent for these origins' streams, and say what we have of those that are ``known``. All messages are sent
    in the last step, because no other resume may come between them."""
    names, left = tuple(sorted(origins)), tuple(sorted(leave))
    has: list[StreamInfo] = []
    parts: list[Effect] = []
    for info in streams_of(log, origins & known):
        if info is not None:
            has.append(info)
        if len(has) == RESUME_POSITIONS_MAX:
            parts.append(_part(peer, names, has, left, more=True))
            has = []
        yield ()
    yield [*parts, _part(peer, names, has, left, more=False)]


def _part(
    peer: NodeId, origins: tuple[NodeId, ...], has: Iterable[StreamInfo], leave: tuple[NodeId, ...], *, more: bool
) -> SendResume:
    ends = tuple(Position(info.stream, info.epoch, info.end) for info in has)
    begins = tuple(Position(info.stream, info.epoch, info.start) for info in has if info.late_us is not None)
    return SendResume(peer, origins, ends, leave, more, begins)


def streams_of(log: Log, origins: set[NodeId]) -> Iterator[StreamInfo | None]:
    """The streams of these origins in a log. Now and then, None marks a pause in the search. A stream that becomes
    known meanwhile may be missing."""
    place: StreamKey | None = None
    while origins:
        found, place = log.streams_after(Pattern(REST), place, WALKED_AT_ONCE)
        yield from (info for info in found if info.stream.origin in origins)
        if place is None:
            return
        yield None
