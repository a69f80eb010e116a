"""Very many patterns as a filter: nothing that is wanted is left out, and little is added."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.strategies import PATTERNS, TOPICS
from weft.errors import UsageError
from weft.limits import INTEREST_FILTER_BYTES_MAX, KIB
from weft.model import NodeId, Pattern, Topic, covers, matches
from weft.routing import InterestTable, Summary, begin_alike, finished, summarize
from weft.routing.summary import HASHES_MAX, SHAPES_MAX, shape_of

A, B = NodeId("a"), NodeId("b")


def commands(numbers: Iterable[int]) -> list[str]:
    return [f"plant.device{number}.command" for number in numbers]


def patterns_of(texts: Iterable[str]) -> set[Pattern]:
    return set(map(Pattern, texts))


@given(st.sets(PATTERNS, max_size=60), st.lists(TOPICS, max_size=30), st.integers(1, 64))
@settings(max_examples=300)
@pytest.mark.req("MSH-02")
def test_what_a_pattern_selects_is_always_selected(patterns: set[Pattern], topics: list[Topic], bytes_max: int) -> None:
    summary = finished(summarize(patterns, bytes_max))
    assert len(summary.bits) <= bytes_max
    for topic in topics:
        if any(matches(pattern, topic) for pattern in patterns):
            assert summary.may_select(topic)


@given(st.sets(PATTERNS, min_size=1, max_size=20), st.randoms(use_true_random=True))
def test_the_same_patterns_have_the_same_summary(patterns: set[Pattern], shuffler: random.Random) -> None:
    shuffled = list(patterns)
    shuffler.shuffle(shuffled)
    assert finished(summarize([*shuffled, *shuffled], KIB)) == finished(summarize(patterns, KIB))


@pytest.mark.req("MSH-02")
@pytest.mark.parametrize(
    ("count", "bytes_max", "mistakes_max"),
    [
        (10_000, 32 * KIB, 0.003),  # 14 bits each: 0.12 %
        (20_000, 10 * KIB, 0.25),  # 4 bits each: 15 %, for want of room
    ],
)
def test_hardly_anything_else_is_selected(count: int, bytes_max: int, mistakes_max: float) -> None:
    summary = finished(summarize(patterns_of(commands(range(count))), bytes_max))
    assert all(summary.may_select(Topic(topic)) for topic in commands(range(0, count, 7)))
    others = commands(range(count, count + 5000))
    assert sum(summary.may_select(Topic(topic)) for topic in others) / len(others) <= mistakes_max


def test_wildcards_are_looked_up_by_their_shapes() -> None:
    summary = finished(summarize(patterns_of(["a.*.c", "d.>", "e", "*.f"]), KIB))
    assert summary.shapes == ("*n", "n", "n*n", "n>")
    selected = [topic for topic in ("a.x.c", "d.e", "d.e.f", "e", "x.f") if summary.may_select(Topic(topic))]
    assert selected == ["a.x.c", "d.e", "d.e.f", "e", "x.f"]
    assert not any(summary.may_select(Topic(topic)) for topic in ("a.x.d", "d", "f", "x.f.g", "a.c"))


@pytest.mark.req("MSH-02")
def test_patterns_of_too_many_shapes_are_widened_and_none_is_lost() -> None:
    many = {Pattern("a." + ".".join("*" if number >> bit & 1 else "x" for bit in range(6))) for number in range(64)}
    common = patterns_of(commands(range(100)))
    summary = finished(summarize(many | common, KIB))
    assert len({shape_of(pattern) for pattern in many}) > SHAPES_MAX >= len(summary.shapes)
    assert summary.may_select(Topic("a.x.x.x.x.x.x"))
    assert summary.may_select(Topic("a.x.y.x.y.x.y"))
    assert summary.may_select(Topic("plant.device7.command"))
    assert not summary.may_select(Topic("plant.device100.command")), "the common shapes stay as they are"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": b""}, "has 1 to 65536 bytes"),
        ({"bits": bytes(INTEREST_FILTER_BYTES_MAX + 1)}, "has 1 to 65536 bytes"),
        ({"hashes": 0}, "has 1 to 16 hashes"),
        ({"hashes": HASHES_MAX + 1}, "has 1 to 16 hashes"),
        ({"shapes": ("n",) * (SHAPES_MAX + 1)}, "too many shapes"),
        ({"shapes": ("",)}, "not a shape of a pattern"),
        ({"shapes": ("n>n",)}, "not a shape of a pattern"),
        ({"shapes": ("plant",)}, "not a shape of a pattern"),
        ({"shapes": ("n" * 129,)}, "not a shape of a pattern"),
    ],
)
def test_what_a_summary_may_cost_is_bounded(changes: dict[str, object], message: str) -> None:
    facts: dict[str, object] = {"bits": bytes(8), "hashes": 1, "shapes": ("n",), **changes}
    with pytest.raises(UsageError, match=message):
        Summary(**facts)  # type: ignore[arg-type]


@given(st.sets(PATTERNS, max_size=40), st.integers(1, 8))
def test_patterns_that_begin_alike_are_covered(patterns: set[Pattern], patterns_max: int) -> None:
    wide = finished(begin_alike(patterns, patterns_max))
    assert len(wide) <= patterns_max
    assert all(any(covers(each, pattern) for each in wide) for pattern in patterns)


def test_a_table_asks_the_summary_of_those_whose_patterns_select() -> None:
    table = InterestTable()
    table.update(A, (1, 1), [Pattern("plant.>")], finished(summarize(patterns_of(["plant.x", "office.x"]), KIB)))
    table.update(B, (1, 1), [Pattern("plant.>")])
    assert table.who(Topic("plant.x")) == {A, B}
    assert table.who(Topic("plant.y")) == {B}
    assert table.who(Topic("office.x")) == frozenset(), "no pattern of it selects that"
    table.update(A, (1, 2), [Pattern("plant.>")], finished(summarize(patterns_of(["plant.y"]), KIB)))
    assert table.who(Topic("plant.x")) == {B}
    assert table.who(Topic("plant.y")) == {A, B}
    table.remove(A)
    assert table.who(Topic("plant.y")) == {B}


def test_the_bits_of_a_pattern_are_those_of_the_protocol() -> None:
    """BLAKE2b by coreutils: printf plant.temp | b2sum -l 128."""
    digest = "f864346007e562938fc2b14823b6086e"
    first, step = int(digest[:16], 16), int(digest[16:], 16) | 1
    summary = finished(summarize([Pattern("plant.temp")], 64))
    places = {(first + number * step) % 512 for number in range(summary.hashes)}
    assert {place for place in range(512) if summary.bits[place // 8] >> place % 8 & 1} == places
