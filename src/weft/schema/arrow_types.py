"""The types of a schema as Arrow has them, and which type holds the values of two. Loads Arrow."""

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


# --- widening --------------------------------------------------------------------------------------------------------
#
# Columns of several schemas, or of a table and a schema, as one. Only widenings that every format of tables knows:
# whole numbers to larger ones, FLOAT to DOUBLE, DECIMAL to more digits before the point, and structs to more fields.
# Every value stays what it was.

INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
FLOATS: Final = (pa.float32(), pa.float64())
NAMES: Final = {str(kind): str(scalar) for scalar, kind in reversed(SCALARS.items())}  # STRING, not JSON


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds all values of both; None: there is none."""
    types = pa.types
    if one == other:
        return one
    for order in (INTEGERS, FLOATS):
        if one in order and other in order:
            return order[max(order.index(one), order.index(other))]
    if types.is_decimal128(one) and types.is_decimal128(other) and one.scale == other.scale:
        return one if one.precision >= other.precision else other
    if types.is_list(one) and types.is_list(other):
        item = wider(one.value_type, other.value_type)
        return None if item is None else pa.list_(pa.field("element", item))
    if types.is_map(one) and types.is_map(other) and one.key_type == other.key_type:
        item = wider(one.item_type, other.item_type)
        return None if item is None else pa.map_(one.key_type, item)
    if types.is_struct(one) and types.is_struct(other):
        return _wider_struct(one, other)
    return None


def _wider_struct(one: pa.StructType, other: pa.StructType) -> pa.StructType | None:
    """The fields of the first, then those that only the second has."""
    fields: dict[str, pa.DataType] = {each.name: each.type for each in one}
    known = {name.casefold(): name for name in fields}
    for each in other:
        name = known.setdefault(each.name.casefold(), each.name)
        if name != each.name:
            return None  # tables cannot tell them apart
        kind = each.type if name not in fields else wider(fields[name], each.type)
        if kind is None:
            return None
        fields[name] = kind
    return pa.struct(list(fields.items()))


def is_same_files(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether files with the narrow type need not be written again for readers of the wide one: only fields came."""
    types = pa.types
    if types.is_struct(narrow):
        return all(is_same_files(each.type, wide.field(each.name).type) for each in narrow)
    if types.is_list(narrow):
        return is_same_files(narrow.value_type, wide.value_type)
    if types.is_map(narrow):
        return is_same_files(narrow.item_type, wide.item_type)
    return bool(narrow == wide)


def sql_name(kind: pa.DataType) -> str:
    """A type as SQL has it, for people."""
    types = pa.types
    if types.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if types.is_list(kind):
        return f"ARRAY<{sql_name(kind.value_type)}>"
    if types.is_map(kind):
        return f"MAP<{sql_name(kind.key_type)}, {sql_name(kind.item_type)}>"
    if types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{each.name}: {sql_name(each.type)}' for each in kind)}>"
    return NAMES.get(str(kind), str(kind))
