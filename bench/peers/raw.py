"""Loops for peers that are driven by their socket: requests encoded before, answers only counted and checked.

A Python client would be the limit of Redis and NATS, not they. So nothing is awaited per event here: the answer to one
request sends the next.
"""

from __future__ import annotations

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from bench.peers.process import Server
from bench.systems import DONE_S_MAX, Sample, System


class RawConnection(asyncio.Protocol, ABC):
    """A socket whose ``on_answers`` gets the number of answers that have come with every piece of data."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.on_answers: Callable[[int], None] = lambda count: None
        self.on_replies: Callable[[int], None] = lambda count: None  # of others, to requests
        self.failure: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass of it
        self.transport.set_write_buffer_limits(1 << 28)

    def data_received(self, data: bytes) -> None:
        try:
            if answers := self.count(data):
                self.on_answers(answers)
        except Exception as failure:
            self.failure = failure
            self.transport.close()

    @abstractmethod
    def count(self, data: bytes) -> int:
        """The answers that are complete with this piece; raises what an answer says went wrong."""

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def close(self) -> None:
        self.transport.close()


ConnectionT = TypeVar("ConnectionT", bound=RawConnection)


class RawSystem(System, Generic[ConnectionT]):
    """A server that is driven by its socket."""

    connection: type[ConnectionT]

    def __init__(self, server: Server, is_secured: bool = False) -> None:
        self.is_secured = is_secured
        self.pid, self.ready_s = server.pid, server.ready_s
        self._server = server
        self._connections: list[ConnectionT] = []
        self._streams = 0
        self._stored = ""  # the stream to replay

    async def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    async def _connect(self, count: int) -> list[ConnectionT]:
        loop, server, tls = asyncio.get_running_loop(), self._server, None
        if self.is_secured:
            assert server.certificates is not None, "a secured server has them"
            tls = server.certificates.context("client")
        port = server.tls_port if tls else server.port
        made = [(await loop.create_connection(self.connection, "127.0.0.1", port, ssl=tls))[1] for _ in range(count)]
        self._connections += made
        return made

    def _fresh(self) -> str:
        """The name of a stream that is not there yet."""
        self._streams += 1
        return f"{'t' if self.is_secured else 's'}{self._streams}"  # both kinds may share a server

    async def lone(self, seconds: float) -> Sample:
        return await self.waiting(seconds, 1)


def in_turn(requests: Sequence[bytes]) -> Callable[[int, int], bytes]:
    """Encodes ``count`` requests from number ``first`` on, one topic after the other."""
    topics = len(requests)

    def encode(first: int, count: int) -> bytes:
        if topics == 1:
            return requests[0] * count
        return b"".join([requests[number % topics] for number in range(first, first + count)])

    return encode


async def wait_until(is_done: Callable[[], bool], connections: Sequence[RawConnection]) -> None:
    """Wait, and raise what a connection failed with."""
    async with asyncio.timeout(DONE_S_MAX):
        while not is_done():
            for connection in connections:
                if connection.failure is not None:
                    raise connection.failure
            await asyncio.sleep(0.001)


async def closed_loop(
    requests: Sequence[tuple[RawConnection, bytes]], seconds: float, *, by_reply: bool = False
) -> Sample:
    """Each connection sends its request, waits for the answer (or somebody's reply), sends the request again."""
    times: list[float] = []
    begin = time.perf_counter()
    end = begin + seconds
    waiting = len(requests)

    def start(connection: RawConnection, request: bytes) -> None:
        sent = time.perf_counter()

        def on_answers(count: int) -> None:
            nonlocal sent, waiting
            assert count == 1, "one request was under way"
            now = time.perf_counter()
            times.append(now - sent)
            if now < end:
                sent = now
                connection.write(request)
            else:
                waiting -= 1

        if by_reply:
            connection.on_replies = on_answers
        else:
            connection.on_answers = on_answers
        connection.write(request)

    for connection, request in requests:
        start(connection, request)
    await wait_until(lambda: not waiting, [connection for connection, _ in requests])
    return Sample(len(times), time.perf_counter() - begin, {"receipt": times})


async def in_flight(
    connections: Sequence[RawConnection],
    requests: Callable[[int, int], bytes],
    seconds: float,
    *,
    window: int,
    requests_max: int = sys.maxsize,
    events_each: int = 1,
) -> Sample:
    """Keep ``window`` requests under way on each connection, for so long or until so many were sent.

    ``requests(first, count)`` encodes some of them.
    """
    begin = time.perf_counter()
    end = begin + seconds
    sent = answered = 0
    last = begin

    def send(connection: RawConnection, count: int) -> None:
        nonlocal sent
        connection.write(requests(sent, count))
        sent += count

    def start(connection: RawConnection) -> None:
        def on_answers(count: int) -> None:
            nonlocal answered, last
            answered += count
            last = time.perf_counter()
            if last < end and sent < requests_max:
                send(connection, min(count, requests_max - sent))

        connection.on_answers = on_answers
        send(connection, min(window, requests_max - sent))

    for connection in connections:
        start(connection)
    await wait_until(lambda: answered == sent and (sent == requests_max or time.perf_counter() >= end), connections)
    return Sample(answered * events_each, last - begin)
