"""What a subscription reads in an archive table: that which the log's retention has cut, and more (LAK-04, ADR 45).

The core asks and somebody else reads: ``LookHistory`` where streams begin in the table, ``ReadHistory`` for the next
events of one of them. A subscription has one piece under way, or unread, at a time, so what it holds is bounded, and
its streams in the table take turns. Those that are in the log do not wait for any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.core.messages import HistoryPlace, HistoryRead, StreamKey
from weft.errors import WeftError
from weft.model import Topic
from weft.model.batch_header import end_offset

Archived: TypeAlias = Callable[[Topic], bool]


def nothing_archived(topic: Topic) -> bool:
    """No topic has a table."""
    return False


@dataclass(slots=True)
class HistoryCursor:
    """Of one subscription. ``places`` are where streams begin in the table, from when it is opened until it is open."""

    is_looking: bool = False
    failure: WeftError | None = None  # why that is not known
    places: dict[StreamKey, HistoryPlace] = field(default_factory=dict)
    unseen: Iterator[HistoryPlace] | None = None  # those that are still to be looked for outside of the log
    _asked: tuple[StreamKey, int] | None = None
    _piece: HistoryRead | None = None
    _waiting: dict[StreamKey, None] = field(default_factory=dict)  # streams whose turn comes

    # --- where streams begin ---------------------------------------------------------------------------------------

    def found(self, places: Iterable[HistoryPlace], more: bool) -> None:
        self.places.update(((each.stream, each.epoch), each) for each in places)
        self.is_looking = more

    def begin_of(self, key: StreamKey) -> int | None:
        """None: the table has nothing of it that is wanted. Raise the reason if that is not known."""
        if self.failure is not None:
            raise self.failure
        place = self.places.get(key)
        return None if place is None else place.begin

    def next_unseen(self, count: int) -> list[HistoryPlace]:
        """So many at most; none at the end, when what was found is no longer needed."""
        if self.unseen is None:
            self.unseen = iter(list(self.places.values()))
        found = [place for _, place in zip(range(count), self.unseen, strict=False)]
        if not found:
            self.places, self.unseen, self.failure = {}, None, None
        return found

    # --- reading ---------------------------------------------------------------------------------------------------

    def take(self, key: StreamKey, first: int) -> list[bytes]:
        """The batches that have come for this place, once; the first of them may begin before it. Empty: none have."""
        piece = self._piece
        if piece is None or (piece.stream, piece.epoch) != key:
            return []
        self._piece = None
        return [data for data in piece.batches if end_offset(data) > first] if piece.first <= first else []

    def asks(self, key: StreamKey, first: int) -> bool:
        """Whether to read here now. If not, the stream has its turn when what is under way is through."""
        if self._asked is not None or self._piece is not None:
            self._waiting[key] = None
            return False
        self._asked = key, first
        return True

    def came(self, read: HistoryRead) -> bool:
        """Whether this is what was asked for."""
        if self._asked != ((read.stream, read.epoch), read.first):
            return False
        self._asked = None
        if read.batches:
            self._piece = read
        return True

    def drop(self, key: StreamKey) -> None:
        """The stream is no longer read. What is under way comes and is thrown away."""
        self._waiting.pop(key, None)
        if self._piece is not None and (self._piece.stream, self._piece.epoch) == key:
            self._piece = None

    def take_waiting(self) -> dict[StreamKey, None]:
        """Those whose turn it is, unless something is still under way."""
        if self._asked is not None or self._piece is not None:
            return {}
        waiting, self._waiting = self._waiting, {}
        return waiting
