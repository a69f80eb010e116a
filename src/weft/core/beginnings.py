"""Where a subscription begins in a stream.

If the log has the stream when the subscription is opened, the place is usually known at once. But this node may hear of
a stream later, and the stream's history may still be on its way from another node. Then the place may have to be
searched for as events come in (``Search``).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias, assert_never

from weft.core.history import Archived, nothing_archived
from weft.core.messages import Edge, FromPositions, FromTime, Start, StreamKey
from weft.core.past import Pasts
from weft.limits import OFFSET_MAX
from weft.log import Log, StreamInfo
from weft.log.errors import PositionAhead, PositionExpired
from weft.log.keys import NO_TIME_US
from weft.model import NodeId, Position
from weft.routing import SINCE_EVER_US

POSITIONS_MAX: Final = 1 << 30  # more than any start names
Floors: TypeAlias = Mapping[StreamKey, int]


@dataclass(frozen=True, slots=True)
class Search:
    """Begin at the first event at or after a time or, if ``floored``, at the floor of the stream if that is earlier.

    The floor is where the stream ended when the node that sends it to us heard of our interest. Everything from there
    on is new, whatever its timestamps say.
    """

    timestamp_us: int
    floored: bool = False
    archived: int | None = None  # the offset of that event in the archive table, if the table has it

    def find(self, log: Log, key: StreamKey, floors: Floors, pasts: Pasts) -> int | None:
        """Find the offset; None while it is not there yet."""
        stream, epoch = key
        info = log.info(stream, epoch)
        if pasts.lacks(info, since_us=max(self.timestamp_us, SINCE_EVER_US)):
            return None
        if self.archived is not None and self.archived < info.start:
            return self.archived
        if self.timestamp_us == NO_TIME_US:
            return info.start
        found = log.seek(stream, epoch, self.timestamp_us)
        floor = max(floors.get(key, OFFSET_MAX), info.start) if self.floored else OFFSET_MAX
        if found < info.end or floor <= info.end:
            return min(found, floor)
        return None


EARLIEST: Final = Search(NO_TIME_US)  # in a copy that begins in the middle, this waits for its past


@dataclass(frozen=True, slots=True)
class Beginnings:
    """The beginnings of one subscription. ``opened_us``: the wall clock when it was opened.

    ``has_history``: the subscription belongs to a group that has been used before. Then streams without a position are
    new to the group, and the group begins at their first event, so that it misses nothing that came while its members
    were away.

    A start may name a hundred thousand positions, so ``read_some`` takes them in pieces. ``archived`` says for which
    topics an archive table may have what the log does not.
    """

    me: NodeId
    start: Start
    opened_us: int
    has_history: bool = False
    archived: Archived = nothing_archived
    named: dict[StreamKey, int] = field(init=False, default_factory=dict)  # the offsets that the start names
    unread: Iterator[Position] = field(init=False)  # positions that ``read_some`` has not taken yet
    since_us: int = field(init=False)  # kept, because every announcement of interest asks for it

    def __post_init__(self) -> None:
        positions = self.start.positions if isinstance(self.start, FromPositions) else ()
        object.__setattr__(self, "unread", iter(positions))
        object.__setattr__(self, "since_us", self._since_us())

    def read_some(self, count: int, log: Log | None = None, elsewhere: Container[StreamKey] = ()) -> bool:
        """Take in so many of the positions; return whether that was all.

        With ``log``, raise UnknownStream for positions in our own streams that are neither in the log nor
        ``elsewhere``: these were lost with a disk. Streams of other nodes may still be on their way.
        """
        some = list(islice(self.unread, count))
        for each in some:
            key = (each.stream, each.epoch)
            if log is not None and each.offset and each.stream.origin == self.me and key not in elsewhere:
                log.state(*key)
            self.named[key] = each.offset
        return len(some) < count

    def _named(self, info: StreamInfo) -> int | None:
        return self.named_at((info.stream, info.epoch))

    def named_at(self, key: StreamKey) -> int | None:
        """The offset that the start names for a stream."""
        self.read_some(POSITIONS_MAX)
        return self.named.get(key)

    @property
    def looks_back(self) -> bool:
        """Whether the subscription may begin before what the log has, at a place that the start does not name."""
        return self.start not in (Edge.LATEST, Edge.OWN)

    @property
    def looks_since_us(self) -> int | None:
        """If ``looks_back``, the time since which the subscription wants events; None: since ever."""
        match self.start:
            case FromTime(timestamp_us):
                return timestamp_us
            case FromPositions(_, otherwise_us):
                return otherwise_us
            case _:
                return None

    def at_opening(self, info: StreamInfo, *, live: bool) -> int | Search:
        """Where to begin in a stream that the log has when the subscription is opened. Raise PositionExpired or
        PositionAhead.

        ``live``: this node gets the stream's events as they come. If not, other nodes may have more events that are not
        new.
        """
        match self.start:
            case Edge.EARLIEST:
                return _earliest(info)
            case Edge.OWN if self.has_history:
                return _earliest(info)
            case Edge.LATEST | Edge.OWN:
                return info.end if live else Search(self.opened_us, floored=True)
            case FromTime(timestamp_us):
                return Search(timestamp_us)
            case FromPositions(_, otherwise_us):
                offset = self._named(info)
                if offset is None:
                    return _earliest(info) if otherwise_us is None else Search(otherwise_us)
                return self._checked(info, offset)
            case _:
                assert_never(self.start)

    def later(self, info: StreamInfo) -> int | Search:
        """Where to begin in a stream that this node hears of later."""
        is_new = info.stream.origin == self.me  # nobody can have published to it before
        match self.start:
            case Edge.EARLIEST:
                return _earliest(info)
            case Edge.LATEST | Edge.OWN:
                return _earliest(info) if is_new or self.has_history else Search(self.opened_us, floored=True)
            case FromTime(timestamp_us):
                return Search(timestamp_us)
            case FromPositions(_, otherwise_us):
                offset = self._named(info)
                if offset is None:
                    return _earliest(info) if is_new or otherwise_us is None else Search(otherwise_us)
                return self._checked(info, offset)
            case _:
                assert_never(self.start)

    def _since_us(self) -> int:
        """Since when the subscription wants events: copies that are made for it may begin there. It may name earlier
        positions all the same, because the past is fetched for them."""
        match self.start:
            case Edge.EARLIEST:
                return SINCE_EVER_US
            case Edge.LATEST | Edge.OWN:
                return max(self.opened_us, SINCE_EVER_US)
            case FromTime(timestamp_us):
                return max(timestamp_us, SINCE_EVER_US)
            case FromPositions(_, otherwise_us):
                return SINCE_EVER_US if otherwise_us is None else max(otherwise_us, SINCE_EVER_US)
            case _:
                assert_never(self.start)

    def _checked(self, info: StreamInfo, offset: int) -> int:
        facts = {"epoch": info.epoch, "earliest": info.start, "latest": info.end}
        if offset < info.start and info.late_us is None and not self.archived(info.stream.topic):
            # If the copy is late, its past may still be fetched. What an archive table has is found out when it is
            # read.
            raise PositionExpired(f"offset {offset} of {info.stream} has expired", **facts)
        if offset > info.end and info.stream.origin == self.me:  # in other streams, the events may be on their way
            raise PositionAhead(f"offset {offset} of {info.stream} has not been given yet", **facts)
        return offset


def _earliest(info: StreamInfo) -> int | Search:
    return info.start if info.late_us is None else EARLIEST
