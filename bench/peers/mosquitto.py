"""Mosquitto, driven by its socket: MQTT 3.1.1 at QoS 1.

It keeps what waits for absent sessions in memory and writes it to a file now and then: nothing is synced, and there is
no history to replay.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
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
)
from bench.transport_kinds import Certificates

SINGLES_WINDOW = 1_024
IDS = 65_535  # packet ids are 1 to this
BLOB = PAYLOAD * CALL_EVENTS
HELLO = bytes.fromhex("100d 0004 4d515454 04 02 0000 0001 78")  # CONNECT as "x", clean session, no keepalive
CONNECT_ACK, PUBLISH, PUBLISH_ACK, SUBSCRIBE_ACK = 2, 3, 4, 9


@contextmanager
def mosquitto_server(place: Path, certificates: Certificates | None = None, more: str = "") -> Iterator[Server]:
    """With certificates it has a second port that asks for them."""
    port, tls_port = free_port(), free_port()
    settings = f"per_listener_settings false\nallow_anonymous true\npersistence true\npersistence_location {place}/\n"
    settings += "user root\nset_tcp_nodelay true\nmax_inflight_messages 0\nmax_queued_messages 0\n"
    settings += f"listener {port} 127.0.0.1\n"
    if certificates is not None:
        pem, root = certificates.here / "server.pem", certificates.here / "root.pem"
        settings += f"listener {tls_port} 127.0.0.1\ncertfile {pem}\nkeyfile {pem}\ncafile {root}\n"
        settings += "require_certificate true\n"
    configuration = place / "mosquitto.conf"
    configuration.write_text(settings + more)
    words = [required("mosquitto"), "-c", str(configuration)]
    with running(words, lambda: answers(port, HELLO, b"\x20\x02\x00\x00"), log=place / "mosquitto.log") as (
        pid,
        ready_s,
    ):
        yield Server(pid, port, ready_s, tls_port=tls_port if certificates else 0, certificates=certificates)


def packet(head: int, body: bytes) -> bytes:
    """A fixed header with its length in groups of seven bits, and what follows."""
    size, length = bytearray(), len(body)
    while True:
        size.append(length & 127 | (128 if length > 127 else 0))
        length >>= 7
        if not length:
            return bytes([head, *size]) + body


def text(value: str) -> bytes:
    return struct.pack("!H", len(value)) + value.encode()


def publish(topic: str, payload: bytes, number: int = 0) -> bytes:
    return packet(0x32, text(topic) + struct.pack("!H", number % IDS + 1) + payload)


class MqttConnection(RawConnection):
    """``on_message`` gets the payload of what arrives, before it is acknowledged."""

    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.on_message: Callable[[bytes], None] | None = None
        self.is_ready = False
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(packet(0x10, text("MQTT") + b"\x04\x02\x00\x00" + text(f"bench{next(self.numbers)}")))

    async def subscribe(self, topic: str) -> None:
        self.is_ready = False
        self.write(packet(0x82, b"\x00\x01" + text(topic) + b"\x01"))
        await wait_until(lambda: self.is_ready, [self])

    def count(self, data: bytes) -> int:
        data = self._rest + data if self._rest else data
        at = acknowledged = 0
        acks: list[bytes] = []
        while (found := _whole(data, at)) is not None:
            begin, end = found
            kind = data[at] >> 4
            if kind == PUBLISH_ACK:
                acknowledged += 1
            elif kind == PUBLISH:
                begin += 2 + (data[begin] << 8 | data[begin + 1])
                acks.append(b"\x40\x02" + data[begin : begin + 2])
                if self.on_message is not None:
                    self.on_message(data[begin + 2 : end])
            elif kind in (CONNECT_ACK, SUBSCRIBE_ACK):
                if data[end - 1] > 1:
                    raise RuntimeError(f"Mosquitto refused: {data[at:end].hex()}")
                self.is_ready = True
            at = end
        self._rest = data[at:]
        if acks:
            self.write(b"".join(acks))
        return acknowledged


def _whole(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the body of the packet at ``at`` begins and ends, once all of it is there."""
    size = shift = 0
    for index in range(at + 1, min(at + 5, len(data))):
        size |= (data[index] & 127) << shift
        shift += 7
        if data[index] < 128:
            end = index + 1 + size
            return (index + 1, end) if end <= len(data) else None
    return None


