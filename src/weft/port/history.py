"""Archive tables, which have events that the log no longer has, as services may use them (LAK-04).

A table has the events that retention has deleted from the log. A reader of a stream reads the table first and then the
log, with the same offsets. Reading needs the right to subscribe to the topic; the callers check that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from weft.core.messages import StreamKey
from weft.errors import StorageError, WeftError
from weft.limits import OFFSET_MAX
from weft.log import Log
from weft.model import Epoch, Pattern, Stream, Topic


class HistoryAway(WeftError):
    """An archive table cannot be read at the moment; wait and try again."""


class HistoryDamaged(StorageError):
    """Some events in an archive table cannot be read. The facts say which; reading can go on at the fact ``end``."""


class Archived(NamedTuple):
    """What a table has of a stream. ``runs``: first and end of each run of offsets, one after the other. ``first_us``:
    the time of the first event. ``at``: the offset of the first event at or after the requested time."""

    stream: Stream
    epoch: Epoch
    runs: Sequence[int]
    first_us: int
    at: int | None = None

    @property
    def key(self) -> StreamKey:
        return self.stream, self.epoch

    @property
    def events(self) -> int:
        return sum(self.runs[1::2]) - sum(self.runs[::2])


class HistoryPiece(NamedTuple):
    """Stored batches; the first of them has the requested offset.

    If there are no batches, compaction has deleted the events from there on, and reading goes on at ``goes_on``. If
    that is None as well, this is the end: the table has no more of the stream, and the log does not have the stream.
    """

    batches: Sequence[bytes]
    goes_on: int | None = None


class History(Protocol):
    """All archive tables of a node. All methods are called on the event loop, which never waits for a table."""

    def covers(self, topic: Topic) -> bool:
        """Whether a table covers this topic."""

    def streams(
        self, pattern: Pattern, after: StreamKey | None = None, since_us: int | None = None
    ) -> AsyncIterator[Archived]:
        """The streams that match, in order, as the tables were a moment ago. Raise HistoryAway."""

    async def read(self, key: StreamKey, first: int, end: int, bytes_max: int) -> HistoryPiece:
        """Read events of a stream from ``first`` on. ``end``: where the log begins with it; OFFSET_MAX if the log does
        not have it.

        PositionExpired if the table lacks what the log does not have, HistoryDamaged, HistoryAway.
        """


def is_archived(log: Log, history: History | None, key: StreamKey, offset: int) -> int | None:
    """Whether to read this offset in a table. Return the offset at which the log takes over; None: read it in the
    log."""
    if history is None or not history.covers(key[0].topic):
        return None
    if log.find(*key) is None:
        return OFFSET_MAX
    start = log.info(*key).start
    return start if offset < start else None
