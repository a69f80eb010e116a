"""Schemas written as Avro (1.11): a record, and how its binary form is laid out.

A union is understood as one type or null. A field without a default is required: a reader with a later version has
nothing else to put there. Types that contain themselves (trees) make no columns and are refused. Logical types that are
not known here are the type below them, as Avro's specification says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from weft.schema.json_schema import decoded
from weft.schema.values import (
    COLUMNS_MAX,
    DEPTH_MAX,
    ENUM_VALUES_MAX,
    PRECISION_MAX,
    TEXT_BYTES_MAX,
    BadSchema,
    Checks,
    Column,
    DecimalType,
    Kind,
    ListOf,
    MapOf,
    Scalar,
    Schema,
    Shape,
    StructOf,
    Type,
    checked,
    joined,
)

PRIMITIVES: Final[dict[str, Scalar]] = {
    "boolean": Scalar.BOOLEAN,
    "int": Scalar.INT,
    "long": Scalar.BIGINT,
    "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE,
    "bytes": Scalar.BINARY,
    "string": Scalar.STRING,
}
LOGICAL: Final[dict[tuple[str, str], Scalar]] = {
    ("int", "date"): Scalar.DATE,
    ("long", "timestamp-millis"): Scalar.TIMESTAMP,
    ("long", "timestamp-micros"): Scalar.TIMESTAMP,
    ("long", "local-timestamp-millis"): Scalar.TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): Scalar.TIMESTAMP_NTZ,
}
FIXED_BYTES_MAX: Final = 1 << 20  # of one "fixed": longer ones are files, not columns
FULL_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts. ``milliseconds``: a time that counts them, and not microseconds."""

    name: str
    scalar: Scalar
    milliseconds: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A decimal in bytes, or in a fixed number of them."""

    decimal: DecimalType
    size: int | None


@dataclass(frozen=True, slots=True)
class Fixed:
    size: int


@dataclass(frozen=True, slots=True)
class Choice:
    """An enum: a number of one of these."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Items:
    item: Layout


@dataclass(frozen=True, slots=True)
class Entries:
    value: Layout


@dataclass(frozen=True, slots=True)
class Optional:
    """A union with null: ``null_branch`` is its number."""

    inner: Layout
    null_branch: int | None
    branches: int


@dataclass(frozen=True, slots=True)
class Record:
    names: tuple[str, ...]
    layouts: tuple[Layout, ...]
    with_default: tuple[bool, ...]


Layout: TypeAlias = Primitive | Number | Fixed | Choice | Items | Entries | Optional | Record


def parse_avro(text: str) -> Schema:
    """The schema that ``text`` is, or BadSchema."""
    return checked(Schema(Kind.AVRO, text, _struct(avro_layout(text), "")))


