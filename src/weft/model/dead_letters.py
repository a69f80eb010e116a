"""Dead letters: events that a group's readers could not handle, stored completely and with the reasons.

A dead letter has the key, headers and payload of its event, and one more header, ``weft-dead``: JSON with the event's
identity, the group, the number of tries, the reason and the event's own time. When a letter is dropped or sent again,
that is an event, too, with the header ``weft-dead-dropped``. If a node died while it wrote a letter, the event may have
two; both have the same identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import (
    EVENT_HEADER_VALUE_BYTES_MAX,
    EVENT_HEADERS_MAX,
    EVENT_TIMESTAMP_US_MAX,
    EVENT_TIMESTAMP_US_MIN,
)
from weft.model.event import Event
from weft.model.stream import EventId, parse_event_id

DEAD_HEADER: Final = "weft-dead"
DROPPED_HEADER: Final = "weft-dead-dropped"
REPLAY_HEADER: Final = "weft-replay-of"  # of an event that was sent again: the identity of the original


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """``event`` is the original event, ``id`` its place. ``is_lost``: only the identity is left, because retention
    deleted the event before it was put aside. ``left_out``: a header for which there was no room."""

    id: EventId
    group: str
    tries: int
    reason: str
    event: Event
    died_us: int
    is_lost: bool = False
    left_out: str = ""


class _WireLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    event: str
    group: str
    tries: int
    reason: str
    timestamp_us: int
    lost: bool = False
    left_out: str = ""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_WireLetter)


def letter_event(letter: DeadLetter) -> Event:
    """Make the event that is written to the topic of dead letters."""
    headers = dict(letter.event.headers or {})
    headers.pop(DEAD_HEADER, None)  # of a letter that became a dead letter itself
    left_out = ""
    if len(headers) >= EVENT_HEADERS_MAX:
        left_out = max(headers)
        del headers[left_out]
    wire = _WireLetter(
        str(letter.id),
        letter.group,
        letter.tries,
        letter.reason,
        letter.event.timestamp_us,
        letter.is_lost,
        left_out,
    )
    headers[DEAD_HEADER] = _written(wire)
    return Event(letter.event.payload, letter.died_us, letter.event.key, headers)


def _written(wire: _WireLetter) -> str:
    """The text of the header. A reason that is too long as JSON is cut."""
    text = _ENCODER.encode(wire)
    while len(text) > EVENT_HEADER_VALUE_BYTES_MAX and wire.reason:
        wire = msgspec.structs.replace(wire, reason=wire.reason[: len(wire.reason) // 2])
        text = _ENCODER.encode(wire)
    return text.decode()


def dropped_event(event: EventId, now_us: int) -> Event:
    """Make the event that says that this event's letter is settled."""
    return Event(b"", now_us, None, {DROPPED_HEADER: str(event)})


def read_letter_untrusted(event: Event) -> DeadLetter | EventId | None:
    """Read a letter, or which one was dropped; None if it is neither, whatever the bytes."""
    headers: Mapping[str, str] = event.headers or {}
    try:
        if DROPPED_HEADER in headers:
            return parse_event_id(headers[DROPPED_HEADER])
        wire = _DECODER.decode(headers.get(DEAD_HEADER, ""))
        if not EVENT_TIMESTAMP_US_MIN <= wire.timestamp_us <= EVENT_TIMESTAMP_US_MAX:
            return None
        was = {name: value for name, value in headers.items() if name != DEAD_HEADER}
        return DeadLetter(
            parse_event_id(wire.event),
            wire.group,
            wire.tries,
            wire.reason,
            Event(event.payload, wire.timestamp_us, event.key, was or None),
            event.timestamp_us,
            wire.lost,
            wire.left_out,
        )
    except (UsageError, msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def letters_left(events: Iterable[Event], group: str) -> list[DeadLetter]:
    """The letters of a group that were not dropped, one per event, the oldest first."""
    letters: dict[EventId, DeadLetter] = {}
    dropped: set[EventId] = set()
    for event in events:
        found = read_letter_untrusted(event)
        if isinstance(found, EventId):
            dropped.add(found)
        elif found is not None and found.group == group:
            letters.setdefault(found.id, found)
    return sorted((each for each in letters.values() if each.id not in dropped), key=lambda each: each.died_us)
