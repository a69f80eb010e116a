"""The order of texts against the collator that the reference uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.coaty.samples import vectors
from weft.wire.coaty.collation import sort_key


@pytest.mark.req("COA-05")
def test_the_reference_orders_the_same() -> None:
    for a, b, expected in vectors("collation.json")["pairs"]:
        order = (sort_key(a) > sort_key(b)) - (sort_key(a) < sort_key(b))
        assert order == expected, (a, b)


def test_levels() -> None:
    words = ["", "_", "2024-01", "2024-02", "a", "A", "á", "b", "cote", "coté", "côte", "côté", "Z", "ω", "я", "温"]
    assert sorted(sorted(words), key=sort_key) == words
    assert sorted(words) != words


@given(st.text(), st.text())
def test_case_matters_least(a: str, b: str) -> None:
    """Any text has a place, and letters that differ in more than case decide before those that differ in case."""
    assert sort_key(a)[:1] <= sort_key(a + b)[:1]
    if a.isascii():
        assert sort_key(a)[:2] == sort_key(a.upper())[:2]
