"""What is made into a batch, what is refused, and that refusals name the event."""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
import pytest

from tests.model import forge
from weft.errors import UsageError
from weft.limits import (
    BATCH_BYTES_MAX,
    EVENT_HEADER_NAME_BYTES_MAX,
    EVENT_HEADER_VALUE_BYTES_MAX,
    EVENT_HEADERS_MAX,
    EVENT_KEY_BYTES_MAX,
    EVENT_PAYLOAD_BYTES_MAX,
    EVENT_TIMESTAMP_US_MAX,
    EVENT_TIMESTAMP_US_MIN,
    MIB,
)
from weft.model import Batch, Event

PRODUCER = bytes(range(1, 17))

# --- Arrow in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("payload", pa.array(["é", "b"]), ["é".encode(), b"b"]),
        ("payload", pa.array(["a", "b"], pa.large_utf8()), [b"a", b"b"]),
        ("payload", pa.array([b"a", b"b"], pa.large_binary()), [b"a", b"b"]),
        ("payload", pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
        ("payload", pa.array(["a", "a"]).dictionary_encode(), [b"a", b"a"]),
        ("payload", pa.chunked_array([[b"a"], [b"b"]]), [b"a", b"b"]),
        ("payload", pa.array([b"x", b"a", b"b", b"y"]).slice(1, 2), [b"a", b"b"]),
        ("key", pa.array(["k", None]), [b"k", None]),
        ("key", pa.nulls(2), [None, None]),
        ("timestamp", pa.array([1, 2], pa.int32()), [1, 2]),
        ("timestamp", pa.array([1, 2], pa.timestamp("s")), [1_000_000, 2_000_000]),
        ("timestamp", pa.array([1, 2], pa.timestamp("ms", "UTC")), [1_000, 2_000]),
        ("timestamp", pa.array([1, 2], pa.timestamp("us", "Europe/Berlin")), [1, 2]),
        ("timestamp", pa.array([1_999, 2_000], pa.timestamp("ns")), [1, 2]),
        ("headers", pa.array([[("a", "b")], None], pa.map_(pa.utf8(), pa.utf8())), [[("a", "b")], None]),
        ("headers", pa.array([[("a", "b")], []], pa.map_(pa.large_utf8(), pa.binary())), [[("a", "b")], []]),
        (
            "headers",
            pa.array([[("x", "y")], [("a", "b")], None], pa.map_(pa.utf8(), pa.utf8())).slice(1),
            [[("a", "b")], None],
        ),
    ],
    ids=str,
)
def test_arrow_columns_are_cast(name: str, column: Any, expected: list[Any]) -> None:
    columns = {"payload": pa.array([b"p", b"q"]), name: column}
    batch = Batch.from_arrow(pa.table(columns), timestamp_us=7)
    again = Batch.read_untrusted(batch.data)
    assert again.record_batch.column(name).to_pylist() == expected
    if name != "timestamp":
        assert again.timestamps.to_pylist() == [7, 7]


