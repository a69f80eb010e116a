"""RabbitMQ streams, driven by their socket: the stream protocol, version 1.

A confirm says that the broker has written the message, not that it is synced: streams leave that to the kernel.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path

from bench.peers.process import Server, answers, free_port, required, running
from bench.peers.raw import RawConnection, RawSystem, closed_loop, in_flight, wait_until
from bench.systems import (
    CALL_EVENTS,
    CALLS_IN_FLIGHT,
    PAYLOAD,
    Crowd,
    LeftOut,
    Sample,
    Stopwatch,
    flood_sample,
    paced_sample,
    replayed,
)
from bench.transport_kinds import Certificates

PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # Debian's wrapper in /usr/sbin would change the user
SINGLES_A_FRAME = 100  # what RabbitMQ's own clients gather
SINGLES_FRAMES = 64
CREDIT = 64
STREAMS_MAX = 100  # each is a process and files of its own, and a publisher on a connection, which has up to 255
DECLARE, PUBLISH, CONFIRM, ERROR, SUBSCRIBE, DELIVER, GIVE_CREDIT, CREATE = 1, 2, 3, 4, 7, 8, 9, 13
PROPERTIES, MECHANISMS, AUTHENTICATE, TUNE, OPEN = 17, 18, 19, 20, 21
ANSWER = 0x8000
# magic:u8 type:u8 entries:u16 records:u32 timestamp:i64 epoch:u64 first:u64 crc:u32 data:u32 trailer:u32 reserved:u32
CHUNK = struct.Struct("!BBHIqQQIIII")

Take = Callable[[bytes, int, int], None]  # data, where the first entry begins, how many there are


def why_not() -> str:
    """Why RabbitMQ cannot run here; empty if it can."""
    return "" if Path(PROGRAM).exists() else "RabbitMQ is not installed (Debian: apt install rabbitmq-server)"


@contextmanager
def rabbitmq_server(place: Path, certificates: Certificates | None = None) -> Iterator[Server]:
    """One broker with the stream plugin, everything it writes below ``place``, and an epmd of its own."""
    port, tls_port, amqp_port, dist_port, names_port = (free_port() for _ in range(5))
    settings = f"listeners.tcp.1 = 127.0.0.1:{amqp_port}\nstream.listeners.tcp.1 = 127.0.0.1:{port}\n"
    if certificates is not None:
        pem, root = certificates.here / "server.pem", certificates.here / "root.pem"
        settings += f"stream.listeners.ssl.1 = 127.0.0.1:{tls_port}\nssl_options.cacertfile = {root}\n"
        settings += f"ssl_options.certfile = {pem}\nssl_options.keyfile = {pem}\n"
        settings += "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n"
    (place / "rabbitmq.conf").write_text(settings)
    (place / "plugins").write_text("[rabbitmq_stream].\n")
    environ = os.environ | {
        "HOME": str(place),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(place / "mnesia"),
        "RABBITMQ_LOG_BASE": str(place / "log"),
        "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "plugins"),
        "RABBITMQ_DIST_PORT": str(dist_port),
    }
    hello = frame(PROPERTIES, struct.pack("!II", 1, 0))
    names = [required("epmd"), "-port", str(names_port), "-address", "127.0.0.1"]
    with (
        running(names, lambda: answers(names_port, b"\x00\x01n", b""), environ=environ),
        running([PROGRAM], lambda: answers(port, hello, b"\x80\x11"), environ=environ, log=place / "rabbitmq.log") as (
            pid,
            ready_s,
        ),
    ):
        yield Server(pid, port, ready_s, tls_port=tls_port if certificates else 0, certificates=certificates)


def frame(key: int, body: bytes) -> bytes:
    return struct.pack("!IHH", len(body) + 4, key, 1) + body


def text(value: str) -> bytes:
    return struct.pack("!H", len(value)) + value.encode()


def publish(publisher: int, payloads: list[bytes], number: int = 0) -> bytes:
    parts = [struct.pack("!BI", publisher, len(payloads))]
    parts += [struct.pack("!QI", number + at, len(payload)) + payload for at, payload in enumerate(payloads)]
    return frame(PUBLISH, b"".join(parts))


class StreamConnection(RawConnection):
    """Answers are confirmed messages, or so many at a time. ``on_chunk`` gets what is delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.on_chunk: Take | None = None
        self.on_confirmed: Callable[[int], None] | None = None  # gets the number of each message
        self.messages_each = 1  # so many confirmed messages are one answer
        self._confirmed = 0
        self._rest = b""
        self._told: dict[int, int] = {}  # by the kind of an answer: its code

    async def ask(self, key: int, body: bytes) -> None:
        self._told.pop(key, None)
        self.write(frame(key, struct.pack("!I", 1) + body))
        await wait_until(lambda: key in self._told, [self])
        if self._told[key] != 1:
            raise RuntimeError(f"RabbitMQ refused command {key} with code {self._told[key]}")

    async def open(self) -> None:
        await self.ask(PROPERTIES, struct.pack("!I", 0))
        await self.ask(MECHANISMS, b"")
        secret = b"\0guest\0guest"
        await self.ask(AUTHENTICATE, text("PLAIN") + struct.pack("!I", len(secret)) + secret)
        await wait_until(lambda: TUNE in self._told, [self])
        await self.ask(OPEN, text("/"))

    async def follow(self, stream: str, take: Take) -> None:
        self.on_chunk = take
        await self.ask(SUBSCRIBE, b"\x00" + text(stream) + struct.pack("!HHI", 1, CREDIT, 0))

    def count(self, data: bytes) -> int:
        data = self._rest + data if self._rest else data
        at = 0
        while at + 4 <= len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            self._confirmed += self._take(int.from_bytes(data[at + 4 : at + 6], "big"), data, at + 8, end)
            at = end
        self._rest = data[at:]
        answered, self._confirmed = divmod(self._confirmed, self.messages_each)
        return answered

    def _take(self, key: int, data: bytes, at: int, end: int) -> int:
        if key == CONFIRM:
            (count,) = struct.unpack_from("!I", data, at + 1)
            if self.on_confirmed is not None:
                for number in struct.unpack_from(f"!{count}Q", data, at + 5):
                    self.on_confirmed(number)
            return int(count)
        if key == DELIVER:
            entries = CHUNK.unpack_from(data, at + 1)[2]
            self.write(frame(GIVE_CREDIT, struct.pack("!BH", 0, 1)))
            if self.on_chunk is not None:
                self.on_chunk(data, at + 1 + CHUNK.size, entries)
        elif key == TUNE:
            self.write(frame(TUNE, data[at : at + 4] + bytes(4)))  # its frames, no heartbeats
            self._told[TUNE] = 1
        elif key == ERROR:
            raise RuntimeError(f"RabbitMQ did not take a message: {data[at:end].hex()[:80]}")
        elif key & ANSWER:
            self._told[key & ~ANSWER] = int.from_bytes(data[at + 4 : at + 6], "big")
        return 0


