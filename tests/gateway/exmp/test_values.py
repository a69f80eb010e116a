"""JSON of clients to values and back: whatever it is, it is understood or refused in words."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.exmp.fakes import EPOCH, stream
from weft.core.messages import Edge, FromPositions, FromTime
from weft.errors import UsageError
from weft.gateway.exmp.outcomes import BadFields
from weft.gateway.exmp.values import (
    AuthenticateFields,
    FetchFields,
    Fields,
    NoFields,
    PublishFields,
    SubscribeFields,
    TopicsFields,
    UnsubscribeFields,
    check_place_untrusted,
    events_json,
    fields_untrusted,
    key_untrusted,
    payload_untrusted,
    start_untrusted,
    stream_untrusted,
)
from weft.model import Batch, parse_position

NAMES = sorted({name for kind in Fields.__subclasses__() for name in kind.__struct_fields__})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
HEADERS = st.dictionaries(st.text(min_size=1, max_size=10), st.text(max_size=10), max_size=3)
DATA = st.none() | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), VALUES, max_size=6)


@settings(max_examples=60, deadline=None)
@given(DATA)
def test_any_data_is_understood_or_refused(data: dict[str, Any] | None) -> None:
    for kind in (AuthenticateFields, UnsubscribeFields, TopicsFields, NoFields):
        _understood(kind, data)
    publish = _understood(PublishFields, data)
    if publish is not None:
        _refusable(lambda: (payload_untrusted(publish), key_untrusted(publish)))
        _refusable(partial(check_place_untrusted, publish))
    fetch = _understood(FetchFields, data)
    if fetch is not None:
        _refusable(lambda: stream_untrusted(fetch, "a"))
    subscribe = _understood(SubscribeFields, data)
    if subscribe is not None:
        _refusable(lambda: start_untrusted(subscribe))


def _understood(kind: Any, data: dict[str, Any] | None) -> Any:
    return _refusable(lambda: fields_untrusted(kind, data))


def _refusable(work: Any) -> Any:
    try:
        return work()
    except UsageError as error:
        assert str(error)
        return None


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=30), st.none() | st.binary(max_size=10), st.none() | HEADERS)
def test_an_event_comes_out_as_it_went_in(payload: bytes, key: bytes | None, headers: dict[str, str] | None) -> None:
    batch = Batch.from_columns([payload], 5, [key], [headers]).with_base_offset(9)
    (event,) = events_json(stream("t"), EPOCH, batch, 0, 100)
    assert (event["topic"], event["offset"], event["timestamp_us"], event["epoch"]) == ("t", 9, 5, 7)
    assert event.get("headers") == headers
    again = PublishFields(
        "t", event.get("payload"), event.get("payload_base64"), event.get("key"), event.get("key_base64")
    )
    assert (payload_untrusted(again), key_untrusted(again)) == (payload, key)
    assert ("payload" in event) != ("payload_base64" in event)


def test_where_a_subscription_starts() -> None:
    def start(**fields: Any) -> Any:
        return start_untrusted(SubscribeFields(">", **fields))

    assert start() is Edge.OWN
    assert start(start="latest") is Edge.LATEST
    assert start(start="earliest") is Edge.EARLIEST
    assert start(start_timestamp_us=5) == FromTime(5)
    place = "t@a/0:e7:3"
    assert start(start_positions=[place]) == FromPositions((parse_position(place),))
    with pytest.raises(BadFields, match="too many positions"):
        start(start_positions=[place] * 1_000_000)
