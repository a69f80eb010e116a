"""What a subscriber gets: events, or whole batches of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa
from msgspec import Struct

from weft.model import Epoch, EventId, NodeId, Position, Stream, Topic


class Received(Struct, frozen=True, gc=False):
    """One event and where it is. A ``msgspec.Struct`` like ``Event``, and for the same reason: a million a second."""

    stream: Stream
    epoch: Epoch
    offset: int
    timestamp_us: int
    key: bytes | None
    headers: Mapping[str, str] | None
    payload: bytes

    @property
    def topic(self) -> Topic:
        return self.stream.topic

    @property
    def origin(self) -> NodeId:
        return self.stream.origin

    @property
    def partition(self) -> int:
        return self.stream.partition

    @property
    def id(self) -> EventId:
        return EventId(self.stream, self.epoch, self.offset)

    @property
    def position(self) -> Position:
        """Where this event is; who has handled it goes on at ``next_position``."""
        return Position(self.stream, self.epoch, self.offset)

    @property
    def next_position(self) -> Position:
        return Position(self.stream, self.epoch, self.offset + 1)


@dataclass(frozen=True, slots=True)
class ReceivedBatch:
    """Events of one stream with consecutive offsets: only those that were asked for and not had before."""

    stream: Stream
    epoch: Epoch
    first_offset: int
    record_batch: pa.RecordBatch  # timestamp, key, headers, payload, or the columns that were asked for

    def __len__(self) -> int:
        return int(self.record_batch.num_rows)

    @property
    def end_offset(self) -> int:
        """The offset after the last event."""
        return self.first_offset + len(self)

    @property
    def offsets(self) -> range:
        return range(self.first_offset, self.end_offset)

    @property
    def next_position(self) -> Position:
        return Position(self.stream, self.epoch, self.end_offset)

    def events(self) -> list[Received]:
        """The same as single events, made column by column; the batch has all columns."""
        timestamps, keys, headers, payloads = self.record_batch.columns
        count = len(self)
        return list(
            map(
                Received,
                repeat(self.stream),
                repeat(self.epoch),
                self.offsets,
                timestamps.to_pylist(),
                keys.to_pylist() if keys.null_count < count else repeat(None),
                _header_dicts(headers) if headers.null_count < count else repeat(None),
                payloads.to_pylist(),
            )
        )


def _header_dicts(headers: Any) -> list[Mapping[str, str] | None]:
    return [None if pairs is None else dict(pairs) for pairs in headers.to_pylist()]
