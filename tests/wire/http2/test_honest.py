"""Busy but honest peers are never told to calm down.

Time is simulated: each peer works at its rate for a third of a second or more, with a burst so small that a budget
which shrinks at all would be empty before the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Final

import pytest
from hpack import Encoder

from tests.wire.http2.support import (
    REQUEST,
    RESPONSE,
    SERVER,
    TRAILERS,
    End,
    Heard,
    a_client,
    a_server,
    data_frame,
    headers_frame,
    message,
    u32,
)
from weft.wire.http2 import CLIENT_SETTINGS
from weft.wire.http2.frames import END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, WINDOW_UPDATE, frame

BURST: Final = 100.0
WATCHED: Final = replace(SERVER, idle_frames_burst=BURST)
PER_S: Final = 20_000
STEPS: Final = 6_000
RESET: Final = u32(8)


def odd() -> Iterator[int]:
    return count(1, 2)


def answer(heard: Heard, event: str) -> None:
    """A short answer at the end of each request."""
    if event == "end":
        heard.stream.send_headers(RESPONSE)
        heard.stream.send(b"taken")
        heard.stream.end(TRAILERS)


def play(end: End, frames: Iterator[bytes], steps: int = STEPS, per_s: float = PER_S) -> None:
    """Each at its time. A peer that is told to calm down raises BadHttp2 here."""
    for _, each in zip(range(steps), frames, strict=False):
        end.now_s += 1 / per_s
        end.receive(each)
        end.sent()
        end.heard.clear()


def request_of(encoder: Encoder, number: int, *more: tuple[str, str], ends: bool = False) -> bytes:
    """By an encoder that uses its table, as most do."""
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), number, encoder.encode([*REQUEST, *more]))


UNARY: dict[str, Callable[[Encoder, int], bytes]] = {
    "end with the message": lambda encoder, n: request_of(encoder, n) + data_frame(n, message(b"x" * 20), ends=True),
    "end by itself": lambda encoder, n: (
        request_of(encoder, n) + data_frame(n, message(b"x" * 20)) + data_frame(n, b"", ends=True)
    ),
    "prefix by itself": lambda encoder, n: (
        request_of(encoder, n) + data_frame(n, message(b"x" * 20)[:5]) + data_frame(n, b"x" * 20, ends=True)
    ),
    "empty messages": lambda encoder, n: request_of(encoder, n) + data_frame(n, message(b""), ends=True),
    "a window for each stream": lambda encoder, n: (
        request_of(encoder, n) + data_frame(n, message(b"x"), ends=True) + frame(WINDOW_UPDATE, 0, n, u32(1 << 20))
    ),
    "windows and a ping with each answer": lambda encoder, n: (
        request_of(encoder, n)
        + data_frame(n, message(b"x"), ends=True)
        + frame(WINDOW_UPDATE, 0, n, u32(10))
        + frame(WINDOW_UPDATE, 0, 0, u32(10))
        + frame(PING, 0, 0, bytes(8))
    ),
    "one in a hundred is given up": lambda encoder, n: (
        request_of(encoder, n, ("grpc-timeout", "1S"))
        + (frame(RST_STREAM, 0, n, RESET) if n % 200 == 1 else data_frame(n, message(b"x" * 20), ends=True))
    ),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary_calls(kind: str) -> None:
    """20,000 a second."""
    server = a_server(WATCHED, react=answer)
    server.receive(frame(WINDOW_UPDATE, 0, 0, u32(1 << 30)))
    encoder = Encoder()
    play(server, (UNARY[kind](encoder, number) for number in odd()))
    assert server.http2.streams == {}


def test_calls_that_are_given_up() -> None:
    """200 a second, and nothing else that would pay for them."""
    server = a_server(WATCHED)
    play(server, (headers_frame(n, REQUEST) + frame(RST_STREAM, 0, n, RESET) for n in odd()), steps=2000, per_s=200)


def test_a_thousand_calls_that_are_given_up_at_once() -> None:
    """Their caller ended, or lost its patience. With the burst as it is."""
    server = a_server()
    for number in range(1, 2048, 2):
        server.receive(headers_frame(number, REQUEST))
    for number in range(1, 2048, 2):
        server.receive(frame(RST_STREAM, 0, number, RESET))
    assert server.http2.streams == {}


@pytest.mark.parametrize("size", [0, 20, 200])
def test_a_subscriber_that_opens_windows_with_each_message(size: int) -> None:
    """Both windows, and a PING to measure the way, for each message that it gets: 20,000 a second."""
    server = a_server(WATCHED)
    server.receive(headers_frame(1, REQUEST))
    stream = server.heard[1].stream
    stream.send_headers(RESPONSE)
    for _ in range(STEPS):
        server.now_s += 1 / PER_S
        stream.send(bytes(size))
        server.sent()
        server.receive(frame(WINDOW_UPDATE, 0, 0, u32(size + 5)) + frame(WINDOW_UPDATE, 0, 1, u32(size + 5)))
        server.receive(frame(PING, 0, 0, bytes(8)))
    assert stream.waiting_bytes == 0


def test_a_subscriber_with_a_small_window() -> None:
    """Messages that wait for a window, and go when it opens, pay as well."""
    server = a_server(WATCHED)
    server.receive(headers_frame(1, REQUEST))
    stream = server.heard[1].stream
    stream.send_headers(RESPONSE)
    for _ in range(3000):
        stream.send(b"x" * 20)
    server.sent()
    assert stream.waiting_bytes > 0
    for _ in range(STEPS):
        server.now_s += 1 / PER_S
        stream.send(b"x" * 20)
        server.sent()
        server.receive(frame(WINDOW_UPDATE, 0, 0, u32(25)) + frame(WINDOW_UPDATE, 0, 1, u32(25)))
    assert stream.waiting_bytes > 0


def test_a_publisher_that_sends_prefixes_apart() -> None:
    """20,000 small messages a second, each in two frames, and no answers."""
    server = a_server(WATCHED)
    server.receive(headers_frame(1, REQUEST))
    heard = server.heard[1]
    body = message(b"x" * 20)
    play(server, (data_frame(1, body[:5]) + data_frame(1, body[5:]) for _ in count()))
    assert len(heard.messages) == STEPS


def test_a_server_that_ends_calls_early() -> None:
    """Each answer is followed by RST_STREAM, as RFC 9113, 8.1 allows: 20,000 a second."""
    client = a_client(replace(CLIENT_SETTINGS, idle_frames_burst=BURST))
    for _ in range(STEPS):
        client.now_s += 1 / PER_S
        stream = client.open().stream
        stream.send(b"x")
        client.sent()
        number = stream.id
        client.receive(headers_frame(number, [*RESPONSE, *TRAILERS], ends=True) + frame(RST_STREAM, 0, number, u32(0)))
        client.heard.clear()
    assert client.http2.streams == {}


def test_a_client_that_gives_up_many_streams_while_messages_come() -> None:
    """What is on its way when it does is small DATA on streams that are over: 30,000 of 20 bytes at once."""
    client = a_client()
    calls = [client.open() for _ in range(100)]
    client.sent()
    for call in calls:
        client.receive(headers_frame(call.stream.id, RESPONSE))
        call.stream.reset()
    for number in range(30_000):
        client.receive(data_frame(1 + number % 100 * 2, message(b"x" * 20)))
        client.sent()


def test_a_reader_of_large_batches() -> None:
    """1 MB messages in frames of 16 KiB, with a WINDOW_UPDATE of both windows for each frame."""
    server = a_server(WATCHED)
    server.receive(headers_frame(1, REQUEST))
    stream = server.heard[1].stream
    stream.send_headers(RESPONSE)
    update = frame(WINDOW_UPDATE, 0, 0, u32(16_384)) + frame(WINDOW_UPDATE, 0, 1, u32(16_384))
    for _ in range(30):
        stream.send(bytes(1_000_000))
        while stream.waiting_bytes:
            server.sent()
            server.receive(update)
