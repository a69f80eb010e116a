"""The slow definition: what one JSON payload is under a schema. Every faster way gives the same answer, and asks here
about the payloads that it cannot take.

- A payload that is no JSON object (or not UTF-8) is **corrupt**: no column has a value.
- A field that the schema names and whose value has its type is that column's value. Null and absent give null.
- A field whose value does not have the type is **rescued** whole, and its column is null. So is a field that the schema
  does not name, unless it is null. A value that fits but has parts which the schema does not name is in the column
  without them, and rescued whole.
- A **fault** is the first thing that the schema forbids: columns in their order, then fields that it does not name.

Of a name that occurs twice the last value counts. A whole number may be written as 1.0 or 1e3.
"""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import DecodeError, Meta, Raw

from weft.schema.errors import Fault
from weft.schema.patterns import matching
from weft.schema.values import (
    FLOAT_MAX,
    INTEGER_BITS,
    Checks,
    DecimalType,
    ListOf,
    MapOf,
    Scalar,
    Schema,
    Shape,
    StructOf,
    joined,
)

DIGITS_MAX: Final = 400  # before the point, of a number that is looked at as a whole one: no type here has as many
PLAIN: Final = frozenset({Scalar.BOOLEAN, Scalar.STRING, Scalar.FLOAT, Scalar.DOUBLE, *INTEGER_BITS})
UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError)  # what msgspec raises of a payload

Moment = Annotated[datetime.datetime, Meta(tz=True)]
WallTime = Annotated[datetime.datetime, Meta(tz=False)]


@dataclass(frozen=True, slots=True)
class Row:
    """One payload as it was read."""

    values: tuple[object, ...]  # one per column
    rescued: str | None = None  # a JSON object of everything that is not in the columns
    corrupt: bool = False
    fault: Fault | None = None


class _Unfit(Exception):
    """The value does not have the type."""

    def __init__(self, path: str, reason: str) -> None:
        self.fault = Fault(path, reason)


class _Fit(NamedTuple):
    value: object
    whole: bool = True  # whether the value has all that the payload said
    fault: Fault | None = None


def read_row(schema: Schema, payload: bytes) -> Row:
    """What ``payload`` is; nothing it may contain raises."""
    try:
        if not payload.isascii():
            payload.decode()  # what is skipped is not looked at below (ADR 14)
        fields = _FIELDS.decode(payload)
    except UNREADABLE as error:
        return Row((None,) * len(schema.columns), corrupt=True, fault=Fault("", _unreadable(error)))
    values: list[object] = []
    rescued: dict[str, Raw] = {}
    first: Fault | None = None
    for column in schema.columns:
        raw = fields.pop(column.name, None)
        if raw is None:
            fit = _Fit(None, fault=Fault(column.name, "is required") if column.required else None)
        else:
            try:
                fit = _fit(column.shape, bytes(raw), column.name)
            except _Unfit as unfit:
                fit = _Fit(None, False, unfit.fault)
            if not fit.whole:
                rescued[column.name] = raw
        values.append(fit.value)
        first = first or fit.fault
    rescued |= {name: raw for name, raw in fields.items() if bytes(raw) != b"null"}
    return Row(tuple(values), _rescued_text(rescued), fault=first or _unnamed_fault(fields, schema.closed))


def rescued_of(unnamed: dict[str, Raw], is_closed: bool) -> tuple[str | None, bool, Fault | None]:
    """The rest of a Row in which all columns are fine, and these fields stand besides."""
    rescued = {name: raw for name, raw in unnamed.items() if bytes(raw) != b"null"}
    return _rescued_text(rescued), False, _unnamed_fault(unnamed, is_closed)


def _unnamed_fault(unnamed: dict[str, Raw], is_closed: bool) -> Fault | None:
    return Fault(next(iter(unnamed)), "is not in the schema") if is_closed and unnamed else None


def _rescued_text(rescued: dict[str, Raw]) -> str | None:
    """Each value in the words of the payload: a number keeps all of its digits."""
    return msgspec.json.encode(rescued).decode() if rescued else None


def _fit(shape: Shape, raw: bytes, path: str) -> _Fit:
    """The value that the JSON text ``raw`` is to this shape, or _Unfit."""
    if raw == b"null":
        return _Fit(None, fault=None if shape.nullable else Fault(path, "may not be null"))
    match shape.type:
        case ListOf():
            return _fit_list(shape.type, raw, path)
        case MapOf(value=item_shape):
            inner = {
                name: _fit(item_shape, bytes(item), joined(path, name)) for name, item in _object(raw, path).items()
            }
            fault = next((each.fault for each in inner.values() if each.fault), None)
            whole = all(each.whole for each in inner.values())
            return _Fit({name: each.value for name, each in inner.items()}, whole, fault)
        case StructOf():
            return _fit_struct(shape.type, raw, path)
        case DecimalType() | Scalar():
            value = _scalar(shape.type, raw, path)
            broken = broken_check(shape.checks, value)
            return _Fit(value, fault=Fault(path, broken) if broken else None)


