"""Attacks on a real server, in a process of its own: what they cost it is bounded, and honest clients do not notice."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import pytest
from hpack import Encoder

from tests.transport.grpc.attacked_server import PATIENT_S, POUR, REPORTS, Attacked, attacked
from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import ECHO, PATIENCE_S, channel_to
from weft.wire.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)

HOST = "127.0.0.1"
ATTACK_S_MAX = 10.0  # after which it is over, one way or the other
CPU_S_MAX = 8.0  # for one attack, on a busy machine: three on a quiet one, in pieces of some milliseconds
MEMORY_BYTES_MAX = 64 << 20
HELLO = PREFACE + frame(SETTINGS, 0, 0)
REQUEST = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", ECHO),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


class Attack(NamedTuple):
    """What is sent, and what the server says before it hangs up."""

    name: str
    chunks: Callable[[], Iterator[bytes]]
    reason: str
    reads: bool = True


def block() -> bytes:
    return Encoder().encode(REQUEST)


def opened() -> bytes:
    return frame(HEADERS, END_HEADERS, 1, block())


def for_ever(piece: bytes, first: bytes = b"") -> Callable[[], Iterator[bytes]]:
    """The same again and again, a hundred at a time."""

    def chunks() -> Iterator[bytes]:
        yield first
        while True:
            yield piece * 100

    return chunks


def rapid_reset() -> Iterator[bytes]:
    for first in range(1, 1 << 30, 200):
        numbers = range(first, first + 200, 2)
        yield b"".join(
            frame(HEADERS, END_HEADERS, each, block()) + frame(RST_STREAM, 0, each, struct.pack(">I", 8))
            for each in numbers
        )


def reset_by_us() -> Iterator[bytes]:
    """Requests that the server has to reset: it does the work, and the client does not even pay for a frame."""
    bad = Encoder().encode([*REQUEST, ("connection", "close")])
    for first in range(1, 1 << 30, 200):
        yield b"".join(frame(HEADERS, END_HEADERS, each, bad) for each in range(first, first + 200, 2))


def streams_without_end() -> Iterator[bytes]:
    for first in range(1, 1 << 30, 200):
        yield b"".join(frame(HEADERS, END_HEADERS, each, block()) for each in range(first, first + 200, 2))


def unknown_methods() -> Iterator[bytes]:
    """Whole requests, each answered at once; a client that reads the answers may do that. This one does not."""
    request = Encoder().encode([*REQUEST[:2], (":path", "/nothing"), *REQUEST[3:]])
    for first in range(1, 1 << 30, 200):
        yield b"".join(frame(HEADERS, END_HEADERS | END_STREAM, each, request) for each in range(first, first + 200, 2))


def hpack_bomb() -> Iterator[bytes]:
    """One long field in the table, then blocks in which each byte stands for it."""
    yield frame(HEADERS, END_HEADERS, 1, Encoder().encode([*REQUEST, ("x-a", "v" * 3900)]))
    for number in range(3, 1 << 30, 2):
        yield frame(HEADERS, END_HEADERS, number, bytes([0x80 | 62]) * 16_000)


def many_fields() -> Iterator[bytes]:
    for number in range(1, 1 << 30, 2):
        yield frame(HEADERS, END_HEADERS, number, block() + b"\x00\x01a\x00" * 4000)


def continuations(size: int) -> Callable[[], Iterator[bytes]]:
    return for_ever(frame(CONTINUATION, 0, 1, b"\0" * size), frame(HEADERS, 0, 1, block()))


def smuggled() -> Iterator[bytes]:
    """Names and values that would mean something else to a server behind this one: each is refused, and costs."""
    bad = [("x", "a\r\nfoo: bar"), ("Host", "x"), ("transfer-encoding", "chunked"), (":path", "/other"), ("x:y", "z")]
    for first in range(1, 1 << 30, 2 * len(bad)):
        pairs = zip(range(first, first + 2 * len(bad), 2), bad, strict=True)
        yield b"".join(frame(HEADERS, END_HEADERS, each, Encoder().encode([*REQUEST, field])) for each, field in pairs)


def garbage() -> Iterator[bytes]:
    chance = Random(7)  # noqa: S311  # the same every time
    while True:
        yield chance.randbytes(10_000)


IDLE = "too many frames without messages"
ATTACKS = [
    Attack("CONTINUATION, empty", continuations(0), "block"),
    Attack("CONTINUATION, a byte each", continuations(1), "block"),
    Attack("CONTINUATION, 16 kB each", continuations(16_000), "block"),
    Attack("rapid reset", rapid_reset, IDLE),
    Attack("made to reset", reset_by_us, IDLE),
    Attack("streams without end", streams_without_end, IDLE),
    Attack("HPACK bomb", hpack_bomb, "header"),
    Attack("many fields", many_fields, "header"),
    Attack("smuggled fields", smuggled, IDLE),
    Attack("PING", for_ever(frame(PING, 0, 0, b"12345678")), IDLE),
    Attack("PING, answers not read", for_ever(frame(PING, 0, 0, b"12345678")), IDLE, reads=False),
    Attack("SETTINGS", for_ever(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 70_000))), IDLE),
    Attack("SETTINGS, many in each", for_ever(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 70_000) * 1000)), IDLE),
    Attack("PRIORITY", for_ever(frame(PRIORITY, 0, 1, b"\0\0\0\0\1")), IDLE),
    Attack("WINDOW_UPDATE of the connection", for_ever(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")), IDLE),
    Attack("WINDOW_UPDATE of a stream", for_ever(frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"), opened()), IDLE),
    Attack("WINDOW_UPDATE of no stream", for_ever(frame(WINDOW_UPDATE, 0, 99, b"\0\0\0\1")), "never opened"),
    Attack("DATA, empty", for_ever(frame(DATA, 0, 1), opened()), IDLE),
    Attack("DATA, padding only", for_ever(frame(DATA, 8, 1, b"\x05" + bytes(5)), opened()), IDLE),
    Attack("DATA, a byte each", for_ever(frame(DATA, 0, 1, b"\0"), opened()), ""),
    Attack("DATA beyond the window", for_ever(frame(DATA, 0, 1, b"\0\0\0\x3f\xfb" + bytes(16_379)), opened()), ""),
    Attack("frames of another version", for_ever(frame(77, 0, 0, b"x")), IDLE),
    Attack("requests whose answers are not read", unknown_methods, "", reads=False),
    Attack("garbage", garbage, ""),
]


def run(attack: Attack, port: int) -> tuple[bool, str]:
    """Whether the server hung up within the time, and the reason in its GOAWAY."""
    received = b""
    with socket.create_connection((HOST, port)) as peer:
        # The server takes a part of what came, and others have their turn: who reads nothing must be patient.
        peer.settimeout(0.2 if attack.reads else ATTACK_S_MAX)
        end_s = time.monotonic() + ATTACK_S_MAX
        is_closed = False
        chunks = attack.chunks()
        try:
            peer.sendall(HELLO)
            while time.monotonic() < end_s and not is_closed:
                try:
                    peer.sendall(next(chunks))
                except TimeoutError:
                    break  # it does not read any more, which is an answer as well
                if attack.reads:
                    data, is_closed = read_some(peer)
                    received = (received + data)[-100_000:]
            peer.settimeout(ATTACK_S_MAX)
            while not is_closed and (data := peer.recv(1 << 16)):
                received = (received + data)[-100_000:]
            is_closed = True
        except TimeoutError:
            is_closed = False
        except ConnectionError:
            is_closed = True
    return is_closed, reason_in(received)


def read_some(peer: socket.socket) -> tuple[bytes, bool]:
    """What is there, and whether that was all."""
    found = b""
    peer.setblocking(False)
    try:
        while data := peer.recv(1 << 16):
            found += data
        return found, True
    except BlockingIOError:
        return found, False
    finally:
        peer.settimeout(0.2)


def reason_in(received: bytes) -> str:
    at = received.rfind(bytes([GOAWAY, 0, 0, 0, 0, 0]))
    return received[at + 14 :].decode(errors="replace") if at >= 0 else ""


async def reports(channel: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await channel.unary(REPORTS, b""))
    return found


async def be_honest(channel: Any, ended: asyncio.Event) -> int:
    """Call until it has ended; how often that was."""
    count = 0
    while not ended.is_set():
        assert await channel.unary(ECHO, b"hello", timeout_s=PATIENCE_S) == b"hello"
        count += 1
        await asyncio.sleep(0.005)
    return count


@pytest.fixture(scope="module")
def server() -> Iterator[Attacked]:
    with attacked(first_request_timeout_s=PATIENT_S) as running:
        yield running


@pytest.fixture(scope="module")
def impatient() -> Iterator[Attacked]:
    with attacked() as running:
        yield running


@pytest.mark.parametrize("attack", ATTACKS, ids=[each.name for each in ATTACKS])
async def test_an_attack_ends_and_costs_little(attack: Attack, server: Attacked) -> None:
    async with channel_to(HOST, server.port) as channel:
        before = await reports(channel)
        cpu_s, memory_bytes = server.cpu_s, server.memory_bytes
        ended = asyncio.Event()
        honest = asyncio.create_task(be_honest(channel, ended))
        is_closed, reason = await asyncio.to_thread(run, attack, server.port)
        ended.set()
        assert await honest > 0
        assert is_closed
        if attack.reads:
            assert attack.reason in reason
        async with asyncio.timeout(PATIENCE_S):
            while len((after := await reports(channel))["reasons"]) <= len(before["reasons"]):
                await asyncio.sleep(0.01)
        assert attack.reason in after["reasons"][-1]
        assert after["connections"] == 1 and after["failed"] == 0
        assert server.cpu_s - cpu_s < CPU_S_MAX
        assert server.memory_bytes - memory_bytes < MEMORY_BYTES_MAX


async def test_slow_and_silent_peers_are_hung_up_on(impatient: Attacked) -> None:
    """A hundred that send nothing, and some that send a byte now and then of whatever they should send."""

    async def drip(data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, impatient.port)
        received = asyncio.create_task(reader.read())
        for at in range(len(data)):
            if received.done():
                break
            writer.write(data[at : at + 1])
            await asyncio.sleep(0.02)
        answer = await received
        writer.close()
        return answer

    async def silence() -> bytes:
        reader, writer = await asyncio.open_connection(HOST, impatient.port)
        answer = await reader.read()
        writer.close()
        return answer

    async with channel_to(HOST, impatient.port) as channel:
        ended = asyncio.Event()
        honest = asyncio.create_task(be_honest(channel, ended))
        memory_bytes = impatient.memory_bytes
        slow = [drip(HELLO + frame(HEADERS, 0, 1, b"\0" * 1000)) for _ in range(5)]
        async with asyncio.timeout(PATIENCE_S):
            answers = await asyncio.gather(*slow, *[silence() for _ in range(100)])
        assert {reason_in(each) for each in answers} == {"no request within 1 s"}
        ended.set()
        assert await honest > 1
        assert (await reports(channel))["connections"] == 1
        assert impatient.memory_bytes - memory_bytes < MEMORY_BYTES_MAX


async def test_too_many_connections_are_refused_and_others_go_on(server: Attacked) -> None:
    async with channel_to(HOST, server.port) as channel:
        before = await reports(channel)
        peers = [await asyncio.open_connection(HOST, server.port) for _ in range(300)]
        async with asyncio.timeout(PATIENCE_S):
            while (after := await reports(channel))["connections"] + len(after["reasons"]) - len(
                before["reasons"]
            ) < 301:
                await asyncio.sleep(0.01)
        assert after["connections"] <= 200
        assert "too many connections from one address (limit 200)" in after["reasons"]
        assert await channel.unary(ECHO, b"x") == b"x"
        for _, writer in peers:
            writer.close()
        async with asyncio.timeout(PATIENCE_S):
            while (await reports(channel))["connections"] > 1:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("reads", [False, True], ids=["nothing", "frames, and never opens a window"])
async def test_a_client_that_does_not_take_what_it_asked_for_costs_a_bounded_amount(
    reads: bool, server: Attacked
) -> None:
    """500 streams, each poured into without end. Who reads no frame at all cannot answer pings, and is hung up on."""

    def opening() -> bytes:
        request = Encoder().encode([*REQUEST[:2], (":path", POUR), *REQUEST[3:]])
        return HELLO + b"".join(frame(HEADERS, END_HEADERS, each, request) for each in range(1, 1001, 2))

    async with channel_to(HOST, server.port) as channel:
        memory_bytes = server.memory_bytes
        reader, writer = await asyncio.open_connection(HOST, server.port)
        if not reads:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(opening())

        async def answer_pings() -> None:
            while head := await reader.read(9):
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                if head[3] == PING and not head[4]:
                    writer.write(frame(PING, 1, 0, payload))

        reading = asyncio.create_task(answer_pings())
        async with asyncio.timeout(PATIENCE_S):
            while (await reports(channel))["calls"] < 501:
                await asyncio.sleep(0.01)
            if reads:
                await asyncio.sleep(2.5)  # longer than pings go unanswered
                assert (await reports(channel))["calls"] == 501
            else:
                while (await reports(channel))["calls"] > 1:
                    await asyncio.sleep(0.01)
                assert "does not answer pings" in (await reports(channel))["reasons"][-1]
        assert server.memory_bytes - memory_bytes < 2 * MEMORY_BYTES_MAX
        assert await channel.unary(ECHO, b"x", timeout_s=PATIENCE_S) == b"x"
        reading.cancel()
        writer.close()
        async with asyncio.timeout(PATIENCE_S):
            while (await reports(channel))["calls"] > 1:
                await asyncio.sleep(0.01)


async def test_slow_and_wrong_handshakes_are_hung_up_on(certificates: Certificates) -> None:
    """TLS byte by byte, nothing at all, plain text, and random records; an honest client is served meanwhile."""
    hello = client_hello()

    async def visit(port: int, data: bytes, pause_s: float) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        received = asyncio.create_task(reader.read())
        for piece in [data[at : at + 1] for at in range(len(data))] if pause_s else [data]:
            if received.done():
                break
            writer.write(piece)
            await asyncio.sleep(pause_s)
        with suppress(ConnectionError):
            await received
        writer.close()

    with attacked(certificates.here / "server.pem") as running:
        async with channel_to(HOST, running.port, tls=certificates.client(None)) as channel:
            ended = asyncio.Event()
            honest = asyncio.create_task(be_honest(channel, ended))
            chance = Random(3)  # noqa: S311  # the same every time
            visits = [visit(running.port, hello, 0.02) for _ in range(10)]
            visits += [visit(running.port, b"", 0.0) for _ in range(20)]
            visits += [visit(running.port, HELLO, 0.0) for _ in range(10)]
            visits += [visit(running.port, b"\x16\x03\x01\x10\x00" + chance.randbytes(4096), 0.0) for _ in range(10)]
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*visits)
                ended.set()
                assert await honest > 1
                while len((found := await reports(channel))["reasons"]) < 50:
                    await asyncio.sleep(0.01)
            assert found["connections"] == 1
            assert sum("took too long" in each for each in found["reasons"]) == 30


def client_hello() -> bytes:
    """What a client would say first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    talk = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    return outgoing.read()
