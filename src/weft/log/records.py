"""What the log keeps about a stream: on disk as a record, in memory as a state that is ahead of it."""

from __future__ import annotations

from typing import Final

import msgspec

from weft.limits import MIB
from weft.log import keys
from weft.log.keys import NO_TIME_US, Point
from weft.log.store import Put, Space, Write
from weft.model.stream import Epoch, NodeId, Stream
from weft.model.topic import Topic

INDEX_BYTES: Final = 1 * MIB  # of a stream between two index points: a time is found after reading no more than that


class StreamRecord(msgspec.Struct, array_like=True, frozen=True):
    """A stream as of the end of the last segment it is in. Fields are only ever appended."""

    topic: str
    origin: str
    partition: int
    epoch: int
    start: int  # the first offset that retention has left
    end: int  # the next offset to be given
    bytes_start: int  # of the stream's bytes, how many retention and compaction have taken
    bytes_end: int  # how many there ever were
    latest_us: int  # the greatest timestamp so far
    compacted: int  # below this offset every key is there once
    late_us: int | None = None  # begins in the middle on purpose, and has what came since this time (``parts``)


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
        self.segment = 0  # of the last index point that this process has made; 0: none, so the next batch gets one
        self.point_bytes = record.bytes_end

    def needs_point(self, segment: int) -> bool:
        return self.segment != segment or self.bytes_end - self.point_bytes >= INDEX_BYTES

    def point(self, segment: int) -> Point:
        """Where the next batch will be."""
        return Point(self.end, segment, self.bytes_end, self.latest_us)

    def pointed(self, segment: int) -> None:
        """There is a point where the next batch will be."""
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
