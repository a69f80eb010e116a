"""Fuzz targets of the Coaty layer: topics, payloads of every event type, filters with their evaluation, liveliness."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from weft.errors import UsageError
from weft.gateway.coaty.learning import Learned, decode_report_untrusted
from weft.wire.coaty import (
    BadCoatyMessage,
    EventType,
    LastWill,
    Liveliness,
    Query,
    decode_liveliness_untrusted,
    decode_payload_untrusted,
    encode_liveliness,
    encode_payload,
    matches,
    parse_topic_untrusted,
    select,
)

_VECTORS = Path(__file__).parents[1] / "vectors" / "coaty"
_WIRE = json.loads((_VECTORS / "wire.json").read_text())
_FILTERS = json.loads((_VECTORS / "filters.json").read_text())
_SOURCE_ID = "a9e20000-0000-4000-8000-000000000001"
_PEER, _NEIGHBOUR = (
    "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
    "12D3KooWHFd1gyNYFqxt7ke9FY2VoVVWY2XSPhvL9vg2pB6wQGfa",
)
_QUERY = '{"sourceId":"%s","correlationId":"%s","data":{"coreTypes":["CoatyObject"],"objectFilter":%s}}'


def topic(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    try:
        parsed = parse_topic_untrusted(text)
    except BadCoatyMessage:
        return
    assert str(parsed) == text


def payload(event: EventType, data: bytes) -> None:
    try:
        message = decode_payload_untrusted(event, data)
    except BadCoatyMessage:
        return
    assert decode_payload_untrusted(event, encode_payload(message)) == message


def evaluate(data: bytes) -> None:
    """A Query, read and answered; the objects are ours, the filter is the peer's."""
    try:
        query = decode_payload_untrusted(EventType.QUERY, data).data
        assert isinstance(query, Query)
        matched = matches(_FILTERS["object"], query.object_filter)
        selected = select([_FILTERS["object"], *_FILTERS["stock"]], query.object_filter)
    except BadCoatyMessage:
        return
    limit = 9 if query.object_filter.take is None else query.object_filter.take
    assert len(selected) <= limit
    if not query.object_filter.skip and limit >= 9:
        assert matched == (_FILTERS["object"] in selected)


def liveliness(data: bytes) -> None:
    try:
        message = decode_liveliness_untrusted(data)
    except BadCoatyMessage:
        return
    assert decode_liveliness_untrusted(encode_liveliness(message)) == message
    node = Liveliness(LastWill(_PEER, _SOURCE_ID))
    node.connected(_NEIGHBOUR)
    node.received(message, _NEIGHBOUR, now_s=0.0)
    assert node.last_wills[0].peer_id == _PEER


def report(data: bytes) -> None:
    """What a bridge is told over the mesh, and what it listens to then."""
    try:
        told = decode_report_untrusted(data)
    except UsageError:
        return
    assert decode_report_untrusted(told.encode()) == told
    learned = Learned("plant", [], 2)
    assert learned.reported("node", told, 0.0)
    assert len(learned.listened()) <= 2


def _payloads(event: EventType) -> list[bytes]:
    return [bytes.fromhex(vector["hex"]) for vector in _WIRE["messages"] if vector["event"] == event]


def _queries() -> list[bytes]:
    """One condition of each operator, and everything else that a filter can hold."""
    first = {entry["condition"][1][0]: {"conditions": entry["condition"]} for entry in _FILTERS["matches"]}
    filters = [*first.values(), *(entry["filter"] for entry in _FILTERS["combined"] + _FILTERS["select"])]
    return [(_QUERY % (_SOURCE_ID, _SOURCE_ID, json.dumps(wanted))).encode() for wanted in filters]


TARGETS: dict[str, Callable[[bytes], None]] = {
    "coaty_topic": topic,
    **{f"coaty_payload_{event.name.lower()}": partial(payload, event) for event in EventType},
    "coaty_filter": evaluate,
    "coaty_liveliness": liveliness,
    "coaty_report": report,
}

SEEDS: dict[str, list[bytes]] = {
    "coaty_topic": [text.encode() for vector in _WIRE["messages"] for text in vector["topics"]],
    **{f"coaty_payload_{event.name.lower()}": _payloads(event) for event in EventType},
    "coaty_filter": _queries(),
    "coaty_liveliness": [bytes.fromhex(vector["hex"]) for vector in _WIRE["liveliness"]],
    "coaty_report": [
        b'{"agent":"a","peer":"p","addresses":["/ip4/127.0.0.1/tcp/1"],"island":"i","wants":["t"],"hears":["t"]}'
    ],
}
