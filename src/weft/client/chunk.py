"""Events that travel together as a chunk, and the ticket (``Published``) that the publisher of each event gets."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct
from opentelemetry.trace import Span

from weft.errors import UsageError, WeftError
from weft.model import Batch, Receipt, Stream, Topic
from weft.model.batch import few_bytes
from weft.schema.errors import SchemaBroken
from weft.wire.mesh import mesh_pb2 as pb

if TYPE_CHECKING:
    import pyarrow as pa

CLIENT_EVENT_BYTES: Final = 64  # what an event without a receipt costs beside its bytes


Whole: TypeAlias = "Batch | pa.RecordBatch | pa.Table"


class Chunk(Struct, eq=False):
    """Events that travel as one batch. From ``seal`` on, ``data`` is the batch; once settled, it has an outcome.

    It is a struct, because an event that is published alone needs a chunk of its own, and a struct is made five times
    as fast.
    """

    lane: Lane
    copies: int
    payloads: list[bytes] = []
    timestamps_us: list[int] = []
    keys: list[bytes | None] | None = None
    headers: list[Mapping[str, str] | None] | None = None  # of each event; for a whole batch, those of its publisher
    is_whole: bool = False  # it came as one batch, and is accepted or refused as one
    whole: Whole | None = None  # what came as one batch; if it has no timestamps, timestamps_us[0] is used
    size_bytes: int = 0  # as counted against the bound for unacknowledged events
    events: int = 0  # known once it is sealed
    data: bytes = b""
    sequence: int = 0
    first_sent_s: float | None = None
    span: Span | None = None
    failures: dict[int, WeftError] = {}  # events that fit into no batch, by index
    spoiled: list[int] = []  # their indexes, ascending
    outcome: Receipt | WeftError | None = None
    on_settled: list[Callable[[], None]] = []
    doubtful: bool = False  # a node that was lost may have stored it
    is_watched: bool = False  # somebody waits for its outcome

    def add_key(self, key: bytes | None) -> None:
        if self.keys is None:
            self.keys = [None] * (len(self.payloads) - 1)
        self.keys.append(key)

    def add_headers(self, headers: Mapping[str, str] | None) -> None:
        if self.headers is None:
            self.headers = [None] * (len(self.payloads) - 1)
        self.headers.append(None if headers is None else dict(headers))  # a copy of our own

    def seal(self, producer: bytes, sequence: int, clock_us: int = 0) -> bool:
        """Make the batch, with a new sequence number. Return False if none of the events can be in a batch.

        A chunk that a node refused is sealed again, because its old sequence may have been overtaken. ``clock_us``: how
        far the node's clock is ahead of the loop's, for events that are due after a while.
        """
        self.sequence = sequence
        if self.lane.timing is Timing.AFTER:
            self.timestamps_us = [each + clock_us for each in self.timestamps_us]
        if self.data or self.whole is not None:
            return self._seal_whole(Batch.read_stored(self.data) if self.data else self.whole, producer)
        payloads = self.payloads
        if self.keys is None and self.headers is None:
            self.data, self.events = few_bytes(payloads, self.timestamps_us, producer, sequence), len(payloads)
        if not self.data:
            self._seal_others(producer)
        self.payloads, self.timestamps_us, self.keys, self.headers = [], [], None, None
        return bool(self.data)

    def _seal_others(self, producer: bytes) -> None:
        """Make the batch of events with any keys and headers. Events that cannot be in a batch are taken out."""
        while self.payloads and not self.data:
            columns = self.payloads, self.timestamps_us, self.keys, self.headers
            try:
                batch = Batch.from_columns(*columns, producer=producer, sequence=self.sequence)
            except UsageError as error:
                self._take_out(error)
                continue
            self.data, self.events = batch.data, len(batch)

    def _seal_whole(self, whole: Whole, producer: bytes) -> bool:
        if isinstance(whole, Batch):
            # Another producer's id and number stay: with them, nodes recognise a retry.
            is_others = whole.producer not in (None, producer)
            batch = whole if is_others else whole.with_producer(producer, self.sequence)
        else:
            times_us = self.timestamps_us[0] if self.timestamps_us else None
            try:
                batch = Batch.from_arrow(whole, timestamp_us=times_us, producer=producer, sequence=self.sequence)
            except UsageError as error:
                self.failures[0] = error
                return False
        self.data, self.events, self.whole = batch.data, len(batch), None
        return True

    def take_out_broken(self, broken: SchemaBroken) -> bool:
        """Remove the events that the node refuses, so that the others can be sent again. Return False if that is not
        possible: the batch came as a whole, or the node names no event of it."""
        batch, named = Batch.read_stored(self.data), broken.by_event()
        if self.is_whole or not named or max(named) >= len(batch):
            return False
        indexes = [index for index in range(len(batch) + len(self.spoiled)) if index not in self.failures]
        for place, error in named.items():
            self.failures[indexes[place]] = error
        self.spoiled = sorted(self.failures)
        kept = [event for place, event in enumerate(batch) if place not in named]
        self.events = len(kept)
        self.data = Batch.from_events(kept).data if kept else b""
        return True

    def settle(self, outcome: Receipt | WeftError) -> None:
        assert self.outcome is None, "a batch has one outcome"
        self.outcome = outcome
        self.data = b""
        for tell in self.on_settled:
            tell()
        self.on_settled.clear()

    def receipt_of(self, index: int) -> Receipt:
        """The receipt of one event of a settled chunk, or its error."""
        outcome = self.outcome
        assert outcome is not None, "asked before it was settled"
        if failure := self.failures.get(index):
            raise failure
        if not isinstance(outcome, Receipt):
            raise outcome
        if outcome.count == 1:
            return outcome  # it is the only event
        place = index - bisect_left(self.spoiled, index)
        return Receipt(outcome.stream, outcome.epoch, outcome.first_offset + place, 1, outcome.copies)

    def _take_out(self, error: UsageError) -> None:
        """Remove the event that the error names; if it names none, all events have failed with it."""
        culprit = error.facts.get("event")
        count = len(self.payloads)
        culprits = [culprit] if isinstance(culprit, int) and 0 <= culprit < count else list(range(count))
        indexes = [index for index in range(count + len(self.spoiled)) if index not in self.failures]
        for place in reversed(culprits):
            facts = {name: value for name, value in error.facts.items() if name != "event"}
            self.failures[indexes[place]] = type(error)(error.what, **facts, topic=self.lane.topic)
            for column in (self.payloads, self.timestamps_us, self.keys, self.headers):
                if column is not None:
                    del column[place]
        self.spoiled = sorted(self.failures)


def size_of(whole: Whole) -> int:
    """How many bytes a whole batch counts against the bound for unacknowledged events."""
    return CLIENT_EVENT_BYTES + (len(whole.data) if isinstance(whole, Batch) else int(whole.nbytes))


class Timing(Enum):
    """When events are due, and what their timestamps are until they are sent."""

    NOW = "now"
    AT = "at"  # timestamps are times, in microseconds since 1970
    AFTER = "after"  # timestamps are times, on the clock of the loop


class Lane:
    """The chunks of one topic, partition and timing, in order."""

    __slots__ = (
        "open", "partition", "place", "ready", "receipted", "refused", "stalled", "stream", "timing", "topic",
        "unsettled", "waiting", "waits_out",
    )  # fmt: skip

    def __init__(self, topic: Topic, partition: int, timing: Timing = Timing.NOW) -> None:
        self.topic = topic
        self.partition = partition
        self.timing = timing
        self.place = b""  # how messages encode this topic and partition, once there was a message
        self.receipted: pb.StreamRef | None = None  # the stream in the last receipt, as the message had it
        self.stream: Stream | None = None  # the same stream as a value
        self.unsettled = 0  # how many chunks, including those under way
        self.waiting: deque[Chunk] = deque()
        self.open: Chunk | None = None  # the last of the waiting chunks, if it takes more events
        self.ready = False  # it is in the list of lanes to look at
        self.refused: list[Chunk] = []  # sent again before ``waiting``, once nothing of the lane is under way
        self.stalled = False  # something was refused, so nothing new is sent until that is sent again
        self.waits_out = False  # the node had no room, so the refused chunks are sent again only after a while


class Published(Struct, frozen=True, gc=False):
    """An event on its way. Await it for its receipt, any number of times; cancelling the wait does not unsend it.

    It is not an asyncio.Future, because one core cannot make a million futures a second.
    """

    _chunk: Chunk
    _index: int

    def done(self) -> bool:
        return self._chunk.outcome is not None

    def result(self) -> Receipt:
        """The receipt; raise the failure if there is none, or asyncio.InvalidStateError while it is not known."""
        if self._chunk.outcome is None:
            raise asyncio.InvalidStateError("not acknowledged yet")
        return self._chunk.receipt_of(self._index)

    def watch(self) -> None:
        """Note that somebody waits for this event: a failure is then raised there, and not by ``flush``."""
        self._chunk.is_watched = True

    def when_done(self, tell: Callable[[], None]) -> None:
        """Call a function, on the client's loop, when ``result`` is known."""
        if self._chunk.outcome is None:
            self._chunk.on_settled.append(tell)
        else:
            tell()

    def __await__(self) -> Generator[Any, None, Receipt]:
        chunk = self._chunk
        chunk.is_watched = True
        if chunk.outcome is None:
            yield from _waiter(chunk)
        return chunk.receipt_of(self._index)


async def settled(chunk: Chunk, *, watching: bool = True) -> None:
    """Wait until a chunk has its outcome. With ``watching``, the caller handles a failure, and ``flush`` does not raise
    it."""
    chunk.is_watched = chunk.is_watched or watching
    if chunk.outcome is None:
        await _waiter(chunk)


def _waiter(chunk: Chunk) -> asyncio.Future[None]:
    """Done when the chunk has its outcome."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    chunk.on_settled.append(lambda: None if waiter.done() else waiter.set_result(None))
    return waiter
