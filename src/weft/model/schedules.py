"""Schedules as the mesh keeps them: entries of two buckets that belong to the mesh (CON-03).

``weft.schedules`` has the schedules, by name. ``weft.fired`` has, under the same names, the last time that was fired
and the node that fired it. Both are JSON.
"""

from __future__ import annotations

from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import KIB
from weft.model.batch import Batch
from weft.model.event import Event
from weft.model.stream import NODE_ID
from weft.model.topic import parse_topic

SCHEDULES_BUCKET: Final = "weft.schedules"
FIRED_BUCKET: Final = "weft.fired"
PAYLOAD_BYTES_MAX: Final = 256 * KIB  # every node keeps it in memory
NAME: Final = "weft-schedule"  # headers of an event that a schedule published
TIME: Final = "weft-schedule-time"  # the time for which it was published
HEADERS_MAX: Final = 32


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True):
    """``owner`` and ``by`` say whose it is: the one for rights, the other for people. Only times after ``since_us``
    count."""

    cron: str
    topic: str
    payload: bytes
    owner: str
    by: str
    since_us: int
    zone: str = "UTC"
    key: bytes | None = None
    headers: dict[str, str] = {}
    catch_up: str = "last"
    paused: bool = False


class Fired(msgspec.Struct, frozen=True):
    """The last time that was fired, and by whom."""

    at_us: int
    node: str


def parse_schedule_name(text: str) -> str:
    """Check the name of a schedule, or raise UsageError. The rules are those for topics."""
    return parse_topic(text)


def check_event(topic: str, payload: bytes, key: bytes | None, headers: dict[str, str]) -> None:
    """Raise UsageError unless a schedule can publish such events."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise UsageError(
            "the payload of a schedule is too large", topic=topic, bytes=len(payload), limit=PAYLOAD_BYTES_MAX
        )
    if len(headers) > HEADERS_MAX:
        raise UsageError("a schedule has too many headers", topic=topic, have=len(headers), limit=HEADERS_MAX)
    if {NAME, TIME} & headers.keys():
        raise UsageError("a header has a name that is reserved for the mesh", topic=topic, headers=f"{NAME}, {TIME}")
    Batch.from_events([Event(payload, 0, key, headers or None)])


def write_schedule(schedule: Schedule) -> bytes:
    return msgspec.json.encode(schedule)


def read_schedule_untrusted(value: bytes) -> Schedule | None:
    """Read a schedule; None if it is not valid: only nodes write these, but a later version may write others."""
    try:
        return msgspec.json.decode(value, type=Schedule)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def write_fired(fired: Fired) -> bytes:
    return msgspec.json.encode(fired)


def read_fired_untrusted(value: bytes) -> Fired | None:
    try:
        found = msgspec.json.decode(value, type=Fired)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if NODE_ID.fullmatch(found.node) else None
