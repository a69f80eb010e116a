"""One event, as a person publishes it or gets it. Inside the mesh there are only batches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from weft.errors import UsageError
from weft.limits import EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN


class Event(Struct, frozen=True, gc=False):
    """A payload with its time, and optionally a key and headers.

    A ``msgspec.Struct``, because a subscriber gets a million of these a second: it is made 5 times faster than a
    named tuple and 15 times faster than a frozen dataclass. ``gc=False``: an event holds no cycles.

    Nothing is checked here: sizes and types are checked where a batch is made of events, in bulk. ``headers`` are for
    reading; whoever made the mapping does not change it any more.
    """

    payload: bytes
    timestamp_us: int
    key: bytes | None = None
    headers: Mapping[str, str] | None = None


def check_timestamp_us(timestamp_us: int) -> None:
    """Raise UsageError for a time that no calendar has."""
    if not EVENT_TIMESTAMP_US_MIN <= timestamp_us <= EVENT_TIMESTAMP_US_MAX:
        raise UsageError(
            "the timestamp of an event is out of range: the years 1 to 9999 are possible",
            timestamp_us=timestamp_us,
            least=EVENT_TIMESTAMP_US_MIN,
            limit=EVENT_TIMESTAMP_US_MAX,
        )
