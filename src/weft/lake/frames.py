"""What a node and the process that reads its archive table say to each other: frames of msgpack, each with its length
before it. Every request has a number, which its replies carry. Pure."""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import msgspec

from weft.lake.settings import TableSettings
from weft.lake.spans import StreamKey
from weft.limits import BATCH_BYTES_MAX, MIB
from weft.model import Epoch, NodeId, Stream, Topic

LENGTH: Final = struct.Struct("<I")
FRAME_BYTES_MAX: Final = BATCH_BYTES_MAX + 8 * MIB  # a piece has a few batches, of which one may be as large as can be


class StreamName(msgspec.Struct, frozen=True, array_like=True):
    """A stream and its epoch."""

    topic: str
    origin: str
    partition: int
    epoch: int

    @classmethod
    def of(cls, key: StreamKey) -> StreamName:
        stream, epoch = key
        return cls(stream.topic, stream.origin, stream.partition, epoch)

    @property
    def key(self) -> StreamKey:
        return Stream(Topic(self.topic), NodeId(self.origin), self.partition), Epoch(self.epoch)


# --- requests --------------------------------------------------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first frame: which table, where its index is kept, how old a listing may be, and what may be kept of its
    files, decoded."""

    table: TableSettings
    index: str
    refresh_s: float
    memory_bytes: int


class Look(msgspec.Struct, frozen=True, tag=True):
    """What the table has of some of the streams that match, those that come ``after`` one; the first of them by a
    listing that is at most so old. With ``since_us``, also where the first event at or after that time is."""

    number: int
    pattern: str
    wait_s: float
    age_s_max: float = 0.0
    since_us: int | None = None
    after: StreamName | None = None


class Read(msgspec.Struct, frozen=True, tag=True):
    """Events of a stream, about so many bytes. ``with_gaps``: offsets may be missing, for the stream is compacted."""

    number: int
    stream: StreamName
    first: int
    end: int
    bytes_max: int
    with_gaps: bool
    wait_s: float


Request: TypeAlias = Look | Read


# --- replies ---------------------------------------------------------------------------------------------------------


class State(msgspec.Struct, frozen=True, tag=True):
    """How the table looks from here; said when it changes. ``listed``: it was listed once. ``problem``: why it could
    not be listed the last time."""

    files: int
    files_unread: int
    files_damaged: int
    listed: bool
    problem: str


class Place(msgspec.Struct, frozen=True, array_like=True):
    """What the table has of a stream: ``runs`` of offsets, first and end of each in turn, and since when. ``at``: where
    the first event since the time is that was asked for."""

    stream: StreamName
    runs: list[int]
    first_us: int
    at: int | None = None

    @property
    def first(self) -> int:
        return self.runs[0]

    @property
    def end(self) -> int:
        return self.runs[-1]


class Places(msgspec.Struct, frozen=True, tag=True):
    """Some streams; those that come ``after`` this one are to be asked for, None: that was all."""

    number: int
    places: list[Place]
    after: StreamName | None


class Piece(msgspec.Struct, frozen=True, tag=True):
    """Batches that follow each other, from the offset that was asked for."""

    number: int
    batches: list[bytes]


class Lacks(msgspec.Struct, frozen=True, tag=True):
    """The table has no event at the offset that was asked for; the next that it has, and files that it cannot read."""

    number: int
    following: int | None
    damage: str


class Lost(msgspec.Struct, frozen=True, tag=True):
    """These events are in a file that cannot be read."""

    number: int
    first: int
    end: int
    reason: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The table cannot be asked just now, and why."""

    number: int
    reason: str


Reply: TypeAlias = Places | Piece | Lacks | Lost | Failed
Said: TypeAlias = Reply | State

_ENCODER: Final = msgspec.msgpack.Encoder()


def framed(message: Begin | Request | Said) -> bytes:
    data = _ENCODER.encode(message)
    return LENGTH.pack(len(data)) + data


class FrameReader:
    """Bytes in, messages out."""

    def __init__(self, kind: object) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._data = bytearray()

    def feed(self, data: bytes) -> list[object]:
        """The messages that are complete now. ValueError for what is not a message."""
        self._data += data
        found: list[object] = []
        at = 0
        while len(self._data) - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._data, at)
            if size > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {size} bytes, the limit is {FRAME_BYTES_MAX}")
            if len(self._data) - at < LENGTH.size + size:
                break
            at += LENGTH.size
            found.append(self._decoder.decode(memoryview(self._data)[at : at + size].tobytes()))
            at += size
        del self._data[:at]
        return found
