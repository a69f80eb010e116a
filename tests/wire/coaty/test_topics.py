"""Topics built and taken apart, raw topics, and every way to get them wrong; what follows from the type of an event."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.coaty.samples import CORRELATION, vectors
from weft.errors import UsageError
from weft.wire.coaty import (
    BadCoatyMessage,
    EventType,
    Topic,
    in_namespace,
    is_coaty_topic,
    parse_topic_untrusted,
    require_raw_topic,
)
from weft.wire.coaty.messages import DATA_TYPES
from weft.wire.coaty.topics import COATY_TOPIC_BYTES_MAX

GOOD = [
    ("coaty/1/-/DAD", Topic("-", EventType.DEADVERTISE)),
    ("coaty/1/a.b/ADVTask", Topic("a.b", EventType.ADVERTISE, "Task")),
    ("coaty/1/a/ADV:com.example.Motor", Topic("a", EventType.ADVERTISE, ":com.example.Motor")),
    ("coaty/1/a/CHNhall 3 °C", Topic("a", EventType.CHANNEL, "hall 3 °C")),
    ("coaty/1/ä/CLLADV", Topic("ä", EventType.CALL, "ADV")),
    (f"coaty/1/a/RTN/{CORRELATION}", Topic("a", EventType.RETURN, correlation_id=CORRELATION)),
]


@pytest.mark.req("COA-03")
@pytest.mark.parametrize(("text", "topic"), GOOD)
def test_both_directions(text: str, topic: Topic) -> None:
    assert parse_topic_untrusted(text) == topic
    assert str(topic) == text


@pytest.mark.req("COA-03")
def test_topics_of_the_reference() -> None:
    for event in vectors("js_capture.json")["events"]:
        if event["event"] == "Raw":
            require_raw_topic(event["topic"])
            continue
        topic = parse_topic_untrusted(event["topic"])
        assert str(topic) == event["topic"]
        assert topic.namespace == "weft"
        assert topic.event.name.replace("_", "") == event["event"].upper()


@pytest.mark.req("COA-03", "COA-04", "COA-06")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not coaty/"),
        ("coaty", "is not coaty/"),
        ("Coaty/1/a/DAD", "is not coaty/"),
        ("coaty/1/a", "is not coaty/"),
        (f"coaty/1/a/RTN/{CORRELATION}/", "is not coaty/"),
        ("coaty/2/a/DAD", "another protocol version"),
        ("coaty/01/a/DAD", "another protocol version"),
        ("coaty//a/DAD", "another protocol version"),
        ("coaty/1//DAD", "namespace is empty"),
        ("coaty/1/a..b/DAD", "consecutive dots"),
        ("coaty/1/a./DAD", "ends with a dot"),
        ("coaty/1/a+/DAD", "namespace contains"),
        ("coaty/1/a#/DAD", "namespace contains"),
        ("coaty/1/a\0/DAD", "namespace contains"),
        (f"coaty/1/{'a' * 237}/DAD", "longer than 236"),
        ("coaty/1/a/", "event type is unknown"),
        ("coaty/1/a/XYZ", "event type is unknown"),
        ("coaty/1/a/adv:x", "event type is unknown"),
        ("coaty/1/a/AD", "event type is unknown"),
        ("coaty/1/a/ADV", "filter of ADV is missing or empty"),
        ("coaty/1/a/ADVa+b", "filter of ADV contains"),
        ("coaty/1/a/ADVa#b", "filter of ADV contains"),
        ("coaty/1/a/ADVa\0b", "filter of ADV contains"),
        ("coaty/1/a/ADV\udfff", "filter of ADV contains"),
        ("coaty/1/a/DADx", "have no filter"),
        ("coaty/1/a/IOVx", "have no filter"),
        (f"coaty/1/a/RTNx/{CORRELATION}", "have no filter"),
        (f"coaty/1/a/DAD/{CORRELATION}", "only topics of responses"),
        (f"coaty/1/a/CLLx/{CORRELATION}", "only topics of responses"),
        ("coaty/1/a/RTN", "correlation id is not a lower-case UUID"),
        ("coaty/1/a/RTN/", "correlation id is not a lower-case UUID"),
        (f"coaty/1/a/RTN/{CORRELATION.upper()}", "correlation id is not a lower-case UUID"),
        ("coaty/1/a/RTN/c0440000-0000-1000-8000-000000000009", "correlation id is not a lower-case UUID"),
        ("coaty/1/a/RTN/c0440000-0000-4000-c000-000000000009", "correlation id is not a lower-case UUID"),
        (f"coaty/1/a/RTN/{{{CORRELATION}}}", "correlation id is not a lower-case UUID"),
        (f"coaty/1/a/RTN/{CORRELATION}\n", "correlation id is not a lower-case UUID"),
        ("coaty/1/a/CHN" + "x" * COATY_TOPIC_BYTES_MAX, "too long"),
        ("coaty/1/a/CHN" + "ü" * (COATY_TOPIC_BYTES_MAX // 2), "too long"),
    ],
)
def test_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadCoatyMessage, match=complaint):
        parse_topic_untrusted(text)


@pytest.mark.req("COA-03")
@pytest.mark.parametrize(
    "build",
    [
        lambda: Topic("a", EventType.ADVERTISE),
        lambda: Topic("a", EventType.ADVERTISE, ""),
        lambda: Topic("a", EventType.ADVERTISE, "x/y"),
        lambda: Topic("a", EventType.DISCOVER, "x"),
        lambda: Topic("a", EventType.RESOLVE),
        lambda: Topic("a", EventType.RESOLVE, None, "no uuid"),
        lambda: Topic("a/b", EventType.DISCOVER),
        lambda: Topic("a", EventType.DISCOVER, None, CORRELATION),
    ],
)
def test_building_a_wrong_one_is_the_callers_mistake(build: object) -> None:
    assert callable(build)
    with pytest.raises(UsageError):
        build()


@pytest.mark.req("COA-05")
@pytest.mark.parametrize(
    "text", ["plant/raw", "coaty", "Coaty/1", "*", "温度", "coaty:1/", "a" * COATY_TOPIC_BYTES_MAX]
)
def test_raw_topics(text: str) -> None:
    require_raw_topic(text)
    assert not is_coaty_topic(text)


@pytest.mark.req("COA-05")
@pytest.mark.parametrize(
    "text", ["", "coaty/", "coaty/1/a/DAD", "coaty/raw", "\ud800", "a" * (COATY_TOPIC_BYTES_MAX + 1)]
)
def test_raw_topics_refused(text: str) -> None:
    with pytest.raises(UsageError):
        require_raw_topic(text)


@pytest.mark.req("COA-03")
def test_membership_of_a_namespace() -> None:
    assert in_namespace("coaty/1/plant/DSC", "plant")
    assert not in_namespace("coaty/1/plant2/DSC", "plant")
    assert not in_namespace("coaty/1/plant", "plant")


@pytest.mark.req("COA-03")
@settings(max_examples=300)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*"a/.+#\0", "coaty", "/1/", "ADV", "RTN", CORRELATION])).map("".join)
)
def test_any_text_is_a_topic_or_refused(text: str) -> None:
    try:
        topic = parse_topic_untrusted(text)
    except BadCoatyMessage:
        return
    assert str(topic) == text


# Name, code, filter, answered by: the document's tables.
TABLE = [
    ("ADVERTISE", "ADV", True, None),
    ("DEADVERTISE", "DAD", False, None),
    ("CHANNEL", "CHN", True, None),
    ("ASSOCIATE", "ASC", True, None),
    ("IO_VALUE", "IOV", False, None),
    ("DISCOVER", "DSC", False, "RESOLVE"),
    ("RESOLVE", "RSV", False, None),
    ("QUERY", "QRY", False, "RETRIEVE"),
    ("RETRIEVE", "RTV", False, None),
    ("UPDATE", "UPD", True, "COMPLETE"),
    ("COMPLETE", "CPL", False, None),
    ("CALL", "CLL", True, "RETURN"),
    ("RETURN", "RTN", False, None),
]
ANSWERS = {answer for *_, answer in TABLE if answer}


@pytest.mark.req("COA-03")
def test_there_are_no_other_types_of_events() -> None:
    assert [(event.name, event.value) for event in EventType] == [(name, code) for name, code, *_ in TABLE]
    assert set(DATA_TYPES) == set(EventType)


@pytest.mark.req("COA-03")
@pytest.mark.parametrize(("name", "code", "has_filter", "answer"), TABLE)
def test_a_type_of_events_says_what_belongs_to_it(name: str, code: str, has_filter: bool, answer: str | None) -> None:
    event = EventType(code)
    assert event.name == name
    assert event.has_filter == has_filter
    assert event.is_request == (answer is not None)
    assert event.is_response == (name in ANSWERS)
    assert event.is_two_way == (event.is_request or event.is_response)