MAP = pa.map_(pa.utf8(), pa.utf8())


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"timestamp": pa.array([1])}, "column is missing (column payload)"),
        ({"payload": pa.array([b"a"])}, "column is missing (column timestamp)"),
        ({"payload": pa.array([b"a"]), "paylaod": pa.array([b"a"])}, "no such column in a batch (column paylaod"),
        ({"payload": pa.array([1]), "timestamp": pa.array([1])}, "column cannot be converted (column payload"),
        ({"payload": pa.array([b"a"]), "timestamp": pa.array([1.5])}, "column cannot be converted (column timestamp"),
        ({"payload": pa.array([b"a", None]), "timestamp": pa.array([1, 1])}, "event without a payload (event 1)"),
        ({"payload": pa.array([b"a", b"b"]), "timestamp": pa.array([1, None])}, "event without a timestamp (event 1)"),
        (
            {"payload": pa.array([b"a"]), "timestamp": pa.array([1 << 62], pa.timestamp("s"))},
            "column cannot be converted (column timestamp",
        ),
        (
            {
                "payload": pa.array([b"a"] * 3),
                "timestamp": pa.array([1] * 3),
                "headers": pa.array([[], [("a", "b"), ("c", "d")], [("e", None)]], MAP),
            },
            "header without a value (event 2)",
        ),
        (
            {
                "payload": pa.array([b"a"] * 3),
                "timestamp": pa.array([1] * 3),
                "headers": pa.array([[("a", "1")], [("a", "2"), ("b", "")], [("b", ""), ("a", ""), ("b", "")]], MAP),
            },
            "header given twice (event 2)",
        ),
        (
            {
                "payload": pa.array([b"a"]),
                "timestamp": pa.array([1]),
                "headers": pa.array([[("a", b"\xff")]], pa.map_(pa.utf8(), pa.binary())),
            },
            "column cannot be converted (column headers",
        ),
        ({"payload": pa.array([], pa.binary()), "timestamp": pa.array([], pa.int64())}, "at least one event"),
    ],
)
def test_arrow_data_that_is_refused(columns: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        Batch.from_arrow(pa.table(columns))
    assert fault in str(caught.value)


def test_arrow_data_that_is_broken_is_refused() -> None:
    offsets, data = pa.py_buffer(forge.int32s(0, 9, 3)), pa.py_buffer(b"abc")
    payload = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, data])
    with pytest.raises(UsageError, match="invalid Arrow data"):
        Batch.from_arrow(pa.table({"payload": payload}), timestamp_us=0)
    rows = pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["payload", "payload"])
    with pytest.raises(UsageError, match="column given twice"):
        Batch.from_arrow(rows, timestamp_us=0)


def test_the_one_timestamp_for_arrow_data_is_checked_too() -> None:
    with pytest.raises(UsageError, match="does not fit 64 bits"):
        Batch.from_arrow(pa.table({"payload": [b"a"]}), timestamp_us=1 << 63)


def test_arrow_data_that_is_too_much_is_refused_before_it_is_copied() -> None:
    payload = pa.array([bytes(MIB)])
    table = pa.table({"payload": pa.chunked_array([payload] * 40)})
    with pytest.raises(UsageError, match="too much for one batch"):
        Batch.from_arrow(table, timestamp_us=0)


# --- mistakes of the caller ----------------------------------------------------------------------------------------

FINE = Event(b"fine", 0)


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        (Event("text", 0), "payload must be bytes, not str (event 2)"),  # type: ignore[arg-type]
        (Event(None, 0), "payload must be bytes, not NoneType (event 2)"),  # type: ignore[arg-type]
        (Event(b"", 1.5), "timestamp must be an int of microseconds, not float (event 2)"),  # type: ignore[arg-type]
        (Event(b"", 2.0), "timestamp must be an int of microseconds, not float (event 2)"),  # type: ignore[arg-type]
        (Event(b"", None), "timestamp must be an int of microseconds, not NoneType (event 2)"),  # type: ignore[arg-type]
        (Event(b"", 1 << 63), "timestamp 9223372036854775808 does not fit 64 bits (event 2)"),
        (Event(b"", 0, key="k"), "key must be bytes, not str (event 2)"),  # type: ignore[arg-type]
        (Event(b"", 0, key=bytes(4097)), "key too long (event 2, have 4097, limit 4096)"),
        (Event(b"", 0, headers=[("a", "b")]), "headers must be a mapping, not list (event 2)"),  # type: ignore[arg-type]
        (Event(b"", 0, headers={"a": b"b"}), "header names and values must be str, not bytes (event 2)"),  # type: ignore[dict-item]
        (Event(b"", 0, headers={1: "b"}), "header names and values must be str, not int (event 2)"),  # type: ignore[dict-item]
        (Event(b"", 0, headers={"a": "\ud800"}), "has a surrogate, which UTF-8 cannot carry (event 2)"),
        (Event(b"", 0, headers={"n" * 256: ""}), "header name too long (event 2, have 256, limit 255)"),
        (Event(b"", 0, headers={"é" * 128: ""}), "header name too long (event 2, have 256, limit 255)"),
        (Event(b"", 0, headers={"n": "v" * 4097}), "header value too long (event 2, have 4097, limit 4096)"),
        (Event(b"", 0, headers={str(n): "" for n in range(65)}), "too many headers (event 2, have 65, limit 64)"),
        (Event(bytes(EVENT_PAYLOAD_BYTES_MAX + 1), 0), "payload too long (event 2, have 15728641, limit 15728640)"),
        (
            Event(bytes(BATCH_BYTES_MAX + 1), 0),
            "too much for one batch (bytes 16777229, limit 16777216, longest event 2",
        ),
        ("not an event", "not an Event but str (event 2)"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else type(value).__name__,
)
def test_mistakes_name_the_event(event: Any, fault: str) -> None:
    for neighbour in (FINE, Event(b"fine", 0, key=b"k", headers={"n": "v"})):
        with pytest.raises(UsageError) as caught:
            Batch.from_events([neighbour, FINE, event, FINE])
        assert fault in str(caught.value)


