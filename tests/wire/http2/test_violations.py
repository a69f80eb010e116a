"""What peers must not do, by clause of RFC 9113, and what then ends: the connection, or one stream, or nothing.

About what h2spec asks, for both ends. Malformed fields are a table of their own, in ``test_headers``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import pytest

from tests.wire.http2.support import (
    PROLOGUE,
    REQUEST,
    RESPONSE,
    SERVER,
    SETTINGS_FRAME,
    TRAILERS,
    End,
    a_client,
    a_server,
    block,
    data_frame,
    headers_frame,
    message,
    named,
    settings_frame,
    u32,
)
from weft.wire.http2 import BadHttp2, ErrorCode
from weft.wire.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    Setting,
    frame,
)

CONNECTION: Final = "connection"
STREAM: Final = "stream"
NOTHING: Final = "nothing"
UNKNOWN: Final = 0x16
IN_USE: Final = 1
FRESH: Final = 3

PROTOCOL, FLOW, CLOSED, SIZE = (
    ErrorCode.PROTOCOL_ERROR,
    ErrorCode.FLOW_CONTROL_ERROR,
    ErrorCode.STREAM_CLOSED,
    ErrorCode.FRAME_SIZE_ERROR,
)
COMPRESSION, CALM, REFUSED = ErrorCode.COMPRESSION_ERROR, ErrorCode.ENHANCE_YOUR_CALM, ErrorCode.REFUSED_STREAM
FINE = ErrorCode.NO_ERROR

OPEN = headers_frame(IN_USE, REQUEST)
ENDED = headers_frame(IN_USE, REQUEST, ends=True)  # half closed, by the client
RESET = frame(RST_STREAM, 0, IN_USE, u32(8))
WITHOUT_END = frame(HEADERS, 0, IN_USE, block(*REQUEST))
ANSWER = headers_frame(IN_USE, RESPONSE)
UPDATE = frame(WINDOW_UPDATE, 0, IN_USE, u32(1))
DEPENDS_ON_0 = u32(0) + b"\x10"
HUGE = 1 << 20


class Case(NamedTuple):
    name: str
    clause: str
    data: bytes
    ends: str
    code: ErrorCode


def priority(number: int, on: int) -> bytes:
    return frame(PRIORITY, 0, number, u32(on) + b"\x10")


# What a client sends after its prologue.
TO_SERVERS = [
    # 4: frames
    Case("unknown frame", "4.1", frame(UNKNOWN, 0xFF, 0, b"12345678"), NOTHING, FINE),
    Case("unknown frame on a stream", "5.5", OPEN + frame(UNKNOWN, 0, IN_USE, b"x"), NOTHING, FINE),
    Case("unknown flags", "4.1", frame(PING, 0x16, 0, b"12345678"), NOTHING, FINE),
    Case("reserved bit", "4.1", frame(PING, 0, 1 << 31, b"12345678"), NOTHING, FINE),
    Case("DATA that is too long", "4.2", OPEN + frame(DATA, 0, IN_USE, bytes(HUGE + 1)), CONNECTION, SIZE),
    Case("HEADERS that are too long", "4.2", frame(HEADERS, 0, IN_USE, bytes(HUGE + 1)), CONNECTION, SIZE),
    Case("HEADERS beyond our bound", "10.5.1", frame(HEADERS, 0, IN_USE, bytes(40_000)), CONNECTION, CALM),
    Case("unknown frame beyond our bound", "10.5", frame(UNKNOWN, 0, 0, bytes(40_000)), CONNECTION, CALM),
    Case("SETTINGS that are too long", "4.2", frame(SETTINGS, 0, 0, bytes(HUGE + 2)), CONNECTION, SIZE),
    Case("block that is nonsense", "4.3", frame(HEADERS, 5, IN_USE, b"\x80"), CONNECTION, COMPRESSION),
    Case("block that is cut off", "4.3", frame(HEADERS, 5, IN_USE, block(*REQUEST)[:-1]), CONNECTION, COMPRESSION),
    Case("PRIORITY within a block", "4.3", WITHOUT_END + priority(IN_USE, 0), CONNECTION, PROTOCOL),
    Case("PING within a block", "4.3", WITHOUT_END + frame(PING, 0, 0, bytes(8)), CONNECTION, PROTOCOL),
    Case("DATA within a block", "4.3", WITHOUT_END + data_frame(IN_USE, b""), CONNECTION, PROTOCOL),
    Case(
        "message of another stream within a block",
        "4.3",
        headers_frame(FRESH, REQUEST) + frame(HEADERS, 0, 5, block(*REQUEST)) + data_frame(FRESH, message(b"x")),
        CONNECTION,
        PROTOCOL,
    ),
    Case(
        "HEADERS of another stream within a block",
        "4.3",
        WITHOUT_END + headers_frame(FRESH, REQUEST),
        CONNECTION,
        PROTOCOL,
    ),
    Case("unknown frame within a block", "5.5", WITHOUT_END + frame(UNKNOWN, 0, 0), CONNECTION, PROTOCOL),
    # 5.1: states
    Case("idle: DATA", "5.1", data_frame(IN_USE, b"x"), CONNECTION, PROTOCOL),
    Case("idle: RST_STREAM", "5.1", RESET, CONNECTION, PROTOCOL),
    Case("idle: WINDOW_UPDATE", "5.1", UPDATE, CONNECTION, PROTOCOL),
    Case("idle: CONTINUATION", "5.1", frame(CONTINUATION, 4, IN_USE, block(*REQUEST)), CONNECTION, PROTOCOL),
    Case("idle: PRIORITY", "5.1", priority(IN_USE, 0), NOTHING, FINE),
    Case("idle, of ours: WINDOW_UPDATE", "5.1", frame(WINDOW_UPDATE, 0, 2, u32(1)), CONNECTION, PROTOCOL),
    Case("ended: DATA", "5.1", ENDED + data_frame(IN_USE, b"x"), STREAM, CLOSED),
    Case("ended: HEADERS", "5.1", ENDED + headers_frame(IN_USE, TRAILERS, ends=True), STREAM, CLOSED),
    Case("ended: CONTINUATION", "5.1", ENDED + frame(CONTINUATION, 4, IN_USE), CONNECTION, PROTOCOL),
    Case("ended: WINDOW_UPDATE", "5.1", ENDED + UPDATE, NOTHING, FINE),
    Case("ended: PRIORITY", "5.1", ENDED + priority(IN_USE, 0), NOTHING, FINE),
    Case("ended: RST_STREAM", "5.1", ENDED + RESET, NOTHING, FINE),
    Case("reset: DATA", "5.1", OPEN + RESET + data_frame(IN_USE, b"x"), STREAM, CLOSED),
    Case("reset: HEADERS", "5.1", OPEN + RESET + headers_frame(IN_USE, REQUEST), CONNECTION, CLOSED),
    Case("reset: CONTINUATION", "5.1", OPEN + RESET + frame(CONTINUATION, 4, IN_USE), CONNECTION, PROTOCOL),
    Case("reset: WINDOW_UPDATE", "5.1", OPEN + RESET + UPDATE, NOTHING, FINE),
    Case("reset: RST_STREAM", "5.1", OPEN + RESET + RESET, NOTHING, FINE),
    Case("reset: PRIORITY", "5.1", OPEN + RESET + priority(IN_USE, 0), NOTHING, FINE),
    Case("even number", "5.1.1", headers_frame(2, REQUEST), CONNECTION, PROTOCOL),
    Case("number below the last", "5.1.1", headers_frame(5, REQUEST) + headers_frame(3, REQUEST), CONNECTION, PROTOCOL),
    Case("DATA on a number that was skipped", "5.1.1", headers_frame(5, REQUEST) + data_frame(3, b"x"), NOTHING, FINE),
    Case(
        "depends on itself: HEADERS",
        "RFC 7540, 5.3.1",
        frame(HEADERS, END_HEADERS | WITH_PRIORITY, IN_USE, u32(IN_USE) + b"\x10" + block(*REQUEST)),
        CONNECTION,
        PROTOCOL,
    ),
    Case("depends on itself: PRIORITY", "RFC 7540, 5.3.1", OPEN + priority(IN_USE, IN_USE), STREAM, PROTOCOL),
    Case("depends on itself, idle", "RFC 7540, 5.3.1", priority(IN_USE, IN_USE), CONNECTION, PROTOCOL),
    # 6.1: DATA
    Case("DATA without a stream", "6.1", data_frame(0, b"x"), CONNECTION, PROTOCOL),
    Case(
        "DATA, padding as long as the frame",
        "6.1",
        OPEN + frame(DATA, PADDED, IN_USE, b"\x05" + bytes(4)),
        CONNECTION,
        PROTOCOL,
    ),
    Case("DATA, padded and empty", "4.2", OPEN + frame(DATA, PADDED, IN_USE), CONNECTION, SIZE),
    Case("DATA, all padding", "6.1", OPEN + frame(DATA, PADDED, IN_USE, b"\x04" + bytes(4)), NOTHING, FINE),
    # 6.2: HEADERS
    Case("HEADERS without a stream", "6.2", headers_frame(0, REQUEST), CONNECTION, PROTOCOL),
    Case(
        "HEADERS, too much padding",
        "6.2",
        frame(HEADERS, 4 | PADDED, IN_USE, b"\xff" + block(*REQUEST)),
        CONNECTION,
        PROTOCOL,
    ),
    Case("HEADERS, padded and empty", "4.2", frame(HEADERS, 4 | PADDED, IN_USE), CONNECTION, SIZE),
    Case(
        "HEADERS, shorter than a priority", "4.2", frame(HEADERS, 4 | WITH_PRIORITY, IN_USE, bytes(4)), CONNECTION, SIZE
    ),
    Case(
        "HEADERS, with priority and padding",
        "6.2",
        frame(HEADERS, 4 | WITH_PRIORITY | PADDED, IN_USE, b"\x02" + DEPENDS_ON_0 + block(*REQUEST) + bytes(2)),
        NOTHING,
        FINE,
    ),
    Case(
        "HEADERS, padding over the priority",
        "6.2",
        frame(HEADERS, 4 | WITH_PRIORITY | PADDED, IN_USE, b"\x02" + DEPENDS_ON_0 + b"x"),
        CONNECTION,
        PROTOCOL,
    ),
    # 6.3, 6.4: PRIORITY, RST_STREAM
    Case("PRIORITY without a stream", "6.3", priority(0, 1), CONNECTION, PROTOCOL),
    Case("PRIORITY of 4 bytes", "6.3", OPEN + frame(PRIORITY, 0, IN_USE, bytes(4)), STREAM, SIZE),
    Case("PRIORITY of 6 bytes", "6.3", OPEN + frame(PRIORITY, 0, IN_USE, bytes(6)), STREAM, SIZE),
    Case("PRIORITY of 4 bytes, idle", "6.3", frame(PRIORITY, 0, IN_USE, bytes(4)), CONNECTION, SIZE),
    Case("PRIORITY of 4 bytes, over", "6.3", OPEN + RESET + frame(PRIORITY, 0, IN_USE, bytes(4)), STREAM, SIZE),
    Case("depends on itself, over", "RFC 7540, 5.3.1", OPEN + RESET + priority(IN_USE, IN_USE), STREAM, PROTOCOL),
    Case("RST_STREAM without a stream", "6.4", frame(RST_STREAM, 0, 0, u32(8)), CONNECTION, PROTOCOL),
    Case("RST_STREAM of 3 bytes", "6.4", OPEN + frame(RST_STREAM, 0, IN_USE, bytes(3)), CONNECTION, SIZE),
    Case("RST_STREAM with an unknown code", "7", OPEN + frame(RST_STREAM, 0, IN_USE, u32(99)), NOTHING, FINE),
    # 6.5: SETTINGS
    Case("SETTINGS, ACK with content", "6.5", frame(SETTINGS, ACK, 0, bytes(6)), CONNECTION, SIZE),
    Case("SETTINGS on a stream", "6.5", frame(SETTINGS, 0, IN_USE), CONNECTION, PROTOCOL),
    Case("SETTINGS of 3 bytes", "6.5", frame(SETTINGS, 0, 0, bytes(3)), CONNECTION, SIZE),
    Case("ENABLE_PUSH of 2", "6.5.2", settings_frame((Setting.ENABLE_PUSH, 2)), CONNECTION, PROTOCOL),
    Case("ENABLE_PUSH of 1", "6.5.2", settings_frame((Setting.ENABLE_PUSH, 1)), NOTHING, FINE),
    Case(
        "INITIAL_WINDOW_SIZE too large",
        "6.5.2",
        settings_frame((Setting.INITIAL_WINDOW_SIZE, 1 << 31)),
        CONNECTION,
        FLOW,
    ),
    Case("MAX_FRAME_SIZE too small", "6.5.2", settings_frame((Setting.MAX_FRAME_SIZE, 16383)), CONNECTION, PROTOCOL),
    Case("MAX_FRAME_SIZE too large", "6.5.2", settings_frame((Setting.MAX_FRAME_SIZE, 1 << 24)), CONNECTION, PROTOCOL),
    Case(
        "bad value before a good one",
        "6.5.3",
        settings_frame((Setting.MAX_FRAME_SIZE, 1), (Setting.MAX_FRAME_SIZE, 16384)),
        CONNECTION,
        PROTOCOL,
    ),
    Case("unknown setting", "6.5.2", settings_frame((0xFF, 1), (0, 0)), NOTHING, FINE),
    Case("SETTINGS acknowledged twice", "6.5.3", frame(SETTINGS, ACK, 0) * 2, NOTHING, FINE),
    # 6.6 to 6.8: PUSH_PROMISE, PING, GOAWAY
    Case(
        "PUSH_PROMISE of a client",
        "8.4",
        OPEN + frame(PUSH_PROMISE, 4, IN_USE, u32(2) + block(*REQUEST)),
        CONNECTION,
        PROTOCOL,
    ),
    Case("PING on a stream", "6.7", frame(PING, 0, IN_USE, bytes(8)), CONNECTION, PROTOCOL),
    Case("PING of 6 bytes", "6.7", frame(PING, 0, 0, bytes(6)), CONNECTION, SIZE),
    Case("PING that nobody asked for", "6.7", frame(PING, ACK, 0, b"unasked!"), NOTHING, FINE),
    Case("GOAWAY on a stream", "6.8", frame(GOAWAY, 0, IN_USE, u32(0) + u32(0)), CONNECTION, PROTOCOL),
    Case("GOAWAY of 7 bytes", "6.8", frame(GOAWAY, 0, 0, bytes(7)), CONNECTION, SIZE),
    Case("GOAWAY with an unknown code", "7", frame(GOAWAY, 0, 0, u32(0) + u32(99) + b"why"), NOTHING, FINE),
    # 6.9: WINDOW_UPDATE
    Case("WINDOW_UPDATE of 0", "6.9", frame(WINDOW_UPDATE, 0, 0, u32(0)), CONNECTION, PROTOCOL),
    Case("WINDOW_UPDATE of 0 on a stream", "6.9", OPEN + frame(WINDOW_UPDATE, 0, IN_USE, u32(0)), STREAM, PROTOCOL),
    Case("WINDOW_UPDATE of 3 bytes", "6.9", frame(WINDOW_UPDATE, 0, 0, bytes(3)), CONNECTION, SIZE),
    Case("window too large", "6.9.1", frame(WINDOW_UPDATE, 0, 0, u32((1 << 31) - 1)), CONNECTION, FLOW),
    Case(
        "window of a stream too large",
        "6.9.1",
        OPEN + frame(WINDOW_UPDATE, 0, IN_USE, u32((1 << 31) - 1)),
        STREAM,
        FLOW,
    ),
    Case(
        "window of a stream too large by SETTINGS",
        "6.9.2",
        OPEN + UPDATE + settings_frame((Setting.INITIAL_WINDOW_SIZE, (1 << 31) - 1)),
        CONNECTION,
        FLOW,
    ),
    Case("window as large as can be", "6.9.1", frame(WINDOW_UPDATE, 0, 0, u32((1 << 31) - 1 - 65_535)), NOTHING, FINE),
    Case("more than the window of a stream", "6.9.1", OPEN + data_frame(IN_USE, bytes(65_536)), CONNECTION, FLOW),
    Case(
        "more than the window, by padding",
        "6.9.1",
        OPEN + frame(DATA, PADDED, IN_USE, b"\xff" + bytes(65_535)),
        CONNECTION,
        FLOW,
    ),
    Case(
        "more than the window of a stream, by messages",
        "6.9.1",
        OPEN + data_frame(IN_USE, message(bytes(995))) * 66,
        CONNECTION,
        FLOW,
    ),
    Case(
        "more than the window of the connection",
        "6.9.1",
        OPEN + headers_frame(FRESH, REQUEST) + data_frame(IN_USE, bytes(65_535)) + data_frame(FRESH, b"x"),
        CONNECTION,
        FLOW,
    ),
    Case(
        "more than the window of the connection, on a stream that is over",
        "6.9.1",
        OPEN + RESET + data_frame(IN_USE, bytes(65_536)),
        CONNECTION,
        FLOW,
    ),
    Case("all of the window", "6.9.1", OPEN + data_frame(IN_USE, message(bytes(65_530))), NOTHING, FINE),
    # 6.10: CONTINUATION
    Case(
        "CONTINUATION after a whole block",
        "6.10",
        OPEN + frame(CONTINUATION, 4, IN_USE, block(*TRAILERS)),
        CONNECTION,
        PROTOCOL,
    ),
    Case(
        "CONTINUATION after the last one",
        "6.10",
        WITHOUT_END + frame(CONTINUATION, 4, IN_USE) + frame(CONTINUATION, 4, IN_USE),
        CONNECTION,
        PROTOCOL,
    ),
    Case(
        "CONTINUATION after DATA",
        "6.10",
        OPEN + data_frame(IN_USE, b"") + frame(CONTINUATION, 4, IN_USE),
        CONNECTION,
        PROTOCOL,
    ),
    Case("CONTINUATION without a stream", "6.10", WITHOUT_END + frame(CONTINUATION, 4, 0), CONNECTION, PROTOCOL),
    Case("CONTINUATION of another stream", "6.10", WITHOUT_END + frame(CONTINUATION, 4, FRESH), CONNECTION, PROTOCOL),
    Case(
        "CONTINUATIONs",
        "6.10",
        WITHOUT_END + frame(CONTINUATION, 0, IN_USE, b"\x00\x01a") + frame(CONTINUATION, 4, IN_USE, b"\x00"),
        NOTHING,
        FINE,
    ),
    # 8: requests
    Case("HEADERS within a stream", "8.1", OPEN + headers_frame(IN_USE, TRAILERS), STREAM, PROTOCOL),
    Case("pseudo-header in trailers", "8.1", OPEN + headers_frame(IN_USE, REQUEST, ends=True), STREAM, PROTOCOL),
    Case("malformed request", "8.1.1", headers_frame(IN_USE, [*REQUEST, ("Upper", "x")]), STREAM, PROTOCOL),
    Case("malformed trailers", "8.1.1", OPEN + headers_frame(IN_USE, [("Upper", "x")], ends=True), STREAM, PROTOCOL),
    Case(
        "content-length, and more DATA",
        "8.1.1",
        headers_frame(IN_USE, [*REQUEST, ("content-length", "6")]) + data_frame(IN_USE, message(b"ab")),
        STREAM,
        PROTOCOL,
    ),
    Case(
        "content-length, and less DATA",
        "8.1.1",
        headers_frame(IN_USE, [*REQUEST, ("content-length", "7")]) + data_frame(IN_USE, message(b"a"), ends=True),
        STREAM,
        PROTOCOL,
    ),
    Case(
        "content-length, less DATA, and trailers",
        "8.1.1",
        headers_frame(IN_USE, [*REQUEST, ("content-length", "7")])
        + data_frame(IN_USE, message(b"a"))
        + headers_frame(IN_USE, TRAILERS, ends=True),
        STREAM,
        PROTOCOL,
    ),
    Case(
        "content-length, and no DATA",
        "8.1.1",
        headers_frame(IN_USE, [*REQUEST, ("content-length", "7")], ends=True),
        STREAM,
        PROTOCOL,
    ),
    Case(
        "content-length that is no number",
        "8.1.1",
        headers_frame(IN_USE, [*REQUEST, ("content-length", "six")]),
        STREAM,
        PROTOCOL,
    ),
    Case(
        "content-length as it should be",
        "8.1.1",
        headers_frame(IN_USE, [*REQUEST, ("content-length", "6")])
        + frame(DATA, PADDED | END_STREAM, IN_USE, b"\x03" + message(b"a") + bytes(3)),
        NOTHING,
        FINE,
    ),
    Case("end within a prefix", "gRPC", OPEN + data_frame(IN_USE, b"\0\0", ends=True), STREAM, PROTOCOL),
    Case("end within a message", "gRPC", OPEN + data_frame(IN_USE, message(b"abc")[:-1], ends=True), STREAM, PROTOCOL),
]

# What a server sends after its SETTINGS, to a client that has opened stream 1.
TO_CLIENTS = [
    Case("ENABLE_PUSH of 1", "6.5.2", settings_frame((Setting.ENABLE_PUSH, 1)), CONNECTION, PROTOCOL),
    Case("ENABLE_PUSH of 0", "6.5.2", settings_frame((Setting.ENABLE_PUSH, 0)), NOTHING, FINE),
    Case("PUSH_PROMISE", "8.4", frame(PUSH_PROMISE, 4, IN_USE, u32(2) + block(*REQUEST)), CONNECTION, PROTOCOL),
    Case("HEADERS on a stream of its own", "5.1.1", headers_frame(2, RESPONSE), CONNECTION, PROTOCOL),
    Case("HEADERS on a stream that we did not open", "5.1", headers_frame(3, RESPONSE), CONNECTION, PROTOCOL),
    Case("DATA on a stream that we did not open", "5.1", data_frame(3, b"x"), CONNECTION, PROTOCOL),
    Case("RST_STREAM on a stream that we did not open", "5.1", frame(RST_STREAM, 0, 3, u32(8)), CONNECTION, PROTOCOL),
    Case(
        "WINDOW_UPDATE on a stream that we did not open",
        "5.1",
        frame(WINDOW_UPDATE, 0, 3, u32(1)),
        CONNECTION,
        PROTOCOL,
    ),
    Case("DATA before HEADERS", "8.1", data_frame(IN_USE, message(b"x")), STREAM, PROTOCOL),
    Case("empty DATA before HEADERS", "8.1", data_frame(IN_USE, b"", ends=True), STREAM, PROTOCOL),
    Case("response without a status", "8.3.2", headers_frame(IN_USE, TRAILERS), STREAM, PROTOCOL),
    Case("response that is a request", "8.3.2", headers_frame(IN_USE, REQUEST), STREAM, PROTOCOL),
    Case("101", "8.6", headers_frame(IN_USE, [(":status", "101")]), STREAM, PROTOCOL),
    Case("100, then the answer", "8.1", headers_frame(IN_USE, [(":status", "100")]) + ANSWER, NOTHING, FINE),
    Case("100 that ends the stream", "8.1", headers_frame(IN_USE, [(":status", "100")], ends=True), STREAM, PROTOCOL),
    Case(
        "DATA after 100",
        "8.1",
        headers_frame(IN_USE, [(":status", "100")]) + data_frame(IN_USE, message(b"x")),
        STREAM,
        PROTOCOL,
    ),
    Case("second answer", "8.1", ANSWER + ANSWER, STREAM, PROTOCOL),
    Case("status in trailers", "8.1", ANSWER + headers_frame(IN_USE, RESPONSE, ends=True), STREAM, PROTOCOL),
    Case(
        "DATA after the end",
        "5.1",
        ANSWER + data_frame(IN_USE, b"", ends=True) + data_frame(IN_USE, b"x"),
        NOTHING,
        FINE,
    ),
    Case("HEADERS after a reset", "5.1", frame(RST_STREAM, 0, IN_USE, u32(8)) + ANSWER, CONNECTION, CLOSED),
    Case("DATA after a reset", "5.1", frame(RST_STREAM, 0, IN_USE, u32(8)) + data_frame(IN_USE, b"x"), STREAM, CLOSED),
    Case(
        "content-length, and less DATA",
        "8.1.1",
        headers_frame(IN_USE, [*RESPONSE, ("content-length", "9")], ends=True),
        STREAM,
        PROTOCOL,
    ),
    Case("window of a stream too large", "6.9.1", frame(WINDOW_UPDATE, 0, IN_USE, u32((1 << 31) - 1)), STREAM, FLOW),
    Case("WINDOW_UPDATE of 0 on a stream", "6.9", frame(WINDOW_UPDATE, 0, IN_USE, u32(0)), STREAM, PROTOCOL),
    Case("PING on a stream", "6.7", frame(PING, 0, IN_USE, bytes(8)), CONNECTION, PROTOCOL),
    Case("block that is nonsense", "4.3", frame(HEADERS, 4, IN_USE, b"\x80"), CONNECTION, COMPRESSION),
    Case("block within a block", "6.10", frame(HEADERS, 0, IN_USE, block(*RESPONSE)) + ANSWER, CONNECTION, PROTOCOL),
    Case("GOAWAY on a stream", "6.8", frame(GOAWAY, 0, IN_USE, bytes(8)), CONNECTION, PROTOCOL),
]

# Instead of a prologue.
BEGINNINGS = [
    Case("HTTP/1.1", "3.4", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", CONNECTION, PROTOCOL),
    Case("TLS", "3.4", bytes.fromhex("16030100"), CONNECTION, PROTOCOL),
    Case("preface with a flaw", "3.4", PREFACE[:-1] + b"\r" + SETTINGS_FRAME, CONNECTION, PROTOCOL),
    Case("PING first", "3.4", PREFACE + frame(PING, 0, 0, bytes(8)), CONNECTION, PROTOCOL),
    Case("HEADERS first", "3.4", PREFACE + OPEN, CONNECTION, PROTOCOL),
    Case("acknowledgement first", "3.4", PREFACE + frame(SETTINGS, ACK, 0), CONNECTION, PROTOCOL),
    Case("preface again", "3.4", PROLOGUE + PREFACE, CONNECTION, SIZE),
]


def check(end: End, case: Case) -> None:
    """Play the case, and see that it ends what it should and nothing else."""
    if case.ends == CONNECTION:
        with pytest.raises(BadHttp2) as caught:
            end.receive(case.data)
        assert caught.value.code is case.code, case.clause
        (goaway,) = named(end.frames(), "GoAwayFrame")
        assert goaway.error_code == case.code
        assert goaway.additional_data.decode() == str(caught.value)
        end.receive(frame(PING, 0, 0, bytes(8)))
        assert end.sent() == b"", "what comes later is ignored"
        return
    end.receive(case.data + frame(PING, 0, 0, b"goes on."))
    frames = end.frames()
    resets = [(each.stream_id, each.error_code) for each in named(frames, "RstStreamFrame") if each.error_code]
    pongs = [each.opaque_data for each in named(frames, "PingFrame") if "ACK" in each.flags]
    assert pongs[-1] == b"goes on.", "the connection is as it was"
    assert named(frames, "GoAwayFrame") == []
    if case.ends == STREAM:
        assert resets == [(IN_USE, case.code)], case.clause
        assert IN_USE not in end.http2.streams
        if IN_USE in end.heard:
            assert end.heard[IN_USE].kinds[-1] == "reset", "its owner knows"
    else:
        assert [reset for reset in resets if reset[0] == IN_USE] == [], case.clause


def ids(cases: list[Case]) -> list[str]:
    assert len({case.name for case in cases}) == len(cases)
    return [case.name for case in cases]


@pytest.mark.parametrize("case", TO_SERVERS, ids=ids(TO_SERVERS))
def test_servers(case: Case) -> None:
    check(a_server(is_welcome=False), case)


@pytest.mark.parametrize("case", TO_CLIENTS, ids=ids(TO_CLIENTS))
def test_clients(case: Case) -> None:
    client = a_client()
    client.open()
    client.sent()
    check(client, case)


@pytest.mark.parametrize("case", BEGINNINGS, ids=ids(BEGINNINGS))
def test_beginnings_of_clients(case: Case) -> None:
    check(End(False), case)


@pytest.mark.parametrize(
    "data", [frame(PING, 0, 0, bytes(8)), frame(SETTINGS, ACK, 0), b"HTTP/1.1 400 Bad Request\r\n"]
)
def test_beginnings_of_servers(data: bytes) -> None:
    """3.4: SETTINGS come first. Of HTTP/1.1 the first bytes are the length of a frame."""
    client = End(True)
    with pytest.raises(BadHttp2) as caught:
        client.receive(data)
    assert caught.value.code is PROTOCOL


def test_a_peer_that_does_not_speak_http2_is_found_out_at_once() -> None:
    with pytest.raises(BadHttp2, match="not HTTP/2"):
        End(False).receive(b"G")


def test_more_streams_than_allowed() -> None:
    """5.1.2: refused, so that the client may try again. What comes for them is ignored."""
    server = a_server(replace(SERVER, streams_max=2))
    for number in (1, 3, 5):
        server.receive(headers_frame(number, REQUEST))
    server.receive(data_frame(5, message(b"x")) + headers_frame(5, TRAILERS, ends=True))
    resets = named(server.frames(), "RstStreamFrame")
    assert [(each.stream_id, each.error_code) for each in resets] == [(5, REFUSED)]
    assert list(server.heard) == [1, 3]
    server.receive(frame(RST_STREAM, 0, 1, u32(8)) + headers_frame(7, REQUEST))
    assert list(server.http2.streams) == [3, 7]


def test_frames_of_streams_that_we_reset_are_ignored() -> None:
    """5.1: their sender may not know yet. Their DATA counts against the connection's window, as it was sent."""
    server = a_server()
    server.receive(OPEN)
    server.heard[IN_USE].stream.reset()
    server.sent()
    room = server.http2.window.room_bytes
    server.receive(data_frame(IN_USE, bytes(1000)) + headers_frame(IN_USE, TRAILERS, ends=True) + UPDATE + RESET)
    assert server.sent() == b""
    assert server.http2.window.room_bytes == room - 1000
    assert server.heard[IN_USE].kinds == ["headers"]


