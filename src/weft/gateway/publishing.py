"""Publishing for all clients of a gateway together.

What all connections bring in one turn of the event loop becomes one batch per stream, so that a thousand small requests
cost the log as much as one large one. The answer to each request has the place of its own event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Final, Protocol, TypeAlias

from weft.core.messages import Receipted
from weft.errors import UsageError, WeftError
from weft.limits import EVENT_HEADERS_MAX, KIB, MIB
from weft.model import Batch, Receipt, Topic
from weft.model.traces import TRACEPARENT
from weft.port.errors import TooLarge
from weft.port.held import Use
from weft.port.later import LaterStore
from weft.port.node import MeshNode
from weft.port.schemas import Payloads
from weft.schema.errors import SchemaBroken

GATEWAY_GATHER_BYTES: Final = 1 * MIB  # of events put into one batch: as many as one frame to a peer holds
GATEWAY_GATHER_EVENTS: Final = 10_000  # of events put into one batch, however small
# What a batch adds to its events, an event to its bytes, and a header to its text: rather more than less.
BATCH_BYTES: Final = 2 * KIB
EVENT_BYTES: Final = 32
HEADER_BYTES: Final = 32
TEXT_BYTES: Final = 4  # of a character in UTF-8, at most

StreamName: TypeAlias = tuple[Topic, int]  # and partition


class Waiting(Protocol):
    """Waits for the outcome of one event."""

    def published(self, receipt: Receipt, number: int) -> None:
        """It is the event with this number among those of the receipt."""

    def refused(self, error: WeftError) -> None: ...


class Gathering:
    """Events of one stream that become a batch, column by column."""

    __slots__ = ("copies", "headers", "keys", "partition", "payloads", "size", "timestamps_us", "topic", "waiting")

    def __init__(self, topic: Topic, partition: int, copies: int) -> None:
        self.topic = topic
        self.partition = partition
        self.copies = copies
        self.payloads: list[bytes] = []
        self.timestamps_us: list[int | None] = []
        self.keys: list[bytes | None] = []
        self.headers: list[Mapping[str, str] | None] = []
        self.waiting: list[Waiting] = []
        self.size = 0

    def add(
        self,
        payload: bytes,
        timestamp_us: int | None,
        key: bytes | None,
        headers: Mapping[str, str] | None,
        size: int,
        waiting: Waiting,
    ) -> None:
        self.payloads.append(payload)
        self.timestamps_us.append(timestamp_us)
        self.keys.append(key)
        self.headers.append(headers)
        self.waiting.append(waiting)
        self.size += size

    def batch(self, now_us: int) -> Batch:
        """Raise UsageError if one of the events is not possible."""
        times = (
            [now_us if each is None else each for each in self.timestamps_us]
            if any_given(self.timestamps_us)
            else now_us
        )
        keys = self.keys if any_given(self.keys) else None
        headers = self.headers if any_given(self.headers) else None
        return Batch.from_columns(self.payloads, times, keys, headers)

    def parts(self) -> list[Gathering]:
        """Each event by itself."""
        parts = []
        columns = (self.payloads, self.timestamps_us, self.keys, self.headers, self.waiting)
        for payload, timestamp_us, key, headers, waiting in zip(*columns, strict=True):
            part = Gathering(self.topic, self.partition, self.copies)
            part.add(payload, timestamp_us, key, headers, 0, waiting)
            parts.append(part)
        return parts


def any_given(column: Sequence[object]) -> bool:
    return any(each is not None for each in column)


def joined(parts: Sequence[Gathering]) -> Gathering:
    """Join parts of one gathering again."""
    whole = Gathering(parts[0].topic, parts[0].partition, parts[0].copies)
    for part in parts:
        whole.add(part.payloads[0], part.timestamps_us[0], part.keys[0], part.headers[0], part.size, part.waiting[0])
    return whole


def size_of(payload: bytes, key: bytes | None, headers: Mapping[str, str] | None) -> int:
    """What an event adds to a batch, or a little more."""
    size = EVENT_BYTES + len(payload) + len(key or b"")
    if headers:
        size += sum(HEADER_BYTES + TEXT_BYTES * (len(name) + len(value)) for name, value in headers.items())
    return size


class Publishing:
    """One publisher to the node, many clients behind it. ``read_clock`` returns Unix time in microseconds.

    Events have their effects in the order in which they are added, over all topics (EXM-06). What is added in one turn
    is one *round*: at most one batch of each stream, handed to the node together. The log takes that in one write, so
    all of it becomes durable and visible at once, and nobody can tell in which order it was written. What no longer
    fits into a round begins the next one, and everything behind it follows there.
    """

    def __init__(
        self, mesh: MeshNode, read_clock: Callable[[], int], who: str, later: LaterStore | None = None
    ) -> None:
        """``later``: None if its clients cannot publish for later."""
        self._mesh = mesh
        self._who = who
        self._later = later
        self._holding = mesh.held.holding(who, Use.PUBLISH)
        self._read_clock = read_clock
        self._rounds: deque[dict[StreamName, Gathering]] = deque()  # not sent yet; events are added to the last one
        self._round_bytes_max = 0  # of one batch
        self._unchecked = 0  # batches of the next round whose events are being checked
        self._numbers = count(1)
        self._sent: dict[int, tuple[Gathering, int]] = {}  # by number, with the bytes of the batch
        self._is_draining = False

    def start(self) -> None:
        self._mesh.join(self)

    def close(self) -> None:
        """Everybody who still waits is gone by now."""
        self._mesh.leave(self)
        self._holding.close()
        self._sent.clear()

    def add(
        self,
        topic: Topic,
        payload: bytes,
        key: bytes | None,
        headers: Mapping[str, str] | None,
        waiting: Waiting,
        *,
        partition: int = 0,
        copies: int = 0,
        timestamp_us: int | None = None,
    ) -> None:
        """The event goes out at the end of this turn of the event loop, with the time of that moment unless it has its
        own."""
        if not self._rounds:
            if not self._unchecked:
                asyncio.get_running_loop().call_soon(self._check_round)
            self._rounds.append({})
            self._round_bytes_max = min(GATEWAY_GATHER_BYTES, self._mesh.limits.batch_bytes_max - BATCH_BYTES)
        stream, size = (topic, partition), size_of(payload, key, headers)
        gathering = self._rounds[-1].get(stream)
        if gathering is not None and not self._takes(gathering, size, copies):
            self._rounds.append({})
            gathering = None
        if gathering is None:
            gathering = self._rounds[-1][stream] = Gathering(topic, partition, copies)
        gathering.add(payload, timestamp_us, key, headers, size, waiting)

    def add_later(
        self,
        topic: Topic,
        payload: bytes,
        key: bytes | None,
        headers: Mapping[str, str] | None,
        waiting: Waiting,
        *,
        owner: str,
        partition: int,
        due_us: Callable[[int], int],
    ) -> None:
        """The event waits until it is due; ``due_us`` computes that from the current time. Raise WeftError."""
        assert self._later is not None, "this gateway has events for later"
        gathering = Gathering(topic, partition, 0)
        gathering.add(payload, due_us(self._later.now_us()), key, headers, 0, waiting)
        batch = self._batch(gathering, 0)
        checks = self._mesh.checks
        if checks.applies(topic):
            keep = partial(self._keep_checked, gathering, owner, batch)
            checks.check(waiting, topic, Payloads([payload]), keep, first_only=True)
        else:
            self._keep_later(gathering, owner, batch)

    def _keep_checked(self, gathering: Gathering, owner: str, batch: Batch, broken: Mapping[int, SchemaBroken]) -> None:
        """Clients that wait are told now: the request was accepted, perhaps in an earlier turn."""
        try:
            for error in broken.values():
                raise error
            self._keep_later(gathering, owner, batch)
        except WeftError as error:
            self._mesh.count_refusal(error)
            gathering.waiting[0].refused(error)

    def _keep_later(self, gathering: Gathering, owner: str, batch: Batch) -> None:
        assert self._later is not None, "this gateway has events for later"
        number = next(self._numbers)
        self._later.publish(self, number, owner, gathering.topic, gathering.partition, batch)
        self._sent[number] = (gathering, len(batch.data))
        self._holding.take(len(batch.data))

    def _takes(self, gathering: Gathering, size: int, copies: int) -> bool:
        """Whether it fits, so that a batch of several events is never too large for the node."""
        return (
            gathering.size + size <= self._round_bytes_max
            and len(gathering.payloads) < GATEWAY_GATHER_EVENTS
            and gathering.copies == copies
        )

    def _check_round(self) -> None:
        """Only the events that break the schema of their topic are refused. Nothing is sent until all are checked."""
        found, checks = self._rounds.popleft(), self._mesh.checks
        typed = [(stream, each) for stream, each in found.items() if checks.applies(each.topic)]
        self._unchecked = len(typed)
        if not typed:
            self._send_round(found)
        for stream, gathering in typed:
            checked = partial(self._checked, found, stream)
            checks.check(self, gathering.topic, Payloads(gathering.payloads), checked, first_only=False)

    def _checked(
        self, found: dict[StreamName, Gathering], stream: StreamName, broken: Mapping[int, SchemaBroken]
    ) -> None:
        if broken:
            parts = found.pop(stream).parts()
            for at, error in broken.items():
                self._mesh.count_refusal(error)
                parts[at].waiting[0].refused(error)
            fine = [part for at, part in enumerate(parts) if at not in broken]
            if fine:
                found[stream] = joined(fine)
        self._unchecked -= 1
        if not self._unchecked:
            self._send_round(found)

    def _send_round(self, found: dict[StreamName, Gathering]) -> None:
        for gathering in found.values():
            self._send(gathering)
        self._leave_if_done()
        if self._rounds:
            # The node takes what it was given before this is called again: one round, one write.
            asyncio.get_running_loop().call_soon(self._check_round)

    def _send(self, gathering: Gathering) -> None:
        """Send as one batch. Only what cannot be an event is refused."""
        now_us = self._read_clock()
        self._begin_trace(gathering)
        try:
            batch = self._batch(gathering, now_us)
        except UsageError as error:
            if len(gathering.payloads) == 1:
                gathering.waiting[0].refused(error)
                return
            possible = [part for part in gathering.parts() if self._is_possible(part, now_us)]
            if not possible:
                return
            gathering = joined(possible)
            batch = self._batch(gathering, now_us)
        number = next(self._numbers)
        self._sent[number] = (gathering, len(batch.data))
        self._holding.take(len(batch.data))
        self._mesh.publish(self, number, gathering.topic, gathering.partition, batch, gathering.copies)

    def _begin_trace(self, gathering: Gathering) -> None:
        """A batch of publishers that know no traces may begin one, which its first event carries."""
        first = gathering.headers[0]
        if len(first or ()) >= EVENT_HEADERS_MAX or any(each and TRACEPARENT in each for each in gathering.headers):
            return
        span = self._mesh.begin_trace(self._who, gathering.topic, len(gathering.payloads))
        if span is not None:
            gathering.headers[0] = {**(first or {}), TRACEPARENT: span.traceparent}

    def _batch(self, gathering: Gathering, now_us: int) -> Batch:
        batch = gathering.batch(now_us)
        size, limit = len(batch.data), self._mesh.limits.batch_bytes_max
        if size > limit:
            raise TooLarge("the event is too large", bytes=size, limit=limit)
        return batch

    def _is_possible(self, part: Gathering, now_us: int) -> bool:
        """Check one event, and tell its client if it is not possible."""
        try:
            self._batch(part, now_us)
        except UsageError as error:
            part.waiting[0].refused(error)
            return False
        return True

    # --- what the node says --------------------------------------------------------------------------------------

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        for number, receipted in receipts:
            for index, waiting in enumerate(self._settle(number).waiting):
                waiting.published(receipted.receipt, index)
        self._leave_if_done()

    def refused(self, request: int, error: WeftError) -> None:
        self._mesh.count_refusal(error)
        for waiting in self._settle(request).waiting:
            waiting.refused(error)
        self._leave_if_done()

    def drain(self) -> None:
        """The node accepts no more; what is owed is still answered."""
        self._is_draining = True
        self._leave_if_done()

    def _settle(self, number: int) -> Gathering:
        gathering, size = self._sent.pop(number)
        self._holding.give_back(size)
        return gathering

    def _leave_if_done(self) -> None:
        if self._is_draining and not self._sent and not self._rounds and not self._unchecked:
            self._mesh.leave(self)