def _fit_list(kind: ListOf, raw: bytes, path: str) -> _Fit:
    try:
        items = _ITEMS.decode(raw)
    except DecodeError:
        raise _Unfit(path, f"expected a list, found {_found(raw)}") from None
    inner = _fit_scalars(kind.item, raw, items, path) if kind.item.type in PLAIN else None
    if inner is None:
        inner = [_fit(kind.item, bytes(item), f"{path}[{at}]") for at, item in enumerate(items)]
    fault = next((each.fault for each in inner if each.fault), None)
    if kind.length_min is not None and len(items) < kind.length_min:
        fault = Fault(path, f"has fewer than {kind.length_min} items")
    elif kind.length_max is not None and len(items) > kind.length_max:
        fault = Fault(path, f"has more than {kind.length_max} items")
    return _Fit([each.value for each in inner], all(each.whole for each in inner), fault)


def _fit_scalars(item: Shape, raw: bytes, items: list[Raw], path: str) -> list[_Fit] | None:
    """Many plain values at once, ten times as fast as one by one: a list may have a hundred thousand. None: cannot."""
    try:
        values = _VALUES.decode(raw)
    except DecodeError:  # a number of too many digits
        return None
    kind = item.type
    assert isinstance(kind, Scalar), "it is one of PLAIN"
    fits: list[_Fit] = []
    has_checks = bool(item.checks)
    for at, given in enumerate(values):
        value = None if given is None else _converted(kind, given)
        if value is None or has_checks:
            fits.append(_fit(item, bytes(items[at]), f"{path}[{at}]"))
        else:
            fits.append(_Fit(value))
    return fits


def _fit_struct(kind: StructOf, raw: bytes, path: str) -> _Fit:
    fields = _object(raw, path)
    values: list[object] = []
    whole, first = True, None
    for column in kind.columns:
        where = joined(path, column.name)
        item = fields.pop(column.name, None)
        if item is None:
            fit = _Fit(None, fault=Fault(where, "is required") if column.required else None)
        else:
            fit = _fit(column.shape, bytes(item), where)
        values.append(fit.value)
        whole, first = whole and fit.whole, first or fit.fault
    for name, item in fields.items():
        if kind.closed and first is None:
            first = Fault(joined(path, name), "is not in the schema")
        whole = whole and bytes(item) == b"null"
    return _Fit(tuple(values), whole, first)


def _object(raw: bytes, path: str) -> dict[str, Raw]:
    try:
        return _FIELDS.decode(raw)
    except DecodeError:
        raise _Unfit(path, f"expected an object, found {_found(raw)}") from None


def _scalar(kind: Scalar | DecimalType, raw: bytes, path: str) -> object:
    """The value of this type that the text is, or _Unfit."""
    match kind:
        case Scalar.JSON:
            return raw.decode()
        case Scalar.BINARY | Scalar.DATE | Scalar.TIMESTAMP | Scalar.TIMESTAMP_NTZ:
            return _from_text(kind, raw, path)
        case _:
            pass
    try:
        given = _VALUE.decode(raw)
    except DecodeError:
        raise _Unfit(path, "a number of too many digits") from None
    value = _converted(kind, given)
    if value is None:
        raise _Unfit(path, f"expected {kind}, found {_found(raw)}")
    return value


def _converted(kind: Scalar | DecimalType, given: object) -> object:
    """``given`` (text, bool, int, or Decimal for numbers with a point) as the type stores it; None: it does not fit."""
    match kind, given:
        case DecimalType(), str():
            return decimal_of(kind, _number_of(given))
        case DecimalType(), bool():
            return None
        case DecimalType(), int():
            return decimal_of(kind, decimal.Decimal(given)) if given.bit_length() < DIGITS_MAX else None
        case DecimalType(), decimal.Decimal():
            return decimal_of(kind, given)
        case Scalar.BOOLEAN, bool():
            return given
        case Scalar.STRING, str():
            return given
        case ((Scalar.FLOAT | Scalar.DOUBLE), int() | decimal.Decimal()) if not isinstance(given, bool):
            return _float_of(given, FLOAT_MAX if kind is Scalar.FLOAT else None)
        case Scalar(), int() | decimal.Decimal() if kind in INTEGER_BITS and not isinstance(given, bool):
            whole = _whole_of(given)
            bits = INTEGER_BITS[kind] - 1
            return whole if whole is not None and -(1 << bits) <= whole < 1 << bits else None
        case _:
            return None


