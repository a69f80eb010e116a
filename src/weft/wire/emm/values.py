"""Data fields (0x01 to 0x05): Python values to TLVs and back, long values split and joined (EMM-06, EMM-07)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from weft.errors import UsageError
from weft.wire.emm.fields import Field, Value, type_name
from weft.wire.reject import BadPacket, Reject
from weft.wire.tlv import CHUNK_BYTES_MAX, Tlv, encode

INTEGER = struct.Struct("!i")
FLOAT = struct.Struct("!f")
_DECODERS: dict[int, Callable[[bytes], Value]] = {
    Field.STRING: bytes.decode,
    Field.INTEGER: lambda data: int.from_bytes(data, "big", signed=True),
    Field.FLOAT: lambda data: FLOAT.unpack(data)[0],
    Field.BINARY: bytes,
    Field.JSON: msgspec.json.Decoder(dict[str, Any]).decode,
}
_UNDECODABLE = (UnicodeDecodeError, RecursionError, msgspec.DecodeError)


def value_type(value: Value) -> Field:
    """The field type that carries this kind of Python value."""
    match value:
        case bool():
            raise UsageError("EMM has no field for a bool; send an int, or put it into a JSON object")
        case str():
            return Field.STRING
        case int():
            return Field.INTEGER
        case float():
            return Field.FLOAT
        case bytes():
            return Field.BINARY
        case dict():
            return Field.JSON
    raise UsageError("EMM data is str, int, float, bytes or dict", got=type(value).__name__)


def encode_value(value: Value) -> bytes:
    """One value as TLVs. A length that is a non-zero multiple of 255 gets an empty TLV behind it, so that the next
    value of the same type does not melt into it."""
    field_type = value_type(value)
    data = _to_bytes(value)
    chunks = [data[at : at + CHUNK_BYTES_MAX] for at in range(0, len(data), CHUNK_BYTES_MAX)]
    if len(data) % CHUNK_BYTES_MAX == 0:
        chunks.append(b"")
    return b"".join(encode(field_type, chunk) for chunk in chunks)


def encode_values(values: Iterable[Value]) -> bytes:
    """Data values ascending by type, the order among equals kept (EMM-13)."""
    return b"".join(encode_value(value) for value in sorted(values, key=value_type))


def _to_bytes(value: Value) -> bytes:
    try:
        match value:
            case str():
                return value.encode()
            case int():
                return INTEGER.pack(value)
            case float():
                return FLOAT.pack(value)
            case bytes():
                return value
            case dict():
                return msgspec.json.encode(value)
    except struct.error:
        raise UsageError("an EMM integer has 32 bits", value=value) from None
    except OverflowError:
        raise UsageError("an EMM float has 32 bits", value=value) from None
    except UnicodeEncodeError:
        raise UsageError("string cannot be written as UTF-8", value=ascii(value)) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"JSON object cannot be encoded: {error}") from None


def decode_values_untrusted(whole: list[Tlv]) -> tuple[tuple[int, Value], ...]:
    """The Python values of joined data fields; raise only BadPacket. Sizes of numbers were checked before."""
    try:
        return tuple([(kind, _DECODERS[kind](data)) for kind, data, _ in whole])
    except _UNDECODABLE:
        return tuple([(kind, _decode_or_explain(kind, data, at)) for kind, data, at in whole])


def _decode_or_explain(field_type: int, data: bytes, at: int) -> Value:
    try:
        return _DECODERS[field_type](data)
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 from byte {error.start} on"
    except RecursionError:
        reason = "is nested too deeply"
    except msgspec.DecodeError as error:
        reason = f"is not a JSON object: {error}"
    raise BadPacket(Reject.TLV_VALUE, f"field {type_name(field_type)} {reason}", at=at)


def join_chunks(chunks: list[Tlv]) -> list[Tlv]:
    """Put split values together: neighbours of one type join while each chunk is full (EMM-06)."""
    joined: list[Tlv] = []
    open_type = -1  # the type whose last chunk was full and may go on
    for chunk in chunks:
        if chunk.type == open_type:
            begun = joined[-1]
            joined[-1] = Tlv(begun.type, begun.value + chunk.value, begun.at)
        else:
            joined.append(chunk)
        open_type = chunk.type if len(chunk.value) == CHUNK_BYTES_MAX else -1
    return joined
