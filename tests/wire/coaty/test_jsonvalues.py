"""Bounded JSON in both directions, and equality as JavaScript has it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.coaty.samples import json_values
from weft.errors import UsageError
from weft.limits import COATY_JSON_DEPTH_MAX
from weft.wire.coaty import BadCoatyMessage
from weft.wire.coaty.jsonvalues import (
    COATY_JSON_CONTAINERS_MAX,
    count_nodes,
    decode_json_untrusted,
    depth_of,
    encode_json,
    same,
    structure,
)


def depth_in(value: Any) -> int:
    match value:
        case list():
            return 1 + max(map(depth_in, value), default=0)
        case dict():
            return 1 + max(map(depth_in, value.values()), default=0)
        case _:
            return 0


def containers_in(value: Any) -> int:
    match value:
        case list():
            return 1 + sum(map(containers_in, value))
        case dict():
            return 1 + sum(map(containers_in, value.values()))
        case _:
            return 0


@pytest.mark.req("COA-05")
@given(json_values, st.sampled_from([None, 2]))
def test_structure_is_found_without_parsing(value: Any, indent: int | None) -> None:
    steps = structure(json.dumps(value, indent=indent).encode())
    assert (steps.count(1), steps.count(-1), depth_of(steps)) == (
        containers_in(value),
        containers_in(value),
        depth_in(value),
    )


@pytest.mark.req("COA-05")
@pytest.mark.parametrize(
    ("text", "depth"),
    [(b'"[[[["', 0), (rb'"\"[[" ', 0), (rb'["\\",[]]', 2), (b"", 0), (b"]]]", 0), (b"[[]", 2), (b'[" ]', 1)],
)
def test_nesting_of_odd_texts(text: bytes, depth: int) -> None:
    assert depth_of(structure(text)) == depth


@pytest.mark.req("COA-05")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b"NaN", "is not JSON"),
        (b"1e999", "is not JSON"),
        (b"'a'", "is not JSON"),
        (b'"\xff"', "is not UTF-8"),
        (b'"\xed\xa0\x80"', "is not UTF-8"),
        (rb'"\ud800"', "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b"[" * (COATY_JSON_DEPTH_MAX + 1) + b"]" * (COATY_JSON_DEPTH_MAX + 1), "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
        (b"[" + b"[]," * COATY_JSON_CONTAINERS_MAX + b"[]]", "too many arrays and objects"),
        (b" " * 101, "too long"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_refused_texts(text: bytes, complaint: str) -> None:
    with pytest.raises(BadCoatyMessage, match=complaint):
        decode_json_untrusted(text, "text", bytes_max=100 if text.isspace() else 2_000_000)


@pytest.mark.req("COA-05")
def test_the_deepest_allowed() -> None:
    text = b"[" * COATY_JSON_DEPTH_MAX + b"]" * COATY_JSON_DEPTH_MAX
    assert encode_json(decode_json_untrusted(text, "text", 1000), "text", 1000) == text


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.req("COA-05")
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (float("nan"), "number that JSON does not have"),
        ([float("inf")], "number that JSON does not have"),
        (b"bytes", "not JSON"),
        ({"a": {1, 2}}, "not JSON"),
        ({1: 2}, "name is not a string"),
        ("\ud800", "surrogate"),
        ([10**5000], "cannot be written"),
        (cycle(), "nested too deep"),
        ("x" * 200, "too long"),
    ],
)
def test_refused_values(value: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        encode_json(value, "value", bytes_max=100)


@pytest.mark.req("COA-05")
@given(json_values)
def test_round_trip(value: Any) -> None:
    text = encode_json(value, "value", 10_000)
    assert same(decode_json_untrusted(text, "value", 10_000), value)
    assert json.loads(text) == value


@given(json_values, json_values)
def test_equality_is_that_of_the_texts(a: Any, b: Any) -> None:
    """Two values are the same if they are written the same, once numbers are written alike and members in order."""

    def canonical(value: Any) -> str:
        return json.dumps(json.loads(json.dumps(value), parse_int=float), sort_keys=True).replace("-0.0", "0.0")

    assert same(a, a)
    assert same(a, b) == (canonical(a) == canonical(b)) == same(b, a)


@pytest.mark.parametrize(("a", "b"), [(True, 1), (False, 0), (None, 0), (None, False), ("1", 1), ([], {}), ({}, None)])
def test_what_python_or_javascript_might_confuse(a: Any, b: Any) -> None:
    assert not same(a, b)
    assert not same([a], [b])
    assert not same({"k": a}, {"k": b})


def test_nodes_are_counted_up_to_a_limit() -> None:
    assert count_nodes({"a": [1, 2, {}], "b": None}, 100) == 6
    assert count_nodes([0] * 1000, 10) == 11
