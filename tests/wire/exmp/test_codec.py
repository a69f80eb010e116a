"""One message to bytes and back: vectors in both directions, every rejection, and any bytes at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.exmp.strategies import messages
from weft.errors import UsageError
from weft.wire.exmp import (
    BadMessage,
    Bye,
    Error,
    Hello,
    Message,
    MessageType,
    Ping,
    Pong,
    Request,
    Response,
    decode_untrusted,
    encode,
)

VECTORS = Path(__file__).parents[2] / "vectors" / "exmp"


def load(name: str) -> list[Any]:
    vectors = json.loads((VECTORS / name).read_text())
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


def message_of(entry: dict[str, Any]) -> Message:
    """The vector's meaning as a value, by a path of its own: not through document.py."""
    match entry:
        case {"type": "hello", "version": version}:
            return Hello(version)
        case {"type": "error", "code": code, "description": description}:
            return Error(code, description)
        case {"type": "bye"}:
            return Bye()
        case {"type": "ping"}:
            return Ping(bytes.fromhex(entry.get("body_hex", "")))
        case {"type": "pong"}:
            return Pong()
        case {"type": "request", "id": request_id}:
            return Request(request_id, data_of(entry))
        case {"type": "response", "id": request_id}:
            return Response(request_id, data_of(entry))
        case _:
            raise AssertionError(f"no such message: {entry}")


def data_of(entry: dict[str, Any]) -> bytes:
    if "data" in entry:
        return json.dumps(entry["data"], separators=(",", ":")).encode()
    if "data_text" in entry:
        return str(entry["data_text"]).encode()
    return bytes.fromhex(entry["data_hex"])


@pytest.mark.req("EXM-01", "EXM-05")
@pytest.mark.parametrize("vector", load("messages.json"))
def test_messages_in_both_directions(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    assert int.from_bytes(data[:4]) == len(data) - 4
    message = message_of(vector["message"])
    assert decode_untrusted(data[4:]) == message
    assert encode(message) == data[4:]


@pytest.mark.req("EXM-01")
@pytest.mark.parametrize("vector", load("strings.json"))
def test_strings_in_both_directions(vector: dict[str, Any]) -> None:
    """The only character string in the protocol is the description of an error."""
    data = bytes.fromhex("04000000 00000000") + bytes.fromhex(vector["hex"])
    assert decode_untrusted(data) == Error(0, vector["text"])
    assert encode(Error(0, vector["text"])) == data


@pytest.mark.req("EXM-01", "EXM-05")
@pytest.mark.parametrize("vector", load("rejected.json"))
def test_rejections(vector: dict[str, Any]) -> None:
    with pytest.raises(BadMessage) as caught:
        decode_untrusted(bytes.fromhex(vector["hex"]))
    assert (caught.value.code, caught.value.what) == (vector["code"], vector["what"])


@pytest.mark.req("EXM-01")
def test_the_types() -> None:
    names = ["HELLO", "BYE", "PING", "PONG", "ERROR", "REQUEST", "RESPONSE"]
    assert [(kind.name, kind.value) for kind in MessageType] == list(zip(names, range(7), strict=True))


@pytest.mark.req("EXM-01")
def test_unused_bytes_are_ignored() -> None:
    assert decode_untrusted(bytes.fromhex("00 ffffff 01 ffffff")) == Hello(1)
    assert decode_untrusted(bytes.fromhex("01 ffffff")) == Bye()
    assert decode_untrusted(bytes.fromhex("04 ffffff 01 ffffff 0000")) == Error(1, "")
    assert decode_untrusted(bytes.fromhex("05 ffffff 0000000000000001")) == Request(1, b"")


@pytest.mark.req("EXM-01")
def test_the_longest_description() -> None:
    assert decode_untrusted(encode(Error(0, "x" * 65535))) == Error(0, "x" * 65535)
    with pytest.raises(BadMessage, match="leftover bytes"):
        decode_untrusted(encode(Error(0, "x" * 65535)) + b"x")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Hello(256), "version is out of range"),
        (Hello(-1), "version is out of range"),
        (Error(256, ""), "code is out of range"),
        (Error(0, "x" * 65536), "description is too long"),
        (Error(0, "é" * 32768), "description is too long"),
        (Error(0, "\ud800"), "description is not Unicode text"),
        (Request(0, b""), "id is out of range"),
        (Response(0, b""), "id is out of range"),
        (Request(1 << 64, b""), "id is out of range"),
    ],
)
def test_what_cannot_be_encoded(message: Message, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        encode(message)


def test_messages_of_different_types_are_never_equal() -> None:
    alike: list[Message] = [Request(1, b""), Response(1, b""), Bye(), Ping(), Pong()]
    assert [[one == other for other in alike] for one in alike] == [
        [row == column for column in range(5)] for row in range(5)
    ]


@given(messages)
def test_round_trip(message: Message) -> None:
    assert decode_untrusted(encode(message)) == message


@given(st.binary(max_size=40) | st.builds(lambda kind, rest: bytes([kind]) + rest, st.integers(0, 7), st.binary()))
def test_any_bytes_decode_or_raise_the_one_error(data: bytes) -> None:
    try:
        message = decode_untrusted(data)
    except BadMessage as bad:
        assert bad.code in (1, 3)
        return
    again = encode(message)
    assert len(again) == len(data)
    assert decode_untrusted(again) == message
