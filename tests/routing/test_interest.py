"""Many patterns told as few without losing a topic, and the table of who told what."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.strategies import PATTERNS, TOPICS
from weft.errors import UsageError
from weft.limits import INTEREST_PATTERNS_MAX
from weft.model import NodeId, Pattern, Topic, covers, matches, parse_pattern
from weft.routing import Interest, InterestTable, Version, Wishes, aggregate, finished, since_of, without_covered

PATTERN_LISTS = st.lists(PATTERNS, max_size=25)


def told(*patterns: str, patterns_max: int = INTEREST_PATTERNS_MAX) -> tuple[str, ...]:
    return aggregate([parse_pattern(pattern) for pattern in patterns], patterns_max).patterns


@given(PATTERN_LISTS)
@settings(max_examples=200)
def test_without_need_nothing_is_widened(patterns: list[Pattern]) -> None:
    uncovered = {p for p in patterns if not any(other != p and covers(other, p) for other in patterns)}
    assert aggregate(patterns) == Interest(tuple(sorted(uncovered)), widened=False)


@given(PATTERN_LISTS, st.integers(1, 8), st.randoms(use_true_random=True))
@settings(max_examples=200)
@pytest.mark.req("MSH-02")
def test_nothing_is_lost_by_telling_less(patterns: list[Pattern], patterns_max: int, shuffler: random.Random) -> None:
    interest = aggregate(patterns, patterns_max)
    assert len(interest.patterns) <= patterns_max
    assert all(any(covers(wide, pattern) for wide in interest.patterns) for pattern in patterns)
    for wide, narrow in product(interest.patterns, repeat=2):
        assert wide == narrow or not covers(wide, narrow), "no pattern is told in vain"
    for pattern in interest.patterns:
        assert parse_pattern(pattern) == pattern
    assert interest.widened == (interest.patterns != aggregate(patterns, len(patterns) + 1).patterns)
    shuffled = patterns * 2
    shuffler.shuffle(shuffled)
    assert aggregate(shuffled, patterns_max) == interest, "neither order nor repetition matters"


WISHES = st.dictionaries(PATTERNS, st.integers(0, 3), max_size=12)


def since(wishes: Wishes, topic: Topic) -> int | None:
    return min((since_us for pattern, since_us in wishes.items() if matches(pattern, topic)), default=None)


@given(WISHES, TOPICS)
@settings(max_examples=300)
@pytest.mark.req("MSH-02", "MSH-03")
def test_told_is_what_is_wanted_and_since_when(wishes: dict[Pattern, int], topic: Topic) -> None:
    kept = without_covered(wishes)
    asked, said = since(wishes, topic), since(kept, topic)
    assert (asked is None) == (said is None), "exactly the same topics"
    if asked is not None and said is not None:
        assert said <= asked, "never less"
        assert (said == 0) == (asked == 0), "history only where it is wanted"
    wide = aggregate(wishes, 3).patterns if wishes else ()
    widely = since(finished(since_of(wide, wishes)), topic)
    assert asked is None or (widely is not None and widely <= asked)
    table = InterestTable()
    table.update(NodeId("n"), (1, 1), kept, None, kept)
    if asked is not None:
        assert table.since(NodeId("n"), topic) == said


@pytest.mark.parametrize(
    ("patterns", "patterns_max", "expected"),
    [
        ([], 1, ()),
        (["a", "b"], 2, ("a", "b")),
        # One token differs: the others are still asked for by name.
        (["dev.1.cmd", "dev.2.cmd", "dev.3.cmd"], 2, ("dev.*.cmd",)),
        # The larger group goes first, and the smaller is spared if that suffices.
        (["a.1", "a.2", "a.3", "b.1", "b.4"], 3, ("a.*", "b.1", "b.4")),
        # Nothing differs in one token only: the longest beginning that is shared.
        (["a.b.1.x", "a.b.2.y", "a.c", "d"], 3, ("a.b.>", "a.c", "d")),
        # A shared beginning is not covered by what follows it.
        (["a", "a.b.c", "a.d"], 2, ("a", "a.>")),
        # What a merged pattern covers by chance goes too.
        (["a.*", "b.*", "c.d", "e"], 2, ("*.*", "e")),
        # Nothing in common at all.
        (["a.1.x", "b", "c.3"], 2, (">",)),
    ],
)
def test_widening(patterns: list[str], patterns_max: int, expected: tuple[str, ...]) -> None:
    assert told(*patterns, patterns_max=patterns_max) == expected


def test_a_widened_group_takes_in_newcomers() -> None:
    """A node that was over the bound once does not have to tell the mesh of every further subscription."""
    patterns = [f"dev.{number}.cmd" for number in range(INTEREST_PATTERNS_MAX + 1)]
    assert told(*patterns, "other") == told(*patterns, "dev.new.cmd", "other") == ("dev.*.cmd", "other")


def test_room_for_no_pattern_is_refused() -> None:
    with pytest.raises(UsageError, match="patterns max 0"):
        aggregate([], 0)


NODES = [NodeId(name) for name in "abcd"]
UPDATES = st.tuples(
    st.sampled_from(NODES), st.tuples(st.integers(0, 2), st.integers(0, 3)), st.lists(PATTERNS, max_size=4)
)


@given(st.lists(UPDATES | st.sampled_from(NODES), max_size=25), st.lists(TOPICS, min_size=1, max_size=4))
@settings(max_examples=200)
@pytest.mark.req("MSH-02")
def test_the_table_knows_who_wants_a_topic(
    steps: list[tuple[NodeId, Version, list[Pattern]] | NodeId], topics: list[Topic]
) -> None:
    table = InterestTable()
    model: dict[NodeId, tuple[Version, list[Pattern]]] = {}
    for step in steps:
        if isinstance(step, str):
            assert table.remove(step) == (step in model)
            model.pop(step, None)
        else:
            node, version, patterns = step
            news = node not in model or version > model[node][0]
            assert table.update(node, version, patterns) == news
            if news:
                model[node] = version, patterns
        for topic in topics:
            wanting = {node for node, (_, patterns) in model.items() if any(matches(p, topic) for p in patterns)}
            assert table.who(topic) == wanting


def test_a_restart_outranks_any_version_of_the_life_before() -> None:
    table, node, topic = InterestTable(), NodeId("n"), Topic("a")
    assert table.update(node, (1, 900), [Pattern("a")])
    assert table.update(node, (2, 0), [])
    assert not table.update(node, (1, 901), [Pattern("a")]), "late gossip from before the restart"
    assert table.who(topic) == frozenset()


@given(st.dictionaries(st.sampled_from(NODES), st.lists(st.lists(PATTERNS, max_size=3), min_size=1, max_size=3)))
def test_full_states_make_the_same_table_however_it_began(history: dict[NodeId, list[list[Pattern]]]) -> None:
    """A node that was there all along and one that starts empty and is told the latest states only."""
    old, restarted = InterestTable(), InterestTable()
    for node, states in history.items():
        for number, patterns in enumerate(states):
            old.update(node, (1, number), patterns)
    for node, states in reversed(history.items()):
        restarted.update(node, (1, len(states) - 1), states[-1])
    assert old.patterns() == restarted.patterns()