def test_bytes_in_a_view_of_something_else_are_not_miscounted() -> None:
    numbers = memoryview(array("q", range(4)))
    with pytest.raises(UsageError, match=r"payload must be bytes, not memoryview \(event 1\)"):
        Batch.from_columns([bytearray(b"a"), numbers], 0)  # type: ignore[list-item]


def test_a_batch_is_not_empty() -> None:
    with pytest.raises(UsageError, match="at least one event"):
        Batch.from_events([])
    with pytest.raises(UsageError, match="at least one event"):
        Batch.from_columns([], [])


def test_too_many_events_are_refused() -> None:
    with pytest.raises(UsageError, match=r"at least one event \(events 1000001, limit 1000000\)"):
        Batch.from_columns([b""] * 1_000_001, 0)


@pytest.mark.parametrize("column", ["timestamps", "keys", "headers"])
def test_columns_of_different_length(column: str) -> None:
    columns: dict[str, Any] = {"timestamps": [1, 2], "keys": [None, None], "headers": [None, None]}
    columns[column] = columns[column][:1]
    with pytest.raises(UsageError, match=f"{column} and payloads differ in number \\(payloads 2, {column} 1\\)"):
        Batch.from_columns([b"a", b"b"], columns["timestamps"], columns["keys"], columns["headers"])


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"producer": b"short"}, "a producer id is 16 bytes"),
        ({"producer": bytes(16)}, "a producer id is 16 bytes, not all zero"),
        ({"producer": PRODUCER, "sequence": -1}, "sequence out of range"),
        ({"producer": PRODUCER, "sequence": 1 << 64}, "sequence out of range"),
        ({"sequence": 1}, "a sequence needs a producer"),
        ({"compression": "gzip"}, "no such compression"),
    ],
)
def test_other_mistakes(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        Batch.from_events([FINE], **arguments)


def test_the_largest_event_there_can_be_fits_a_batch() -> None:
    event = Event(
        bytes(EVENT_PAYLOAD_BYTES_MAX),
        EVENT_TIMESTAMP_US_MIN,
        key=bytes(EVENT_KEY_BYTES_MAX),
        headers={
            f"{number:0{EVENT_HEADER_NAME_BYTES_MAX}}": "v" * EVENT_HEADER_VALUE_BYTES_MAX
            for number in range(EVENT_HEADERS_MAX)
        },
    )
    batch = Batch.from_events([event], producer=PRODUCER, sequence=(1 << 64) - 1)
    assert list(Batch.read_untrusted(batch.data)) == [event]


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize(
    "timestamp_us", [EVENT_TIMESTAMP_US_MIN - 1, EVENT_TIMESTAMP_US_MAX + 1, -(1 << 63), (1 << 63) - 1]
)
@pytest.mark.parametrize("count", [1, 100])
def test_times_that_no_calendar_has_are_refused(timestamp_us: int, count: int) -> None:
    fault = "the years 1 to 9999 are possible"
    with pytest.raises(UsageError, match=fault):
        Batch.from_events([Event(b"x", timestamp_us)] * count)
    with pytest.raises(UsageError, match=fault):
        Batch.from_arrow(pa.table({"payload": [b"a"] * count}), timestamp_us=timestamp_us)
    for fine in (EVENT_TIMESTAMP_US_MIN, EVENT_TIMESTAMP_US_MAX):
        assert Batch.from_columns([b"x"] * count, fine).timestamp_us_max == fine
