"""The trie agrees with the definition of matching, whatever was added and removed, and costs what it should."""

from __future__ import annotations

import tracemalloc
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.strategies import PATTERNS, TOPICS
from weft.limits import MATCHES_KEPT_MAX
from weft.model import Pattern, Topic, covers, matches, parse_pattern, parse_topic
from weft.routing import Trie
from weft.routing.trie import MATCHES_KEPT_VALUES_MAX

PAIRS = st.tuples(PATTERNS, st.integers(0, 3))


def filled(*patterns: str) -> Trie[str]:
    """Every pattern with its own text as its value."""
    trie: Trie[str] = Trie()
    for pattern in patterns:
        trie.add(parse_pattern(pattern), pattern)
    return trie


def visits(trie: Trie[str], topic: Topic) -> int:
    before = trie.nodes_visited
    trie.match(topic)
    return trie.nodes_visited - before


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("a", {">", "*", "a"}),
        ("a.b", {">", "a.>", "a.*", "*.b", "a.b", "*.>"}),
        ("a.b.c", {">", "a.>", "*.>", "a.*.c", "*.*.*"}),
        ("a.x.c.d", {">", "a.>", "*.>"}),
        ("z", {">", "*"}),
        ("A.b", {">", "*.b", "*.>"}),
    ],
)
@pytest.mark.req("MSH-04")
def test_wildcards(topic: str, expected: set[str]) -> None:
    trie = filled(">", "*", "a", "a.>", "a.*", "*.b", "a.b", "*.>", "a.*.c", "*.*.*", "b.>", "a.b.c.d.>")
    found = trie.match(parse_topic(topic))
    assert set(found) == expected
    assert len(found) == len(expected)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove"]), PAIRS), max_size=40), st.lists(TOPICS, max_size=6))
@settings(max_examples=300)
@pytest.mark.req("MSH-04")
def test_it_is_the_definition(steps: list[tuple[str, tuple[Pattern, int]]], topics: list[Topic]) -> None:
    """After every step, asked twice: the second answer is a kept one, the first must not be a stale one."""
    trie: Trie[int] = Trie()
    pairs: set[tuple[Pattern, int]] = set()
    for step, pair in steps:
        if step == "add":
            assert trie.add(*pair) == (pair not in pairs)
            pairs.add(pair)
        else:
            assert trie.remove(*pair) == (pair in pairs)
            pairs.discard(pair)
        assert len(trie) == len(pairs)
        for topic in topics * 2:
            found = trie.match(topic)
            assert set(found) == {value for pattern, value in pairs if matches(pattern, topic)}
            assert len(found) == len(set(found)), "each value once"


@given(st.lists(PATTERNS, max_size=12), PATTERNS)
@settings(max_examples=300)
def test_covering_is_the_definition(patterns: list[Pattern], narrow: Pattern) -> None:
    found = filled(*patterns).covering(narrow)
    assert sorted(found) == sorted({pattern for pattern in patterns if covers(pattern, narrow)})


def test_a_wildcard_is_looked_up_once() -> None:
    """Twice at every token, as a literal too, would be 2**60 times."""
    trie = filled(".".join("*" * 60))
    assert trie.covering(Pattern(".".join("*" * 60))) == (".".join("*" * 60),)
    assert trie.nodes_visited == 61


def test_answers_come_in_the_order_of_arrival() -> None:
    """And so do not hang on the seed of Python's hashes, which a simulation could not replay."""
    trie: Trie[str] = Trie()
    names = [f"subscriber-{number}" for number in (5, 3, 9, 1)]
    for name in names:
        trie.add(Pattern("a.*"), name)
    assert list(trie.match(Topic("a.b"))) == names


def strangers(count: int) -> list[str]:
    """Patterns that do not match a.b.c, each in its own way."""
    shapes = [
        "x{}",
        "x{}.>",
        "a.x{}",
        "a.x{}.>",
        "a.b.x{}",
        "a.b.c.x{}",
        "*.x{}",
        "*.*.x{}",
        "a.*.x{}.>",
        "*.b.c.x{}.>",
    ]
    return [shapes[number % len(shapes)].format(number) for number in range(count)]


