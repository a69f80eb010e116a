"""JSON payloads under a schema, fast: the schema becomes a type of msgspec, which reads and checks in one pass in C.

Measured on the 2-core machines we use, 1,000 events of 206 bytes with nine columns: msgspec 0.35 ms, Arrow's JSON
reader with the same schema 1.3 ms (and 0.18 ms for one event alone), so it is msgspec (ADR 44). What it refuses, and
the few things that it cannot check, are asked of the slow definition, payload by payload: one bad event costs one slow
look.
"""

from __future__ import annotations

import datetime
import decimal
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw
from msgspec.structs import astuple

from weft.schema.definition import UNREADABLE, Moment, Row, WallTime, decimal_of, read_row, rescued_of
from weft.schema.errors import Fault
from weft.schema.patterns import matching
from weft.schema.values import (
    FLOAT_MAX,
    INTEGER_BITS,
    Checks,
    Column,
    DecimalType,
    ListOf,
    MapOf,
    Scalar,
    Schema,
    Shape,
    StructOf,
    walk,
)

COMPILED_MAX: Final = 256  # schemas that are kept ready: as many as a node may have, and their versions
EDGE_YEARS: Final = (datetime.MINYEAR, datetime.MAXYEAR)  # where a time zone leads out of the calendar

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])

Verify = Callable[[Any], bool]


@functools.lru_cache(COMPILED_MAX)
def json_decoder(schema: Schema) -> JsonDecoder:
    """The decoder of a schema, made once."""
    return JsonDecoder(schema)