class RabbitMq(RawSystem[StreamConnection]):
    connection = StreamConnection

    async def _connect(self, count: int) -> list[StreamConnection]:
        made = await super()._connect(count)
        for each in made:
            await each.open()
        return made

    async def _stream(self) -> str:
        name = self._fresh()
        (connection,) = await self._connect(1)
        await connection.ask(CREATE, text(name) + struct.pack("!I", 0))
        return name

    async def _publishers(self, stream: str, count: int) -> list[StreamConnection]:
        made = await self._connect(count)
        for each in made:
            await each.ask(DECLARE, b"\x00" + text("") + text(stream))
        return made

    async def waiting(self, seconds: float, connections: int) -> Sample:
        made = await self._publishers(await self._stream(), connections)
        return await closed_loop([(each, publish(0, [PAYLOAD])) for each in made], seconds)

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        stream, watch = await self._stream(), Stopwatch()

        def take(data: bytes, at: int, entries: int) -> None:
            for _ in range(entries):
                size = int.from_bytes(data[at : at + 4], "big")
                watch.delivery(data[at + 4 : at + 4 + size])
                at += 4 + size

        for reader in await self._connect(subscribers):
            await reader.follow(stream, take)
        (publisher,) = await self._publishers(stream, 1)
        publisher.on_confirmed = watch.receipt

        def hand_in() -> None:
            number, payload = watch.hand_in()
            publisher.write(publish(0, [payload], number))

        return await paced_sample(seconds, rate, subscribers, watch, hand_in)

    async def singles(self, seconds: float, topics: int) -> Sample:
        if topics > STREAMS_MAX:
            raise LeftOut(f"more than {STREAMS_MAX} streams here: each is a process with files of its own")
        if topics == 1:
            return await self._flow(seconds, await self._stream(), SINGLES_A_FRAME, SINGLES_FRAMES)
        (connection,) = await self._connect(1)
        for topic in range(topics):
            await connection.ask(DECLARE, bytes([topic]) + text("") + text(await self._stream()))
        requests = [publish(topic, [PAYLOAD]) for topic in range(topics)]
        window = SINGLES_A_FRAME * SINGLES_FRAMES

        def encode(first: int, count: int) -> bytes:
            return b"".join([requests[number % topics] for number in range(first, first + count)])

        return await in_flight([connection], encode, seconds, window=window)

    async def _flow(
        self, seconds: float, stream: str, events_a_frame: int, frames: int, frames_max: int = sys.maxsize
    ) -> Sample:
        connections = await self._publishers(stream, 1)
        connections[0].messages_each = events_a_frame
        request = publish(0, [PAYLOAD] * events_a_frame)
        return await in_flight(
            connections,
            lambda _, count: request * count,
            seconds,
            window=frames,
            requests_max=frames_max,
            events_each=events_a_frame,
        )

    async def thousands(self, seconds: float) -> Sample:
        return await self._flow(seconds, await self._stream(), CALL_EVENTS, CALLS_IN_FLIGHT)

    async def replay(self, seconds: float, events: int) -> Sample:
        if not self._stored:
            self._stored = await self._stream()
            await self._flow(inf, self._stored, CALL_EVENTS, CALLS_IN_FLIGHT, events // CALL_EVENTS)

        async def read() -> None:
            crowd = Crowd(1)
            (reader,) = await self._connect(1)
            await reader.follow(self._stored, lambda _, at, entries: crowd.saw(0, entries))
            await wait_until(lambda: crowd.seen[0] >= events, [reader])
            reader.close()

        rate = await replayed(seconds, events, read)
        return Sample(values={"to Arrow": rate, "to objects": rate})

    async def flood(self, seconds: float, subscribers: int) -> Sample:
        stream, crowd = await self._stream(), Crowd(subscribers)
        (publisher,) = await self._publishers(stream, 1)
        for number, reader in enumerate(await self._connect(subscribers)):
            saw = partial(crowd.saw, number)
            await reader.follow(stream, lambda _, at, entries, saw=saw: saw(entries))  # type: ignore[misc]
        request = publish(0, [PAYLOAD] * CALL_EVENTS)

        async def send(_: int) -> None:
            publisher.write(request)

        return await flood_sample(seconds, crowd, send)