def test_settings_count_in_order_and_are_acknowledged() -> None:
    """6.5.3"""
    server = a_server()
    server.receive(settings_frame((Setting.INITIAL_WINDOW_SIZE, 100), (Setting.INITIAL_WINDOW_SIZE, 1)) + OPEN)
    server.heard[IN_USE].stream.send_headers(RESPONSE)
    server.heard[IN_USE].stream.send(b"abc")
    frames = server.frames()
    assert "ACK" in named(frames, "SettingsFrame")[0].flags
    assert [each.data for each in named(frames, "DataFrame")] == [b"\0"]


def test_a_window_may_become_negative() -> None:
    """6.9.2: and then takes as much to be open again."""
    server = a_server()
    server.receive(OPEN)
    stream = server.heard[IN_USE].stream
    stream.send_headers(RESPONSE)
    stream.send(bytes(65_530))
    stream.send(b"later")
    server.sent()
    server.receive(settings_frame((Setting.INITIAL_WINDOW_SIZE, 10)) + frame(WINDOW_UPDATE, 0, 0, u32(1 << 20)))
    assert stream.send_window == 10 - 65_535
    server.receive(frame(WINDOW_UPDATE, 0, IN_USE, u32(65_525)))
    assert named(server.frames(), "DataFrame") == []
    server.receive(frame(WINDOW_UPDATE, 0, IN_USE, u32(10)))
    assert b"".join(each.data for each in named(server.frames(), "DataFrame")) == message(b"later")


@pytest.mark.parametrize("size", [4, 6])
def test_a_priority_of_a_wrong_length_leaves_no_half_open_stream(size: int) -> None:
    """After RST_STREAM we send nothing on the stream (5.1), whatever its owner does."""
    server = a_server()
    server.receive(OPEN + frame(PRIORITY, 0, IN_USE, bytes(size)))
    server.sent()
    server.heard[IN_USE].stream.send_headers(RESPONSE)
    server.heard[IN_USE].stream.send(b"x")
    assert server.sent() == b""


def test_a_malformed_request_has_no_owner() -> None:
    server = a_server()
    server.receive(headers_frame(IN_USE, [*REQUEST, ("connection", "close")]) + data_frame(IN_USE, message(b"x")))
    assert server.heard == {}
    assert server.http2.streams == {}
