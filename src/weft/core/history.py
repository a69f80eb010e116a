"""How a subscription reads in an archive table what the log no longer has, or never had (LAK-04, ADR 45).

The core asks and the runtime reads: ``LookHistory`` asks where streams begin in the table, ``ReadHistory`` asks for the
next events of one stream. A subscription has at most one piece under way or unread, so its memory is bounded, and its
streams in the table take turns. Its streams in the log do not wait for those in the table.
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
    """How far one subscription is with its reading. ``places`` says where streams begin in the table; it is needed only
    while the subscription is being opened."""

    is_looking: bool = False
    failure: WeftError | None = None  # why the places are not known
    places: dict[StreamKey, HistoryPlace] = field(default_factory=dict)
    unseen: Iterator[HistoryPlace] | None = None  # places still to be looked for outside the log
    _asked: tuple[StreamKey, int] | None = None
    _piece: HistoryRead | None = None
    _waiting: dict[StreamKey, None] = field(default_factory=dict)  # streams that wait for their turn

    # --- where streams begin ---------------------------------------------------------------------------------------

    def found(self, places: Iterable[HistoryPlace], more: bool) -> None:
        self.places.update(((each.stream, each.epoch), each) for each in places)
        self.is_looking = more

    def begin_of(self, key: StreamKey) -> int | None:
        """Where a stream begins in the table; None: the table has nothing of it that is wanted. If the table could not
        be read, raise the reason."""
        if self.failure is not None:
            raise self.failure
        place = self.places.get(key)
        return None if place is None else place.begin

    def next_unseen(self, count: int) -> list[HistoryPlace]:
        """Return the next places, at most so many. Return none at the end; the places are forgotten then."""
        if self.unseen is None:
            self.unseen = iter(list(self.places.values()))
        found = [place for _, place in zip(range(count), self.unseen, strict=False)]
        if not found:
            self.places, self.unseen, self.failure = {}, None, None
        return found

    # --- reading ---------------------------------------------------------------------------------------------------

    def take(self, key: StreamKey, first: int) -> list[bytes]:
        """Take the batches that have come for this place; the first batch may begin before it. Empty if none have
        come."""
        piece = self._piece
        if piece is None or (piece.stream, piece.epoch) != key:
            return []
        self._piece = None
        return [data for data in piece.batches if end_offset(data) > first] if piece.first <= first else []

    def asks(self, key: StreamKey, first: int) -> bool:
        """Whether to ask for this place now; if so, note the request. If not, the stream gets its turn when the current
        piece has been read."""
        if self._asked is not None or self._piece is not None:
            self._waiting[key] = None
            return False
        self._asked = key, first
        return True

    def came(self, read: HistoryRead) -> bool:
        """Take an answer; return whether it belongs to the current request."""
        if self._asked != ((read.stream, read.epoch), read.first):
            return False
        self._asked = None
        if read.batches:
            self._piece = read
        return True

    def drop(self, key: StreamKey) -> None:
        """Stop reading a stream. A piece of it that is here already is thrown away."""
        self._waiting.pop(key, None)
        if self._piece is not None and (self._piece.stream, self._piece.epoch) == key:
            self._piece = None

    def take_waiting(self) -> dict[StreamKey, None]:
        """Take the streams that wait for their turn; none while a piece is under way or unread."""
        if self._asked is not None or self._piece is not None:
            return {}
        waiting, self._waiting = self._waiting, {}
        return waiting
