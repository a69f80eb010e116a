"""The messages between a node and the process that reads its archive table: frames of msgpack, each with its length
before it. Every request has a number, and its reply carries the same number. Pure."""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import msgspec

from weft.lake.settings import TableSettings
from weft.lake.spans import StreamKey
from weft.limits import BATCH_BYTES_MAX, MIB
from weft.model import Epoch, NodeId, Stream, Topic

LENGTH: Final = struct.Struct("<I")
FRAME_BYTES_MAX: Final = BATCH_BYTES_MAX + 8 * MIB  # a Piece has a few batches; one may be of maximum size


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
    """The first frame: which table, where its index is kept, how old a listing may be, and how much decoded data of
    its files may be cached."""

    table: TableSettings
    index: str
    refresh_s: float
    memory_bytes: int


class Look(msgspec.Struct, frozen=True, tag=True):
    """Ask what the table has of matching streams, a page at a time: the streams that come ``after`` the given one. The
    first page waits for a listing that is at most ``age_s_max`` old. With ``since_us``, the reply also says where the
    first event at or after that time is."""

    number: int
    pattern: str
    wait_s: float
    age_s_max: float = 0.0
    since_us: int | None = None
    after: StreamName | None = None


class Read(msgspec.Struct, frozen=True, tag=True):
    """Ask for about ``bytes_max`` bytes of events. ``with_gaps``: the stream is compacted, offsets may be missing."""

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
    """The state of the table, sent whenever it changes. ``listed``: it was listed at least once. ``problem``: why the
    last listing failed."""

    files: int
    files_unread: int
    files_damaged: int
    listed: bool
    problem: str


class Place(msgspec.Struct, frozen=True, array_like=True):
    """What the table has of a stream: ``runs`` of offsets, as first and end in turn, and its earliest timestamp.
    ``at``: the offset of the first event at or after the time that was asked for."""

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
    """One page of streams. Ask next for the streams ``after`` this one; None: this was the last page."""

    number: int
    places: list[Place]
    after: StreamName | None


class Piece(msgspec.Struct, frozen=True, tag=True):
    """Batches that follow each other, from the offset that was asked for."""

    number: int
    batches: list[bytes]


class Lacks(msgspec.Struct, frozen=True, tag=True):
    """The table has no event at the offset that was asked for. Names the next offset it has, and unreadable files."""

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
    """The request failed for now, and why."""

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
        """The messages that this data completes; ValueError if something is not a message."""
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
