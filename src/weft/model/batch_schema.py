"""The columns of a batch, and what an event may look like in them.

=========  ================  =======================================================================
column     Arrow type        meaning
=========  ================  =======================================================================
timestamp  int64, not null   µs since 1970 (UTC), chosen by the publisher
key        binary            which events belong together; null: none
headers    map<utf8, utf8>   names are unique within an event, values are not null; null: none
payload    binary, not null  the event itself
=========  ================  =======================================================================

``find_null`` and ``find_excess`` look for an event that breaks a rule. They cost nothing per event unless a column is
large enough to hold one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from weft.limits import (
    EVENT_HEADER_NAME_BYTES_MAX,
    EVENT_HEADER_VALUE_BYTES_MAX,
    EVENT_HEADERS_MAX,
    EVENT_KEY_BYTES_MAX,
    EVENT_PAYLOAD_BYTES_MAX,
)

HEADERS_TYPE: Final = pa.map_(pa.utf8(), pa.field("value", pa.utf8(), nullable=False))
SCHEMA: Final = pa.schema(
    [
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)

Offsets = np.ndarray[tuple[int], np.dtype[np.int32]]


class Fault(NamedTuple):
    """An event that cannot be in a batch, and the reason."""

    what: str
    facts: dict[str, int]


def time_range(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[int, int]:
    """The smallest and the greatest timestamp."""
    return int(np.minimum.reduce(times)), int(np.maximum.reduce(times))


def find_null(rows: pa.RecordBatch) -> Fault | None:
    """The first event that lacks a required value. ``rows`` have SCHEMA, except that nulls were not checked yet."""
    for index, what in ((0, "event without a timestamp"), (3, "event without a payload")):
        column = rows.column(index)
        if column.null_count:
            return Fault(what, {"event": _first_null(column)})
    headers = rows.column(2)
    if headers.null_count < len(rows) and headers.items.null_count:
        return Fault("header without a value", {"event": _event_of(_first_null(headers.items), _offsets(headers))})
    return None


def find_excess(rows: pa.RecordBatch) -> Fault | None:
    """The first event that exceeds its bounds. ``rows`` were made or read as a whole: no slices."""
    keys, headers = rows.column(1), rows.column(2)
    if keys.null_count < len(rows) and (fault := _find_long("key too long", _offsets(keys), EVENT_KEY_BYTES_MAX)):
        return fault
    if headers.null_count < len(rows) and (fault := _find_bad_headers(headers)):
        return fault
    return _find_long("payload too long", _offsets(rows.column(3)), EVENT_PAYLOAD_BYTES_MAX)


def _find_bad_headers(headers: pa.MapArray) -> Fault | None:
    starts = _offsets(headers)
    first, end = int(starts[0]), int(starts[-1])  # entries outside of these belong to no event
    if first == end:
        return None
    if fault := _find_long("too many headers", starts, EVENT_HEADERS_MAX):
        return fault
    for what, texts, limit in (
        ("header name too long", headers.keys, EVENT_HEADER_NAME_BYTES_MAX),
        ("header value too long", headers.items, EVENT_HEADER_VALUE_BYTES_MAX),
    ):
        if fault := _find_long(what, _offsets(texts)[first : end + 1], limit):
            return Fault(what, {**fault.facts, "event": _event_of(first + fault.facts["event"], starts)})
    repeated = _first_repeated(headers.keys, starts)
    return None if repeated is None else Fault("header given twice", {"event": _event_of(repeated, starts)})


def _first_repeated(names: pa.StringArray, starts: Offsets) -> int | None:
    """An entry whose event has another entry of the same name: two readers could see different values of such a
    header."""
    if _are_alike(names, starts):
        one = names.slice(int(starts[0]), int(starts[1] - starts[0])).to_pylist()
        if len(set(one)) == len(one):
            return None
    coded = names.dictionary_encode()
    first, end = int(starts[0]), int(starts[-1])
    events = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), _lengths(starts))
    pairs = events * len(coded.dictionary) + coded.indices.to_numpy()[first:end]
    order = np.argsort(pairs, kind="stable")
    twice = np.flatnonzero(pairs[order[1:]] == pairs[order[:-1]])
    return first + int(order[twice[0] + 1]) if len(twice) else None


def _are_alike(names: pa.StringArray, starts: Offsets) -> bool:
    """Whether all events have the same names in the same order, as events of one publisher mostly do."""
    count = int(starts[1] - starts[0])
    if not count or np.logical_or.reduce(_lengths(starts) != count):
        return False
    bounds = _offsets(names)[int(starts[0]) : int(starts[-1]) + 1]
    lengths = _lengths(bounds)
    text = np.frombuffer(names.buffers()[2] or b"", np.uint8)[int(bounds[0]) : int(bounds[-1])]
    period = int(bounds[count] - bounds[0])
    alike = np.logical_and.reduce
    return bool(alike(lengths[count:] == lengths[:-count]) and alike(text[period:] == text[: len(text) - period]))


def _find_long(what: str, offsets: Offsets, limit: int) -> Fault | None:
    if int(offsets[-1]) - int(offsets[0]) <= limit:
        return None  # even all of them together are not too long
    lengths = _lengths(offsets)
    longest = int(lengths.argmax())
    if lengths[longest] <= limit:
        return None
    return Fault(what, {"event": longest, "have": int(lengths[longest]), "limit": limit})


def _offsets(column: Any) -> Offsets:
    """Where the values of a binary, text or map column begin in its data, and where the last one ends."""
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1)


def _lengths(offsets: Offsets) -> Offsets:
    """The same as np.diff, which takes longer to start than this takes for a thousand values."""
    return offsets[1:] - offsets[:-1]


def _event_of(entry: int, starts: Offsets) -> int:
    return int(np.searchsorted(starts, entry, side="right")) - 1


def _first_null(column: pa.Array) -> int:
    return int(column.is_null().to_numpy(zero_copy_only=False).argmax())
