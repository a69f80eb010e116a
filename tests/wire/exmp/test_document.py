"""Messages as JSON documents, and back to the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.exmp.strategies import messages, operations
from tests.wire.exmp.transcript import octets, request
from weft.errors import UsageError
from weft.wire.exmp import (
    BadMessage,
    Message,
    Operation,
    Request,
    encode,
    encode_operation,
    frame,
    from_document,
    to_document_untrusted,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "exmp" / "messages.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_in_both_directions(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    document = {"protocol": "exmp", "messages": [vector["message"]]}
    assert to_document_untrusted(data) == document
    assert from_document(document) == data


@given(st.lists(messages, max_size=4))
def test_any_messages_come_back_byte_for_byte(sent: list[Message]) -> None:
    data = b"".join(frame(encode(message), 1000) for message in sent)
    document = to_document_untrusted(data)
    assert from_document(document) == data
    assert from_document(json.loads(json.dumps(document))) == data, "also by way of a file"


@given(operations)
def test_what_we_write_ourselves_is_shown_as_data(operation: Operation) -> None:
    text = encode_operation(operation)
    [entry] = to_document_untrusted(frame(encode(Request(1, text)), 10_000))["messages"]
    assert entry == {"type": "request", "id": 1, "data": json.loads(text)}


@pytest.mark.parametrize(
    "text",
    [
        '{"op": "a"}',  # a space
        '{"op":"a","op":"a"}',
        '{"op":"\\u0061"}',
        '{"op":"a","data":{"x":1E5}}',
        '{"op":"a","data":{"x":1e999}}',
        '{"op":"a","data":{"x":-0}}',
        '{"op":',
        "",
        "[" * 65 + "]" * 65,
        "[" * 100_000,
    ],
)
def test_text_that_would_not_come_back_the_same_is_kept_as_it_is(text: str) -> None:
    data = octets(request(1, text))
    document = to_document_untrusted(data)
    assert document["messages"] == [{"type": "request", "id": 1, "data_text": text}]
    assert from_document(document) == data


def test_order_of_fields_is_kept() -> None:
    data = octets(request(1, '{"z":1,"op":"a","b":{"y":1,"x":2}}'))
    assert from_document(to_document_untrusted(data)) == data


@given(st.binary(max_size=60))
def test_any_bytes_become_a_document_or_are_refused(data: bytes) -> None:
    try:
        document = to_document_untrusted(data)
    except BadMessage:
        return
    assert len(from_document(document)) == len(data)


def entry(**fields: object) -> dict[str, Any]:
    return {"protocol": "exmp", "messages": [{"type": "ping"}, fields]}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "Expected `object`, got `array`"),
        ({}, "missing required field `protocol`"),
        ({"protocol": "emm", "messages": []}, "$.protocol"),
        ({"protocol": "exmp"}, "missing required field `messages`"),
        ({"protocol": "exmp", "messages": {}}, "$.messages"),
        ({"protocol": "exmp", "messages": [], "message": 1}, "unknown field `message`"),
        ({"protocol": "exmp", "messages": [3]}, "$.messages[0]"),
        (entry(version=1), "missing required field `type` - at `$.messages[1]`"),
        (entry(type="hi"), "$.messages[1].type"),
        (entry(type="bye", reason="x"), "unknown field `reason` - at `$.messages[1]`"),
        (entry(type="hello"), "missing required field `version` - at `$.messages[1]`"),
        (entry(type="hello", version="1"), "$.messages[1].version"),
        (entry(type="hello", version=True), "$.messages[1].version"),
        (entry(type="hello", version=256), "messages[1]: version is out of range"),
        (entry(type="error", code=-1, description=""), "messages[1]: code is out of range"),
        (entry(type="error", code=1, description="x" * 65536), "messages[1]: description is too long"),
        (entry(type="request", id=0, data={}), "messages[1]: id is out of range"),
        (entry(type="request", id=1 << 64, data={}), "messages[1]: id is out of range"),
        (entry(type="request", id=1.5, data={}), "$.messages[1].id"),
        (entry(type="request", id=1), "messages[1]: exactly one of data, data_text and data_hex"),
        (entry(type="response", id=1, data={}, data_text=""), "(given data, data_text)"),
        (entry(type="response", id=1, data_text=1), "$.messages[1].data_text"),
        (entry(type="response", id=1, data_text="\ud800"), "messages[1]: data_text cannot be written"),
        (entry(type="response", id=1, data_hex="0g"), "messages[1]: data_hex cannot be written"),
        (entry(type="response", id=1, data={"x": object()}), "messages[1]: data cannot be written"),
        (entry(type="response", id=1, data_text="x" * (16 << 20)), "messages[1]: message is too long"),
    ],
)
def test_documents_that_are_wrong_are_told_where(document: Any, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_document(document)
    assert reason in str(caught.value)
