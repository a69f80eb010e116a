"""Fuzz targets of the EXMP room: bytes into each decoder; only BadMessage may come out."""

from __future__ import annotations

from collections.abc import Callable

from weft.wire.describe import unaccounted
from weft.wire.exmp import (
    DEFAULT_SETTINGS,
    BadMessage,
    Closed,
    Connection,
    InvalidRequestReceived,
    RequestReceived,
    State,
    Success,
    decode_operation_untrusted,
    decode_outcome_untrusted,
    decode_untrusted,
    describe_untrusted,
    encode,
    encode_operation,
    encode_outcome,
    from_document,
    to_document_untrusted,
)

HELLO = bytes.fromhex("00000008 00000000 01000000")
PING = bytes.fromhex("00000004 02000000")
BYE = bytes.fromhex("00000004 01000000")
ERROR = bytes.fromhex("0000000f 04000000 01000000 0005 68656c6c6f")
REQUEST = bytes.fromhex("00000016 05000000 0000000000000001") + b'{"op":"a"}'
RESPONSE = bytes.fromhex("00000020 06000000 0000000000000001") + b'{"status":"success"}'


def message(data: bytes) -> None:
    try:
        decoded = decode_untrusted(data)
    except BadMessage:
        return
    again = encode(decoded)
    assert len(again) == len(data)
    assert decode_untrusted(again) == decoded


def operation(data: bytes) -> None:
    try:
        decoded = decode_operation_untrusted(data)
    except BadMessage:
        return
    assert decode_operation_untrusted(encode_operation(decoded)) == decoded


def outcome(data: bytes) -> None:
    try:
        decoded = decode_outcome_untrusted(data)
    except BadMessage:
        return
    assert decode_outcome_untrusted(encode_outcome(decoded)) == decoded


def connection(data: bytes) -> None:
    """The peer sends ``data`` after its hello, in two pieces; requests are answered at once."""
    here = Connection(DEFAULT_SETTINGS, 0.0)
    here.receive_data(HELLO, 0.0)
    here.send_request("a")
    half = len(data) // 2
    events = here.receive_data(data[:half], 0.0) + here.receive_data(data[half:], 0.0)
    closed = False
    while events:
        event = events.pop(0)
        closed = closed or isinstance(event, Closed)
        if isinstance(event, RequestReceived | InvalidRequestReceived):
            events += here.send_response(event.id, Success(), 0.0)
    assert closed == (here.state is State.CLOSED)
    assert (here.get_timer() is None) == closed


def stranger(data: bytes) -> None:
    """The peer sends ``data`` instead of a hello."""
    here = Connection(DEFAULT_SETTINGS, 0.0)
    events = here.receive_data(data, 0.0) + here.receive_eof()
    assert isinstance(events[-1], Closed)
    assert here.state is State.CLOSED


def describe(data: bytes) -> None:
    try:
        part = describe_untrusted(data)
    except BadMessage:
        return
    assert unaccounted(part) == []


def document(data: bytes) -> None:
    try:
        first = to_document_untrusted(data)
    except BadMessage:
        return
    assert to_document_untrusted(from_document(first)) == first


_MESSAGES = [HELLO, PING, BYE, ERROR, REQUEST, RESPONSE]

TARGETS: dict[str, Callable[[bytes], None]] = {
    "exmp-message": message,
    "exmp-operation": operation,
    "exmp-outcome": outcome,
    "exmp-connection": connection,
    "exmp-stranger": stranger,
    "exmp-describe": describe,
    "exmp-document": document,
}

SEEDS: dict[str, list[bytes]] = {
    "exmp-message": [framed[4:] for framed in _MESSAGES],
    "exmp-operation": [b'{"op":"a"}', b'{"op":"a","data":{"x":[1,2.5,null,true,"\xc3\xa9"]}}'],
    "exmp-outcome": [
        b'{"status":"success","data":{"x":1}}',
        b'{"status":"failure","code":"c","description":"d","data":{}}',
    ],
    "exmp-connection": [PING + REQUEST + RESPONSE, REQUEST + REQUEST, RESPONSE + RESPONSE, PING + ERROR, BYE],
    "exmp-stranger": [*_MESSAGES, HELLO + PING + REQUEST + BYE],
    "exmp-describe": [*_MESSAGES, b"".join(_MESSAGES)],
    "exmp-document": [*_MESSAGES, b"".join(_MESSAGES)],
}