def avro_layout(text: str) -> Record:
    """How payloads of this schema are laid out, or BadSchema."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise BadSchema("the schema is too long", limit=TEXT_BYTES_MAX)
    layout = _Reader().layout(decoded(text), "", "", 0)
    if not isinstance(layout, Record):
        raise BadSchema('the schema of an event has type "record"', at="$")
    return layout


class _Reader:
    def __init__(self) -> None:
        self._named: dict[str, Layout | None] = {}  # None while it is being read
        self._budget = 4 * COLUMNS_MAX  # types read: names may be used many times

    def layout(self, schema: Any, namespace: str, path: str, depth: int) -> Layout:
        self._budget -= 1
        if depth > DEPTH_MAX or self._budget < 0:
            raise _bad("types are nested too deep, or too many", path, limit=DEPTH_MAX)
        match schema:
            case str():
                return self._by_name(schema, namespace, path)
            case list():
                return self._union(schema, namespace, path, depth)
            case {"type": str(name)} if name in PRIMITIVES:
                return _logical(name, schema, path)
            case {"type": "array", "items": items}:
                return Items(self.layout(items, namespace, f"{path}[]", depth + 1))
            case {"type": "map", "values": values}:
                return Entries(self.layout(values, namespace, f"{path}{{}}", depth + 1))
            case {"type": "record" | "error" | "enum" | "fixed" as kind}:
                return self._define(kind, schema, namespace, path, depth)
            case {"type": inner} if isinstance(inner, dict | list | str):
                return self.layout(inner, namespace, path, depth + 1)
            case _:
                raise _bad("expected a type of Avro: a name, a list or an object with its type", path)

    def _by_name(self, name: str, namespace: str, path: str) -> Layout:
        if name in PRIMITIVES:
            return Primitive(name, PRIMITIVES[name])
        if name == "null":
            raise _bad("null alone cannot be a column", path)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        known = full if full in self._named else name
        if known not in self._named:
            raise _bad(f"unknown type {name[:64]!r}", path)
        layout = self._named[known]
        if layout is None:
            raise _bad(f"the type {name[:64]!r} contains itself, so it cannot be columns", path)
        return layout

    def _union(self, options: list[Any], namespace: str, path: str, depth: int) -> Layout:
        real = [option for option in options if option != "null"]
        if len(real) != 1 or len(options) - len(real) > 1:
            raise _bad("a union may only be one type, or one type and null: a column has one type", path)
        inner = self.layout(real[0], namespace, path, depth + 1)
        if isinstance(inner, Optional):
            raise _bad("a union may not directly contain another", path)
        return Optional(inner, options.index("null") if "null" in options else None, len(options))

    def _define(self, kind: str, schema: dict[str, Any], namespace: str, path: str, depth: int) -> Layout:
        full, inner_namespace = full_name(schema, namespace, path)
        if full in self._named:
            raise _bad(f"the name {full[:64]!r} is defined twice", path)
        self._named[full] = None
        match kind:
            case "fixed":
                layout = _fixed(schema, path)
            case "enum":
                layout = _choice(schema, path)
            case _:
                layout = self._record(schema, inner_namespace, path, depth)
        self._named[full] = layout
        return layout

    def _record(self, schema: dict[str, Any], namespace: str, path: str, depth: int) -> Record:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields or len(fields) > COLUMNS_MAX:
            raise _bad('"fields" is a list of at least one field', path, limit=COLUMNS_MAX)
        names: list[str] = []
        layouts: list[Layout] = []
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                raise _bad("a field is an object with a name and a type", path)
            names.append(field["name"])
            layouts.append(self.layout(field["type"], namespace, joined(path, field["name"]), depth + 1))
        return Record(tuple(names), tuple(layouts), tuple("default" in field for field in fields))


def full_name(schema: dict[str, Any], namespace: str, path: str = "") -> tuple[str, str]:
    """The name of a named type with its namespace, and the namespace that holds inside it."""
    name = schema.get("name")
    inside = schema.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(inside, str) or not FULL_NAME.fullmatch(name):
        raise _bad(f"a record, enum or fixed needs a name of letters and digits, not {str(name)[:64]!r}", path)
    full = name if "." in name or not inside else f"{inside}.{name}"
    return full, full.rpartition(".")[0]


def _fixed(schema: dict[str, Any], path: str) -> Layout:
    size = schema.get("size")
    if type(size) is not int or not 0 < size <= FIXED_BYTES_MAX:
        raise _bad('"size" of a fixed is a whole number', path, limit=FIXED_BYTES_MAX)
    if schema.get("logicalType") == "decimal":
        return Number(_decimal(schema, path), size)
    return Fixed(size)


def _choice(schema: dict[str, Any], path: str) -> Choice:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
        raise _bad('"symbols" is a list of names', path)
    if len(symbols) > ENUM_VALUES_MAX or len(set(symbols)) < len(symbols):
        raise _bad("symbols are all different, and not too many", path, limit=ENUM_VALUES_MAX)
    return Choice(tuple(symbols))


def _logical(name: str, schema: dict[str, Any], path: str) -> Layout:
    logical = schema.get("logicalType")
    if name == "bytes" and logical == "decimal":
        return Number(_decimal(schema, path), None)
    if isinstance(logical, str) and (name, logical) in LOGICAL:
        return Primitive(name, LOGICAL[name, logical], logical.endswith("-millis"))
    return Primitive(name, PRIMITIVES[name])


def _decimal(schema: dict[str, Any], path: str) -> DecimalType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 < precision <= PRECISION_MAX:
        raise _bad("a decimal has a precision and perhaps a scale", path, limit=PRECISION_MAX)
    return DecimalType(precision, scale)


# --- as columns ------------------------------------------------------------------------------------------------------


def _struct(record: Record, path: str) -> StructOf:
    """Closed: the bytes of a record leave no room for other fields."""
    columns = (
        Column(name, _shape(layout, joined(path, name)), required=not with_default)
        for name, layout, with_default in zip(record.names, record.layouts, record.with_default, strict=True)
    )
    return StructOf(tuple(columns), closed=True)


def _shape(layout: Layout, path: str) -> Shape:
    match layout:
        case Optional(inner=inner, null_branch=null_branch):
            shape = _shape(inner, path)
            return Shape(shape.type, null_branch is not None, shape.checks)
        case Choice(symbols=symbols):
            return Shape(Scalar.STRING, False, Checks(enum=symbols))
        case _:
            return Shape(_type(layout, path), False)


def _type(layout: Primitive | Number | Fixed | Items | Entries | Record, path: str) -> Type:
    match layout:
        case Primitive(scalar=scalar):
            return scalar
        case Number(decimal=decimal):
            return decimal
        case Fixed():
            return Scalar.BINARY
        case Items(item=item):
            return ListOf(_shape(item, f"{path}[]"))
        case Entries(value=value):
            return MapOf(_shape(value, f"{path}{{}}"))
        case Record():
            return _struct(layout, path)


def _bad(what: str, path: str, **facts: object) -> BadSchema:
    return BadSchema(what, at=path or "$", **facts)
