"""Load for the benchmark of EXMP: frames made beforehand, written as the answers come in, answers counted by length.

The same for a node and for the bare echo, so that what is compared is the other side alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from weft.wire import exmp
from weft.wire.exmp.framing import LENGTH

HELLO = exmp.frame(exmp.encode(exmp.Hello(exmp.VERSION)), 1024)
PONG = exmp.frame(exmp.encode(exmp.Pong()), 1024)


def requests(op: str, data: exmp.JsonObject, first: int, count: int) -> list[bytes]:
    """Frames with ids from ``first`` on."""
    text = exmp.encode_operation(exmp.Operation(op, data))
    return [exmp.frame(exmp.encode(exmp.Request(first + number, text)), 1 << 20) for number in range(count)]


class Load(asyncio.Protocol):
    """One connection that keeps ``window`` frames under way."""

    def __init__(self, says_hello: bool) -> None:
        self._says_hello = says_hello
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._frames: Sequence[bytes] = ()
        self._sent = 0
        self._answered = 0
        self._done: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        if self._says_hello:
            self._transport.write(HELLO)

    async def run(self, frames: Sequence[bytes], window: int) -> None:
        self._frames, self._sent, self._answered = frames, min(window, len(frames)), 0
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(b"".join(frames[: self._sent]))
        await self._done

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at, have, count = 0, len(buffer), 0
        while have - at >= LENGTH.size:
            end = at + LENGTH.size + LENGTH.unpack_from(buffer, at)[0]
            if end > have:
                break
            kind = buffer[at + LENGTH.size]
            at = end
            if kind == exmp.MessageType.PING:
                self._transport.write(PONG)
            elif kind != exmp.MessageType.HELLO:
                count += 1
        del buffer[:at]
        if count:
            self._answer(count)

    def _answer(self, count: int) -> None:
        self._answered += count
        upto = min(self._sent + count, len(self._frames))
        if upto > self._sent:
            self._transport.write(b"".join(self._frames[self._sent : upto]))
            self._sent = upto
        if self._answered == len(self._frames):
            self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self, "_done") and not self._done.done():
            self._done.set_exception(ConnectionError(f"the server has gone after {self._answered} answers: {error}"))

    def close(self) -> None:
        self._transport.close()


async def connect(address: str, says_hello: bool) -> Load:
    host, _, port = address.rpartition(":")
    _, load = await asyncio.get_running_loop().create_connection(lambda: Load(says_hello), host, int(port))
    return load


async def rate(loads: Sequence[Load], frames: Sequence[Sequence[bytes]], window: int) -> float:
    """Answers per second, of all connections together."""
    begin = time.perf_counter()
    await asyncio.gather(*(load.run(mine, window) for load, mine in zip(loads, frames, strict=True)))
    return sum(map(len, frames)) / (time.perf_counter() - begin)
