"""Avro payloads under a schema: one binary datum each, plain or in the single-object encoding.

A plain datum is read with the topic's schema. The single-object encoding (C3 01, the fingerprint of the writer's
schema, the datum) says which version wrote it: one of the versions that the topic has. Fields are matched by name then;
those that the schema of the reader does not have are rescued, as JSON.

Every payload is hostile: lengths are checked before anything is sliced or made, and a count of items may not be larger
than the bytes that are left (items without bytes, nulls and empty records, do not exist here).
"""

from __future__ import annotations

import datetime
import decimal
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from weft.schema.avro_fingerprint import fingerprint
from weft.schema.avro_schema import (
    Choice,
    Entries,
    Fixed,
    Items,
    Layout,
    Number,
    Optional,
    Primitive,
    Record,
    avro_layout,
)
from weft.schema.definition import Row, broken_check, decimal_of
from weft.schema.errors import Fault
from weft.schema.values import ListOf, MapOf, Scalar, Schema, Shape, StructOf

SINGLE_OBJECT: Final = b"\xc3\x01"
FINGERPRINT_BYTES: Final = 8
VARINT_BYTES_MAX: Final = 10  # 64 bits, seven in each
EPOCH: Final = datetime.datetime(1970, 1, 1)
EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
EPOCH_DAY: Final = datetime.date(1970, 1, 1)
FLOAT: Final = struct.Struct("<f")
DOUBLE: Final = struct.Struct("<d")

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]  # what stands at a place, and the place behind it


class _Bad(Exception):
    """The bytes are no datum of the schema."""


@functools.lru_cache(256)
def avro_decoder(schema: Schema, others: tuple[Schema, ...]) -> AvroDecoder:
    return AvroDecoder(schema, others)


class AvroDecoder:
    """Reads and checks Avro payloads under one schema, written with it or with one of the others."""

    def __init__(self, schema: Schema, others: Sequence[Schema]) -> None:
        self._schema = schema
        self._plain = _Writer(schema, schema)
        self._writers = {fingerprint(other.text): _Writer(other, schema) for other in others}
        self._writers[fingerprint(schema.text)] = self._plain

    def suspects(self, payloads: Sequence[bytes]) -> set[int]:
        """There is no quicker look than to read them."""
        return set(range(len(payloads)))

    def fault(self, payload: bytes) -> Fault | None:
        return self._row(payload).fault

    def rows(self, payloads: Sequence[bytes]) -> tuple[list[Sequence[Any]], dict[int, Row]]:
        rows = [self._row(payload) for payload in payloads]
        slow = {at: row for at, row in enumerate(rows) if row.fault is not None or row.rescued is not None}
        return [row.values for row in rows], slow

    def _row(self, payload: bytes) -> Row:
        try:
            if not payload.startswith(SINGLE_OBJECT):
                return self._plain.row(payload, 0)
            begin = len(SINGLE_OBJECT) + FINGERPRINT_BYTES
            writer = self._writers.get(payload[len(SINGLE_OBJECT) : begin])
            if writer is not None:
                return writer.row(payload, begin)
            try:
                return self._plain.row(payload, 0)  # a plain datum may begin with these two bytes
            except _Bad:
                shown = payload[len(SINGLE_OBJECT) : begin].hex()
                raise _Bad(f"written with a schema that this topic does not have (fingerprint {shown})") from None
        except _Bad as bad:
            reason = f"the payload cannot be read as Avro: {bad}"
            return Row((None,) * len(self._schema.columns), corrupt=True, fault=Fault("", reason))


class _Writer:
    """Reads what was written with one version as columns of another, or of the same."""

    def __init__(self, writer: Schema, reader: Schema) -> None:
        self._read = _record(avro_layout(writer.text))
        self._is_same = writer == reader
        self._fit = _struct_fit(writer.root, reader.root)
        self._unknown = [
            (column.name, at) for at, column in enumerate(writer.columns) if column.name not in set(reader.names)
        ]
        self._places = {column.name: at for at, column in enumerate(writer.columns)}
        self._reader = reader

    def row(self, payload: bytes, at: int) -> Row:
        """The datum that begins at ``at`` and ends with the payload, or _Bad."""
        values, end = self._read(payload, at)
        if end != len(payload):
            raise _Bad(f"{len(payload) - end} bytes too many")
        return Row(values) if self._is_same else self._fitted(values)

    def _fitted(self, values: tuple[Any, ...]) -> Row:
        rescued: dict[str, Any] = {name: values[at] for name, at in self._unknown if values[at] is not None}
        fitted: list[Any] = []
        first: Fault | None = None
        for column, (value, fault) in zip(self._reader.columns, self._fit(values), strict=True):
            if value is _UNFIT:
                rescued[column.name] = values[self._places[column.name]]
            fitted.append(None if value is _UNFIT else value)
            first = first or (Fault(column.name, fault) if fault else None)
        return Row(tuple(fitted), msgspec.json.encode(rescued).decode() if rescued else None, fault=first)


