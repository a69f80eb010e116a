"""Coaty's topics in the mesh."""

from __future__ import annotations

import re

import pytest

from weft.gateway.coaty.topics import mesh_topic, raw_mesh_topic
from weft.pipelines.coaty_topics import ADVERTISING, parse_mesh_topic
from weft.wire.coaty import EventType, Topic


@pytest.mark.parametrize(
    ("topic", "namespace", "event"),
    [
        ("coaty.plant.ADV.CoatyObject", "plant", EventType.ADVERTISE),
        ("coaty.plant.ADV.:com.example.Lamp", "plant", EventType.ADVERTISE),
        ("coaty.plant.DAD", "plant", EventType.DEADVERTISE),
        ("coaty.-.DAD", "-", EventType.DEADVERTISE),
        ("coaty.com.example.plant.DAD", "com.example.plant", EventType.DEADVERTISE),
        ("coaty.ADV.DAD", "ADV", EventType.DEADVERTISE),
        ("coaty.plant.CHN.ADV", "plant", EventType.CHANNEL),
    ],
)
def test_a_topic_says_namespace_and_event(topic: str, namespace: str, event: EventType) -> None:
    assert parse_mesh_topic(topic) == (namespace, event)


@pytest.mark.parametrize(
    "topic", ["coaty", "coaty.DAD", "coaty.plant", "coaty.plant.adv", "plant.x.DAD", "coaty.x.DADA"]
)
def test_other_topics_are_not_of_coaty(topic: str) -> None:
    assert parse_mesh_topic(topic) is None


@pytest.mark.parametrize("namespace", ["plant", "com.example.plant", "RAW"])
@pytest.mark.parametrize("topic", ["ADV", "DAD", "sensors.ADV", "ADV.CoatyObject"])
def test_raw_events_are_no_events_of_coaty_whatever_their_topic_is_called(namespace: str, topic: str) -> None:
    assert parse_mesh_topic(raw_mesh_topic(namespace, topic)) is None


@pytest.mark.parametrize(
    ("topic", "is_selected"),
    [("coaty.plant.ADV.User", True), ("coaty.a.b.DAD", True), ("coaty.plant.CHN.x", False), ("coaty.x.DADA", False)],
)
def test_spark_selects_what_may_be_of_interest(topic: str, is_selected: bool) -> None:
    assert (re.search(ADVERTISING, topic) is not None) is is_selected


@pytest.mark.parametrize("namespace", ["-", "plant", "com.example.plant"])
def test_the_bridge_publishes_to_these_topics(namespace: str) -> None:
    for topic in (
        Topic(namespace, EventType.ADVERTISE, ":com.example.Lamp 2"),
        Topic(namespace, EventType.DEADVERTISE),
    ):
        shown = mesh_topic(topic)
        assert parse_mesh_topic(shown) == (namespace, topic.event)
        assert re.search(ADVERTISING, shown)