@pytest.mark.req("MSH-04")
def test_what_does_not_match_costs_nothing() -> None:
    """The nodes visited are the same with ten patterns that do not match, one of each shape, as with 20,000."""
    topic = parse_topic("a.b.c")
    matching = ["a.b.c", "a.*.c", "*.b.>", ">"]
    assert not any(matches(parse_pattern(pattern), topic) for pattern in strangers(10))
    counts = {size: visits(filled(*matching, *strangers(size)), topic) for size in (10, 100, 20_000)}
    assert len(set(counts.values())) == 1, counts
    assert visits(filled(*(f"x{number}.>" for number in range(1000))), topic) == 1, "the root knows that none begins so"


@pytest.mark.req("MSH-04")
def test_the_worst_patterns_are_bounded_by_the_topic() -> None:
    """All that agree with the topic up to its last token: two ways at each, however many patterns there are."""
    topic = parse_topic("a.a.a.a.z")
    worst = [".".join([*tokens, end]) for tokens in product("a*", repeat=4) for end in "bcdefgh"]
    assert len(worst) == 112
    trie = filled(*worst)
    assert visits(trie, topic) == 2**5 - 1
    assert trie.match(topic) == ()


def test_hot_topics_visit_nothing_until_something_changes() -> None:
    trie, topic = filled("a.>"), parse_topic("a.b")
    assert visits(trie, topic) > 0
    assert visits(trie, topic) == 0
    assert not trie.add(Pattern("a.>"), "a.>")
    assert visits(trie, topic) == 0, "nothing changed"
    assert trie.add(Pattern("a.*"), "new")
    assert set(trie.match(topic)) == {"a.>", "new"}
    assert trie.remove(Pattern("a.>"), "a.>")
    assert trie.match(topic) == ("new",)


def test_kept_answers_are_bounded() -> None:
    trie = filled("a.>")
    topics = [Topic(f"a.{number}") for number in range(MATCHES_KEPT_MAX + 1)]
    for topic in topics:
        trie.match(topic)
    assert visits(trie, topics[-1]) == 0
    assert visits(trie, topics[0]) > 0, "it had to go to make room"


def test_huge_answers_are_not_kept() -> None:
    trie: Trie[str] = Trie()
    for number in range(MATCHES_KEPT_VALUES_MAX + 1):
        trie.add(Pattern("a"), str(number))
    assert visits(trie, Topic("a")) > 0
    assert visits(trie, Topic("a")) > 0


def test_removal_gives_memory_back() -> None:
    """To the last node and the last table: 10,000 patterns that begin alike, differently, and one of 10,000 values."""
    trie: Trie[int] = Trie()
    tracemalloc.start()
    try:
        begin_bytes, _ = tracemalloc.get_traced_memory()
        for shape in ("a.b.{}.>", "{}.*.c", "same"):
            for number in range(10_000):
                trie.add(Pattern(shape.format(number)), number)
        full_bytes, _ = tracemalloc.get_traced_memory()
        for shape in ("a.b.{}.>", "{}.*.c", "same"):
            for number in range(10_000):
                assert trie.remove(Pattern(shape.format(number)), number)
        end_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(trie) == 0
    assert full_bytes - begin_bytes > 5_000_000
    assert end_bytes - begin_bytes < 10_000


def test_removing_a_pattern_leaves_its_relatives() -> None:
    trie = filled("a", "a.b", "a.b.c", "a.>")
    assert trie.remove(Pattern("a.b"), "a.b")
    assert not trie.remove(Pattern("a.b"), "a.b")
    assert not trie.remove(Pattern("a.b.c"), "somebody else")
    assert not trie.remove(Pattern("a.b.c.d"), "a.b.c.d")
    assert set(trie.match(Topic("a.b.c"))) == {"a.b.c", "a.>"}
    assert trie.remove(Pattern("a.b.c"), "a.b.c")
    assert trie.match(Topic("a")) == ("a",)
