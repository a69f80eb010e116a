"""Payloads as trees: protocols that we know, and bytes that only look like them."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.console.payloads import PREVIEW_BYTES_MAX, TEXT_SHOWN_MAX, decoded_untrusted, event_view
from weft.model import Epoch, Event, EventId, NodeId, Stream, parse_topic
from weft.wire.exmp import document as exmp

PLACE = EventId(Stream(parse_topic("t"), NodeId("a"), 0), Epoch(1), 7)


@pytest.mark.req("SEE-01")
def test_an_event_is_shown_with_its_identity_and_within_bounds() -> None:
    event = Event(b"x" * 10_000, 5, b"\xff\x00", {"h" * 5000: "<script>"})
    view = event_view(PLACE, event, PREVIEW_BYTES_MAX)
    assert view["id"] == "t@a/0:e1:7" and view["size"] == 10_000
    assert b64decode(view["payload"]) == b"x" * PREVIEW_BYTES_MAX and b64decode(view["key"]) == b"\xff\x00"
    assert view["headers"] == [["h" * TEXT_SHOWN_MAX, "<script>"]]


@pytest.mark.req("SEE-01")
def test_messages_of_our_protocols_are_taken_apart() -> None:
    hello = exmp.from_document({"protocol": "exmp", "messages": [{"type": "hello", "version": 1}]})
    decoded = decoded_untrusted(parse_topic("any"), hello)
    assert decoded is not None and decoded["protocol"] == "EXMP" and decoded["parts"][0]["parts"]
    said = b'{"object": {"objectType": "coaty.Task", "name": "<b>clean</b>"}}'
    coaty = decoded_untrusted(parse_topic("coaty.plant.ADV.Task"), said)
    assert coaty is not None and coaty["protocol"] == "Coaty"
    facts = {part["name"]: part["value"] for part in coaty["parts"]}
    assert facts == {
        "namespace": "plant",
        "event": "ADV",
        "filter": "Task",
        "objectType": "coaty.Task",
        "name": "<b>clean</b>",
    }


@pytest.mark.req("SEE-01", "SEC-04")
@given(st.binary(max_size=200), st.sampled_from(["t", "coaty.n.ADV", "coaty.n"]))
def test_any_bytes_are_decoded_or_not(data: bytes, topic: str) -> None:
    for first in (b"", b"\x00", b"\x01", b"\x20", b"{"):
        decoded = decoded_untrusted(parse_topic(topic), first + data)
        assert decoded is None or decoded["protocol"] in ("EMM", "EMM-C", "EXMP", "Coaty")