class JsonDecoder:
    """Reads and checks JSON payloads under one schema. Every answer is the slow definition's."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._checking: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_struct(schema.root, sealed=False))
        self._reading: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_struct(schema.root, sealed=True))
        open_type = _struct(schema.root, sealed=True, is_open=True)
        self._with_more: msgspec.json.Decoder[Any] = msgspec.json.Decoder(open_type)
        self._known = frozenset(schema.names)
        # What msgspec cannot check, column by column: first with Python, then patterns, a whole column at once.
        odd = [(at, column) for at, column in enumerate(schema.columns) if _is_odd(column)]
        self._times = [at for at, column in odd if column.type is Scalar.TIMESTAMP]
        self._verify = [(at, _verifier(column.shape)) for at, column in odd if column.type is not Scalar.TIMESTAMP]
        self._patterns = [
            (at, column.shape.checks.pattern)
            for at, column in enumerate(schema.columns)
            if column.shape.checks.pattern is not None
        ]

    def suspects(self, payloads: Sequence[bytes]) -> set[int]:
        """The places of payloads that msgspec refuses, or in which something is wrong that it cannot check."""
        is_odd = bool(self._times or self._verify or self._patterns)
        rows, suspects = self._decode(self._checking.decode, payloads, keep=is_odd)
        return suspects | self._broken(rows)

    def fault(self, payload: bytes) -> Fault | None:
        return read_row(self._schema, payload).fault

    def rows(self, payloads: Sequence[bytes]) -> tuple[list[Sequence[Any]], dict[int, Row]]:
        """A sequence of values for each payload, and by place the full result of each payload that has a fault or
        unknown fields.
        """
        rows, suspects = self._decode(self._reading.decode, payloads, keep=True)
        suspects |= self._broken(rows)
        slow = self._rows_with_more(payloads, sorted(suspects))
        for at in suspects - slow.keys():
            slow[at] = read_row(self._schema, payloads[at])
        for at, row in slow.items():
            rows[at] = row.values
        return rows, {at: row for at, row in slow.items() if row.fault is not None or row.rescued is not None}

    def _rows_with_more(self, payloads: Sequence[bytes], suspects: Sequence[int]) -> dict[int, Row]:
        """Those in which nothing is odd but fields that the schema does not name, by place: many events have some."""
        some = [payloads[at] for at in suspects]
        rows, refused = self._decode(self._with_more.decode, some, keep=True)
        refused |= self._broken(rows)
        found: dict[int, Row] = {}
        for place, (at, payload) in enumerate(zip(suspects, some, strict=True)):
            if place not in refused:
                unnamed = {name: raw for name, raw in _FIELDS.decode(payload).items() if name not in self._known}
                found[at] = Row(tuple(rows[place]), *rescued_of(unnamed, self._schema.closed))
        return found

    def _decode(
        self, decode: Callable[[bytes], Any], payloads: Iterable[bytes], *, keep: bool
    ) -> tuple[list[Sequence[Any]], set[int]]:
        """Their values (if they are kept), empty where msgspec refuses; and the places of those that it refuses."""
        rows: list[Sequence[Any]] = []
        suspects: set[int] = set()
        for at, payload in enumerate(payloads):
            try:
                if not payload.isascii():
                    payload.decode()  # fields that are skipped are not looked at (ADR 14)
                row = decode(payload)
            except UNREADABLE:
                row = None
                suspects.add(at)
            if keep:
                rows.append(() if row is None else astuple(row))
        return rows, suspects

    def _broken(self, rows: Sequence[Sequence[Any]]) -> set[int]:
        """The places of rows in which something is wrong, or may be, that msgspec cannot check."""
        broken: set[int] = set()
        for column in self._times:
            values = [row[column] if row else None for row in rows]
            broken |= {at for at, value in enumerate(values) if value is not None and value.year in EDGE_YEARS}
        for column, verify in self._verify:
            broken |= {at for at, row in enumerate(rows) if row and not verify(row[column])}
        for column, pattern in self._patterns:
            found = matching([row[column] if row else None for row in rows], pattern)
            broken |= {at for at, each in enumerate(found) if each is False}
        return broken


# --- a schema as a type of msgspec -----------------------------------------------------------------------------------


def _struct(struct: StructOf, sealed: bool, is_open: bool = False) -> type[msgspec.Struct]:
    """The type of an object. ``sealed``: fields that are not named are refused at every level, closed or not;
    ``is_open``: but for this one."""
    fields: list[tuple[str, Any] | tuple[str, Any, None]] = []
    for at, column in enumerate(struct.columns):
        kind = _kind(column.shape, sealed)
        fields.append((f"f{at}", kind) if column.required else (f"f{at}", kind, None))
    return msgspec.defstruct(
        "Fields",
        fields,
        rename={f"f{at}": column.name for at, column in enumerate(struct.columns)},
        forbid_unknown_fields=(sealed or struct.closed) and not is_open,
        kw_only=True,  # else fields that must be there could not follow others
        gc=False,  # JSON has no cycles
    )


def _kind(shape: Shape, sealed: bool) -> Any:
    match shape.type:
        case ListOf(item=item, length_min=length_min, length_max=length_max):
            kind: Any = Annotated[list[_kind(item, sealed)], Meta(min_length=length_min, max_length=length_max)]  # type: ignore[misc]
        case MapOf(value=value):
            kind = dict[str, _kind(value, sealed)]  # type: ignore[misc]
        case StructOf():
            kind = _struct(shape.type, sealed)
        case DecimalType():
            kind = decimal.Decimal
        case Scalar.JSON:
            return Raw  # null included
        case Scalar():
            kind = _scalar(shape.type, shape.checks)
    return kind | None if shape.nullable else kind


def _scalar(kind: Scalar, checks: Checks) -> Any:
    if checks.enum is not None:
        return Literal[checks.enum]
    match kind:
        case Scalar.BOOLEAN:
            return bool
        case Scalar.STRING:
            if checks.length_min is None and checks.length_max is None:
                return str
            return Annotated[str, Meta(min_length=checks.length_min, max_length=checks.length_max)]
        case Scalar.BINARY:
            return bytes
        case Scalar.DATE:
            return datetime.date
        case Scalar.TIMESTAMP:
            return Moment
        case Scalar.TIMESTAMP_NTZ:
            return WallTime
        case Scalar.FLOAT | Scalar.DOUBLE:
            return _float(kind, checks)
        case _:
            bits = INTEGER_BITS[kind] - 1
            low = max([-(1 << bits), *([] if checks.minimum is None else [int(checks.minimum)])])
            high = min([(1 << bits) - 1, *([] if checks.maximum is None else [int(checks.maximum)])])
            return Annotated[int, Meta(ge=low, le=high)]


def _float(kind: Scalar, checks: Checks) -> Any:
    """Of an inclusive and an exclusive bound msgspec takes one: the narrower."""
    lows = [(checks.minimum, "ge"), (checks.exclusive_minimum, "gt")]  # of equal ones the exclusive is narrower
    highs = [(checks.maximum, "le"), (checks.exclusive_maximum, "lt")]
    if kind is Scalar.FLOAT:
        lows.append((-FLOAT_MAX, "ge"))
        highs.append((FLOAT_MAX, "le"))
    bounds: dict[str, Any] = {}
    if given := [(value, word == "gt", word) for value, word in lows if value is not None]:
        bounds[max(given)[2]] = max(given)[0]
    if given := [(-value, word == "lt", word) for value, word in highs if value is not None]:
        bounds[max(given)[2]] = -max(given)[0]
    return Annotated[float, Meta(**bounds)] if bounds else float


# --- what msgspec cannot check ---------------------------------------------------------------------------------------


def _is_odd(column: Column) -> bool:
    return any(_is_odd_alone(shape, path != column.name) for path, shape in walk(column.shape, column.name))


def _is_odd_alone(shape: Shape, inside: bool) -> bool:
    if isinstance(shape.type, DecimalType) or shape.type is Scalar.TIMESTAMP:
        return True
    if shape.type is Scalar.JSON:
        return not shape.nullable
    return inside and shape.checks.pattern is not None


def _verifier(shape: Shape, inside: bool = False) -> Verify:
    """Whether a value of this shape is surely right. False sends the whole payload to the slow definition."""
    match shape.type:
        case DecimalType() as kind:
            return lambda value: value is None or decimal_of(kind, value) is not None
        case Scalar.TIMESTAMP:
            return lambda value: value is None or value.year not in EDGE_YEARS
        case Scalar.JSON:
            return lambda value: shape.nullable or value is None or bytes(value) != b"null"
        case ListOf(item=item):
            verify_item = _verifier(item, True)
            return lambda value: value is None or all(map(verify_item, value))
        case MapOf(value=inner):
            verify_value = _verifier(inner, True)
            return lambda value: value is None or all(map(verify_value, value.values()))
        case StructOf(columns=columns):
            verify_each = [_verifier(column.shape, True) for column in columns]
            return lambda value: (
                value is None or all(verify(part) for verify, part in zip(verify_each, astuple(value), strict=True))
            )
        case Scalar():
            pattern = shape.checks.pattern if inside else None
            return lambda value: value is None or pattern is None
