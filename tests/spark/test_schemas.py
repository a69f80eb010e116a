"""Which schemas of a mesh count for what a job reads: by definition, and in examples."""

from __future__ import annotations

from itertools import product

import pytest

from weft.model import Pattern, Topic, matches, parse_pattern
from weft.schema.registry import most_specific
from weft.spark.schemas import relevant
from weft.spark.selection import parse_selection

pytestmark = pytest.mark.req("LAK-02")

TOKENS = ("a", "b", "c")
TOPICS = [Topic(".".join(each)) for length in (1, 2, 3) for each in product(TOKENS, repeat=length)]
PATTERNS = [parse_pattern(text) for text in (">", "a.>", "a.*", "*.b", "a.b", "a.*.c", "*.*.*", "*.b.>")]


@pytest.mark.parametrize("subscribe", [">", "a.>", "a.b", "a.*.c", "*.b", "a.b.c,b", "b.>,!b.b.>", "c"])
def test_the_first_that_matches_is_the_one_that_counts(subscribe: str) -> None:
    selection = parse_selection("subscribe", subscribe)
    found = relevant(selection, PATTERNS)
    for topic in filter(selection.selects_topic, TOPICS):
        first = next((each for each in found if matches(each, topic)), None)
        assert first == most_specific(topic, PATTERNS), topic


@pytest.mark.parametrize(
    ("subscribe", "found"),
    [
        ("a.b", ["a.b"]),  # wider ones do not count there
        ("a.x", ["a.*"]),
        ("x.y.z", ["*.*.*"]),
        ("a.>,!a.*.>", ["a.b", "a.*", "a.>"]),
        ("c.>,!c.c.>", ["*.b", "*.b.>", "*.*.*", ">"]),
    ],
)
def test_only_those_are_taken_that_can_count(subscribe: str, found: list[Pattern]) -> None:
    assert relevant(parse_selection("subscribe", subscribe), PATTERNS) == found
