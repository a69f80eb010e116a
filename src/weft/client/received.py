"""What a subscriber gets: events, or whole batches of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from weft.model import Batch, Epoch, EventId, NodeId, Position, Stream, Topic
from weft.model.batch_few import Few
from weft.model.traces import SpanRef, sampled_spans, spans_of_column

if TYPE_CHECKING:
    import pyarrow as pa


class Received(Struct, frozen=True, gc=False):
    """One event and where it is. It is a ``msgspec.Struct``, like ``Event``, because a million are made a second."""

    stream: Stream
    epoch: Epoch
    offset: int
    timestamp_us: int
    key: bytes | None
    headers: Mapping[str, str] | None
    payload: bytes
    tries: int = 0  # how often it has failed in its group; 0 unless events are acknowledged by hand

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
        """Where this event is. A reader that has handled it goes on at ``next_position``."""
        return Position(self.stream, self.epoch, self.offset)

    @property
    def next_position(self) -> Position:
        return Position(self.stream, self.epoch, self.offset + 1)


class ReceivedBatch:
    """Events of one stream with consecutive offsets: only those that were requested and did not come before.

    ``record_batch`` has the columns timestamp, key, headers and payload, or those that were asked for. For a stored
    batch it is made at the first access, because readers of single events do not need it.
    """

    __slots__ = ("_rows", "_stored", "end_offset", "epoch", "first_offset", "stream", "tries")

    def __init__(
        self, stream: Stream, epoch: Epoch, first_offset: int, rows: pa.RecordBatch | Batch, tries: int = 0
    ) -> None:
        self.stream: Final = stream
        self.epoch: Final = epoch
        self.first_offset: Final = first_offset
        self.tries: Final = tries  # how often each of them has failed
        self._stored: Batch | None = None
        self._rows: pa.RecordBatch | None = None
        if isinstance(rows, Batch):
            self._stored = rows
            self.end_offset = rows.end_offset  # the offset after the last event
        else:
            self._rows = rows
            self.end_offset = first_offset + int(rows.num_rows)

    @property
    def record_batch(self) -> pa.RecordBatch:
        if self._rows is None:
            assert self._stored is not None, "it has one or the other"
            self._rows = self._stored.rows(self.first_offset)
        return self._rows

    def __repr__(self) -> str:
        return f"<ReceivedBatch of {len(self)} from {self.stream}:e{self.epoch}:{self.first_offset}>"

    def __len__(self) -> int:
        return self.end_offset - self.first_offset

    @property
    def offsets(self) -> range:
        return range(self.first_offset, self.end_offset)

    @property
    def next_position(self) -> Position:
        return Position(self.stream, self.epoch, self.end_offset)

    def rest(self, first_offset: int) -> ReceivedBatch:
        """The events from this offset on."""
        rows = self._stored if self._stored is not None else self.record_batch.slice(first_offset - self.first_offset)
        return ReceivedBatch(self.stream, self.epoch, first_offset, rows, self.tries)

    def head(self, end_offset: int) -> ReceivedBatch:
        """The events before this offset."""
        rows = self.record_batch.slice(0, end_offset - self.first_offset)
        return ReceivedBatch(self.stream, self.epoch, self.first_offset, rows, self.tries)

    def events(self) -> list[Received]:
        """The batch as single events. The batch must have all columns."""
        payloads, timestamps_us, keys, headers = self._columns()
        return list(
            map(
                Received,
                repeat(self.stream),
                repeat(self.epoch),
                self.offsets,
                timestamps_us,
                repeat(None) if keys is None else keys,
                repeat(None) if headers is None else headers,
                payloads,
                repeat(self.tries),
            )
        )

    def sampled_spans(self) -> tuple[SpanRef, ...]:
        """The different spans in which its events were published, the first few of them."""
        if self._stored is not None:
            return sampled_spans(self._stored, self.first_offset)
        return spans_of_column(self.record_batch.column("headers"))

    def first_payload(self) -> bytes:
        """The payload of the first event, without making the others."""
        if self._stored is not None and (few := self._stored.few) is not None:
            return few.payloads[self.first_offset - self._stored.base_offset]
        return bytes(self.record_batch.column("payload")[0].as_py())

    def _columns(self) -> Few:
        if self._stored is not None and (few := self._stored.few) is not None:
            skipped = self.first_offset - self._stored.base_offset
            return few if not skipped else Few(*(None if each is None else each[skipped:] for each in few))  # type: ignore[arg-type]
        timestamps, keys, headers, payloads = self.record_batch.columns
        return Few(
            payloads.to_pylist(),
            timestamps.to_pylist(),
            keys.to_pylist() if keys.null_count < len(self) else None,
            _header_dicts(headers) if headers.null_count < len(self) else None,
        )


def _header_dicts(headers: Any) -> list[Mapping[str, str] | None]:
    return [None if pairs is None else dict(pairs) for pairs in headers.to_pylist()]
