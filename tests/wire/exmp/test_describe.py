"""Every byte of a capture is named, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.exmp.strategies import messages
from tests.wire.exmp.transcript import HELLO, error, octets, request, response
from weft.wire.describe import Part, unaccounted
from weft.wire.exmp import BadMessage, Message, describe_untrusted, encode, frame

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "exmp" / "messages.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_are_accounted_for(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    part = describe_untrusted(data)
    assert (part.name, part.at, part.size, part.value) == ("exmp", 0, len(data), "1 message")
    assert unaccounted(part) == []
    assert part.parts[0].name == vector["message"]["type"]


@given(st.lists(messages, max_size=5))
def test_any_messages_are_accounted_for(sent: list[Message]) -> None:
    data = b"".join(frame(encode(message), 1000) for message in sent)
    part = describe_untrusted(data)
    assert unaccounted(part) == []
    assert sum(leaf.size for leaf in part.leaves()) == len(data)
    assert len(part.parts) == len(sent)


def leaves(part: Part) -> list[tuple[str, int, int, str]]:
    return [(leaf.name, leaf.at, leaf.size, leaf.value) for leaf in part.leaves()]


def test_a_hello_and_a_request() -> None:
    part = describe_untrusted(octets("00000008 00 00aa00 01 000000\n" + request(7)))
    assert part.value == "2 messages"
    assert leaves(part) == [
        ("length", 0, 4, "8"),
        ("type", 4, 1, "0 (hello)"),
        ("unused", 5, 3, "00aa00"),
        ("version", 8, 1, "1"),
        ("unused", 9, 3, "000000"),
        ("length", 12, 4, "22"),
        ("type", 16, 1, "5 (request)"),
        ("unused", 17, 3, "000000"),
        ("id", 20, 8, "7"),
        ("data", 28, 10, '{"op":"a"}'),
    ]


def test_an_error() -> None:
    part = describe_untrusted(octets(error(3, "who?")))
    assert leaves(part)[3:] == [
        ("code", 8, 1, "3 (invalid request id)"),
        ("unused", 9, 3, "000000"),
        ("description length", 12, 2, "4"),
        ("description", 14, 4, "who?"),
    ]
    assert leaves(describe_untrusted(octets(error(77, ""))))[3] == ("code", 8, 1, "77 (not defined)")


def test_application_data_that_is_wrong_is_shown_with_the_reason() -> None:
    wrong_op = leaves(describe_untrusted(octets(request(1, "{}"))))[-1]
    assert wrong_op[3] == "{} [invalid: Object missing required field `op`]"
    wrong_status = leaves(describe_untrusted(octets(response(1, '{"status":"failure"}'))))[-1]
    assert wrong_status[3] == '{"status":"failure"} [invalid: a failure without a description]'
    not_text = leaves(describe_untrusted(octets("0000000d 05000000 0000000000000001 ff")))[-1]
    assert not_text[3] == "\\xff [invalid: JSON is not UTF-8 (at 0)]"


def test_nothing_at_all() -> None:
    assert describe_untrusted(b"") == Part("exmp", 0, 0, "0 messages")


@pytest.mark.parametrize("data", [HELLO + " 00", HELLO + " 00000000", "00000004 07000000", "ffffffff"])
def test_what_is_no_message_is_refused(data: str) -> None:
    with pytest.raises(BadMessage):
        describe_untrusted(octets(data))


@given(st.binary(max_size=60))
def test_any_bytes_are_described_or_refused(data: bytes) -> None:
    try:
        part = describe_untrusted(data)
    except BadMessage:
        return
    assert unaccounted(part) == []
