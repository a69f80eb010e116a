"""Turning what publishers have, Python lists or similar Arrow data, into rows with the schema of a batch.

Mistakes are the caller's here, so they raise UsageError with the index of the event. Python looks at single events only
once something is known to be wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from weft.errors import UsageError
from weft.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, EVENT_PAYLOAD_BYTES_MAX
from weft.model import batch_message
from weft.model.batch_schema import HEADERS_TYPE, SCHEMA, find_excess, find_null

Headers = Mapping[str, str]
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
CONVERSION_ERRORS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)


def rows_of_lists(
    payloads: Sequence[bytes],
    timestamps_us: Sequence[int] | int,
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Headers | None] | None,
) -> pa.RecordBatch:
    """Rows from one list per column; a single timestamp is for all of them."""
    count = len(payloads)
    _check_count(count)
    for name, column in (("timestamps", timestamps_us), ("keys", keys), ("headers", headers)):
        if column is not None and not isinstance(column, int) and len(column) != count:
            raise UsageError(f"{name} and payloads differ in number", payloads=count, **{name: len(column)})
    try:
        columns = [
            _timestamp_column(timestamps_us, count),
            _key_column(keys, count),
            _headers_column(headers, count),
            _payload_column(payloads),
        ]
    except CONVERSION_ERRORS as error:
        _raise_first_mistake(payloads, timestamps_us, keys, headers)
        raise UsageError("these events cannot be made into a batch", reason=error) from error
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    # Nothing is null where it must not be, and without the other columns only a long payload can exceed a bound.
    if (keys or headers or columns[-1].nbytes > EVENT_PAYLOAD_BYTES_MAX) and (fault := find_excess(rows)):
        raise UsageError(fault.what, **fault.facts)
    return rows


def rows_of_arrow(data: pa.RecordBatch | pa.Table, timestamp_us: int | None) -> pa.RecordBatch:
    """Rows from Arrow data whose columns have our names, and types that can be cast to ours without loss."""
    _check_count(data.num_rows)
    names = data.schema.names
    if unknown := set(names) - set(SCHEMA.names):
        raise UsageError("no such column in a batch", column=", ".join(sorted(unknown)), known=", ".join(SCHEMA.names))
    if len(set(names)) < len(names):
        raise UsageError("column given twice", columns=", ".join(names))
    if data.nbytes > 2 * BATCH_BYTES_MAX:  # before it is copied; the exact bound of a batch is checked at the end
        raise UsageError("too much for one batch", bytes=data.nbytes, limit=BATCH_BYTES_MAX)
    rows = pa.RecordBatch.from_arrays([_cast(data, field, timestamp_us) for field in SCHEMA], schema=SCHEMA)
    try:
        rows.validate(full=True)
    except pa.ArrowException as error:
        raise UsageError("invalid Arrow data", reason=error) from None
    # Written and read back, so that slices are gone and every column begins where its buffers do.
    rows = batch_message.read(batch_message.write(rows))
    if fault := find_null(rows) or find_excess(rows):
        raise UsageError(fault.what, **fault.facts)
    return rows


def _check_count(count: int) -> None:
    if not 1 <= count <= BATCH_EVENTS_MAX:
        raise UsageError("a batch has at least one event", events=count, limit=BATCH_EVENTS_MAX)


def _timestamp_column(timestamps_us: Sequence[int] | int, count: int) -> pa.Array:
    if isinstance(timestamps_us, int):
        return pa.repeat(pa.scalar(timestamps_us, pa.int64()), count)
    # Not pa.array, which takes 1.5 and makes it 1.
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(array("q", timestamps_us))])


def _key_column(keys: Sequence[bytes | None] | None, count: int) -> pa.Array:
    if keys is None:
        return pa.nulls(count, pa.binary())
    _check_types(keys, (bytes, type(None)))
    return pa.array(keys, pa.binary())


def _headers_column(headers: Sequence[Headers | None] | None, count: int) -> pa.Array:
    if headers is None:
        return pa.nulls(count, HEADERS_TYPE)
    names = [name for some in headers if some for name in some]
    values = [value for some in headers if some for value in some.values()]
    _check_types(names, (str,))
    _check_types(values, (str,))
    starts = np.zeros(count + 1, np.int32)
    np.cumsum([len(some) if some else 0 for some in headers], out=starts[1:])
    absent = np.array([some is None for some in headers] + [False])
    return pa.MapArray.from_arrays(
        pa.array(starts, mask=absent), pa.array(names, pa.utf8()), pa.array(values, pa.utf8()), HEADERS_TYPE
    )


def _payload_column(payloads: Sequence[bytes]) -> pa.Array:
    # Joined here, because pa.array would silently accept and encode text.
    data = b"".join(payloads)
    if len(data) > BATCH_BYTES_MAX:
        longest = max(range(len(payloads)), key=lambda event: len(payloads[event]))
        raise UsageError("too much for one batch", bytes=len(data), limit=BATCH_BYTES_MAX, longest_event=longest)
    offsets = np.zeros(len(payloads) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, payloads), np.int32, len(payloads)), out=offsets[1:])
    if offsets[-1] != len(data):
        raise TypeError("a view of anything but bytes is counted in items")
    return pa.Array.from_buffers(pa.binary(), len(payloads), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _check_types(values: Sequence[object], kinds: tuple[type, ...]) -> None:
    # Checked by the few types that occur, not by value: pa.array would turn text into bytes and bytes into text.
    for kind in set(map(type, values)):
        if not issubclass(kind, kinds):
            raise TypeError(kind.__name__)


def _cast(data: pa.RecordBatch | pa.Table, field: pa.Field, timestamp_us: int | None) -> pa.Array:
    """One column of the data with our type. If it is missing, it has nulls, or the single timestamp."""
    if field.name not in data.schema.names:
        if field.nullable:
            return pa.nulls(data.num_rows, field.type)
        if field.name != "timestamp" or timestamp_us is None:
            raise UsageError("column is missing", column=field.name)
        if mistake := _mistake_in_time(timestamp_us):
            raise UsageError(mistake)
        return _timestamp_column(timestamp_us, data.num_rows)
    column = data.column(field.name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    try:
        if pa.types.is_timestamp(column.type):
            # Nanoseconds, which pandas uses, lose everything below a microsecond; nothing else may be lost.
            column = column.cast(pa.timestamp("us", column.type.tz), safe=column.type.unit != "ns")
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise UsageError(
            "column cannot be converted", column=field.name, have=column.type, need=field.type, reason=error
        ) from None


def _raise_first_mistake(
    payloads: Sequence[Any],
    timestamps_us: Sequence[Any] | int,
    keys: Sequence[Any] | None,
    headers: Sequence[Any] | None,
) -> None:
    """Name the first event that could not be converted. Called only when there is one."""
    for event, payload in enumerate(payloads):
        mistake = (
            _mistake_in_payload(payload)
            or _mistake_in_time(timestamps_us if isinstance(timestamps_us, int) else timestamps_us[event])
            or (keys is not None and _mistake_in_key(keys[event]))
            or (headers is not None and _mistake_in_headers(headers[event]))
        )
        if mistake:
            raise UsageError(mistake, event=event)


def _mistake_in_payload(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview) and len(value) == memoryview(value).nbytes:
        return ""
    return f"payload must be bytes, not {type(value).__name__}"


def _mistake_in_key(value: Any) -> str:
    return "" if value is None or isinstance(value, bytes) else f"key must be bytes, not {type(value).__name__}"


def _mistake_in_time(value: Any) -> str:
    if not isinstance(value, int | np.integer):
        return f"timestamp must be an int of microseconds, not {type(value).__name__}"
    return "" if INT64_MIN <= value <= INT64_MAX else f"timestamp {value} does not fit 64 bits"


def _mistake_in_headers(headers: Any) -> str:
    if headers is None:
        return ""
    if not isinstance(headers, Mapping):
        return f"headers must be a mapping, not {type(headers).__name__}"
    for text in (*headers.keys(), *headers.values()):
        if not isinstance(text, str):
            return f"header names and values must be str, not {type(text).__name__}"
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            return f"header {text[:64]!a} has a surrogate, which UTF-8 cannot carry"
    return ""