# --- from one version to another -------------------------------------------------------------------------------------

_UNFIT: Final = object()  # the value has no place in the type of the reader
_Fitted: TypeAlias = tuple[Any, str | None]  # a value and what is wrong with it
WIDER: Final = [Scalar.INT, Scalar.BIGINT, Scalar.FLOAT, Scalar.DOUBLE]  # each fits the ones behind it, as in Avro


def _struct_fit(writer: StructOf, reader: StructOf) -> Callable[[tuple[Any, ...]], list[_Fitted]]:
    """Written values in, one fitted value per column of the reader out."""
    places = {column.name: (at, column.shape) for at, column in enumerate(writer.columns)}
    fits: list[tuple[int | None, Callable[[Any], _Fitted]]] = []
    for column in reader.columns:
        if column.name in places:
            at, shape = places[column.name]
            fits.append((at, _shape_fit(shape, column.shape)))
        else:
            absent: _Fitted = (None, "is required" if column.required else None)
            fits.append((None, lambda _, absent=absent: absent))  # type: ignore[misc]
    return lambda values: [fit(None if at is None else values[at]) for at, fit in fits]


def _shape_fit(writer: Shape, reader: Shape) -> Callable[[Any], _Fitted]:
    convert = _type_fit(writer, reader)
    misfit = f"expected {reader.type}, found {writer.type}"

    def fit(value: Any) -> _Fitted:
        if value is None:
            return None, None if reader.nullable else "may not be null"
        if convert is None:
            return _UNFIT, misfit
        value, fault = convert(value)
        return value, fault or (broken_check(reader.checks, value) if reader.checks and value is not _UNFIT else None)

    return fit


def _type_fit(writer: Shape, reader: Shape) -> Callable[[Any], _Fitted] | None:
    """How a written value becomes one of the reader's type; None: it cannot."""
    match writer.type, reader.type:
        case ListOf(item=one), ListOf(item=other):
            item = _shape_fit(one, other)
            return lambda values: _all_fit(list, [item(value) for value in values])
        case MapOf(value=one), MapOf(value=other):
            inner = _shape_fit(one, other)
            return lambda values: _all_fit(
                lambda fitted: dict(zip(values, fitted, strict=True)), [inner(value) for value in values.values()]
            )
        case StructOf(), StructOf():
            struct = _struct_fit(writer.type, reader.type)
            missing = {column.name for column in writer.type.columns} - {column.name for column in reader.type.columns}
            if missing:
                return None  # parts would be lost: the field is rescued whole
            return lambda values: _all_fit(tuple, struct(values))
        case Scalar() as one_type, Scalar() as other_type if one_type is not other_type:
            if one_type not in WIDER or other_type not in WIDER or WIDER.index(one_type) > WIDER.index(other_type):
                return None
            is_float = other_type in (Scalar.FLOAT, Scalar.DOUBLE)
            return (lambda value: (float(value), None)) if is_float else (lambda value: (value, None))
        case one_type, other_type:
            return (lambda value: (value, None)) if one_type == other_type else None


def _all_fit(make: Callable[[list[Any]], Any], parts: list[_Fitted]) -> _Fitted:
    fault = next((fault for _, fault in parts if fault), None)
    if any(value is _UNFIT for value, _ in parts):
        return _UNFIT, fault
    return make([value for value, _ in parts]), fault


# --- reading bytes ---------------------------------------------------------------------------------------------------


def _reader(layout: Layout) -> Read:
    match layout:
        case Primitive():
            return _primitive(layout)
        case Number(decimal=kind, size=size):
            return _number(kind, size)
        case Fixed(size=size):
            return lambda data, at: _sliced(data, at, size)
        case Choice(symbols=symbols):
            return _choice(symbols)
        case Items(item=item):
            return _items(_reader(item))
        case Entries(value=value):
            return _entries(_reader(value))
        case Optional(inner=inner, null_branch=null_branch, branches=branches):
            return _optional(_reader(inner), null_branch, branches)
        case Record():
            return _record(layout)


def _record(layout: Record) -> Callable[[bytes, int], tuple[tuple[Any, ...], int]]:
    readers = [_reader(each) for each in layout.layouts]

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        values = []
        for reader in readers:
            value, at = reader(data, at)
            values.append(value)
        return tuple(values), at

    return read


