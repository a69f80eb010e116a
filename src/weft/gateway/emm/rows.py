"""The form that judged packets of either header format have before they become mesh events, and columns of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.model import Topic
from weft.model.batch_schema import HEADERS_TYPE
from weft.wire.reject import Reject

Bytes = npt.NDArray[np.uint8]
_HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), "S2")


class Header(StrEnum):
    """Headers of mesh events that came as datagrams. Consumers read them: append, never rename."""

    PROTOCOL = "emm-protocol"  # emm or emm-c; whoever has it never goes out as a datagram again
    NODE_ID = "emm-node-id"
    KEY_ID = "emm-key-id"
    MESSAGE_ID = "emm-message-id"
    VERDICT = "emm-verdict"
    SOURCE = "emm-source"
    VALUE = "emm-value"  # what the payload was in the packet: string, integer, float, binary, json, values, datagram
    REASON = "emm-reject"  # in the quarantine: why
    EVENT = "emm-event"  # the event's name, where the topic cannot say it


class Arrived(NamedTuple):
    """A datagram and where it came from, as text. A tuple: there are 100,000 of them a second."""

    data: bytes
    source: str


class Rejected(NamedTuple):
    """A datagram that is not taken. A tuple for the same reason."""

    data: bytes
    source: str
    reason: Reject


@dataclass(frozen=True, slots=True)
class Accepted:
    """Packets that become events, as columns of equal length. ``codes`` are places in ``topics``; a header is null
    where an event lacks it."""

    topics: Sequence[Topic]
    codes: npt.NDArray[np.int32]
    timestamps_us: npt.NDArray[np.int64]
    keys: pa.BinaryArray
    payloads: pa.BinaryArray
    headers: Mapping[Header, pa.StringArray]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of some datagrams. ``waiting``: all is well with them but a signature is still to be checked."""

    accepted: tuple[Accepted, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    waiting: tuple[Arrived, ...] = ()


# --- columns -----------------------------------------------------------------------------------------------------


def hex_column(raw: Bytes, like: Any = None) -> pa.StringArray:
    """Rows of equally many bytes as hexadecimal text; null where ``like`` is."""
    return _text(_HEX[raw].view(np.uint8).reshape(len(raw), -1), like)


def uuid_column(raw: Bytes, like: Any = None) -> pa.StringArray:
    """Rows of 16 bytes as UUIDs; null where ``like`` is."""
    digits = _HEX[raw].view(np.uint8).reshape(len(raw), 32)
    text = np.full((len(raw), 36), ord("-"), np.uint8)
    at = 0
    for begin, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)):
        text[:, at : at + end - begin] = digits[:, begin:end]
        at += end - begin + 1
    return _text(text, like)


def same_text(text: str, count: int) -> pa.StringArray:
    return pa.repeat(pa.scalar(str(text), pa.string()), count)


def _text(letters: Bytes, like: Any) -> pa.StringArray:
    count, width = letters.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    bitmap = None
    if like is not None and like.null_count:
        valid = like.is_valid().to_numpy(zero_copy_only=False)
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.string(), count, [bitmap, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(letters))]
    )


def raw_bytes(column: Any, width: int) -> Bytes:
    """The bytes of a fixed-size column, a row each; zeros or anything where it is null."""
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, np.uint8, len(column) * width, column.offset * width).reshape(len(column), width)


def fixed_list(column: Any, width: int) -> list[Any]:
    """The values of a fixed-size column, None for nulls; ``to_pylist`` takes ten times as long."""
    values: list[Any] = np.ascontiguousarray(raw_bytes(column, width)).view(f"V{width}").ravel().tolist()
    if column.null_count:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[row] = None
    return values


def headers_column(headers: Mapping[Header, pa.StringArray]) -> pa.MapArray:
    """One map per row of the headers it has."""
    columns = list(headers.values())
    count, width = len(columns[0]), len(columns)
    present = np.ones((count, width), np.bool_)
    for number, column in enumerate(columns):
        if column.null_count:
            present[:, number] = column.is_valid().to_numpy(zero_copy_only=False)
    places = np.arange(count, dtype=np.int32)[:, None] + np.arange(width, dtype=np.int32) * count
    numbers = np.broadcast_to(np.arange(width, dtype=np.int8), (count, width))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(present.sum(axis=1), out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        pa.array([str(name) for name in headers], pa.utf8()).take(pa.array(numbers[present])),
        pa.concat_arrays(columns).take(pa.array(places[present])),
        HEADERS_TYPE,
    )
