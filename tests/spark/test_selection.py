"""Which topics and partitions a job reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model import Epoch, NodeId, Pattern, Stream, Topic, matches
from weft.spark.offsets import Place
from weft.spark.option_values import BadOption
from weft.spark.selection import SPARK_PATTERNS_MAX, Selection, parse_assigned, parse_selection

TOPICS = [Topic(".".join(tokens)) for tokens in (("a",), ("b",), ("a", "a"), ("a", "b"), ("b", "a", "c"))]
PATTERNS = st.lists(
    st.sampled_from([Pattern(text) for text in ("a", "*", ">", "a.*", "a.>", "*.a", "b.*.c", "*.*", "a.b", "*.>")]),
    min_size=1,
    max_size=5,
)


def place(topic: str, partition: int = 0) -> Place:
    return Place(Stream(Topic(topic), NodeId("n"), partition), Epoch(1))


@pytest.mark.req("SPK-01")
def test_a_list_of_topics_and_patterns_with_some_left_out() -> None:
    selection = parse_selection("subscribe", " t1, t2,plant.>,!plant.secret.*", "plant.line9.>")
    for topic in ("t1", "t2", "plant.a", "plant.secret"):
        assert selection.selects(place(topic)), topic
    for topic in ("t3", "plant", "plant.secret.a", "plant.line9.temp"):
        assert not selection.selects(place(topic)), topic
    assert str(selection) == "t1,t2,plant.>,!plant.secret.*,!plant.line9.>"
    assert selection.unmatched([Topic("t1"), Topic("plant.a")]) == ["t2"]


def test_partitions_of_topics() -> None:
    selection = parse_assigned('{"a,b": [0, 2], "c": [1]}')
    wanted = [("a,b", 0, True), ("a,b", 1, False), ("a,b", 2, True), ("c", 0, False), ("c", 1, True), ("d", 0, False)]
    assert [selection.selects(place(topic, number)) for topic, number, _ in wanted] == [each[2] for each in wanted]


@given(PATTERNS, PATTERNS)
def test_nodes_are_asked_for_all_that_is_selected(patterns: list[Pattern], excluded: list[Pattern]) -> None:
    selection = Selection(tuple(dict.fromkeys(patterns)), tuple(excluded))
    asked = selection.asked()
    assert set(asked) <= set(patterns)
    for topic in TOPICS:
        wanted = any(matches(pattern, topic) for pattern in patterns)
        assert any(matches(pattern, topic) for pattern in asked) == wanted
        assert selection.selects_topic(topic) == (wanted and not any(matches(each, topic) for each in excluded))


def test_what_others_cover_is_not_asked_for() -> None:
    assert parse_selection("subscribe", "plant.a,plant.*,plant.>,site.a").asked() == ("plant.>", "site.a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "selects nothing"),
        (" , ", "selects nothing"),
        ("!a", "selects nothing"),
        ("a.*,!a.>", "all of it is left out by a.>"),
        ("a,b..c", "option subscribe: pattern"),
        ("a,!b..c", "option subscribe: pattern"),
        (",".join(f"t{number}" for number in range(SPARK_PATTERNS_MAX + 1)), "too many topics"),
    ],
)
def test_lists_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        parse_selection("subscribe", text)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"a": []}', '{"a": 0}', '{"a": [-1]}', '{"a": [65536]}', '{"a.*": [0]}', '{"a": [1.5]}']
)
def test_assignments_that_cannot_be(text: str) -> None:
    with pytest.raises(BadOption, match="option assign"):
        parse_assigned(text)
