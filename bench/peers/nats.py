"""NATS JetStream, driven by its socket: publishes with an inbox for the answer, and push consumers."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from bench.peers.process import Server, answers, free_port, required, running
from bench.peers.raw import RawConnection, RawSystem, closed_loop, in_flight, in_turn, wait_until
from bench.systems import (
    CALL_EVENTS,
    CALLS_IN_FLIGHT,
    FILLER,
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

SINGLES_WINDOW = 1_024  # more connections are no faster: each message is synced alone
BATCHES_IN_FLIGHT = 32  # the server allows 50 for a stream
BLOB = PAYLOAD * CALL_EVENTS
MARK = b"BATCHMARK"  # stands for the id of a batch until it is sent

Take = Callable[[bytes, bytes], None]


@contextmanager
def nats_server(
    place: Path, domain: str = "hub", more: str = "", *, sync: str = "always", certificates: Certificates | None = None
) -> Iterator[Server]:
    """JetStream, synced before every answer or as often as ``sync`` says. With certificates it asks for them.

    A hub listens for leaf nodes; ``more`` is added to its configuration.
    """
    port, leaf_port = free_port(), free_port()
    more = more or f'leafnodes {{ listen: "127.0.0.1:{leaf_port}" }}'
    if certificates is not None:
        pem, root = certificates.here / "server.pem", certificates.here / "root.pem"
        more += (
            f'\ntls {{ cert_file: "{pem}", key_file: "{pem}", ca_file: "{root}", verify: true, handshake_first: true }}'
        )
    configuration = place / "nats.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_payload: 8MB\nmax_pending: 256MB\n'
        f'jetstream {{ domain: {domain}, store_dir: "{place}", sync_interval: {sync}, '
        f"max_mem: 1GB, max_file: 64GB }}\n{more}\n"
    )
    question, answer = (b"CONNECT {}\r\nPING\r\n", b"PONG") if certificates is None else (b"", b"")
    words = [required("nats-server"), "--config", str(configuration)]
    with running(words, lambda: answers(port, question, answer)) as (pid, ready_s):
        tls_port = 0 if certificates is None else port
        yield Server(pid, port, ready_s, tls_port=tls_port, leaf_port=leaf_port, certificates=certificates)


class NatsConnection(RawConnection):
    """Subscribed to an inbox for answers. ``on_answer`` and ``on_message`` get subject and payload, if they are set."""

    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.inbox = f"_INBOX.b{next(self.numbers)}"
        self.on_answer: Take | None = None
        self.on_message: Take | None = None
        self.on_request: Take | None = None  # gets where the reply goes, and the payload
        self.on_payloads: Callable[[int], None] | None = None  # counts instead: much quicker
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "lang": "raw"}
        self.write(b"CONNECT %s\r\nSUB %s.> 1\r\n" % (json.dumps(options).encode(), self.inbox.encode()))

    def subscribe(self, subject: str) -> None:
        self.write(f"SUB {subject} 2\r\n".encode())

    def count(self, data: bytes) -> int:
        data = self._rest + data if self._rest else data
        if self.on_payloads is not None:
            self._rest = data[1 - len(FILLER) :]
            self.on_payloads(data.count(FILLER))
            return 0
        at = messages = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            kind = data[at : at + 4]
            if kind in (b"MSG ", b"HMSG"):
                words = data[at:end].split()
                size = int(words[-1])
                if end + 4 + size > len(data):
                    break
                self._take(words, data[end + 2 : end + 2 + size])
                at = end + 4 + size
                messages += 1
                continue
            if kind == b"PING":
                self.write(b"PONG\r\n")
            elif kind == b"-ERR":
                raise RuntimeError(data[at:end].decode())
            at = end + 2
        self._rest = data[at:]
        return messages

    def _take(self, words: list[bytes], payload: bytes) -> None:
        if words[0] == b"HMSG":
            payload = payload[int(words[-2]) :]
        is_answer = words[2] == b"1"
        if self.on_request is not None and not is_answer:
            self.on_request(words[3], payload)
            return
        if is_answer and (not payload or b'"error"' in payload):
            raise RuntimeError(f"NATS refused: {payload.decode() or 'nobody answers'}")
        if (take := self.on_answer if is_answer else self.on_message) is not None:
            take(words[1], payload)

    async def ask(self, subject: str, question: dict[str, Any]) -> dict[str, Any]:
        """A call of the JetStream API."""
        answers: list[bytes] = []
        self.on_answer = lambda _, payload: answers.append(payload)
        self.write(message(subject, json.dumps(question).encode(), f"{self.inbox}.0"))
        await wait_until(lambda: bool(answers), [self])
        self.on_answer = None
        answer: dict[str, Any] = json.loads(answers[0])
        return answer


def message(subject: str, payload: bytes, reply: str = "") -> bytes:
    return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"


def message_of_batch(subject: str, number: int, reply: str) -> bytes:
    """One message of an atomic batch; its last one, number 1,000, commits it and is answered."""
    is_last = number == CALL_EVENTS
    headers = b"NATS/1.0\r\nNats-Batch-Id: %s\r\nNats-Batch-Sequence: %d\r\n" % (MARK, number)
    headers += b"Nats-Batch-Commit: 1\r\n\r\n" if is_last else b"\r\n"
    words = f"HPUB {subject} {reply if is_last else ''} {len(headers)} {len(headers) + len(PAYLOAD)}\r\n"
    return words.encode() + headers + PAYLOAD + b"\r\n"


class Nats(RawSystem[NatsConnection]):
    connection = NatsConnection

    def __init__(self, server: Server, place: Path, is_secured: bool = False) -> None:
        super().__init__(server, is_secured)
        self._place = place
        self.helpers = ExitStack()
        self._leaf: Nats | None = None

    @classmethod
    @asynccontextmanager
    async def started(cls, place: Path) -> AsyncIterator[Nats]:
        with nats_server(place) as server:
            nats = cls(server, place)
            with nats.helpers:
                yield nats
                await nats.close()

    async def _stream(self, **more: Any) -> str:
        """A new stream of all subjects below its own name, or a mirror."""
        name = self._fresh()
        (connection,) = await self._connect(1)
        wanted = {"name": name, "storage": "file", **more}
        if "mirror" not in more:
            wanted["subjects"] = [f"{name}.>"]
        await connection.ask(f"$JS.API.STREAM.CREATE.{name}", wanted)
        return name

    async def waiting(self, seconds: float, connections: int) -> Sample:
        stream = await self._stream()
        made = await self._connect(connections)
        requests = [(each, message(f"{stream}.0", PAYLOAD, f"{each.inbox}.0")) for each in made]
        return await closed_loop(requests, seconds)

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        stream = await self._stream()
        readers = await self._connect(subscribers)
        return await self._paced(stream, [(reader, stream) for reader in readers], seconds, rate)

    async def _paced(
        self, stream: str, readers: list[tuple[NatsConnection, str]], seconds: float, rate: float
    ) -> Sample:
        """Each reader follows a stream, which is the one that is published to or a copy of it."""
        watch = Stopwatch()
        (publisher,) = await self._connect(1)
        for reader, read in readers:
            await follow(reader, read, lambda _, payload: watch.delivery(payload))

        def hand_in() -> None:
            number, payload = watch.hand_in()
            publisher.write(message(f"{stream}.0", payload, f"{publisher.inbox}.{number}"))

        publisher.on_answer = lambda subject, _: watch.receipt(int(subject.rpartition(b".")[2]))
        return await paced_sample(seconds, rate, len(readers), watch, hand_in)

    async def singles(self, seconds: float, topics: int) -> Sample:
        stream = await self._stream()
        connections = await self._connect(1)
        inbox = f"{connections[0].inbox}.0"
        requests = [message(f"{stream}.{topic}", PAYLOAD, inbox) for topic in range(topics)]
        return await in_flight(connections, in_turn(requests), seconds, window=SINGLES_WINDOW)

    async def thousands(self, seconds: float) -> Sample:
        """An atomic batch of 1,000 messages a call."""
        stream = await self._stream(allow_atomic=True)
        connections = await self._connect(1)
        encode = batches(stream, connections[0])
        return await in_flight(connections, encode, seconds, window=BATCHES_IN_FLIGHT, events_each=CALL_EVENTS)

    async def blobs(self, seconds: float) -> Sample:
        stream = await self._stream()
        connections = await self._connect(1)
        request = message(f"{stream}.0", BLOB, f"{connections[0].inbox}.0")
        return await in_flight(
            connections, lambda _, count: request * count, seconds, window=CALLS_IN_FLIGHT, events_each=CALL_EVENTS
        )

    async def replay(self, seconds: float, events: int) -> Sample:
        if not self._stored:
            self._stored = await self._stream(allow_atomic=True)
            connections = await self._connect(1)
            encode, calls = batches(self._stored, connections[0]), events // CALL_EVENTS
            await in_flight(connections, encode, inf, window=BATCHES_IN_FLIGHT, requests_max=calls)

        async def read() -> None:
            crowd = Crowd(1)
            (reader,) = await self._connect(1)
            await follow_counting(reader, self._stored, partial(crowd.saw, 0))
            await wait_until(lambda: crowd.seen[0] >= events, [reader])

        rate = await replayed(seconds, events, read)
        return Sample(values={"to Arrow": rate, "to objects": rate})

    async def flood(self, seconds: float, subscribers: int) -> Sample:
        stream, crowd = await self._stream(allow_atomic=True), Crowd(subscribers)
        (publisher,) = await self._connect(1)
        for number, reader in enumerate(await self._connect(subscribers)):
            await follow_counting(reader, stream, partial(crowd.saw, number))
        encode = batches(stream, publisher)

        async def send(number: int) -> None:
            publisher.write(encode(number, 1))

        return await flood_sample(seconds, crowd, send)

    async def hop(self, seconds: float, rate: float) -> Sample:
        """A leaf node with a mirror of the hub's stream. The hub is this server."""
        if self.is_secured:
            raise LeftOut("hop with mTLS here")
        if self._leaf is None:
            leaf_place = self._place / "leaf"
            leaf_place.mkdir()
            remote = f'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{self._server.leaf_port}" }} ] }}'
            server = self.helpers.enter_context(nats_server(leaf_place, "leaf", remote))
            self._leaf = Nats(server, self._place)
        stream = await self._stream()
        mirror = await self._leaf._stream(mirror={"name": stream, "external": {"api": "$JS.hub.API"}})
        (reader,) = await self._leaf._connect(1)
        try:
            return await self._paced(stream, [(reader, mirror)], seconds, rate)
        finally:
            await self._leaf.close()

    async def asking(self, seconds: float) -> Sample:
        """Core NATS: nothing of it is stored."""
        subject = self._fresh()
        asker, server = await self._connect(2)
        server.on_request = lambda reply, payload: server.write(message(reply.decode(), payload))
        server.subscribe(subject)
        await server.ask("$JS.API.INFO", {})  # the subscription is there once this is answered
        asker.on_answer = lambda _, payload: asker.on_replies(1)
        return await closed_loop([(asker, message(subject, PAYLOAD, f"{asker.inbox}.0"))], seconds, by_reply=True)


def batches(stream: str, connection: NatsConnection) -> Callable[[int, int], bytes]:
    """Encodes atomic batches of 1,000 messages, each with an id of its own."""
    reply = f"{connection.inbox}.0"
    template = b"".join(message_of_batch(f"{stream}.0", number + 1, reply) for number in range(CALL_EVENTS))

    def encode(first: int, count: int) -> bytes:
        return b"".join([template.replace(MARK, b"%09d" % number) for number in range(first, first + count)])

    return encode


async def follow(reader: NatsConnection, stream: str, take: Take) -> None:
    """Read a stream from its beginning, as a consumer of the reader's own pushes it."""
    subject = f"deliver.{reader.inbox[7:]}"
    wanted = {"deliver_subject": subject, "deliver_policy": "all", "ack_policy": "none", "mem_storage": True}
    reader.on_message = take
    reader.subscribe(subject)
    await reader.ask(f"$JS.API.CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": wanted})


async def follow_counting(reader: NatsConnection, stream: str, take: Callable[[int], None]) -> None:
    """The same, but payloads are only counted."""
    await follow(reader, stream, lambda _, payload: take(1))
    reader.on_payloads = take
