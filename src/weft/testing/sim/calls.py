"""One end of a simulated gRPC call: what ``weft.transport.grpc.calls`` is to a real link.

Messages wait until they are read; ``write`` waits while the other end has too much of them unread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from weft.testing.sim.loop import SimLoop
from weft.wire.rpc import Metadata, RpcError, StatusCode

Carry: TypeAlias = Callable[["SimCall", Callable[[], None]], None]


class SimCall:
    """DialledCall and AcceptedCall in one. ``carry`` has something happen at the other end, in a while.

    ``lossy``: the connection may lose, repeat and reorder messages after the first, which is a hello.
    """

    def __init__(self, loop: SimLoop, carry: Carry, window_bytes: int, metadata: Metadata = ()) -> None:
        self.metadata = metadata
        self.peer = "peer:0"  # nobody can dial it
        self.certificate = None
        self.other: SimCall
        self.task: asyncio.Task[Any] | None = None  # that serves it
        self.lossy = False
        self.has_said_hello = False
        self.hello_s = 0.0  # when that arrives
        self.arrival_s = 0.0  # of the last message
        self._loop = loop
        self._carry = carry
        self._window_bytes = window_bytes
        self._unread: deque[bytes] = deque()
        self._under_way_bytes = 0  # sent and not read yet
        self._size = 0  # of the last message
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._ended = False  # nothing more will come
        self._over = False  # nothing more can be written
        self._error: RpcError | None = None

    # --- what links do -------------------------------------------------------------------------------------------

    async def read(self) -> bytes | None:
        while not self._unread:
            if self._ended:
                if self._error is not None:
                    raise self._failure()
                return None
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._unread.popleft()
        self.other._credit(len(message))
        return message

    async def write(self, message: bytes) -> None:
        self.write_nowait(message)
        while self._under_way_bytes > self._window_bytes and not self._over:
            self._writer = self._loop.create_future()
            try:
                await self._writer
            finally:
                self._writer = None
        if self._over:
            raise self._failure()

    def write_nowait(self, message: bytes) -> None:
        if self._over:
            return
        self._under_way_bytes += len(message)
        self._size = len(message)
        self._carry(self, partial(self.other._receive, message))
        if not self.has_said_hello:
            self.has_said_hello = True
            self.hello_s = self.arrival_s

    def widen(self) -> None:
        """The window is what it is."""

    def end(self) -> None:
        self._say(self.other._end)

    # --- what the connection does --------------------------------------------------------------------------------

    def finish(self, error: RpcError | None) -> None:
        """Its handler has returned: a status follows what was written."""
        if not self._over:
            self._over = True
            self._say(partial(self.other._finished, error))

    def _say(self, arrive: Callable[[], None]) -> None:
        """In order, and never lost but with the connection."""
        lossy, self.lossy = self.lossy, False
        self._carry(self, arrive)
        self.lossy = lossy

    def lose(self, error: RpcError) -> None:
        """The connection is lost; the task that serves the call is cancelled."""
        self._error = self._error or error
        self._over = True
        self._end()
        if self.task is not None:
            self.task.cancel()

    def credit_lost(self) -> None:
        """The last message never arrives."""
        self._credit(self._size)

    def _credit(self, size: int) -> None:
        self._under_way_bytes = max(0, self._under_way_bytes - size)  # what came twice is read twice
        _wake(self._writer)

    def _receive(self, message: bytes) -> None:
        if not self._ended:
            self._unread.append(message)
            _wake(self._reader)

    def _finished(self, error: RpcError | None) -> None:
        """The server's status has come."""
        self._error = self._error or error
        self._over = True
        self._end()

    def _end(self) -> None:
        self._ended = True
        _wake(self._reader)
        if self._over:
            _wake(self._writer)

    def _failure(self) -> RpcError:
        if self._error is None:
            return RpcError(StatusCode.CANCELLED, "the call is over")
        return RpcError(self._error.status, self._error.details)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