def _whole_of(given: int | decimal.Decimal) -> int | None:
    if isinstance(given, int):
        return given
    if given.is_finite() and given.adjusted() < DIGITS_MAX and given == given.to_integral_value():
        return int(given)
    return None


def _float_of(given: int | decimal.Decimal, most: float | None) -> float | None:
    try:
        value = float(given)
    except OverflowError:
        return None
    if abs(value) == float("inf") or (most is not None and abs(value) > most):
        return None
    return value


def _number_of(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        return decimal.Decimal("NaN")


def decimal_of(kind: DecimalType, value: decimal.Decimal) -> decimal.Decimal | None:
    """The same number with the type's scale; None if digits would be lost, or there are too many."""
    if value.is_zero():
        value = decimal.Decimal(0)  # whatever its exponent
    elif not value.is_finite() or value.adjusted() >= kind.precision - kind.scale:
        return None
    scaled = value.quantize(decimal.Decimal((0, (1,), -kind.scale)), context=_WIDE)
    return scaled if scaled == value else None


def _from_text(kind: Scalar, raw: bytes, path: str) -> object:
    """Types that JSON has as texts of a certain form."""
    match kind:
        case Scalar.BINARY:
            reader: msgspec.json.Decoder[Any] = _BINARY
            form = "base64"
        case Scalar.DATE:
            reader, form = _DATE, "a date like 2026-05-01"
        case Scalar.TIMESTAMP:
            reader, form = _MOMENT, "a time with its zone like 2026-05-01T12:00:00Z"
        case _:
            reader, form = _WALL_TIME, "a time without a zone like 2026-05-01T12:00:00"
    try:
        value = reader.decode(raw)
        return value.astimezone(datetime.UTC) if kind is Scalar.TIMESTAMP else value
    except (DecodeError, OverflowError):
        found = _found(raw)
        raise _Unfit(path, f"expected {form}, found {'other text' if found == 'text' else found}") from None


def broken_check(checks: Checks, value: Any) -> str | None:
    """What of the checks a value of the right type does not keep; None: it keeps them all."""
    if checks.enum is not None and value not in checks.enum:
        shown = ", ".join(map(str, checks.enum[:5])) + (", ..." if len(checks.enum) > 5 else "")
        return f"is none of {shown}"
    if checks.minimum is not None and value < checks.minimum:
        return f"is below the minimum {checks.minimum}"
    if checks.maximum is not None and value > checks.maximum:
        return f"is above the maximum {checks.maximum}"
    if checks.exclusive_minimum is not None and value <= checks.exclusive_minimum:
        return f"is not above {checks.exclusive_minimum}"
    if checks.exclusive_maximum is not None and value >= checks.exclusive_maximum:
        return f"is not below {checks.exclusive_maximum}"
    if checks.length_min is not None and len(value) < checks.length_min:
        return f"has fewer than {checks.length_min} characters"
    if checks.length_max is not None and len(value) > checks.length_max:
        return f"has more than {checks.length_max} characters"
    if checks.pattern is not None and not matching([value], checks.pattern)[0]:
        return f"does not match {checks.pattern[:64]}"
    return None


def _found(raw: bytes) -> str:
    """What a JSON text is, in a word."""
    match raw[:1]:
        case b'"':
            return "text"
        case b"{":
            return "an object"
        case b"[":
            return "a list"
        case b"t" | b"f":
            return "a boolean"
        case b"n":
            return "null"
        case _:
            return f"the number {raw.decode()}" if len(raw) <= 24 else "a number that does not fit"


def _unreadable(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "the payload is not UTF-8"
        case RecursionError():
            return "the payload is nested too deep"
        case msgspec.ValidationError():
            return "the payload is not a JSON object"
        case _:
            return f"the payload is not JSON: {str(error).removeprefix('JSON is malformed: ')}"


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:  # an exponent beyond all bounds
        return decimal.Decimal("Infinity")


_WIDE: Final = decimal.Context(prec=100)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: Final = msgspec.json.Decoder(list[Raw])
_VALUE: Final = msgspec.json.Decoder(Any, float_hook=_decimal)
_VALUES: Final = msgspec.json.Decoder(list[Any], float_hook=_decimal)
_BINARY: Final = msgspec.json.Decoder(bytes)
_DATE: Final = msgspec.json.Decoder(datetime.date)
_MOMENT: Final = msgspec.json.Decoder(Moment)
_WALL_TIME: Final = msgspec.json.Decoder(WallTime)
