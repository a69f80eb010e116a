"""What peers have done to bring HTTP/2 servers down, each by its name: how far it gets, and what it costs.

Work is counted, not timed. An attacker here is as quick as it likes (no time passes), reads every answer, and is
welcome unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, repeat
from typing import Final, NamedTuple

import pytest

from tests.wire.http2.support import (
    REQUEST,
    RESPONSE,
    SERVER,
    End,
    a_client,
    a_server,
    block,
    counted_calls,
    data_frame,
    headers_frame,
    message,
    named,
    passed,
    settings_frame,
    u32,
)
from weft.wire.http2 import CLIENT_SETTINGS, BadHttp2, ErrorCode
from weft.wire.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    NUMBER_MAX,
    PADDED,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Setting,
    frame,
)
from weft.wire.http2.settings import CONTINUATIONS_MAX, HEADER_BLOCK_BYTES_MAX

ATTACKED: Final = replace(SERVER, idle_frames_burst=2000.0)  # a quarter of what it is, for quicker tests
BURST: Final = int(ATTACKED.idle_frames_burst)
RESETS: Final = int(BURST / ATTACKED.reset_cost)
CALLS_MAX: Final = 100  # for what is sent again and again, a request and its end included; about 10 µs

OPEN: Final = headers_frame(1, REQUEST)
REQUEST_BLOCK: Final = block(*REQUEST)
RESET: Final = u32(ErrorCode.CANCEL)


def odd() -> Iterator[int]:
    return count(3, 2)


def request(number: int) -> bytes:
    return frame(HEADERS, END_HEADERS, number, REQUEST_BLOCK)


class Flood(NamedTuple):
    name: str
    before: bytes
    frames: Callable[[], Iterator[bytes]]
    pass_about: float
    code: ErrorCode = ErrorCode.ENHANCE_YOUR_CALM


FLOODS = [
    Flood("PING", b"", lambda: repeat(frame(PING, 0, 0, bytes(8))), BURST),
    Flood("PING that answers none", b"", lambda: repeat(frame(PING, ACK, 0, bytes(8))), BURST),
    Flood("empty SETTINGS", b"", lambda: repeat(settings_frame()), BURST),
    Flood("SETTINGS that answer none", b"", lambda: repeat(frame(SETTINGS, ACK, 0)), BURST),
    Flood(
        "SETTINGS of windows",
        OPEN,
        lambda: (settings_frame((Setting.INITIAL_WINDOW_SIZE, 60_000 + n % 2)) for n in count()),
        BURST / 1.2,
    ),
    Flood("PRIORITY", b"", lambda: repeat(frame(PRIORITY, 0, 99, u32(0) + b"x")), BURST),
    Flood("unknown frames", b"", lambda: repeat(frame(0x77, 0, 0, b"x")), BURST),
    Flood("WINDOW_UPDATE of the connection", b"", lambda: repeat(frame(WINDOW_UPDATE, 0, 0, u32(1))), BURST),
    Flood("WINDOW_UPDATE of a stream", OPEN, lambda: repeat(frame(WINDOW_UPDATE, 0, 1, u32(1))), BURST),
    Flood(
        "WINDOW_UPDATE of a stream that is over",
        OPEN + frame(RST_STREAM, 0, 1, RESET),
        lambda: repeat(frame(WINDOW_UPDATE, 0, 1, u32(1))),
        BURST,
    ),
    Flood(
        "WINDOW_UPDATE of a stream that nobody opened",
        b"",
        lambda: repeat(frame(WINDOW_UPDATE, 0, 99, u32(1))),
        0,
        ErrorCode.PROTOCOL_ERROR,
    ),
    Flood("RST_STREAM of a stream that is over", request(1), lambda: repeat(frame(RST_STREAM, 0, 1, RESET)), BURST),
    Flood("GOAWAY", b"", lambda: repeat(frame(GOAWAY, 0, 0, bytes(8) + b"so long")), BURST),
    Flood("empty DATA", OPEN, lambda: repeat(data_frame(1, b"")), BURST),
    Flood("empty DATA, padded", OPEN, lambda: repeat(frame(DATA, PADDED, 1, b"\0")), BURST),
    Flood(
        "one-byte DATA",
        OPEN + data_frame(1, message(bytes(1 << 22))[:5]),
        lambda: repeat(data_frame(1, b"x")),
        8 * BURST,
    ),
    Flood(
        "DATA of a stream that is over",
        OPEN + frame(RST_STREAM, 0, 1, RESET),
        lambda: repeat(data_frame(1, b"x")),
        BURST,
    ),
    Flood("empty CONTINUATIONs", frame(HEADERS, 0, 1, REQUEST_BLOCK), lambda: repeat(frame(CONTINUATION, 0, 1)), 8),
    Flood("CONTINUATIONs of 1 byte", frame(HEADERS, 0, 1), lambda: repeat(frame(CONTINUATION, 0, 1, b"\0")), 8),
    Flood("CONTINUATIONs of 16 KB", frame(HEADERS, 0, 1), lambda: repeat(frame(CONTINUATION, 0, 1, bytes(16_384))), 2),
    # Streams that are opened in vain.
    Flood("rapid reset", b"", lambda: (request(n) + frame(RST_STREAM, 0, n, RESET) for n in odd()), RESETS),
    Flood(
        "resets that we are made to send: windows",
        b"",
        lambda: (request(n) + frame(WINDOW_UPDATE, 0, n, u32(0)) for n in odd()),
        BURST / 5,
    ),
    Flood(
        "resets that we are made to send: large windows",
        b"",
        lambda: (request(n) + frame(WINDOW_UPDATE, 0, n, u32(NUMBER_MAX)) for n in odd()),
        BURST / 5,
    ),
    Flood(
        "resets that we are made to send: PRIORITY",
        b"",
        lambda: (request(n) + frame(PRIORITY, 0, n, b"x") for n in odd()),
        BURST / 5,
    ),
    Flood(
        "resets that we are made to send: HEADERS twice",
        b"",
        lambda: (request(n) + request(n) for n in odd()),
        RESETS,
    ),
    Flood(
        "resets that we are made to send: DATA after the end",
        b"",
        lambda: (frame(HEADERS, END_HEADERS | END_STREAM, n, REQUEST_BLOCK) + data_frame(n, b"x") for n in odd()),
        RESETS,
    ),
    Flood(
        "resets that we are made to send: compressed messages",
        b"",
        lambda: (request(n) + data_frame(n, b"\1\0\0\0\0") for n in odd()),
        RESETS,
    ),
    Flood(
        "resets that we are made to send: an end within a message",
        b"",
        lambda: (request(n) + data_frame(n, b"\0", ends=True) for n in odd()),
        RESETS,
    ),
    Flood(
        "malformed requests",
        b"",
        lambda: (frame(HEADERS, END_HEADERS, n, b"\x00\x01A\x01b") for n in odd()),
        RESETS,
    ),
]


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.name for flood in FLOODS])
def test_floods(flood: Flood) -> None:
    server = a_server(ATTACKED)
    server.receive(flood.before)
    server.sent()
    with counted_calls() as calls:
        got_through, error = passed(server, flood.frames())
    assert error is not None and error.code is flood.code
    assert 0.9 * flood.pass_about <= got_through <= 1.1 * flood.pass_about
    assert calls.count <= CALLS_MAX * (got_through + 1)
    (goaway,) = named(server.frames(), "GoAwayFrame")
    assert goaway.error_code == flood.code
    assert len(server.http2.streams) <= 1


CLIENT_FLOODS = [
    Flood("PING", b"", lambda: repeat(frame(PING, 0, 0, bytes(8))), 1.1 * BURST),
    Flood("news before the answer", b"", lambda: repeat(headers_frame(1, [(":status", "103")])), BURST),
    Flood("RST_STREAM", b"", lambda: repeat(frame(RST_STREAM, 0, 1, RESET)), BURST),
    Flood("GOAWAY", b"", lambda: repeat(frame(GOAWAY, 0, 0, u32(NUMBER_MAX) + u32(0))), BURST),
    Flood("empty DATA", headers_frame(1, RESPONSE), lambda: repeat(data_frame(1, b"")), BURST),
    Flood(
        "HEADERS of a stream that we gave up",
        frame(GOAWAY, 0, 0, bytes(8)),
        lambda: repeat(headers_frame(3, RESPONSE)),
        BURST,
    ),
]


@pytest.mark.parametrize("flood", CLIENT_FLOODS, ids=[flood.name for flood in CLIENT_FLOODS])
def test_floods_of_servers(flood: Flood) -> None:
    client = a_client(replace(CLIENT_SETTINGS, idle_frames_burst=2000.0))
    client.open()
    client.open().stream.reset()
    client.sent()
    client.receive(flood.before)
    got_through, error = passed(client, flood.frames())
    assert error is not None and error.code is flood.code
    assert 0.9 * flood.pass_about <= got_through <= 1.1 * flood.pass_about


def test_time_pays_for_more() -> None:
    """A flood that is slow enough is no flood, and after a rest there is a burst again."""
    server = a_server(ATTACKED)
    ping = frame(PING, 0, 0, bytes(8))
    for second in range(5):
        server.now_s = float(second)
        for _ in range(int(0.9 * SERVER.idle_frames_per_s)):
            server.receive(ping)
        server.sent()
    server.now_s += 100
    assert passed(server, repeat(ping))[0] >= BURST


# --- HPACK ------------------------------------------------------------------------------------------------------------


def long_entry() -> bytes:
    """A request that puts an entry of 4,000 bytes into the table, as its number 62."""
    return request(1)[:9] + REQUEST_BLOCK + b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000


def with_length(data: bytes) -> bytes:
    return (len(data) - 9).to_bytes(3) + data[3:]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (b"\xbe" * 16_000, ErrorCode.ENHANCE_YOUR_CALM),  # 64 MB, if it were unpacked
        (b"\xbe" * 9, ErrorCode.ENHANCE_YOUR_CALM),
        (b"\x82" * 16_000, ErrorCode.ENHANCE_YOUR_CALM),
        (b"\x90" * 129, ErrorCode.ENHANCE_YOUR_CALM),
        (b"\x20" * 16_000, ErrorCode.COMPRESSION_ERROR),  # of the table's size: hpack would read them all
        (b"\x00\x00\x00" * 10_000, ErrorCode.ENHANCE_YOUR_CALM),  # fields without name or value
        (b"\xff" * 16_000, ErrorCode.COMPRESSION_ERROR),
    ],
    ids=["4 KB entry", "4 KB entry, few", "static entries", "many fields", "sizes", "nothing", "endless number"],
)
def test_bombs(fields: bytes, code: ErrorCode) -> None:
    server = a_server()
    server.receive(with_length(long_entry()))
    with counted_calls() as calls, pytest.raises(BadHttp2) as caught:
        server.receive(frame(HEADERS, END_HEADERS, 3, fields))
    assert caught.value.code is code
    assert calls.count < 15_000, "a bounded number of fields is looked at, whatever the length"


def test_bombs_within_bounds() -> None:
    """What a request may unpack to stays within the list's bound, and what is kept of many within the streams'."""
    server = a_server()
    server.receive(with_length(long_entry()))
    for number in range(3, 103, 2):
        server.receive(frame(HEADERS, END_HEADERS, number, b"\x83\x86\x84" + b"\xbe" * 7))
    for heard in server.heard.values():
        assert sum(len(name) + len(value) + 32 for name, value in heard.events[0][1]) <= 32 << 10


@pytest.mark.parametrize("size", [1, 1000])
def test_blocks_of_any_cut_have_one_bound(size: int) -> None:
    server = a_server()
    server.receive(frame(HEADERS, 0, 1, bytes(HEADER_BLOCK_BYTES_MAX - 500)))
    got_through, error = passed(server, repeat(frame(CONTINUATION, 0, 1, bytes(size))))
    assert error is not None and error.code is ErrorCode.ENHANCE_YOUR_CALM
    assert got_through <= CONTINUATIONS_MAX


# --- streams and messages ---------------------------------------------------------------------------------------------


def test_streams_without_end() -> None:
    server = a_server(ATTACKED)
    got_through, error = passed(server, (request(number) for number in odd()))
    assert error is not None and error.code is ErrorCode.ENHANCE_YOUR_CALM
    assert got_through <= SERVER.streams_max + 1.1 * RESETS
    assert len(server.http2.streams) == SERVER.streams_max


def test_partial_messages_on_many_streams() -> None:
    """Messages that are never finished share one bound; the stream that passes it is refused."""
    bound = 1 << 20
    server = a_server(replace(SERVER, assembly_bytes_max=bound))
    for number in range(1, 200, 2):
        server.receive(request(number) + data_frame(number, message(bytes(1 << 20))[:60_000]))
        assert server.http2.assembling_bytes <= bound
        server.sent()
    refused = [heard for heard in server.heard.values() if "crowded" in heard.kinds]
    assert len(server.http2.streams) == bound // 59_995
    assert len(refused) == 100 - bound // 59_995
    server.http2.lost("enough")
    assert server.http2.assembling_bytes == 0


def test_a_stranger_has_one_small_window() -> None:
    """Whatever it opens: before somebody says that it is welcome, it gets nothing back."""
    server = a_server(is_welcome=False)
    sent = 0
    with pytest.raises(BadHttp2) as caught:
        for number in odd():
            server.receive(request(number) + data_frame(number, message(bytes(1 << 20))[:1000]))
            sent += 1000
    assert caught.value.code is ErrorCode.FLOW_CONTROL_ERROR
    assert sent == 65_000
    assert server.http2.assembling_bytes <= 65_535
    assert named(server.frames(), "WindowUpdateFrame") == []


def test_a_stranger_may_be_refused_again_and_again() -> None:
    """Its window comes back when its streams are over: what they sent is gone. More at a time it never has."""
    server = a_server(ATTACKED, is_welcome=False)
    room = 65_535
    for number in range(3, 403, 2):
        server.receive(request(number) + data_frame(number, message(bytes(9_995))))
        room -= 10_000
        server.heard[number].stream.send_headers(RESPONSE, end=True)
        server.heard.clear()
        room += sum(each.window_increment for each in named(server.frames(), "WindowUpdateFrame"))
        assert room == server.http2.window.room_bytes <= 65_535
    assert server.http2.streams == {}


def test_a_stranger_has_one_small_window_for_whole_messages_too() -> None:
    server = a_server(is_welcome=False)
    server.receive(b"".join(request(number) for number in range(3, 203, 2)))
    with pytest.raises(BadHttp2):
        server.receive(b"".join(data_frame(number, message(bytes(995))) for number in range(3, 203, 2)))
    assert sum(len(heard.messages) for heard in server.heard.values()) == 65, "not one beyond the window"


def test_windows_of_one_byte_for_a_large_message() -> None:
    """Each byte costs the attacker a frame, and only so many are free. The message is not copied for each."""
    server = a_server(ATTACKED)
    server.receive(settings_frame((Setting.INITIAL_WINDOW_SIZE, 0)) + OPEN)
    stream = server.heard[1].stream
    stream.send_headers(RESPONSE)
    stream.send(bytes(1 << 20))
    server.sent()
    with counted_calls() as calls:
        got_through, error = passed(server, repeat(frame(WINDOW_UPDATE, 0, 1, u32(1))))
    assert error is not None and error.code is ErrorCode.ENHANCE_YOUR_CALM
    assert 0.9 * BURST <= got_through <= 1.1 * BURST
    assert stream.waiting_bytes == (1 << 20) + 5 - got_through
    assert calls.count <= CALLS_MAX * got_through
    assert all(piece is stream._pending[0] or len(piece) for piece in stream._pending)


def test_settings_that_wake_many_streams() -> None:
    """One frame gives a byte to each of a thousand streams: it is paid for each."""
    server = a_server(ATTACKED)
    server.receive(settings_frame((Setting.INITIAL_WINDOW_SIZE, 0)))
    for number in range(3, 2003, 2):
        server.receive(request(number))
        server.heard[number].stream.send_headers(RESPONSE)
        server.heard[number].stream.send(bytes(1000))
    server.sent()
    windows = (settings_frame((Setting.INITIAL_WINDOW_SIZE, size)) for size in count(1))
    got_through, error = passed(server, windows)
    assert error is not None and error.code is ErrorCode.ENHANCE_YOUR_CALM
    assert got_through <= 1.1 * BURST / 1000 + 1


def test_settings_of_many_values() -> None:
    """Each value of INITIAL_WINDOW_SIZE concerns every stream, and a frame has room for thousands: the last counts."""
    server = a_server(ATTACKED)
    for number in range(3, 2003, 2):
        server.receive(request(number))
    values = [(Setting.INITIAL_WINDOW_SIZE, size) for size in range(5000)]
    with counted_calls() as calls:
        server.receive(settings_frame(*values))
    assert calls.count < 3 * 5000
    assert {heard.stream.send_window for heard in server.heard.values()} == {4999}
    got_through, _ = passed(server, repeat(settings_frame(*values)))
    assert got_through <= BURST / (5000 * 6 / 36)


def test_goaways_while_a_client_has_many_streams() -> None:
    """Each looks at all of them."""
    client = a_client(replace(CLIENT_SETTINGS, idle_frames_burst=2000.0))
    for _ in range(1000):
        client.open()
    client.sent()
    got_through, error = passed(client, repeat(frame(GOAWAY, 0, 0, u32(NUMBER_MAX) + u32(0))))
    assert error is not None
    assert got_through <= 1.3 * BURST / 32, "a little was earned by opening them"


def test_a_message_is_not_allocated_by_its_prefix() -> None:
    """It says 32 MB and sends one byte."""
    server = a_server(ATTACKED)
    server.receive(OPEN + data_frame(1, b"\0" + u32(32 << 20) + b"x"))
    assert server.http2.assembling_bytes == 1
    assert server.heard[1].kinds == ["headers"]


def test_a_frame_is_not_allocated_by_its_length() -> None:
    server = a_server(ATTACKED)
    server.receive(frame(HEADERS, 0, 1, bytes(HEADER_BLOCK_BYTES_MAX))[:9])
    assert len(server.http2._incoming._rest) == 9
    with pytest.raises(BadHttp2):
        a_server().receive((1 << 24 - 1).to_bytes(3) + bytes([HEADERS, 0, 0, 0, 0, 1]))


def test_closed_connections_cost_nothing() -> None:
    server = End(False)
    with pytest.raises(BadHttp2):
        server.receive(b"GET / HTTP/1.1\r\n\r\n")
    with counted_calls() as calls:
        for _ in range(100):
            server.receive(bytes(10_000))
    assert calls.count <= 2 * 100 + 5
