"""The part of protobuf that libp2p's six messages use: varint and length-delimited fields, no schema compiler.

The schemas are a handful of lines, and a generated parser would take any number of fields and any depth. This one
keeps only what is asked for, in bounded time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import IntEnum
from typing import Final

from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame

PROTOBUF_FIELDS_MAX: Final = 16_384  # of one message, unknown ones too: 4 MiB of two-byte fields would take seconds
FIELD_NUMBER_MAX = (1 << 29) - 1


class WireType(IntEnum):
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


# None of our messages has fields of these types, but messages of others may.
FIXED_BYTES: dict[int, int] = {WireType.FIXED64: 8, WireType.FIXED32: 4}

Value = int | bytes | str


def encode(fields: Iterable[tuple[int, Value | None]]) -> bytes:
    """The fields in the order given: integers and booleans as varints, the rest length-delimited, None left out."""
    out = bytearray()
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, int):
            out += varint.encode(number << 3 | WireType.VARINT) + varint.encode(int(value))
        else:
            body = value.encode() if isinstance(value, str) else value
            out += varint.encode(number << 3 | WireType.BYTES) + varint.encode(len(body)) + body
    return bytes(out)


class Message:
    """The fields of one message. Of a field that should occur once the last counts, as protobuf has it."""

    def __init__(self, what: str, fields: dict[int, list[int | bytes]]) -> None:
        self._what = what
        self._fields = fields

    def uint(self, number: int) -> int | None:
        values = self._fields.get(number)
        if not values:
            return None
        value = values[-1]
        if isinstance(value, bytes):
            raise BadFrame(f"{self._what}: field should be a number", field=number)
        return value

    def blob(self, number: int, bytes_max: int) -> bytes | None:
        values = self._fields.get(number)
        return self._checked(number, values[-1], bytes_max) if values else None

    def required_blob(self, number: int, bytes_max: int) -> bytes:
        value = self.blob(number, bytes_max)
        if value is None:
            raise BadFrame(f"{self._what}: field is missing", field=number)
        return value

    def text(self, number: int, bytes_max: int) -> str | None:
        value = self.blob(number, bytes_max)
        return None if value is None else self._decoded(number, value)

    def required_text(self, number: int, bytes_max: int) -> str:
        return self._decoded(number, self.required_blob(number, bytes_max))

    def blobs(self, number: int, count_max: int, bytes_max: int) -> list[bytes]:
        values = self._fields.get(number, [])
        if len(values) > count_max:
            raise BadFrame(f"{self._what}: field occurs too often", field=number, have=len(values), limit=count_max)
        return [self._checked(number, value, bytes_max) for value in values]

    def texts(self, number: int, count_max: int, bytes_max: int) -> list[str]:
        return [self._decoded(number, value) for value in self.blobs(number, count_max, bytes_max)]

    def _checked(self, number: int, value: int | bytes, bytes_max: int) -> bytes:
        if isinstance(value, int):
            raise BadFrame(f"{self._what}: field should be bytes", field=number)
        if len(value) > bytes_max:
            raise BadFrame(f"{self._what}: field is too long", field=number, have=len(value), limit=bytes_max)
        return value

    def _decoded(self, number: int, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise BadFrame(f"{self._what}: field is not UTF-8", field=number, at=error.start) from None


def read_untrusted(what: str, data: bytes, known: Container[int]) -> Message:
    """The fields of ``data`` whose numbers are in ``known``, others skipped; ``what`` names the message in errors.

    Raise only BadFrame.
    """
    fields: dict[int, list[int | bytes]] = {}
    at, end = 0, len(data)
    for _ in range(PROTOBUF_FIELDS_MAX):
        if at == end:
            return Message(what, fields)
        tag_at = at
        tag, at = varint.read_untrusted(data, at, end)
        number, wire_type = tag >> 3, tag & 7
        if not 1 <= number <= FIELD_NUMBER_MAX:
            raise BadFrame(f"{what}: impossible field number", at=tag_at, field=number)
        value: int | bytes | None = None
        if wire_type == WireType.VARINT:
            value, at = varint.read_untrusted(data, at, end)
        elif wire_type == WireType.BYTES:
            length, at = varint.read_untrusted(data, at, end)
            _check_room(what, tag_at, length, end - at)
            value, at = data[at : at + length], at + length
        elif wire_type in FIXED_BYTES:
            _check_room(what, tag_at, FIXED_BYTES[wire_type], end - at)
            at += FIXED_BYTES[wire_type]
        else:
            raise BadFrame(f"{what}: unknown wire type", at=tag_at, type=wire_type)
        if value is not None and number in known:
            fields.setdefault(number, []).append(value)
    if at == end:
        return Message(what, fields)
    raise BadFrame(f"{what}: too many fields", at=at, limit=PROTOBUF_FIELDS_MAX)


def _check_room(what: str, at: int, need: int, have: int) -> None:
    if need > have:
        raise BadFrame(f"{what}: field overruns the message", at=at, need=need, have=have)
