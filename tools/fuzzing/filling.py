"""Protobuf messages filled by chance: right in form, and wrong in whatever chance wills."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

DEPTH_MAX: Final = 4
REPEATED_MAX: Final = 3
NUMBERS: Final = (0, 1, 2, 7, 255, 4096, 1 << 20, (1 << 31) - 1)
LARGE: Final = ((1 << 32) - 1, 1 << 62, (1 << 63) - 1)
WHOLE: Final = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
HALF: Final = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32}


def filled(kind: type[Message], texts: Sequence[str], data: Sequence[bytes], chance: Random) -> bytes:
    """One such message. ``texts`` and ``data``: what its fields may hold, beside what is made up."""
    message = kind()
    _fill(message, texts, data, chance, DEPTH_MAX)
    return bytes(message.SerializeToString())


def _fill(message: Message, texts: Sequence[str], data: Sequence[bytes], chance: Random, depth: int) -> None:
    groups = {each.name: chance.choice(each.fields).name for each in message.DESCRIPTOR.oneofs}
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof is not None and groups[field.containing_oneof.name] != field.name:
            continue
        if chance.random() < 0.2 or (field.message_type is not None and not depth):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        _set(message, field, texts, data, chance, depth)


def _set(message: Message, field: Any, texts: Sequence[str], data: Sequence[bytes], chance: Random, depth: int) -> None:
    times = chance.randint(1, REPEATED_MAX) if field.is_repeated else 1
    for _ in range(times):
        if field.message_type is not None:
            inner = getattr(message, field.name)
            inner = inner.add() if field.is_repeated else inner
            inner.SetInParent()
            _fill(inner, texts, data, chance, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).append(_value(field, texts, data, chance))
        else:
            setattr(message, field.name, _value(field, texts, data, chance))


def _value(field: Any, texts: Sequence[str], data: Sequence[bytes], chance: Random) -> object:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return chance.choice((b"", chance.randbytes(chance.choice((1, 16, 32, 300))), *data))
        case FieldDescriptor.CPPTYPE_STRING:
            return chance.choice(("", "x" * chance.choice((1, 300, 5000)), *texts))
        case FieldDescriptor.CPPTYPE_BOOL:
            return chance.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            return chance.choice(field.enum_type.values).number
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return chance.choice((0.0, -1.0, 0.5, 1e300, float("nan"), float("inf")))
        case kind if kind in WHOLE:
            return chance.choice(NUMBERS + LARGE)
        case _:
            return chance.choice(NUMBERS)
