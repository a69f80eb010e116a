"""A subscription of a gateway: events of a pattern, one batch after the other.

In a group, several nodes share the work and positions are stored: each stream belongs to one node at a time, and
handled events do not come again after a restart. Without a group, it begins with events published from now on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from weft.core.messages import AddCredit, Delivered, Edge, Handled, StreamKey
from weft.errors import WeftError
from weft.model import Batch, EventId, Pattern, Position
from weft.port.held import Use
from weft.port.node import MeshNode
from weft.security.acl import owner_of

RETRY_S: Final = 1.0  # after the node ended the subscription
GATEWAY: Final = owner_of("gateway", "")  # the owner of these members, so that no client takes their places

Take = Callable[[Delivered], Awaitable[None]]


class Following:
    """``take`` gets one batch at a time; when it returns, the batch is handled. ``interrupted`` is told why the node
    ended the subscription, which is then opened again. A group continues at its position, others begin at ``start``.
    """

    def __init__(
        self,
        mesh: MeshNode,
        pattern: Pattern,
        take: Take,
        interrupted: Callable[[WeftError], None],
        *,
        credit_bytes: int,
        group: str = "",
        start: Edge = Edge.LATEST,
    ) -> None:
        self._mesh = mesh
        self._pattern = pattern
        self._take = take
        self._interrupted = interrupted
        self._credit_bytes = credit_bytes
        self._group = group
        self._start = Edge.OWN if group else start
        self._number: int | None = None
        self._holding = mesh.held.holding(f"a gateway's {pattern}", Use.SUBSCRIBE)
        self._waiting: deque[Delivered] = deque()
        self._arrived = asyncio.Event()
        self._held: set[StreamKey] = set()
        self._generation = self._taken_over = 0
        self._in_hand: StreamKey | None = None
        self._working: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Raise Busy or ShuttingDown if the node accepts no more subscribers."""
        self._open()
        self._working = asyncio.get_running_loop().create_task(self._work(), name=f"following {self._pattern}")
        self._working.add_done_callback(tell_defect)

    async def close(self) -> None:
        """What is in hand is not handled."""
        if self._retry is not None:
            self._retry.cancel()
        number, self._number = self._number, None
        if number is not None:
            self._mesh.unsubscribe(number)
        self._holding.close()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    def _open(self) -> None:
        member = str(self._mesh.node_id) if self._group else ""
        self._holding.close()
        self._holding = self._mesh.held.holding(f"a gateway's {self._pattern}", Use.SUBSCRIBE)
        self._number = self._mesh.subscribe(
            self, self._pattern, self._start, self._credit_bytes, self._group, member, self._holding, GATEWAY
        )

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            delivered = self._waiting.popleft()
            number = self._number
            self._in_hand = delivered.stream, delivered.epoch
            try:
                await self._take(delivered)
            except WeftError as error:
                self._interrupted(error)  # the batch is not for us; the next one may be
            self._in_hand = None
            if number is not None and number == self._number:
                self._handled(number, delivered)

    def _handled(self, number: int, delivered: Delivered) -> None:
        self._holding.give_back(len(delivered.data))
        self._mesh.tell(AddCredit(number, len(delivered.data)))
        if self._group:
            end = Batch.read_stored(delivered.data).end_offset
            self._report([Position(delivered.stream, delivered.epoch, end)])

    def _report(self, positions: Sequence[Position]) -> None:
        """Streams that went to another member are released once nothing of them is in hand."""
        if self._in_hand is None or self._in_hand in self._held:
            self._taken_over = self._generation
        assert self._number is not None, "open"
        self._mesh.tell(Handled(self._number, tuple(positions), self._taken_over))

    # --- what the node says --------------------------------------------------------------------------------------

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        pass

    def deliver(self, batches: Sequence[Delivered]) -> None:
        self._waiting.extend(batches)
        # An assignment leaves out streams whose beginning is still searched for; streams that come behind it are ours
        # as well.
        self._held.update((each.stream, each.epoch) for each in batches)
        self._arrived.set()

    def withdrawn(self, event: EventId, rest: bool) -> None:
        raise AssertionError("gateways refuse no event")

    def assigned(self, generation: int, positions: Sequence[Position]) -> None:
        self._held = {(each.stream, each.epoch) for each in positions}
        self._generation = generation
        kept = deque(each for each in self._waiting if (each.stream, each.epoch) in self._held)
        dropped_bytes = sum(len(each.data) for each in self._waiting) - sum(len(each.data) for each in kept)
        self._waiting = kept
        if self._number is not None:
            if dropped_bytes:
                self._holding.give_back(dropped_bytes)
                self._mesh.tell(AddCredit(self._number, dropped_bytes))
            self._report([])

    def ended(self, error: WeftError) -> None:
        if self._number is None:
            return
        self._number = None
        self._waiting.clear()
        self._held.clear()
        self._generation = self._taken_over = 0
        self._interrupted(error)
        self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._reopen)

    def _reopen(self) -> None:
        try:
            self._open()
        except WeftError as error:
            self._interrupted(error)
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._reopen)


def tell_defect(task: asyncio.Task[None]) -> None:
    """For tasks that should never fail: logs the error if one does."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": task.get_name(), "exception": error, "task": task})
