"""Like patterns against a plain translation that backtracks, and their cost; the order of texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.coaty.samples import vectors
from weft.wire.coaty.text import like, sort_key


def slow_like(pattern: str, text: str) -> bool:
    """The definition: a regular expression, character by character."""
    translated, escaped = "", False
    for character in pattern:
        if escaped:
            translated += re.escape(character)
        elif character in "%_":
            translated += r"[^\n\r\u2028\u2029]" + ("*" if character == "%" else "")
        elif character != "\\":
            translated += re.escape(character)
        escaped = character == "\\" and not escaped
    return re.fullmatch(translated, text) is not None


@settings(max_examples=300)
@given(st.text("ab%_\\\n\r.", max_size=10), st.text("ab%_\\\n\r.", max_size=12))
def test_like_equals_the_definition(pattern: str, text: str) -> None:
    assert like(pattern, text) == slow_like(pattern, text)


@given(st.lists(st.sampled_from(["%", "a", "b", "_", "\n", "\r", "\u2028"]), max_size=8), st.data())
def test_like_finds_what_a_pattern_was_filled_into(parts: list[str], data: st.DataObject) -> None:
    fillings = {"%": st.text("ab", max_size=3), "_": st.sampled_from("ab")}
    text = "".join(data.draw(fillings.get(part, st.just(part))) for part in parts)
    assert like("".join(parts), text)


@pytest.mark.parametrize("pattern", ["%a" * 300 + "b", "%" * 1000 + "b", "%_" * 500 + "b", "a%" * 500 + "_b"])
def test_no_pattern_is_a_trap(pattern: str) -> None:
    """A backtracking matcher would not finish within the age of the universe."""
    assert not like(pattern, "a" * 10_000)


@pytest.mark.req("COA-05")
def test_the_reference_orders_the_same() -> None:
    for a, b, expected in vectors("collation.json")["pairs"]:
        order = (sort_key(a) > sort_key(b)) - (sort_key(a) < sort_key(b))
        assert order == expected, (a, b)


def test_levels_of_the_order() -> None:
    words = ["", "_", "2024-01", "2024-02", "a", "A", "á", "b", "cote", "coté", "côte", "côté", "Z", "ω", "я", "温"]
    assert sorted(sorted(words), key=sort_key) == words
    assert sorted(words) != words


@given(st.text(), st.text())
def test_case_matters_least_in_the_order(a: str, b: str) -> None:
    """Any text has a place, and letters that differ in more than case decide before those that differ in case."""
    assert sort_key(a)[:1] <= sort_key(a + b)[:1]
    if a.isascii():
        assert sort_key(a)[:2] == sort_key(a.upper())[:2]
