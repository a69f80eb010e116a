"""Payloads as columns: ``read_columns`` gives a schema's columns of an Arrow array of payloads, and drops nothing.

Loads Arrow. To know only what is wrong with payloads, use ``find_faults``, which does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec.structs import astuple

from weft.schema.arrow_types import arrow_schema, arrow_type
from weft.schema.definition import Row
from weft.schema.errors import Fault
from weft.schema.kinds import decoder_of
from weft.schema.values import ListOf, MapOf, Scalar, Schema, Shape, StructOf

SLICE_ROWS: Final = (
    1_024  # read at once: their Python values stay in the cache, and the collector has little to look at
)


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """Payloads as columns; all parts have one row per payload."""

    columns: pa.RecordBatch  # the schema's, null where a field is absent or does not fit
    rescued: pa.StringArray  # a JSON object of the fields that do not fit or that the schema does not name; else null
    corrupt: pa.BinaryArray  # the payload if it could not be read at all; else null
    faults: Mapping[int, Fault]  # the first fault of each row that has one

    @property
    def record_batch(self) -> pa.RecordBatch:
        """The columns, with _rescued and _corrupt behind them."""
        return pa.record_batch(
            [*self.columns.columns, self.rescued, self.corrupt],
            schema=pa.schema([*self.columns.schema, ("_rescued", pa.string()), ("_corrupt", pa.binary())]),
        )

    @property
    def reasons(self) -> pa.StringArray:
        """The faults as text, ``field: reason``; null for rows without."""
        return _sparse({at: str(fault) for at, fault in self.faults.items()}, self.columns.num_rows, pa.string())


def read_columns(
    schema: Schema, payloads: pa.BinaryArray | pa.ChunkedArray, others: Sequence[Schema] = ()
) -> TypedColumns:
    """The columns of ``payloads``. ``others``: versions that Avro payloads may have been written with, besides."""
    parts = [
        _read_slice(schema, payloads.slice(first, SLICE_ROWS), others)
        for first in range(0, max(len(payloads), 1), SLICE_ROWS)
    ]
    if len(parts) == 1:
        return parts[0]
    return TypedColumns(
        pa.concat_batches([part.columns for part in parts]),
        pa.concat_arrays([part.rescued for part in parts]),
        pa.concat_arrays([part.corrupt for part in parts]),
        {at * SLICE_ROWS + row: fault for at, part in enumerate(parts) for row, fault in part.faults.items()},
    )


def _read_slice(schema: Schema, payloads: pa.BinaryArray | pa.ChunkedArray, others: Sequence[Schema]) -> TypedColumns:
    texts = [b"" if payload is None else payload for payload in payloads.to_pylist()]
    rows, slow = decoder_of(schema, others).rows(texts)
    by_column: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(schema.columns)
    columns = [_array(column.shape, values) for column, values in zip(schema.columns, by_column, strict=True)]
    count = len(texts)
    rescued = {at: row.rescued for at, row in slow.items() if row.rescued is not None}
    return TypedColumns(
        pa.record_batch(columns, schema=arrow_schema(schema)),
        _sparse(rescued, count, pa.string()),
        _sparse({at: texts[at] for at, row in slow.items() if row.corrupt}, count, pa.binary()),
        {at: row.fault for at, row in slow.items() if row.fault is not None},
    )


def columns_of(schema: Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """The columns of rows that were read one by one; for tests and tools."""
    by_column = list(zip(*(row.values for row in rows), strict=True)) or [()] * len(schema.columns)
    columns = [_array(column.shape, values) for column, values in zip(schema.columns, by_column, strict=True)]
    return pa.record_batch(columns, schema=arrow_schema(schema))


def _sparse(values: Mapping[int, Any], count: int, kind: pa.DataType) -> pa.Array:
    if not values:
        return pa.nulls(count, kind)
    return pa.array([values.get(at) for at in range(count)], kind)


# --- Python values as Arrow arrays -----------------------------------------------------------------------------------


def _array(shape: Shape, values: Sequence[Any]) -> pa.Array:
    """Values as decoders give them: structs are tuples or msgspec's, JSON is text or msgspec's Raw."""
    kind = arrow_type(shape.type)
    match shape.type:
        case Scalar.JSON:
            return pa.array(list(map(_json_text, values)), kind)
        case ListOf(item=item) if _has_parts(item):
            mask = pa.array([value is None for value in values], pa.bool_())
            inner = _array(item, list(chain.from_iterable(value for value in values if value is not None)))
            return pa.ListArray.from_arrays(_offsets(values), inner, type=kind, mask=mask)
        case MapOf(value=inner_shape):
            return _map_array(inner_shape, values, kind)
        case StructOf(columns=columns):
            mask = pa.array([value is None for value in values], pa.bool_())
            absent = (None,) * len(columns)
            tuples = [absent if value is None else _tuple(value) for value in values]
            by_column = list(zip(*tuples, strict=True)) or [()] * len(columns)
            children = [_array(column.shape, each) for column, each in zip(columns, by_column, strict=True)]
            return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
        case _:
            return pa.array(values, kind)


def _map_array(shape: Shape, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    present = [value for value in values if value is not None]
    keys = pa.array(list(chain.from_iterable(present)), pa.string())
    items = _array(shape, list(chain.from_iterable(value.values() for value in present)))
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind, mask=mask)


def _offsets(values: Sequence[Any]) -> pa.Array:
    return pa.array(list(accumulate((0 if value is None else len(value) for value in values), initial=0)), pa.int32())


def _has_parts(shape: Shape) -> bool:
    return shape.type is Scalar.JSON or isinstance(shape.type, ListOf | MapOf | StructOf)


def _tuple(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else astuple(value)


def _json_text(value: msgspec.Raw | str | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    text = bytes(value)
    return None if text == b"null" else text.decode()
