"""A request of an EXMP client to a server of a topic: one call, in memory, and its first reply (CON-04)."""

from __future__ import annotations

import asyncio

from weft.core.call_messages import Question, Reply
from weft.errors import WeftError
from weft.port.calls import CallDesk


class OneCall:
    """``CallClient`` with one request."""

    def __init__(self, desk: CallDesk) -> None:
        self._desk = desk
        self._reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    async def ask(self, question: Question) -> Reply:
        """The first reply; raise why there is none. The node ends the call when its time is over."""
        self._desk.join(self)
        try:
            self._desk.ask(self, 1, question)
            return await self._reply
        finally:
            self._desk.leave(self)

    # --- CallClient ---

    def replied(self, number: int, reply: Reply) -> None:
        if not self._reply.done():
            self._reply.set_result(reply)

    def failed(self, number: int, error: WeftError) -> None:
        if not self._reply.done():
            self._reply.set_exception(error)

    def ended(self, error: WeftError) -> None:
        self.failed(1, error)

    def handed(self, server: int, handle: int, question: Question) -> None:
        raise AssertionError("it serves nothing")

    def over(self, handle: int) -> None:
        raise AssertionError("it serves nothing")

    def took(self, handle: int, count: int) -> None:
        raise AssertionError("it serves nothing")
