"""The types of a schema as Arrow has them. Loads Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from weft.schema.values import CORRUPT, RESCUED, DecimalType, ListOf, MapOf, Scalar, Schema, StructOf, Type

SCALARS: Final[dict[Scalar, pa.DataType]] = {
    Scalar.BOOLEAN: pa.bool_(),
    Scalar.TINYINT: pa.int8(),
    Scalar.SMALLINT: pa.int16(),
    Scalar.INT: pa.int32(),
    Scalar.BIGINT: pa.int64(),
    Scalar.FLOAT: pa.float32(),
    Scalar.DOUBLE: pa.float64(),
    Scalar.STRING: pa.string(),
    Scalar.BINARY: pa.binary(),
    Scalar.DATE: pa.date32(),
    Scalar.TIMESTAMP: pa.timestamp("us", "UTC"),
    Scalar.TIMESTAMP_NTZ: pa.timestamp("us"),
    Scalar.JSON: pa.string(),
}


def arrow_type(kind: Type) -> pa.DataType:
    match kind:
        case Scalar():
            return SCALARS[kind]
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case ListOf(item=item):
            return pa.list_(pa.field("element", arrow_type(item.type)))
        case MapOf(value=value):
            return pa.map_(pa.string(), arrow_type(value.type))
        case StructOf(columns=columns):
            return pa.struct([(column.name, arrow_type(column.type)) for column in columns])


def arrow_schema(schema: Schema, *, extras: bool = False) -> pa.Schema:
    """The columns, all nullable: what does not fit is null there. ``extras``: with _rescued and _corrupt at the end."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in schema.columns]
    if extras:
        fields += [pa.field(RESCUED, pa.string()), pa.field(CORRUPT, pa.binary())]
    return pa.schema(fields)
