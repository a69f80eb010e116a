"""The thirteen event types and how they belong together."""

from __future__ import annotations

import pytest

from weft.wire.coaty import EventType
from weft.wire.coaty.messages import DATA_TYPES

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
def test_there_are_no_others() -> None:
    assert [(event.name, event.value) for event in EventType] == [(name, code) for name, code, *_ in TABLE]
    assert set(DATA_TYPES) == set(EventType)


@pytest.mark.req("COA-03")
@pytest.mark.parametrize(("name", "code", "has_filter", "answer"), TABLE)
def test_properties(name: str, code: str, has_filter: bool, answer: str | None) -> None:
    event = EventType(code)
    assert event.name == name
    assert event.has_filter == has_filter
    assert event.is_request == (answer is not None)
    assert event.is_response == (name in ANSWERS)
    assert event.is_two_way == (event.is_request or event.is_response)
