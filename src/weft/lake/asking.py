"""The node's side of the process that reads its archive table (``helper``). The node starts the process at the first
request, starts it again when it dies, and kills it when it does not answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

import msgspec

from weft.lake.address import TableError
from weft.lake.frames import (
    Begin,
    Failed,
    FrameReader,
    Lacks,
    Look,
    Lost,
    Piece,
    Places,
    Read,
    Reply,
    Request,
    Said,
    State,
    framed,
)

READ_AT_ONCE: Final = 1 << 18  # bytes of replies, taken in one turn of the loop
ANSWER_S_MAX: Final = 20.0  # beyond a request's own wait, for a slow store; then the process is killed
RESTART_S: Final = 1.0  # between two starts of a process that dies
END_S: Final = 2.0  # for the process to end by itself
DIED: Final = "the process that reads the archive table has died"


class TableAway(TableError):
    """The table cannot be asked just now; trying again may help."""


class TableProcess:
    """``begin`` says which table. ``on_state`` is called with the table's state whenever it changes."""

    def __init__(self, begin: Begin, on_state: Callable[[State], None]) -> None:
        self._begin = begin
        self._on_state = on_state
        self._numbers = count(1)
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._started_s = float("-inf")
        self._is_closed = False

    async def read(self, request: Callable[[int], Read]) -> Piece | Lacks | Lost:
        """Ask for events. Raises TableAway."""
        reply = await self._one(request)
        if isinstance(reply, Piece | Lacks | Lost):
            return reply
        raise self._unexpected(reply)

    async def look(self, request: Callable[[int], Look]) -> Places:
        """Ask which streams the table has. Raises TableAway."""
        reply = await self._one(request)
        if isinstance(reply, Places):
            return reply
        raise self._unexpected(reply)

    async def start(self) -> None:
        """Start the process before the first request. Raises TableAway."""
        async with self._starting:
            if self._process is None:
                await self._spawn()

    async def close(self) -> None:
        self._is_closed = True
        async with self._starting:
            process, reading = self._process, self._reading
        if process is None or reading is None:
            return
        assert process.stdin is not None, "it was made with one"
        process.stdin.close()
        if reading not in (await asyncio.wait({reading}, timeout=END_S))[0]:
            self._kill()
        await asyncio.gather(reading, return_exceptions=True)

    # --- one request -------------------------------------------------------------------------------------------------

    async def _one(self, make: Callable[[int], Request]) -> Reply:
        await self.start()
        process, number = self._process, next(self._numbers)
        assert process is not None and process.stdin is not None, "it has just been started"
        request = make(number)
        patience_s = ANSWER_S_MAX + request.wait_s
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[number] = answer
        try:
            async with asyncio.timeout(patience_s):
                process.stdin.write(framed(request))
                await process.stdin.drain()
                reply = await answer
        except TimeoutError:
            self._kill()
            if self._reading is not None:  # so that the next caller finds another one
                await asyncio.wait({self._reading}, timeout=END_S)
            raise TableAway("the archive table takes too long to read", waited_s=patience_s) from None
        except OSError:
            raise TableAway(DIED) from None
        finally:
            del self._replies[number]
        if isinstance(reply, Failed):
            raise TableAway(reply.reason)
        return reply

    def _unexpected(self, reply: Reply) -> TableAway:
        self._kill()
        return TableAway(f"the process that reads the archive table answered {type(reply).__name__}")

    # --- the process -------------------------------------------------------------------------------------------------

    async def _spawn(self) -> None:
        if self._is_closed:
            raise TableAway("this node is shutting down")
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._started_s + RESTART_S - loop.time(), 0.0))
        self._started_s = loop.time()
        try:
            # -P: never load code from the working directory.
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "weft.lake.helper"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise TableAway(f"the process that reads the archive table cannot be started: {error.strerror}") from None
        assert process.stdin is not None, "it was made with one"
        self._reading = loop.create_task(self._read_replies(process), name="weft-archive-replies")
        process.stdin.write(framed(self._begin))

    async def _read_replies(self, process: asyncio.subprocess.Process) -> None:
        """Read replies until the process ends. Then every waiting request fails, and the next one starts it again."""
        frames = FrameReader(Said)
        assert process.stdout is not None, "it was made with one"
        try:
            while data := await process.stdout.read(READ_AT_ONCE):
                for message in frames.feed(data):
                    self._take(message)
        except (ValueError, msgspec.DecodeError):
            pass  # the stream is broken: nothing after this can be read
        self._kill()
        self._process = None
        for number, answer in self._replies.items():
            if not answer.done():
                answer.set_result(Failed(number, DIED))
        await process.wait()

    def _take(self, message: object) -> None:
        if isinstance(message, State):
            self._on_state(message)
            return
        assert isinstance(message, Reply), "all other messages are replies"
        answer = self._replies.get(message.number)  # none: nobody waits for it any longer
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
