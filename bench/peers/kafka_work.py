"""Kafka, driven by its socket: Produce 3, Fetch 4, CreateTopics 2, one partition a topic.

Kafka's clients gather single events into batches of 16 KB, five of them in flight; so does this.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf

import google_crc32c
from bench.peers.process import Server
from bench.peers.raw import RawConnection, RawSystem, closed_loop, in_flight, wait_until
from bench.systems import (
    CALL_EVENTS,
    PAYLOAD,
    Crowd,
    LeftOut,
    Sample,
    Stopwatch,
    flood_sample,
    paced_sample,
    replayed,
)

PRODUCE, FETCH, CREATE_TOPICS = 0, 1, 19
VERSION = {PRODUCE: 3, FETCH: 4, CREATE_TOPICS: 2}
GATHERED = 140  # events of 100 bytes in batch.size, 16 KB
IN_FLIGHT = 5  # max.in.flight.requests.per.connection
TOPICS_MAX = 100  # a topic is a directory of files with a leader of its own
FIRST = 1  # offset 0 has the event that told that the topic is there
FETCH_BYTES = 4 << 20
# base:i64 length:i32 epoch:i32 magic:i8 crc:u32 | attributes:i16 last:i32 times:2*i64 producer:i64,i16,i32 records:i32
BATCH = struct.Struct("!qiibI")
BATCH_REST = struct.Struct("!hiqqqhii")
BATCH_BYTES = BATCH.size + BATCH_REST.size
NOT_THERE_YET = (3, 5, 6)  # unknown topic, no leader, not the leader

Take = Callable[[bytes, int, int, int], None]  # data, where a batch begins and ends, how many events it has


def varint(value: int) -> bytes:
    value, out = value << 1 ^ value >> 63, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def text(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


def batch(payloads: list[bytes]) -> bytes:
    parts = []
    for at, payload in enumerate(payloads):
        record = b"\0\0" + varint(at) + varint(-1) + varint(len(payload)) + payload + b"\0"
        parts.append(varint(len(record)) + record)
    count, records = len(payloads), b"".join(parts)
    rest = BATCH_REST.pack(0, count - 1, 0, 0, -1, -1, -1, count) + records
    return BATCH.pack(0, len(rest) + 9, -1, 2, google_crc32c.value(rest)) + rest


def request(key: int, body: bytes) -> bytes:
    head = struct.pack("!hhih", key, VERSION[key], 1, -1)
    return struct.pack("!i", len(head) + len(body)) + head + body


def produce(topics: list[str], payloads: list[bytes]) -> bytes:
    """One partition each; answered when the leader, the only copy, has it."""
    records = batch(payloads)
    parts = [struct.pack("!hhii", -1, -1, 30_000, len(topics))]
    parts += [text(topic) + struct.pack("!iii", 1, 0, len(records)) + records for topic in topics]
    return request(PRODUCE, b"".join(parts))


def fetch(topic: str, offset: int) -> bytes:
    body = struct.pack("!iiiibi", -1, 500, 1, FETCH_BYTES, 0, 1) + text(topic)
    return request(FETCH, body + struct.pack("!iiqi", 1, 0, offset, FETCH_BYTES))


class KafkaConnection(RawConnection):
    """``on_response`` gets where the body of a response begins and ends, and returns whether it is an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.on_response: Callable[[bytes, int, int], bool] = produced
        self._rest = bytearray()

    def count(self, data: bytes) -> int:
        self._rest += data
        if len(self._rest) < 4 or 4 + int.from_bytes(self._rest[:4], "big") > len(self._rest):
            return 0
        data, at, answers = bytes(self._rest), 0, 0
        while at + 4 <= len(data) and (end := at + 4 + int.from_bytes(data[at : at + 4], "big")) <= len(data):
            answers += self.on_response(data, at + 8, end)
            at = end
        self._rest = bytearray(data[at:])
        return answers

    async def ask(self, question: bytes) -> bytes:
        """The body of one response, which is not counted."""
        found: list[bytes] = []

        def take(data: bytes, at: int, end: int) -> bool:
            found.append(data[at:end])
            return False

        self.on_response = take
        self.write(question)
        await wait_until(lambda: bool(found), [self])
        self.on_response = produced
        return found[0]

    def follow(self, topic: str, take: Take) -> None:
        """Read a topic from its first event that counts."""
        offset = FIRST
        begin = 4 + 4 + len(text(topic)) + 4 + 4  # throttle, topics, name, partitions, index

        def on_response(data: bytes, at: int, end: int) -> bool:
            nonlocal offset
            error, _, _, aborted, _size = struct.unpack_from("!hqqii", data, at + begin)
            if error or aborted > 0:
                raise RuntimeError(f"Kafka refused a fetch with error {error}")
            at, batches = at + begin + 26, []
            while at + BATCH_BYTES <= end:
                base, length = struct.unpack_from("!qi", data, at)
                if (last := at + 12 + length) > end:
                    break
                batches.append((at, last, int.from_bytes(data[at + 57 : at + 61], "big")))
                offset, at = base + batches[-1][2], last
            self.write(fetch(topic, offset))
            for each in batches:
                take(data, *each)
            return False

        self.on_response = on_response
        self.write(fetch(topic, offset))


