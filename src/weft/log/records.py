"""What the log keeps about a stream: a record on disk, and in memory a state that is ahead of it."""

from __future__ import annotations

from typing import Final

import msgspec

from weft.limits import MIB
from weft.log import keys
from weft.log.keys import NO_TIME_US, Point
from weft.log.store import Put, Space, Write
from weft.model.stream import Epoch, NodeId, Stream
from weft.model.topic import Topic

INDEX_BYTES: Final = 1 * MIB  # of a stream between two index points: to find a time, no more than this is read


class StreamRecord(msgspec.Struct, array_like=True, frozen=True):
    """A stream as of the end of the last segment that has events of it. New fields are only ever appended."""

    topic: str
    origin: str
    partition: int
    epoch: int
    start: int  # the first offset that retention has kept
    end: int  # the next offset to be given
    bytes_start: int  # how many of the stream's bytes retention and compaction have deleted
    bytes_end: int  # how many bytes there have been in all
    latest_us: int  # the greatest timestamp so far
    compacted: int  # below this offset every key occurs once
    late_us: int | None = None  # it begins in the middle on purpose, and has everything since this time (``parts``)


class StreamState:
    """A stream in memory. ``end`` counts what was appended, ``durable`` what a sync has covered."""

    __slots__ = (
        "bytes_end", "bytes_start", "compacted", "durable", "end", "epoch", "id", "late_us", "latest_us", "past",
        "point_bytes", "segment", "start", "stream",
    )  # fmt: skip

    def __init__(self, stream_id: int, record: StreamRecord) -> None:
        self.id = stream_id
        self.stream = Stream(Topic(record.topic), NodeId(record.origin), record.partition)
        self.epoch = Epoch(record.epoch)
        self.start = record.start
        self.end = record.end
        self.durable = record.end
        self.bytes_start = record.bytes_start
        self.bytes_end = record.bytes_end
        self.latest_us = record.latest_us
        self.compacted = record.compacted
        self.late_us = record.late_us
        self.past: StreamState | None = None  # the part before this one, whole or being fetched
        self.segment = 0  # of the last index point that this process made; 0: none yet, so the next batch gets one
        self.point_bytes = record.bytes_end

    def needs_point(self, segment: int) -> bool:
        return self.segment != segment or self.bytes_end - self.point_bytes >= INDEX_BYTES

    def point(self, segment: int) -> Point:
        """The index point for the next batch."""
        return Point(self.end, segment, self.bytes_end, self.latest_us)

    def pointed(self, segment: int) -> None:
        """Note that the next batch has an index point."""
        self.segment = segment
        self.point_bytes = self.bytes_end

    def extend(self, end: int, size: int, latest_us: int) -> None:
        self.end = end
        self.bytes_end += size
        self.latest_us = max(self.latest_us, latest_us)

    def record_write(self) -> Write:
        record = StreamRecord(
            self.stream.topic,
            self.stream.origin,
            self.stream.partition,
            self.epoch,
            self.start,
            self.end,
            self.bytes_start,
            self.bytes_end,
            self.latest_us,
            self.compacted,
            self.late_us,
        )
        return Put(Space.TABLES, keys.stream_key(self.id), _ENCODER.encode(record))


def new_record(stream: Stream, epoch: Epoch, start: int, late_us: int | None = None) -> StreamRecord:
    return StreamRecord(
        stream.topic, stream.origin, stream.partition, epoch, start, start, 0, 0, NO_TIME_US, 0, late_us
    )


def meta_write(name: str, value: int) -> Write:
    return Put(Space.TABLES, keys.meta_key(name), str(value).encode())


_ENCODER = msgspec.msgpack.Encoder()
decode_record = msgspec.msgpack.Decoder(StreamRecord).decode
