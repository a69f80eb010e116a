"""What archive tables have beyond the log, as services may use it (LAK-04).

A table goes on where the log's retention has cut: who reads a stream reads the table first, then the log, by the same
offsets. Rights are the topic's; whoever asks here has checked them.
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
    """An archive table cannot be asked just now; wait and try again."""


class HistoryDamaged(StorageError):
    """An archive table has events that cannot be read; ``facts`` say which, and reading can go on at ``end``."""


class Archived(NamedTuple):
    """What a table has of a stream: first and end of each run of offsets, in turn, and since when. ``at``: where the
    first event at or after the time is that was asked for."""

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
    """Stored batches, the first with the offset that was asked for. None: reading goes on at ``goes_on``, for what is
    in between is gone by compaction; without that, the table has no more of a stream that the log does not have."""

    batches: Sequence[bytes]
    goes_on: int | None = None


class History(Protocol):
    """All archive tables of a node. Everything is called on the event loop, which never waits for a table."""

    def covers(self, topic: Topic) -> bool:
        """Whether there is a table for it."""

    def streams(
        self, pattern: Pattern, after: StreamKey | None = None, since_us: int | None = None
    ) -> AsyncIterator[Archived]:
        """Those that match, in order, as the tables were a moment ago. HistoryAway."""

    async def read(self, key: StreamKey, first: int, end: int, bytes_max: int) -> HistoryPiece:
        """Events of a stream from ``first`` on. ``end``: where the log has it; OFFSET_MAX if it does not.

        PositionExpired if the table lacks what the log does not have, HistoryDamaged, HistoryAway.
        """


def is_archived(log: Log, history: History | None, key: StreamKey, offset: int) -> int | None:
    """If this is to be read in a table: up to which offset. None: in the log."""
    if history is None or not history.covers(key[0].topic):
        return None
    if log.find(*key) is None:
        return OFFSET_MAX
    start = log.info(*key).start
    return start if offset < start else None