def produced(data: bytes, at: int, end: int) -> bool:
    """Whether every partition of a response took what it was sent."""
    if error := first_error(data, at):
        raise RuntimeError(f"Kafka refused events with error {error}")
    return True


def first_error(data: bytes, at: int) -> int:
    (topics,) = struct.unpack_from("!i", data, at)
    at += 4
    for _ in range(topics):
        (size,) = struct.unpack_from("!h", data, at)
        (error,) = struct.unpack_from("!h", data, at + 2 + size + 8)
        if error:
            return int(error)
        at += 2 + size + 4 + 4 + 2 + 8 + 8
    return 0


class Kafka(RawSystem[KafkaConnection]):
    """``is_synced``: flush.messages=1; else the kernel decides when events reach the disk."""

    connection = KafkaConnection

    def __init__(self, server: Server, is_secured: bool = False, is_synced: bool = True) -> None:
        super().__init__(server, is_secured)
        self._settings = {"flush.messages": "1"} if is_synced else {}
        self._prefix = f"{'synced' if is_synced else 'default'}{'tls' if is_secured else ''}"

    async def _topics(self, count: int) -> list[str]:
        names = [f"{self._prefix}-{self._fresh()}" for _ in range(count)]
        settings = b"".join(text(name) + text(value) for name, value in self._settings.items())
        each = struct.pack("!ihii", 1, 1, 0, len(self._settings)) + settings
        (connection,) = await self._connect(1)
        body = struct.pack("!i", count) + b"".join(text(name) + each for name in names) + struct.pack("!ib", 30_000, 0)
        answer = await connection.ask(request(CREATE_TOPICS, body))
        if error := struct.unpack_from("!h", answer, 8 + len(text(names[0])))[0]:
            raise RuntimeError(f"Kafka refused a topic with error {error}")
        for name in names:
            while error := first_error(await connection.ask(produce([name], [b"there"])), 0):
                if error not in NOT_THERE_YET:
                    raise RuntimeError(f"Kafka refused an event with error {error}")
        return names

    async def waiting(self, seconds: float, connections: int) -> Sample:
        question = produce(await self._topics(1), [PAYLOAD])
        return await closed_loop([(each, question) for each in await self._connect(connections)], seconds)

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        topics, watch = await self._topics(1), Stopwatch()
        (publisher,) = await self._connect(1)

        def take(data: bytes, at: int, end: int, events: int) -> None:
            if events != 1:
                raise RuntimeError("each event was a batch of its own")
            watch.delivery(data[end - 1 - len(PAYLOAD) : end - 1])

        for reader in await self._connect(subscribers):
            reader.follow(topics[0], take)
        under_way: deque[int] = deque()

        def on_answers(count: int) -> None:
            for _ in range(count):
                watch.receipt(under_way.popleft())

        def hand_in() -> None:
            number, payload = watch.hand_in()
            under_way.append(number)
            publisher.write(produce(topics, [payload]))

        publisher.on_answers = on_answers
        return await paced_sample(seconds, rate, subscribers, watch, hand_in)

    async def singles(self, seconds: float, topics: int) -> Sample:
        if topics > TOPICS_MAX:
            raise LeftOut(f"more than {TOPICS_MAX} topics here: each is a directory with a leader of its own")
        names = await self._topics(topics)
        return await self._flow(seconds, names, GATHERED if topics == 1 else 1, IN_FLIGHT)

    async def _flow(
        self, seconds: float, topics: list[str], events: int, window: int, requests_max: int = sys.maxsize
    ) -> Sample:
        connections = await self._connect(1)
        question = produce(topics, [PAYLOAD] * events)
        return await in_flight(
            connections,
            lambda _, count: question * count,
            seconds,
            window=window,
            requests_max=requests_max,
            events_each=events * len(topics),
        )

    async def thousands(self, seconds: float) -> Sample:
        return await self._flow(seconds, await self._topics(1), CALL_EVENTS, IN_FLIGHT)

    async def replay(self, seconds: float, events: int) -> Sample:
        if not self._stored:
            topics = await self._topics(1)
            await self._flow(inf, topics, CALL_EVENTS, IN_FLIGHT, events // CALL_EVENTS)
            self._stored = topics[0]

        async def read() -> None:
            crowd = Crowd(1)
            (reader,) = await self._connect(1)
            reader.follow(self._stored, lambda data, at, end, count: crowd.saw(0, count))
            await wait_until(lambda: crowd.seen[0] >= events, [reader])
            reader.close()

        rate = await replayed(seconds, events, read)
        return Sample(values={"to Arrow": rate, "to objects": rate})

    async def flood(self, seconds: float, subscribers: int) -> Sample:
        topics, crowd = await self._topics(1), Crowd(subscribers)
        (publisher,) = await self._connect(1)
        for number, reader in enumerate(await self._connect(subscribers)):
            saw = partial(crowd.saw, number)
            reader.follow(topics[0], lambda data, at, end, count, saw=saw: saw(count))  # type: ignore[misc]
        question = produce(topics, [PAYLOAD] * CALL_EVENTS)

        async def send(_: int) -> None:
            publisher.write(question)

        return await flood_sample(seconds, crowd, send)
