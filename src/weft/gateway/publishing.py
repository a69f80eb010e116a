"""Publishing for all clients of a gateway together.

What all connections bring in one turn of the event loop becomes one batch per topic, so that a thousand small requests
cost the log as much as one large one. Each request is answered with the place of its own event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, Protocol

from weft.core.messages import Receipted
from weft.errors import UsageError, WeftError
from weft.limits import MIB
from weft.model import Batch, Receipt, Topic
from weft.port.errors import TooLarge
from weft.port.node import MeshNode

GATEWAY_GATHER_BYTES: Final = 1 * MIB  # of events put into one batch: as many as a frame to a peer takes
GATEWAY_GATHER_EVENTS: Final = 10_000  # likewise, of events however small


class Waiting(Protocol):
    """Whoever waits for the outcome of one event."""

    def published(self, receipt: Receipt, number: int) -> None:
        """It is the event with this number among those of the receipt."""

    def refused(self, error: WeftError) -> None: ...


class Gathering:
    """Events of one topic that become a batch, column by column."""

    __slots__ = ("headers", "keys", "payloads", "size", "topic", "waiting")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.payloads: list[bytes] = []
        self.keys: list[bytes | None] = []
        self.headers: list[Mapping[str, str] | None] = []
        self.waiting: list[Waiting] = []
        self.size = 0

    def add(self, payload: bytes, key: bytes | None, headers: Mapping[str, str] | None, waiting: Waiting) -> None:
        self.payloads.append(payload)
        self.keys.append(key)
        self.headers.append(headers)
        self.waiting.append(waiting)
        self.size += len(payload) + len(key or b"")
        if headers:
            self.size += sum(map(len, headers)) + sum(map(len, headers.values()))

    @property
    def is_full(self) -> bool:
        return self.size >= GATEWAY_GATHER_BYTES or len(self.payloads) >= GATEWAY_GATHER_EVENTS

    def batch(self, now_us: int) -> Batch:
        """UsageError if one of the events is not possible."""
        keys = None if all(key is None for key in self.keys) else self.keys
        headers = None if all(each is None for each in self.headers) else self.headers
        return Batch.from_columns(self.payloads, now_us, keys, headers)

    def parts(self) -> list[Gathering]:
        """Each event by itself."""
        parts = []
        for payload, key, headers, waiting in zip(self.payloads, self.keys, self.headers, self.waiting, strict=True):
            part = Gathering(self.topic)
            part.add(payload, key, headers, waiting)
            parts.append(part)
        return parts


class Publishing:
    """One publisher to the node, many clients behind it. ``read_clock`` tells Unix time in microseconds."""

    def __init__(self, mesh: MeshNode, read_clock: Callable[[], int]) -> None:
        self._mesh = mesh
        self._read_clock = read_clock
        self._gathering: dict[Topic, Gathering] = {}
        self._numbers = count(1)
        self._sent: dict[int, tuple[Gathering, int]] = {}  # by number, with the bytes of the batch
        self._is_draining = False

    def start(self) -> None:
        self._mesh.join(self)

    def close(self) -> None:
        """Who still waits is gone by now."""
        self._mesh.leave(self)
        self._mesh.intake.give_back(sum(size for _, size in self._sent.values()))
        self._sent.clear()

    def add(
        self,
        topic: Topic,
        payload: bytes,
        key: bytes | None,
        headers: Mapping[str, str] | None,
        waiting: Waiting,
    ) -> None:
        """The event goes out at the end of this turn of the event loop."""
        gathering = self._gathering.get(topic)
        if gathering is None:
            if not self._gathering:
                asyncio.get_running_loop().call_soon(self._send_all)
            gathering = self._gathering[topic] = Gathering(topic)
        gathering.add(payload, key, headers, waiting)
        if gathering.is_full:
            self._send(self._gathering.pop(topic))

    def _send_all(self) -> None:
        gathered, self._gathering = self._gathering, {}
        for gathering in gathered.values():
            self._send(gathering)

    def _send(self, gathering: Gathering) -> None:
        try:
            batch = gathering.batch(self._read_clock())
            size, limit = len(batch.data), self._mesh.limits.batch_bytes_max
            if size > limit:
                raise TooLarge("the event is too large", bytes=size, limit=limit)
        except UsageError as error:
            if len(gathering.payloads) == 1:
                gathering.waiting[0].refused(error)
                return
            for part in gathering.parts():  # one of them is impossible, or they are too many: each for itself
                self._send(part)
            return
        number = next(self._numbers)
        self._sent[number] = (gathering, size)
        self._mesh.intake.take(size)
        self._mesh.publish(self, number, gathering.topic, 0, batch, 0)

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
        """The node takes no more: what is owed is still answered."""
        self._is_draining = True
        self._send_all()
        self._leave_if_done()

    def _settle(self, number: int) -> Gathering:
        gathering, size = self._sent.pop(number)
        self._mesh.intake.give_back(size)
        return gathering

    def _leave_if_done(self) -> None:
        if self._is_draining and not self._sent:
            self._mesh.leave(self)
