"""Redis Streams, driven by its socket: XADD and XREAD, synced always or every second."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import hiredis
from bench.peers.process import Server, answers, free_port, required, running
from bench.peers.raw import RawConnection, RawSystem, closed_loop, in_flight, in_turn, wait_until
from bench.systems import (
    CALL_EVENTS,
    CALLS_IN_FLIGHT,
    FILLER,
    PAYLOAD,
    Crowd,
    Sample,
    Stopwatch,
    flood_sample,
    paced_sample,
    replayed,
)
from bench.transport_kinds import Certificates

SINGLES_CONNECTIONS = 16  # twice as fast as one
SINGLES_WINDOW = 256
BLOB = PAYLOAD * CALL_EVENTS
# [[stream, [[id, [field, value]], ...]]]: the head says how many entries follow.
REPLY_HEAD = re.compile(rb"\*1\r\n\*2\r\n\$\d+\r\n\w+\r\n\*(\d+)\r\n")
ENTRY_FIELDS = b"\r\n*2\r\n$1\r\np\r\n$%d\r\n" % len(PAYLOAD)  # what follows an id

Take = Callable[[list[Any]], None]  # entries: an id, and field and value


@contextmanager
def redis_server(
    place: Path, *, sync: str = "always", certificates: Certificates | None = None, more: Sequence[str] = ()
) -> Iterator[Server]:
    """Synced before every answer, or every second; nothing else goes to the disk."""
    port, tls_port = free_port(), free_port() if certificates else 0
    words = [required("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", sync, "--auto-aof-rewrite-percentage", "0", *more]
    if certificates is not None:
        pem, root = str(certificates.here / "server.pem"), str(certificates.here / "root.pem")
        words += ["--tls-port", str(tls_port), "--tls-cert-file", pem, "--tls-key-file", pem]
        words += ["--tls-ca-cert-file", root, "--tls-auth-clients", "yes"]
    with running(words, lambda: answers(port, b"PING\r\n", b"+PONG")) as (pid, ready_s):
        yield Server(pid, port, ready_s, tls_port=tls_port, certificates=certificates)


def command(*words: bytes | str | int) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def xadd(stream: str, payload: bytes) -> bytes:
    return command("XADD", stream, "*", "p", payload)


class RedisConnection(RawConnection):
    """Hands every reply to ``on_reply``, if there is one, before it is counted."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = hiredis.Reader()
        self.on_reply: Callable[[Any], None] | None = None
        self.on_data: Callable[[bytes], None] | None = None  # instead, for who reads the bytes itself

    def count(self, data: bytes) -> int:
        if self.on_data is not None:
            self.on_data(data)
            return 0
        self._reader.feed(data)
        replies = 0
        while (reply := self._reader.gets()) is not False:
            replies += 1
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            if self.on_reply is not None:
                self.on_reply(reply)
        return replies


class Redis(RawSystem[RedisConnection]):
    connection = RedisConnection

    @classmethod
    @asynccontextmanager
    async def started(cls, place: Path) -> AsyncIterator[Redis]:
        with redis_server(place) as server:
            redis = cls(server)
            yield redis
            await redis.close()

    async def waiting(self, seconds: float, connections: int) -> Sample:
        request = xadd(self._fresh(), PAYLOAD)
        return await closed_loop([(each, request) for each in await self._connect(connections)], seconds)

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        stream, watch = self._fresh(), Stopwatch()
        (publisher,) = await self._connect(1)

        def take(entries: list[Any]) -> None:
            for _, (_, payload) in entries:
                watch.delivery(payload)

        for reader in await self._connect(subscribers):
            follow(reader, stream, take)
        under_way: deque[int] = deque()

        def on_answers(count: int) -> None:
            for _ in range(count):
                watch.receipt(under_way.popleft())

        def hand_in() -> None:
            number, payload = watch.hand_in()
            under_way.append(number)
            publisher.write(xadd(stream, payload))

        publisher.on_answers = on_answers
        return await paced_sample(seconds, rate, subscribers, watch, hand_in)

    async def singles(self, seconds: float, topics: int) -> Sample:
        connections = await self._connect(SINGLES_CONNECTIONS)
        first = self._fresh()
        requests = [xadd(f"{first}.{topic}", PAYLOAD) for topic in range(topics)]
        return await in_flight(connections, in_turn(requests), seconds, window=SINGLES_WINDOW)

    async def thousands(self, seconds: float) -> Sample:
        """A pipeline of 1,000 commands a call."""
        connections = await self._connect(1)
        request = xadd(self._fresh(), PAYLOAD)
        window = CALLS_IN_FLIGHT * CALL_EVENTS
        return await in_flight(connections, lambda _, count: request * count, seconds, window=window)

    async def blobs(self, seconds: float) -> Sample:
        connections = await self._connect(1)
        request = xadd(self._fresh(), BLOB)
        return await in_flight(
            connections, lambda _, count: request * count, seconds, window=CALLS_IN_FLIGHT, events_each=CALL_EVENTS
        )

    async def replay(self, seconds: float, events: int) -> Sample:
        if not self._stored:
            self._stored = self._fresh()
            request, window = xadd(self._stored, PAYLOAD), CALLS_IN_FLIGHT * CALL_EVENTS
            connections = await self._connect(1)
            await in_flight(connections, lambda _, count: request * count, inf, window=window, requests_max=events)

        async def read() -> None:
            crowd = Crowd(1)
            (reader,) = await self._connect(1)
            follow(reader, self._stored, lambda entries: crowd.saw(0, len(entries)))
            await wait_until(lambda: crowd.seen[0] >= events, [reader])

        rate = await replayed(seconds, events, read)
        return Sample(values={"to Arrow": rate, "to objects": rate})

    async def flood(self, seconds: float, subscribers: int) -> Sample:
        stream, crowd = self._fresh(), Crowd(subscribers)
        (publisher,) = await self._connect(1)
        for number, reader in enumerate(await self._connect(subscribers)):
            follow_counting(reader, stream, partial(crowd.saw, number))
        request = xadd(stream, PAYLOAD) * CALL_EVENTS

        async def send(_: int) -> None:
            publisher.write(request)

        return await flood_sample(seconds, crowd, send)


def xread(stream: str, last: bytes) -> bytes:
    return command("XREAD", "COUNT", CALL_EVENTS, "BLOCK", 0, "STREAMS", stream, last)


def follow(reader: RedisConnection, stream: str, take: Take) -> None:
    """Read a stream from its beginning, as many entries at a time as there are."""

    def on_reply(reply: Any) -> None:
        entries = reply[0][1]
        reader.write(xread(stream, entries[-1][0]))
        take(entries)

    reader.on_reply = on_reply
    reader.write(xread(stream, b"0"))


def follow_counting(reader: RedisConnection, stream: str, take: Callable[[int], None]) -> None:
    """The same, but entries are only counted: with 100 readers their objects would cost more than Redis itself."""
    rest = b""

    def on_data(data: bytes) -> None:
        nonlocal rest
        rest += data
        head = REPLY_HEAD.match(rest)
        if head is None or rest.count(FILLER) < int(head[1]) or not rest.endswith(b"\r\n"):
            return  # more of this reply will come
        end = rest.rfind(ENTRY_FIELDS)
        reader.write(xread(stream, rest[rest.rfind(b"\n", 0, end) + 1 : end]))
        rest = b""
        take(int(head[1]))

    reader.on_data = on_data
    reader.write(xread(stream, b"0"))