class Mosquitto(RawSystem[MqttConnection]):
    connection = MqttConnection

    def __init__(self, server: Server, place: Path, is_secured: bool = False) -> None:
        super().__init__(server, is_secured)
        self._place, self.helpers = place, ExitStack()
        self._bridge: Mosquitto | None = None

    async def _connect(self, count: int) -> list[MqttConnection]:
        made = await super()._connect(count)
        await wait_until(lambda: all(each.is_ready for each in made), made)
        return made

    async def waiting(self, seconds: float, connections: int) -> Sample:
        request = publish(self._fresh(), PAYLOAD)
        return await closed_loop([(each, request) for each in await self._connect(connections)], seconds)

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        return await self._paced(await self._connect(subscribers), self._fresh(), seconds, rate)

    async def _paced(self, readers: list[MqttConnection], topic: str, seconds: float, rate: float) -> Sample:
        watch = Stopwatch()
        (publisher,) = await self._connect(1)
        for reader in readers:
            reader.on_message = watch.delivery
            await reader.subscribe(topic)
        under_way: deque[int] = deque()

        def on_answers(count: int) -> None:
            for _ in range(count):
                watch.receipt(under_way.popleft())

        def hand_in() -> None:
            number, payload = watch.hand_in()
            under_way.append(number)
            publisher.write(publish(topic, payload, number))

        publisher.on_answers = on_answers
        return await paced_sample(seconds, rate, len(readers), watch, hand_in)

    async def hop(self, seconds: float, rate: float) -> Sample:
        """A second broker that takes the topics of the first over a bridge, at QoS 1."""
        if self.is_secured:
            raise LeftOut("bridge with mTLS here")
        if self._bridge is None:
            place = self._place / "bridge"
            place.mkdir()
            more = f"connection hop\naddress 127.0.0.1:{self._server.port}\ntopic hop/# in 1\n"
            server = self.helpers.enter_context(mosquitto_server(place, more=more))
            self._bridge = Mosquitto(server, place)
        topic = f"hop/{self._fresh()}"
        readers = await self._bridge._connect(1)
        await self._until_bridged(readers[0])
        try:
            return await self._paced(readers, topic, seconds, rate)
        finally:
            await self._bridge.close()

    async def _until_bridged(self, reader: MqttConnection) -> None:
        seen: list[bytes] = []
        (probe,) = await self._connect(1)
        reader.on_message = seen.append
        await reader.subscribe("hop/probe")
        async with asyncio.timeout(10):
            while not seen:
                probe.write(publish("hop/probe", b"?"))
                await asyncio.sleep(0.05)

    async def singles(self, seconds: float, topics: int) -> Sample:
        connections = await self._connect(1)
        first = self._fresh()
        names = [f"{first}/{topic}" for topic in range(topics)]

        def encode(start: int, count: int) -> bytes:
            return b"".join([publish(names[n % topics], PAYLOAD, n) for n in range(start, start + count)])

        return await in_flight(connections, encode, seconds, window=SINGLES_WINDOW)

    async def thousands(self, seconds: float) -> Sample:
        """1,000 packets a call: MQTT has no batches."""
        connections = await self._connect(1)
        request = publish(self._fresh(), PAYLOAD)
        window = CALLS_IN_FLIGHT * CALL_EVENTS
        return await in_flight(connections, lambda _, count: request * count, seconds, window=window)

    async def replay(self, seconds: float, events: int) -> Sample:
        raise LeftOut("history")

    async def flood(self, seconds: float, subscribers: int) -> Sample:
        topic, crowd = self._fresh(), Crowd(subscribers)
        (publisher,) = await self._connect(1)
        for number, reader in enumerate(await self._connect(subscribers)):
            saw = partial(crowd.saw, number, 1)
            reader.on_message = lambda _, saw=saw: saw()
            await reader.subscribe(topic)
        request = publish(topic, PAYLOAD) * CALL_EVENTS

        async def send(_: int) -> None:
            publisher.write(request)

        return await flood_sample(seconds, crowd, send)

    async def asking(self, seconds: float) -> Sample:
        """A request to one topic, its reply to another."""
        question, reply = self._fresh(), self._fresh()
        asker, server = await self._connect(2)
        server.on_message = lambda payload: server.write(publish(reply, payload))
        await server.subscribe(question)
        await asker.subscribe(reply)
        asker.on_message = lambda _: asker.on_replies(1)
        return await closed_loop([(asker, publish(question, PAYLOAD))], seconds, by_reply=True)
