"""One event as the pages get it, and what its payload says in a protocol that we know. Pure.

Payloads go out as base64 and become text, a tree or hex in the browser, which puts them on the page as text only.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec

from weft.errors import PeerError
from weft.limits import KIB, MIB
from weft.model import Event, EventId, Topic
from weft.wire.datagram import DatagramProtocol, protocol_of_untrusted
from weft.wire.describe import Part

PREVIEW_BYTES_MAX: Final = 512  # of a payload in a list
PAYLOAD_BYTES_MAX: Final = 1 * MIB  # of a payload on its own page
DECODED_BYTES_MAX: Final = 64 * KIB  # packets are smaller than that
HEADERS_SHOWN_MAX: Final = 64
TEXT_SHOWN_MAX: Final = 1024  # characters of a key or of a header in a list
PARTS_MAX: Final = 2000  # of a decoded packet
EXMP_FIRST_BYTE: Final = 0x00  # of a length before a message under 16 MiB
COATY: Final = "coaty."
COATY_FIELDS: Final = ("objectType", "coreType", "name", "objectId", "parentObjectId")

View = dict[str, Any]


def event_view(place: EventId, event: Event, payload_bytes_max: int) -> View:
    stream = place.stream
    return {
        "id": str(place),
        "topic": stream.topic,
        "origin": stream.origin,
        "partition": stream.partition,
        "epoch": str(place.epoch),
        "offset": place.offset,
        "timestamp_us": event.timestamp_us,
        "key": None if event.key is None else _encoded(event.key[:TEXT_SHOWN_MAX]),
        "headers": [
            [name[:TEXT_SHOWN_MAX], value[:TEXT_SHOWN_MAX]]
            for name, value in list((event.headers or {}).items())[:HEADERS_SHOWN_MAX]
        ],
        "size": len(event.payload),
        "payload": _encoded(event.payload[:payload_bytes_max]),
    }


def _encoded(data: bytes) -> str:
    return b64encode(data).decode()


# --- protocols -------------------------------------------------------------------------------------------------------


def decoded_untrusted(topic: Topic, payload: bytes) -> View | None:
    """What the payload is in a protocol of devices, as a tree of parts; None if it is none that we know."""
    if not 0 < len(payload) <= DECODED_BYTES_MAX:
        return None
    if topic.startswith(COATY):
        return _coaty(topic, payload)
    for name, describe in _candidates(payload):
        try:
            tree = describe(payload)
        except PeerError:
            continue
        return {"protocol": name, "parts": [_part_view(tree, [PARTS_MAX])]}
    return None


def _candidates(payload: bytes) -> list[tuple[str, Callable[[bytes], Part]]]:
    if payload[0] == EXMP_FIRST_BYTE:
        from weft.wire.exmp import describe as exmp

        return [("EXMP", exmp.describe_untrusted)]
    try:
        kind = protocol_of_untrusted(payload)
    except PeerError:
        return []
    if kind is DatagramProtocol.EMM:
        from weft.wire.emm import describe as emm

        return [("EMM", emm.describe_untrusted)]
    from weft.wire.emm_compact import describe as emm_compact

    return [("EMM-C", emm_compact.describe_untrusted)]


def _part_view(part: Part, left: list[int]) -> View:
    """``left``: how many more parts may be shown."""
    view: View = {"name": part.name, "at": part.at, "size": part.size, "value": part.value[:TEXT_SHOWN_MAX]}
    parts = []
    for child in part.parts:
        if left[0] <= 0:
            break
        left[0] -= 1
        parts.append(_part_view(child, left))
    return view | {"parts": parts}


def _coaty(topic: Topic, payload: bytes) -> View | None:
    """The event by its topic, and the object that it is about."""
    tokens = topic.split(".", 3)
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if len(tokens) < 3 or not isinstance(document, dict):
        return None
    found = document.get("object")
    about = found if isinstance(found, dict) else document
    facts = list(zip(("namespace", "event", "filter"), tokens[1:], strict=False))
    facts += [(name, str(about[name])) for name in COATY_FIELDS if name in about]
    parts = [{"name": name, "at": 0, "size": 0, "value": value[:TEXT_SHOWN_MAX], "parts": []} for name, value in facts]
    return {"protocol": "Coaty", "parts": parts}
