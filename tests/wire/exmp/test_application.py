"""Operations and outcomes as JSON: the document's examples, every rejection, and any bytes at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.exmp.strategies import operations, outcomes
from weft.errors import UsageError
from weft.wire.exmp import (
    BadMessage,
    ErrorCode,
    Failure,
    Operation,
    Outcome,
    Success,
    UnfitData,
    decode_operation_untrusted,
    decode_outcome_untrusted,
    encode_operation,
    encode_outcome,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "exmp" / "application.json").read_text())


@pytest.mark.req("EXM-09")
@pytest.mark.parametrize("vector", VECTORS["requests"], ids=lambda vector: vector["name"])
def test_requests_in_both_directions(vector: dict[str, Any]) -> None:
    operation = Operation(vector["op"], vector.get("data"))
    assert decode_operation_untrusted(vector["text"].encode()) == operation
    assert encode_operation(operation) == vector["compact"].encode()


@pytest.mark.req("EXM-09")
@pytest.mark.parametrize("vector", VECTORS["responses"], ids=lambda vector: vector["name"])
def test_responses_in_both_directions(vector: dict[str, Any]) -> None:
    outcome = Success(**vector["success"]) if "success" in vector else Failure(**vector["failure"])
    assert decode_outcome_untrusted(vector["text"].encode()) == outcome
    assert encode_outcome(outcome) == vector["compact"].encode()


def nested(depth: int) -> bytes:
    """``{"op":"a","data":...}`` in which data nests so deep."""
    return b'{"op":"a","data":{"x":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}}"


@pytest.mark.req("EXM-05", "EXM-08", "EXM-09")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b'{"op":"a"}x', "trailing characters"),
        (b"\xef\xbb\xbf" + b'{"op":"a"}', "byte-order mark"),
        ('{"op":"a"}'.encode("utf-16"), "not UTF-8"),
        (b'{"op":"\xff"}', "JSON is not UTF-8 (at 7)"),
        (b'{"op":"a","ignored":"\xff"}', "JSON is not UTF-8 (at 21)"),
        (b'{"op":"a","ignored":"\xed\xa0\x80"}', "not UTF-8"),
        (b'{"op":"a","data":{"x":NaN}}', "malformed"),
        (b'{"op":1}x', "trailing characters"),  # a mistake of syntax behind one of meaning
        (b'{"op":"\\ud800"', "truncated"),
        (b"[1,", "truncated"),
        (nested(100_000), "recursion"),
        (b'{"op":"a","ignored":' + b"[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_json_is_error_1(text: bytes, reason: str) -> None:
    with pytest.raises(BadMessage) as caught:
        decode_operation_untrusted(text)
    assert not isinstance(caught.value, UnfitData)
    assert caught.value.code == ErrorCode.PROTOCOL
    assert reason in str(caught.value)


@pytest.mark.req("EXM-08", "EXM-09")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[]", "Expected `object`, got `array`"),
        (b'"a"', "Expected `object`, got `str`"),
        (b"{}", "missing required field `op`"),
        (b'{"op":1}', "Expected `str`, got `int` - at `$.op`"),
        (b'{"op":null}', "Expected `str`, got `null` - at `$.op`"),
        (b'{"op":null,"data":{"x":"\\ud800"}}', "Expected `str`, got `null` - at `$.op`"),
        (b'{"data":{"x":1e999}}', "missing required field `op`"),
    ],
)
def test_json_that_is_no_request_is_error_4(text: bytes, reason: str) -> None:
    with pytest.raises(BadMessage) as caught:
        decode_operation_untrusted(text)
    assert not isinstance(caught.value, UnfitData)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert reason in str(caught.value)


LONE = "JSON has half of a surrogate pair, which is not a character"


@pytest.mark.req("EXM-08", "EXM-09")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"op":"a","data":null}', "Expected `object`, got `null` - at `$.data`"),
        (b'{"op":"a","data":[]}', "Expected `object`, got `array` - at `$.data`"),
        (b'{"op":"a","data":{"x":1e999}}', "out of range"),
        (b'{"op":"a","data":{"x":' + b"9" * 5000 + b"}}", "out of range"),
        (nested(65), "nested too deep (limit 64)"),
        (nested(500), "nested too deep (limit 64)"),
        (b'{"op":"\\ud800"}', f"{LONE} (at 7)"),
        (b'{"op":"\\uDC00"}', f"{LONE} (at 7)"),
        (b'{"op":"a","data":{"x":"\\ud83d\\ude00\\ude00"}}', f"{LONE} (at 35)"),
        (b'{"op":"a","data":{"x":"\\\\\\ud800"}}', f"{LONE} (at 25)"),
        (b'{"op":"a","data":{"x":"\\ud800\\\\udc00"}}', f"{LONE} (at 23)"),
    ],
)
def test_data_that_does_not_fit_spoils_only_its_request(text: bytes, reason: str) -> None:
    with pytest.raises(UnfitData) as caught:
        decode_operation_untrusted(text)
    assert reason in str(caught.value)


def test_pairs_of_surrogates_and_escaped_backslashes_are_text() -> None:
    text = b'{"op":"a","data":{"x":"\\ud83d\\ude00 \\\\ud800"}}'
    assert decode_operation_untrusted(text) == Operation("a", {"x": "\U0001f600 \\ud800"})


@pytest.mark.req("EXM-09")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{}", "missing required field `status`"),
        (b'{"status":"maybe"}', "Invalid enum value"),
        (b'{"status":"failure"}', "a failure without a description"),
        (b'{"status":"failure","description":null}', "Expected `str`, got `null`"),
        (b'{"status":"failure","description":"x","code":1}', "Expected `str`, got `int`"),
        (b'{"status":"success","data":1}', "Expected `object`, got `int`"),
        (nested(65).replace(b'"op":"a"', b'"status":"success"'), "nested too deep"),
    ],
)
def test_responses_that_are_none(text: bytes, reason: str) -> None:
    with pytest.raises(UnfitData) as caught:
        decode_outcome_untrusted(text)
    assert reason in str(caught.value)


@pytest.mark.req("EXM-08")
@pytest.mark.parametrize("text", [b"", b"success", b"\xef\xbb\xbf" + b'{"status":"success"}', b'{"status":"maybe"'])
def test_a_response_that_is_no_json_is_error_1(text: bytes) -> None:
    with pytest.raises(BadMessage) as caught:
        decode_outcome_untrusted(text)
    assert not isinstance(caught.value, UnfitData)
    assert caught.value.code == ErrorCode.PROTOCOL


@pytest.mark.req("EXM-09")
def test_the_deepest_data_allowed() -> None:
    operation = decode_operation_untrusted(nested(64))
    assert encode_operation(operation) == nested(64)


def test_many_brackets_are_not_depth() -> None:
    wide = {"x": [{"y": [[], {}]} for _ in range(100)], "[[[": "{" * 100}
    operation = Operation("a", wide)
    assert decode_operation_untrusted(encode_operation(operation)) == operation


def test_a_reason_does_not_repeat_all_that_it_refuses() -> None:
    with pytest.raises(BadMessage) as caught:
        decode_outcome_untrusted(b'{"status":"' + b"x" * 100_000 + b'"}')
    assert len(str(caught.value)) <= 200


def decode_deep(depth: int) -> Operation:
    return Operation("a", msgspec.json.decode(nested(depth))["data"])


def deep_tuple(depth: int) -> tuple[Any, ...]:
    return (deep_tuple(depth - 1),) if depth else ()


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation(1), "op must be a string"),  # type: ignore[arg-type]
        (Operation("a", []), "data must be a dict"),  # type: ignore[arg-type]
        (Operation("a", {"x": object()}), "cannot be written as JSON"),
        (Operation("a", {"x": "\ud800"}), "cannot be written as JSON"),
        (Operation("\ud800"), "cannot be written as JSON"),
        (Operation("a", {(1, 2): 3}), "cannot be written as JSON"),  # type: ignore[dict-item]
        (Operation("a", CYCLE), "cannot be written as JSON"),
        (decode_deep(65), "nested too deep"),
        (Operation("a", {"x": deep_tuple(64)}), "nested too deep"),
    ],
)
def test_operations_that_cannot_be_written(operation: Operation, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        encode_operation(operation)


@pytest.mark.req("EXM-09")
@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Failure(None), "description must be a string"),  # type: ignore[arg-type]
        (Failure("x", 5), "code must be a string"),  # type: ignore[arg-type]
        (Failure("x", data=5), "data must be a dict"),  # type: ignore[arg-type]
        (Success(5), "data must be a dict"),  # type: ignore[arg-type]
    ],
)
def test_outcomes_that_cannot_be_written(outcome: Outcome, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        encode_outcome(outcome)


@given(operations)
def test_operations_round_trip(operation: Operation) -> None:
    text = encode_operation(operation)
    assert decode_operation_untrusted(text) == operation
    assert json.loads(text)["op"] == operation.op


@given(outcomes)
def test_outcomes_round_trip(outcome: Outcome) -> None:
    assert decode_outcome_untrusted(encode_outcome(outcome)) == outcome


fragments = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b":", b",", b'"', b"op", b'"op"', b'"data"', b"null", b"1", b"\\u", b"\xff"]
    )
).map(b"".join)


@given(st.binary() | fragments)
def test_any_bytes_decode_or_raise_the_one_error(text: bytes) -> None:
    for decode in (decode_operation_untrusted, decode_outcome_untrusted):
        try:
            decode(text)
        except BadMessage:
            continue
