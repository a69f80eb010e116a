"""How far a subscription has come in each stream. Pure.

Each stream and epoch has two positions. ``next`` is behind what was delivered to us: anything before it is a
repetition. ``handled`` is behind what the application has finished: a group remembers this position.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.model import Epoch, Position, Stream

Place = tuple[Stream, Epoch]


class Cursors:
    """Positions of a subscription. Without a group every stream is ours; with one, those that were assigned."""

    def __init__(self) -> None:
        self._next: dict[Place, int] = {}
        self._handled: dict[Place, int] = {}
        self._reported: dict[Place, int] = {}
        self._parting: dict[Place, int] = {}  # handled positions in streams that we lost and have not released yet
        self._assigned: set[Place] | None = None

    # --- deliveries ------------------------------------------------------------------------------------------------

    def begin(self, positions: Iterable[Position]) -> None:
        """Note where streams begin, as the node says. Positions that are known already do not move."""
        for position in positions:
            self._next.setdefault((position.stream, position.epoch), position.offset)

    def take(self, stream: Stream, epoch: Epoch, first_offset: int, end_offset: int) -> int | None:
        """Return the first new offset of a delivery, or None if nothing in it is new. From now on, everything up to its
        end counts as delivered."""
        place = stream, epoch
        if not self.holds(place):
            self._adopt(place, first_offset)
        first = max(first_offset, self._next.get(place, 0))
        if first >= end_offset:
            return None
        self._next[place] = end_offset
        return first

    def resume_at(self) -> list[Position]:
        """Where a subscription goes on, behind what was delivered."""
        return [Position(stream, epoch, offset) for (stream, epoch), offset in self._next.items()]

    # --- groups ----------------------------------------------------------------------------------------------------

    def holds(self, place: Place) -> bool:
        return self._assigned is None or place in self._assigned

    def assign(self, positions: Iterable[Position]) -> set[Place]:
        """Take over an assignment; return the streams that were lost with it.

        A stream that we already had goes on at our own position, because the group's position may be behind it. A new
        stream begins where the node says, because other members may have read it before.
        """
        offsets = {(position.stream, position.epoch): position.offset for position in positions}
        before = self._assigned or set()
        lost = before - offsets.keys()
        for place in lost:
            del self._next[place]
            self._reported.pop(place, None)
            self._parting[place] = self._handled.pop(place)
        for place, offset in offsets.items():
            if place in before:
                self._next[place] = max(self._next[place], offset)
            else:
                self._next[place] = self._handled[place] = max(offset, self._parting.pop(place, 0))
        self._assigned = set(offsets)
        return lost

    def _adopt(self, place: Place, offset: int) -> None:
        """Take over a stream that our assignment does not name. A node leaves a stream out of the assignment while it
        still searches for its beginning. Deliveries come after their assignment, so the stream is ours.
        """
        assert self._assigned is not None, "without a group everything is held"
        self._assigned.add(place)
        self._next[place] = self._handled[place] = max(offset, self._parting.pop(place, 0))

    def handled(self, position: Position) -> None:
        """Note that everything before this position is handled. This does nothing if another member has the stream by
        now."""
        place = position.stream, position.epoch
        known = self._parting if place in self._parting else self._handled
        if place in known or self._assigned is None:
            known[place] = max(known.get(place, 0), position.offset)

    def unreported(self) -> list[Position]:
        """What has been handled since the last report. From now on it counts as reported."""
        news = {place: offset for place, offset in self._handled.items() if self._reported.get(place) != offset}
        self._reported.update(news)
        return [Position(stream, epoch, offset) for (stream, epoch), offset in news.items()]

    def let_go(self) -> list[Position]:
        """The last report on streams that were lost, before somebody else gets them."""
        parting = [Position(stream, epoch, offset) for (stream, epoch), offset in self._parting.items()]
        self._parting.clear()
        return parting

    def forget_reports(self) -> None:
        """Report everything again, because the last reports may not have arrived."""
        self._reported.clear()