def _long(data: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag, seven bits a byte, the lowest first."""
    try:
        byte = data[at]
        at += 1
        value = byte & 0x7F
        shift = 7
        while byte & 0x80:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 7 * VARINT_BYTES_MAX:
                raise _Bad("a number of more than 64 bits")
    except IndexError:
        raise _Bad("it ends too early") from None
    value = (value >> 1) ^ -(value & 1)
    if not -(1 << 63) <= value < 1 << 63:
        raise _Bad("a number of more than 64 bits")
    return value, at


def _int(data: bytes, at: int) -> tuple[int, int]:
    value, at = _long(data, at)
    if not -(1 << 31) <= value < 1 << 31:
        raise _Bad("a number of more than 32 bits")
    return value, at


def _sliced(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if size < 0 or end > len(data):
        raise _Bad("it ends too early")
    return data[at:end], end


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    return _sliced(data, at, size)


def _string(data: bytes, at: int) -> tuple[str, int]:
    text, at = _bytes(data, at)
    try:
        return text.decode(), at
    except UnicodeDecodeError:
        raise _Bad("a text is not UTF-8") from None


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte, at = _sliced(data, at, 1)
    if byte not in (b"\x00", b"\x01"):
        raise _Bad("a boolean is 0 or 1")
    return byte == b"\x01", at


def _float(data: bytes, at: int) -> tuple[float, int]:
    piece, at = _sliced(data, at, FLOAT.size)
    return FLOAT.unpack(piece)[0], at


def _double(data: bytes, at: int) -> tuple[float, int]:
    piece, at = _sliced(data, at, DOUBLE.size)
    return DOUBLE.unpack(piece)[0], at


def _primitive(layout: Primitive) -> Read:
    readers: dict[str, Read] = {
        "boolean": _boolean,
        "int": _int,
        "long": _long,
        "float": _float,
        "double": _double,
        "bytes": _bytes,
        "string": _string,
    }
    match layout.scalar:
        case Scalar.DATE:
            return _time(_int, lambda days: EPOCH_DAY + datetime.timedelta(days=days))
        case Scalar.TIMESTAMP | Scalar.TIMESTAMP_NTZ:
            epoch = EPOCH_UTC if layout.scalar is Scalar.TIMESTAMP else EPOCH
            if layout.milliseconds:
                return _time(_long, lambda time_ms: epoch + datetime.timedelta(milliseconds=time_ms))
            return _time(_long, lambda time_us: epoch + datetime.timedelta(microseconds=time_us))
        case _:
            return readers[layout.name]


def _time(read: Callable[[bytes, int], tuple[int, int]], make: Callable[[int], Any]) -> Read:
    def read_time(data: bytes, at: int) -> tuple[Any, int]:
        number, at = read(data, at)
        try:
            return make(number), at
        except OverflowError:
            raise _Bad("a time outside of the years 1 to 9999") from None

    return read_time


def _number(kind: Any, size: int | None) -> Read:
    unit = decimal.Decimal((0, (1,), -kind.scale))

    def read(data: bytes, at: int) -> tuple[decimal.Decimal, int]:
        piece, at = _bytes(data, at) if size is None else _sliced(data, at, size)
        if len(piece) > 16:
            raise _Bad("a decimal of more than 38 digits")
        value = decimal_of(kind, _WIDE.multiply(decimal.Decimal(int.from_bytes(piece, "big", signed=True)), unit))
        if value is None:
            raise _Bad(f"a number that does not fit {kind}")
        return value, at

    return read


def _choice(symbols: tuple[str, ...]) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        number, at = _int(data, at)
        if not 0 <= number < len(symbols):
            raise _Bad("an enum has no such symbol")
        return symbols[number], at

    return read


def _optional(inner: Read, null_branch: int | None, branches: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        if not 0 <= branch < branches:
            raise _Bad("a union has no such branch")
        return (None, at) if branch == null_branch else inner(data, at)

    return read


def _blocks(data: bytes, at: int) -> tuple[int, int]:
    """The number of items in the block that begins here; 0: there is none."""
    count, at = _long(data, at)
    if count < 0:
        _, at = _long(data, at)  # the size of the block in bytes, for readers that skip it
        count = -count
    if count > len(data) - at:
        raise _Bad("it ends too early")
    return count, at


def _items(item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        count, at = _blocks(data, at)
        while count:
            for _ in range(count):
                value, at = item(data, at)
                values.append(value)
            count, at = _blocks(data, at)
        return values, at

    return read


def _entries(item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        count, at = _blocks(data, at)
        while count:
            for _ in range(count):
                name, at = _string(data, at)
                values[name], at = item(data, at)
            count, at = _blocks(data, at)
        return values, at

    return read


_WIDE: Final = decimal.Context(prec=100)
