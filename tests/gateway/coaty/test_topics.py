"""Topics of Coaty on topics of the mesh, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.gateway.coaty.topics import (
    bridges_topic,
    coaty_topic,
    events_pattern,
    mesh_topic,
    objects_topic,
    raw_mesh_topic,
    raw_topic,
)
from weft.model import Topic as MeshTopic
from weft.model import matches
from weft.wire.coaty import EventType, Topic

CORRELATION = "0b6fd8a5-2f39-4ab7-bdd2-7d5a1c1e6f01"


@pytest.mark.req("COA-12")
@pytest.mark.parametrize(
    ("topic", "shown"),
    [
        (Topic("plant", EventType.ADVERTISE, "CoatyObject"), "coaty.plant.ADV.CoatyObject"),
        (Topic("plant", EventType.ADVERTISE, ":com.weft.Pump"), "coaty.plant.ADV.:com.weft.Pump"),
        (Topic("plant.north", EventType.DEADVERTISE), "coaty.plant.north.DAD"),
        (Topic("plant", EventType.CHANNEL, "a b*"), "coaty.plant.CHN.a%20b%2A"),
        (Topic("plant", EventType.CALL, ".x..y"), "coaty.plant.CLL.%2Ex%2E%2Ey"),
        (Topic("plant", EventType.CALL, "50%>"), "coaty.plant.CLL.50%25%3E"),
        (Topic("plant", EventType.RETURN, correlation_id=CORRELATION), "coaty.plant.RTN"),
        (Topic("wärme", EventType.CHANNEL, "größe"), "coaty.wärme.CHN.größe"),
    ],
)
def test_where_events_appear(topic: Topic, shown: str) -> None:
    assert mesh_topic(topic) == shown
    assert coaty_topic(topic.namespace, mesh_topic(topic), topic.correlation_id) == topic
    assert matches(events_pattern(topic.namespace), mesh_topic(topic))


@given(st.text(min_size=1, max_size=40))
def test_whatever_a_filter_is_it_survives(text: str) -> None:
    try:
        topic = Topic("plant", EventType.CHANNEL, text)
    except UsageError:
        return
    shown = mesh_topic(topic)
    assert coaty_topic("plant", shown, None) == topic
    assert matches(events_pattern("plant"), shown)


def test_what_is_not_of_the_namespace_is_none_of_ours() -> None:
    assert coaty_topic("plant", MeshTopic("coaty.office.ADV.Task"), None) is None
    assert coaty_topic("plant", MeshTopic("coaty.plantation.ADV.Task"), None) is None
    assert coaty_topic("plant", objects_topic("plant"), None) is None


@pytest.mark.parametrize("topic", ["coaty.plant.XYZ", "coaty.plant.ADV", "coaty.plant.DAD.x", "coaty.plant.CHN.%FF"])
def test_what_only_looks_like_one_is_refused(topic: str) -> None:
    with pytest.raises(UsageError):
        coaty_topic("plant", MeshTopic(topic), None)


@pytest.mark.req("COA-12")
@given(st.text(min_size=1, max_size=40))
def test_raw_topics_come_back_as_they_were(topic: str) -> None:
    if topic.startswith("coaty/") or any("\ud800" <= each <= "\udfff" for each in topic):
        return
    shown = raw_mesh_topic("a.b", topic)
    assert shown.startswith("coaty.a.b.RAW.")
    assert matches(events_pattern("a.b"), shown)
    assert raw_topic("a.b", shown) == topic
    assert raw_topic("a", shown) is None


def test_raw_topics_that_are_none() -> None:
    assert raw_topic("plant", MeshTopic("coaty.plant.CHN.line1")) is None
    with pytest.raises(UsageError):
        raw_topic("plant", MeshTopic("coaty.plant.RAW.coaty/1/plant/DAD"))
    assert coaty_topic("plant", bridges_topic("plant"), None) is None
