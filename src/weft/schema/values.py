"""What a schema says, whatever language it was written in: named columns with types and checks. Pure, without Arrow.

A ``Shape`` is what one value must be: its type, whether it may be null, and the checks. A ``Column`` is a shape with a
name that may have to be there. Types nest: lists, maps with text keys, and structs, which are columns again.

What does not fit a type cannot be put into a column, so it is rescued. What breaks a check is a value of the right type
and stays in its column. Both are faults. (docs/schemas.md)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from weft.errors import UsageError
from weft.limits import KIB

TEXT_BYTES_MAX: Final = 64 * KIB  # of one schema: as nodes keep and send them; 1,000 columns take about half of it
DEPTH_MAX: Final = 16  # of types in types: tables of ten levels are rare, and every reader recurses
COLUMNS_MAX: Final = 1_000  # of all levels together: wider tables are slow everywhere
NAME_CHARS_MAX: Final = 255  # of one column, as tables allow
ENUM_VALUES_MAX: Final = 1_000  # of one column
PRECISION_MAX: Final = 38  # of a decimal, in Spark and in Arrow's 128 bits

RESCUED: Final = "_rescued"  # columns that readers add: what does not fit, as JSON
CORRUPT: Final = "_corrupt"  # and the payloads that cannot be read at all
RESERVED: Final = frozenset({RESCUED, CORRUPT})


class BadSchema(UsageError):
    """Not a schema, or one that cannot be checked; the text says what is wrong, and the fact ``at`` where."""


class Kind(StrEnum):
    """The language of a schema, and so what the payloads are: JSON for the first two, Avro for the third."""

    JSON_SCHEMA = "json"
    DDL = "ddl"
    AVRO = "avro"


class Scalar(StrEnum):
    """A type without parts. The values are the names in SQL."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"  # base64 in JSON
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"  # a moment: with a time zone in JSON
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"  # a time on a wall: without one
    JSON = "JSON"  # any JSON value, kept as its text


INTEGER_BITS: Final = {Scalar.TINYINT: 8, Scalar.SMALLINT: 16, Scalar.INT: 32, Scalar.BIGINT: 64}
FLOAT_MAX: Final = 3.4028234663852886e38  # the largest of 32 bits


@dataclass(frozen=True, slots=True)
class DecimalType:
    """``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Shape
    length_min: int | None = None
    length_max: int | None = None

    def __str__(self) -> str:
        return f"ARRAY<{self.item.type}>"


@dataclass(frozen=True, slots=True)
class MapOf:
    """From text to values of one shape."""

    value: Shape

    def __str__(self) -> str:
        return f"MAP<STRING, {self.value.type}>"


@dataclass(frozen=True, slots=True)
class StructOf:
    columns: tuple[Column, ...]
    closed: bool = False  # whether a field that is not named here is a fault

    def __str__(self) -> str:
        inner = ", ".join(f"{quoted_name(column.name)}: {column.type}" for column in self.columns)
        return f"STRUCT<{inner}>"


Type: TypeAlias = Scalar | DecimalType | ListOf | MapOf | StructOf


@dataclass(frozen=True, slots=True)
class Checks:
    """What a value of the right type must keep besides. Bounds of integers are always inclusive."""

    enum: tuple[str | int, ...] | None = None
    minimum: float | int | None = None
    maximum: float | int | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None
    length_min: int | None = None  # of text, in characters
    length_max: int | None = None
    pattern: str | None = None  # found anywhere in the text; RE2's language, which needs no trust

    def __bool__(self) -> bool:
        return self != NO_CHECKS


NO_CHECKS: Final = Checks()


@dataclass(frozen=True, slots=True)
class Shape:
    """What one value must be."""

    type: Type
    nullable: bool = True
    checks: Checks = NO_CHECKS


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    shape: Shape
    required: bool = False  # whether the field must be there; that it may be null then is the shape's

    @property
    def type(self) -> Type:
        return self.shape.type

    def __str__(self) -> str:
        strict = " NOT NULL" if self.required and not self.shape.nullable else ""
        return f"{quoted_name(self.name)} {self.type}{strict}"


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that was read: its text, and what the text says. Two are equal if kind and text are."""

    kind: Kind
    text: str
    root: StructOf = field(compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.root.columns

    @property
    def closed(self) -> bool:
        return self.root.closed

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.root.columns]

    def __str__(self) -> str:
        return ", ".join(map(str, self.root.columns))


def quoted_name(name: str) -> str:
    """A name as SQL writes it: in backticks unless it is a plain word."""
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"


def walk(shape: Shape, path: str = "") -> Iterator[tuple[str, Shape]]:
    """The shape and all shapes inside it, with the paths of their fields."""
    yield path, shape
    match shape.type:
        case ListOf(item=item):
            yield from walk(item, f"{path}[]")
        case MapOf(value=value):
            yield from walk(value, f"{path}{{}}")
        case StructOf(columns=columns):
            for column in columns:
                yield from walk(column.shape, joined(path, column.name))
        case _:
            pass


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def checked(schema: Schema) -> Schema:
    """The schema, if it keeps the bounds that hold for every kind: else BadSchema."""
    if not schema.columns:
        raise BadSchema("a schema needs at least one column")
    _check_struct(schema.root, "", 1, [0])
    for name in schema.names:
        if name.casefold() in RESERVED:
            raise BadSchema(f'the name "{name}" is taken: readers add a column of that name', at=name)
    return schema


def _check_struct(struct: StructOf, path: str, depth: int, count: list[int]) -> None:
    count[0] += len(struct.columns)
    if count[0] > COLUMNS_MAX:
        raise BadSchema("too many columns", at=path or "the schema", limit=COLUMNS_MAX)
    seen: dict[str, str] = {}
    for column in struct.columns:
        where = joined(path, column.name)
        if not 0 < len(column.name) <= NAME_CHARS_MAX or not column.name.isprintable():
            raise BadSchema(
                "a column's name has visible characters only", at=repr(column.name[:64]), limit=NAME_CHARS_MAX
            )
        if (other := seen.setdefault(column.name.casefold(), column.name)) is not column.name:
            raise BadSchema(f'tables cannot tell these two columns apart: "{other}" and "{column.name}"', at=where)
        _check_type(column.type, where, depth, count)


def _check_type(kind: Type, path: str, depth: int, count: list[int]) -> None:
    if depth > DEPTH_MAX:
        raise BadSchema("types are nested too deep", at=path, limit=DEPTH_MAX)
    match kind:
        case ListOf(item=inner):
            _check_type(inner.type, f"{path}[]", depth + 1, count)
        case MapOf(value=inner):
            _check_type(inner.type, f"{path}{{}}", depth + 1, count)
        case StructOf(columns=columns):
            if not columns:
                raise BadSchema("a struct needs at least one field", at=path)
            _check_struct(kind, path, depth + 1, count)
        case DecimalType(precision=precision, scale=scale):
            if not (1 <= precision <= PRECISION_MAX and 0 <= scale <= precision):
                raise BadSchema(f"{kind}: a decimal has 1 to {PRECISION_MAX} digits, the scale included", at=path)
        case _:
            pass
