"""What can go wrong with a log. Each error names streams and offsets, so that nobody has to guess."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import StorageError, UsageError
from weft.model.stream import Epoch, Stream


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """Offsets of a stream that were promised and are missing: from ``first`` up to but not including ``end``."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.stream}:e{self.epoch} offsets {self.first} to {self.end - 1} ({self.end - self.first} events)"


class StoreCorrupt(StorageError):
    """The storage engine read bytes that differ from what was written."""


class DiskFull(StorageError):
    """There is no room for more. Reading goes on, and writing resumes once there is room."""


class LogInUse(StorageError):
    """Another process has the log open."""


class LogDamaged(StorageError):
    """The log has less than it promised. It stays as it is until somebody runs ``weft log repair``."""

    def __init__(self, what: str, losses: tuple[Loss, ...] = (), **facts: object) -> None:
        super().__init__(what, **facts)
        self.losses = losses

    def __str__(self) -> str:
        lines = [super().__str__(), *(f"  lost: {loss}" for loss in self.losses)]
        return "\n".join(lines)


class EventsLost(StorageError):
    """Events that a reader asked for are damaged or gone; reading can go on at ``loss.end``. ``is_given_up``: a repair
    has given them up, so they will not come back."""

    def __init__(self, loss: Loss, why: str, *, is_given_up: bool = False) -> None:
        super().__init__(f"{loss.stream} has lost events: {why}", first=loss.first, end=loss.end)
        self.loss = loss
        self.is_given_up = is_given_up


class UnknownStream(UsageError):
    """The log has no such stream, or not in this epoch."""


class PositionExpired(UsageError):
    """Retention has passed this offset; ``facts`` say what is left."""


class PositionAhead(UsageError):
    """This offset has not been given to an event yet."""


class OutOfSequence(UsageError):
    """A producer's batch is older than the log remembers, or was skipped before."""


class SequenceReused(UsageError):
    """A producer sent other events under a sequence that it has already used; ``facts`` say where the first ones
    are."""


class GapInCopy(UsageError):
    """A copied batch does not follow the one before it."""


class ReadOnly(UsageError):
    """The log was opened read-only."""
