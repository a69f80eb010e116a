"""Fuzz targets of HTTP/2 and of gRPC's headers: bytes to both ends of a connection, to the reader of header blocks, and
to the functions that read headers. Only BadHttp2, BadStream and BadCall may come out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from hpack import Decoder, Encoder

from tests.wire.http2.support import (
    PROLOGUE,
    REQUEST,
    RESPONSE,
    SETTINGS_FRAME,
    TRAILERS,
    End,
    Heard,
    block,
    data_frame,
    headers_frame,
    message,
    settings_frame,
    u32,
)
from weft.wire import rpc
from weft.wire.http2 import BadHttp2, BadStream
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
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    Setting,
    frame,
)
from weft.wire.http2.headers import BlockReader, check_request, check_response, check_trailers, content_length
from weft.wire.http2.settings import HEADER_LIST_BYTES_MAX
from weft.wire.rpc import BadCall

# --- connections ------------------------------------------------------------------------------------------------------


def answer(heard: Heard, event: str) -> None:
    """Owners that do something about what they hear, by the size of messages."""
    stream = heard.stream
    if event == "headers" and len(heard.events) == 1:
        stream.widen()
        stream.send_headers(RESPONSE)
    elif event == "message":
        size = len(heard.events[-1][1])
        stream.send(bytes(size))
        if size % 7 == 1:
            stream.hold()
        elif size % 7 == 2:
            stream.release()
        elif size == 10:
            stream.reset()
        elif size == 11:
            stream.end(TRAILERS)
        elif size == 12:
            stream.drop_waiting()
    elif event == "end":
        stream.end(TRAILERS)


def check_frames(data: bytes) -> None:
    """What we wrote is whole frames, and one GOAWAY of an error is the last."""
    at = 0
    while at < len(data):
        assert at + 9 <= len(data)
        at += 9 + int.from_bytes(data[at : at + 3])
    assert at == len(data)


def check_end(end: End, pieces: list[bytes]) -> None:
    written = end.sent().removeprefix(PREFACE)
    try:
        for piece in pieces:
            end.receive(piece)
            written += end.sent()
    except BadHttp2 as error:
        last = end.sent()
        assert str(error)[:100].encode() in last
        written += last
    check_frames(written)
    http2 = end.http2
    partial = sum(stream._partial.tell() for stream in http2.streams.values() if stream._partial is not None)
    assert http2.assembling_bytes == partial
    assert len(http2.streams) <= 1024
    assert all(stream.waiting_bytes == sum(map(len, stream._pending)) for stream in http2.streams.values())
    assert http2.out.waiting_bytes == sum(stream.waiting_bytes for stream in http2.streams.values())
    assert all(number in http2.streams for number in http2.out.turns)
    http2.lost("the end")
    assert http2.streams == {} == http2.out.turns
    assert http2.assembling_bytes == 0


def server(data: bytes) -> None:
    """A client that began well, and then sends ``data`` in two pieces."""
    half = len(data) // 2
    check_end(End(False, react=answer), [PROLOGUE, data[:half], data[half:]])


def stranger(data: bytes) -> None:
    """One that begins with it."""
    check_end(End(False, react=answer), [data])


def client(data: bytes) -> None:
    """A server that sends it to a client with two calls, one of which it has given up."""
    end = End(True, react=lambda heard, event: heard.stream.hold() if event == "message" else None)
    end.open().stream.send(bytes(100))
    end.open().stream.reset()
    half = len(data) // 2
    check_end(end, [SETTINGS_FRAME, data[:half], data[half:]])


# --- headers ----------------------------------------------------------------------------------------------------------


def headers(data: bytes) -> None:
    """Blocks one after the other, each with a length before it, are read as hpack does, kept blocks or not."""
    reader, oracle = BlockReader(), Decoder(HEADER_LIST_BYTES_MAX)
    blocks = []
    while data:
        blocks.append(data[1 : 1 + data[0]])
        data = data[1 + data[0] :]
    for each in [*blocks, *blocks]:
        try:
            read = reader.read_untrusted(each)
        except BadHttp2:
            return
        assert [(n.encode("latin-1"), v.encode("latin-1")) for n, v in read] == list(oracle.decode(each, raw=True))
        for check in (check_request, check_response, check_trailers, content_length):
            with suppress(BadStream):
                check(read)


def grpc(data: bytes) -> None:
    """Lines ``name: value``, as fields that came."""
    lines = [line.partition(": ") for line in data.decode("latin-1").split("\n")]
    fields = [(name, value) for name, _, value in lines]
    found = dict(fields)
    rpc.is_grpc(found)
    with suppress(BadCall):
        metadata = rpc.read_metadata_untrusted(fields)
        assert len(metadata) >= sum(1 for name, _ in metadata if name.endswith("-bin"))
        binary = [each for each in metadata if isinstance(each[1], bytes) and rpc.NAME.fullmatch(each[0])]
        assert rpc.read_metadata_untrusted(rpc.written_metadata(binary)) == binary
    with suppress(BadCall):
        timeout_s = rpc.read_timeout_untrusted(found.get("grpc-timeout", ""))
        assert 0 <= timeout_s < 1e12
        assert rpc.read_timeout_untrusted(rpc.timeout_text(timeout_s)) >= min(timeout_s, 99_999_999) * 0.999
    with suppress(BadCall):
        error = rpc.read_trailers_untrusted(fields)
        if error is not None:
            again = rpc.read_trailers_untrusted(rpc.trailers(error.status, error.details, ()))
            assert again is not None and again.status is error.status
            assert len(error.details.encode(errors="replace")) > 2000 or again.details == error.details


def _with_length(*blocks: bytes) -> bytes:
    return b"".join(bytes([len(each)]) + each for each in blocks)


_encoder = Encoder()
_TABLED = [_encoder.encode(list(fields)) for fields in (REQUEST, REQUEST, TRAILERS, RESPONSE)]
_HEADERS_FRAME = headers_frame(1, REQUEST)
_RESET = frame(RST_STREAM, 0, 1, u32(8))
_UPDATES = frame(WINDOW_UPDATE, 0, 1, u32(1 << 20)) + frame(WINDOW_UPDATE, 0, 0, u32(1 << 20))
_SETTINGS = settings_frame(
    (Setting.HEADER_TABLE_SIZE, 0), (Setting.INITIAL_WINDOW_SIZE, 20), (Setting.MAX_FRAME_SIZE, 20_000)
)
_CUT = frame(HEADERS, 0, 1, block(*REQUEST)[:20]) + frame(CONTINUATION, END_HEADERS, 1, block(*REQUEST)[20:])
_PADDED = frame(HEADERS, END_HEADERS | PADDED | WITH_PRIORITY, 1, b"\x02" + bytes(5) + block(*REQUEST) + bytes(2))
_MESSAGES = b"".join(data_frame(1, message(b"x" * size)) for size in (0, 1, 2, 5, 9, 30, 300))
_PIECES = b"".join(data_frame(1, piece) for piece in (b"\0\0", b"\0\0\x05he", b"", b"llo" + message(b"again")))
_ODD_DATA = frame(DATA, PADDED, 1, b"\x03" + message(b"padded") + bytes(3)) + data_frame(1, b"", ends=True)
_GOAWAY = frame(GOAWAY, 0, 0, u32(0) + u32(11) + b"too_many_pings")
_OTHERS = (
    frame(PING, 0, 0, b"12345678")
    + frame(PING, ACK, 0, b"12345678")
    + frame(SETTINGS, ACK, 0)
    + frame(PRIORITY, 0, 1, u32(0) + b"x")
    + frame(0x20, 0, 0, b"unknown")
)
_ANSWER = headers_frame(1, RESPONSE)
_END = headers_frame(1, TRAILERS, ends=True)
_TO_SERVERS = [
    _HEADERS_FRAME + _MESSAGES + _ODD_DATA,
    _CUT + _PIECES + _END,
    _PADDED + _SETTINGS + _MESSAGES + _UPDATES,
    _OTHERS + _HEADERS_FRAME + _RESET + headers_frame(3, REQUEST, ends=True) + _GOAWAY,
    frame(HEADERS, END_HEADERS, 1, _TABLED[0]) + frame(HEADERS, END_HEADERS | END_STREAM, 3, _TABLED[1]) + _MESSAGES,
    _HEADERS_FRAME + headers_frame(3, [*REQUEST, ("content-length", "7")]) + data_frame(3, message(b"hi"), ends=True),
]

TARGETS: dict[str, Callable[[bytes], None]] = {
    "http2-server": server,
    "http2-stranger": stranger,
    "http2-client": client,
    "http2-headers": headers,
    "grpc-headers": grpc,
}

SEEDS: dict[str, list[bytes]] = {
    "http2-server": _TO_SERVERS,
    "http2-stranger": [PROLOGUE + each for each in _TO_SERVERS[:3]],
    "http2-client": [
        _ANSWER + _MESSAGES + _END,
        _SETTINGS + headers_frame(1, [(":status", "100")]) + _ANSWER + _PIECES + _UPDATES + _END,
        headers_frame(1, [*RESPONSE, *TRAILERS], ends=True) + _OTHERS,
        _ANSWER + _RESET + headers_frame(3, RESPONSE) + data_frame(3, message(b"late")) + _GOAWAY,
    ],
    "http2-headers": [
        _with_length(*_TABLED),
        _with_length(block(*REQUEST), block(*RESPONSE), block(*TRAILERS)),
        _with_length(b"\x20" + _TABLED[0][:3], b"\x3f\xe1\x1f" + _TABLED[2], b"\xbe\xbf"),
    ],
    "grpc-headers": [
        b"content-type: application/grpc+proto\ngrpc-timeout: 15S\nauthorization: Bearer x\nk-bin: AP8,YQ==",
        b"grpc-status: 5\ngrpc-message: no such%20topic %C3%BC\ndetails-bin: AAEC",
        b"grpc-status: 0\ngrpc-timeout: 99999999H\n:path: /a/b",
    ],
}
