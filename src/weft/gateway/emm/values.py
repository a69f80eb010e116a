"""How the data fields of an EMM event become the payload of a mesh event.

The event's name is in the topic. The rest is mostly one value, and that becomes the payload: text and JSON as they were
sent, in UTF-8, numbers as decimal text, binary as it is. Several values become a JSON array, with binary ones in
base64.
"""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.wire.emm import Field, Packet
from weft.wire.emm.fields import FLAGS_SEALED, Value
from weft.wire.emm.values import join_chunks

Mask = npt.NDArray[np.bool_]


class ValueKind(StrEnum):
    """What the payload was in the packet: a header of the mesh event."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BINARY = "binary"
    JSON = "json"
    NONE = "none"  # the event has a name and nothing else
    VALUES = "values"  # several, as a JSON array
    DATAGRAM = "datagram"  # the packet as it came


# The columns of ``wire.emm.columnar`` that hold a value beside the name.
_COLUMNS: Final = {
    "json_value": ValueKind.JSON,
    "binary_value": ValueKind.BINARY,
    "int_value": ValueKind.INTEGER,
    "float_value": ValueKind.FLOAT,
}
_KINDS: Final = tuple(ValueKind)
KIND_NAMES: Final = pa.array([str(kind) for kind in _KINDS])
_EMPTY: Final = pa.scalar(b"", pa.binary())


def simple_rows(rows: pa.RecordBatch) -> Mask:
    """Events that their columns describe completely: a name and at most one value, not sealed. Others need the packet
    itself."""
    others = rows.column("value_count").to_numpy(zero_copy_only=False) - 1
    for name in _COLUMNS:
        others = others - _valid(rows.column(name))
    sealed = rows.column("flags").to_numpy(zero_copy_only=False) & FLAGS_SEALED
    simple: Mask = (others == 0) & (sealed == 0) & (rows.column("value_count").to_numpy(zero_copy_only=False) <= 2)
    return simple


def simple_payloads(rows: pa.RecordBatch) -> tuple[pa.BinaryArray, pa.StringArray]:
    """Payloads and kinds of simple rows; for other rows they mean nothing."""
    kinds = np.full(len(rows), _KINDS.index(ValueKind.NONE), np.int8)
    found = []
    for name, kind in _COLUMNS.items():
        column = rows.column(name)
        if column.null_count < len(column):
            kinds[_valid(column)] = _KINDS.index(kind)
            found.append(column if kind is ValueKind.BINARY else column.cast(pa.string()).cast(pa.binary()))
    payloads = pc.coalesce(*found, _EMPTY) if found else pa.repeat(_EMPTY, len(rows))
    return payloads, KIND_NAMES.take(pa.array(kinds))


def payload_of(packet: Packet) -> tuple[bytes, ValueKind]:
    """The definition, for one packet whose seal is open."""
    named = next((place for place, (kind, _) in enumerate(packet.values) if kind == Field.STRING), -1)
    values = [value for place, (_, value) in enumerate(packet.values) if place != named]
    match values:
        case []:
            return b"", ValueKind.NONE
        case [dict()] if not packet.flags & FLAGS_SEALED:
            return _json_as_sent(packet), ValueKind.JSON
        case [value]:
            return _single(value)
        case _:
            return msgspec.json.encode([_in_json(value) for value in values]), ValueKind.VALUES


def _single(value: Value) -> tuple[bytes, ValueKind]:
    match value:
        case str():
            return value.encode(), ValueKind.STRING
        case bytes():
            return value, ValueKind.BINARY
        case int():
            return str(value).encode(), ValueKind.INTEGER
        case float():
            text = pa.scalar(value, pa.float32()).cast(pa.string()).as_py()  # 0.1, not 0.10000000149011612
            return text.encode(), ValueKind.FLOAT
        case _:
            return msgspec.json.encode(value), ValueKind.JSON


def _json_as_sent(packet: Packet) -> bytes:
    """With its own blanks and numbers, as the columns have it: the payload must not depend on how many datagrams came
    together."""
    return join_chunks([field for field in packet.tlvs() if field.type == Field.JSON])[0].value


def _in_json(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _valid(column: pa.Array) -> Mask:
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
