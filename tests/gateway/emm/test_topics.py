"""Names of events and the topics that they go to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.gateway.emm.topics import TopicMap, TopicRule
from weft.model import parse_pattern, parse_topic

RULES = (
    TopicRule(parse_pattern("plant.*.temp"), "climate.{event}"),
    TopicRule(parse_pattern("alarm.>"), "alarms"),
)


@pytest.mark.parametrize(
    ("name", "topic", "tells"),
    [
        ("plant.temp", "emm.plant.temp", True),
        ("plant.line1.temp", "climate.plant.line1.temp", True),
        ("alarm.fire.hall", "alarms", False),
        ("line 1", "emm.line_1", False),
        ("a..b", "emm.a._.b", False),
        ("*", "emm._", False),
        ("a>b", "emm.a_b", False),
        ("", "emm._", False),
        (".", "emm._._", False),
        ("tab\there", "emm.tab_here", False),
        ("Temperatur Süd", "emm.Temperatur_Süd", False),
        ("x" * 300, "emm." + "x" * 251, False),
    ],
)
def test_where_names_go(name: str, topic: str, tells: bool) -> None:
    assert TopicMap(RULES).place(name) == (topic, tells)


@given(st.text(max_size=600))
def test_every_name_has_a_topic_and_a_name_that_is_told_can_be_read_off_it(name: str) -> None:
    topic, tells = TopicMap().place(name)
    assert parse_topic(topic) == topic
    assert not tells or topic == f"emm.{name}"


def test_names_without_end_share_a_topic() -> None:
    topics = TopicMap(topics_max=3)
    found = [topics.place(f"n{number}") for number in range(5)]
    assert [each.topic for each in found] == ["emm.n0", "emm.n1", "emm.n2", "emm.other", "emm.other"]
    assert [each.tells for each in found] == [True, True, True, False, False]
    assert topics.place("n0").topic == "emm.n0"


@pytest.mark.parametrize("topic", ["", "a b", "alarms.*", "a..{event}", "{event}."])
def test_a_rule_needs_a_topic(topic: str) -> None:
    with pytest.raises(UsageError, match="a rule's topic"):
        TopicRule(parse_pattern(">"), topic)


def test_a_prefix_must_begin_a_topic() -> None:
    with pytest.raises(UsageError):
        TopicMap(prefix="emm ")
    with pytest.raises(UsageError, match="internal topics of the mesh"):
        TopicMap(prefix="weft.")
    assert TopicMap(prefix="").place("plain").topic == "plain"


@pytest.mark.parametrize("name", ["weft.groups.billing", "weft"])
def test_no_device_gets_at_the_meshs_own_topics(name: str) -> None:
    assert TopicMap(prefix="").place(name).topic == f"emm.{name}"
    assert TopicMap([TopicRule(parse_pattern(">"), "{event}")]).place(name).topic == f"emm.{name}"
    with pytest.raises(UsageError, match="an internal topic of the mesh"):
        TopicRule(parse_pattern(">"), "weft.groups.{event}")
