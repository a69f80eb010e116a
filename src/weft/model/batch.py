"""The batch: events of one stream that were accepted together. What publishers send, the log keeps and readers get.

A batch is a header of 64 bytes (batch_header) and one Arrow record batch message (batch_message) with a fixed schema
(batch_schema), the latter optionally compressed (batch_compression). Everything works on whole columns; only iteration
makes Python objects of single events.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat
from typing import Final, Literal

import google_crc32c
import pyarrow as pa

from weft.errors import UsageError
from weft.limits import BATCH_EVENTS_MAX, OFFSET_MAX
from weft.model import batch_few, batch_message
from weft.model.batch_columns import Headers, columns_of_events, rows_of_arrow, rows_of_lists
from weft.model.batch_compression import MESSAGE_BYTES_MAX, compress, decompress_untrusted
from weft.model.batch_few import FEW_MAX, SMALL_BYTES_MAX, Few, few_of
from weft.model.batch_header import (
    CRC_AT,
    HEADER_BYTES,
    NO_PRODUCER,
    PRODUCER_BYTES,
    SEQUENCE_MAX,
    BadBatch,
    BatchHeader,
    Codec,
    crc_fits,
    unpack_untrusted,
)
from weft.model.batch_schema import time_range
from weft.model.event import Event

Compression = Literal["lz4", "zstd"] | None
CODEC_OF: Final[dict[Compression, Codec]] = {None: Codec.NONE, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
WORTHWHILE: Final = 15 / 16  # what compression must come down to; for less no reader should have to pay
COMPRESSION_OF: Final = {codec: name for name, codec in CODEC_OF.items()}


class Batch:
    """An immutable batch. ``data`` is all of it, as it is sent and stored; columns are views of that."""

    __slots__ = ("_body_crc", "_few", "_head", "_rows", "data")

    def __init__(
        self,
        head: BatchHeader,
        data: bytes,
        body_crc: int | None,
        rows: pa.RecordBatch | None = None,
        few: Few | None = None,
    ) -> None:
        """For this module: batches are made by the class methods."""
        self._head = head
        self.data: Final = data
        self._body_crc = body_crc  # computed when it is first needed, as are the rows
        self._rows = rows
        self._few = few

    # --- making one ----------------------------------------------------------------------------------------------

    @classmethod
    def from_events(
        cls,
        events: Sequence[Event],
        *,
        producer: bytes | None = None,
        sequence: int = 0,
        compression: Compression = None,
    ) -> Batch:
        """A batch of events. Who still has columns had better use from_columns."""
        payloads, timestamps_us, keys, headers = columns_of_events(events)
        return cls.from_columns(
            payloads, timestamps_us, keys, headers, producer=producer, sequence=sequence, compression=compression
        )

    @classmethod
    def from_columns(
        cls,
        payloads: Sequence[bytes],
        timestamps_us: Sequence[int] | int,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        *,
        producer: bytes | None = None,
        sequence: int = 0,
        compression: Compression = None,
    ) -> Batch:
        """A batch of one list per column; one timestamp alone is for all events."""
        if compression is None and (few := few_of(payloads, timestamps_us, keys, headers)) is not None:
            _check_producer(producer, sequence)
            try:
                return _assemble_few(few, 0, producer, sequence)
            except struct.error:
                pass  # a timestamp that does not fit
        rows = rows_of_lists(payloads, timestamps_us, keys, headers)
        return _assemble(rows, producer=producer, sequence=sequence, compression=compression)

    @classmethod
    def from_arrow(
        cls,
        data: pa.RecordBatch | pa.Table,
        *,
        timestamp_us: int | None = None,
        producer: bytes | None = None,
        sequence: int = 0,
        compression: Compression = None,
    ) -> Batch:
        """A batch of Arrow data with a column ``payload`` and optionally ``timestamp``, ``key`` and ``headers``.

        Types are cast where nothing is lost by it (text to binary, other units of time, large and dictionary types);
        only nanoseconds are cut to microseconds.
        ``timestamp_us`` is for data that has no ``timestamp``.
        """
        rows = rows_of_arrow(data, timestamp_us)
        return _assemble(rows, producer=producer, sequence=sequence, compression=compression)

    @classmethod
    def concat(cls, batches: Sequence[Batch], *, compression: Compression = None) -> Batch:
        """The events of several batches as one, without a producer.

        Either none has been placed yet (all have base offset 0), or each begins at the offset where the one before it
        ends: other gaps and overlaps would change the offset of an event unseen.
        """
        if not batches:
            raise UsageError("a batch has at least one event", batches=0)
        count = sum(map(len, batches))
        if count > BATCH_EVENTS_MAX:
            raise UsageError("too many events for one batch", events=count, limit=BATCH_EVENTS_MAX)
        if any(batch.base_offset for batch in batches):
            for one, following in pairwise(batches):
                if following.base_offset != one.end_offset:
                    raise UsageError("batches do not adjoin", end=one.end_offset, next=following.base_offset)
        parts = [batch.record_batch for batch in batches]
        size = sum(rows.nbytes for rows in parts)
        if size > 2 * MESSAGE_BYTES_MAX:  # before it is copied; what a batch holds exactly is checked at its end
            raise UsageError("too much for one batch", events=count, bytes=size, limit=MESSAGE_BYTES_MAX)
        (rows,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return _assemble(rows, base_offset=batches[0].base_offset, compression=compression)

    # --- reading one ---------------------------------------------------------------------------------------------

    @classmethod
    def read_untrusted(cls, data: bytes) -> Batch:
        """The batch that ``data`` is, every rule of the format checked; raise only BadBatch, whatever the bytes."""
        head = unpack_untrusted(data)
        body = pa.py_buffer(data).slice(HEADER_BYTES)
        body_crc = int(google_crc32c.value(body))
        if not crc_fits(data, body_crc):
            raise BadBatch("checksum does not fit", at=CRC_AT)
        if (few := _few_untrusted(head, data)) is not None and few.is_usual and few.time_range == head[4:6]:
            return cls(head, data, body_crc, few=few)
        message = decompress_untrusted(body, head.codec)
        rows = batch_message.read_untrusted(message, head.event_count, head.timestamp_us_min, head.timestamp_us_max)
        return cls(head, data, body_crc, rows)

    @classmethod
    def read_stored(cls, data: bytes) -> Batch:
        """A batch that was checked before it was stored: only its header and length are looked at (BadBatch).

        ``intact`` says whether it still has the checksum it was stored with.
        """
        return cls(unpack_untrusted(data), data, None)

    @property
    def intact(self) -> bool:
        """Whether the checksum fits. Always true of what read_untrusted returned."""
        return crc_fits(self.data, self.body_crc)

    # --- where it is ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._head.event_count

    @property
    def base_offset(self) -> int:
        return self._head.base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last event."""
        return self._head.base_offset + self._head.event_count

    @property
    def timestamp_us_min(self) -> int:
        return self._head.timestamp_us_min

    @property
    def timestamp_us_max(self) -> int:
        return self._head.timestamp_us_max

    @property
    def producer(self) -> bytes | None:
        """Who made it, 16 bytes; with ``sequence``, what a retry is recognised by."""
        return self._head.producer

    @property
    def sequence(self) -> int:
        return self._head.sequence

    @property
    def compression(self) -> Compression:
        return COMPRESSION_OF[self._head.codec]

    def with_base_offset(self, offset: int) -> Batch:
        """The same batch placed at ``offset``: one copy of the bytes, nothing is decoded."""
        if not 0 <= offset <= OFFSET_MAX - len(self):
            raise UsageError("offset out of range", offset=offset, events=len(self), limit=OFFSET_MAX)
        head = self._head._replace(base_offset=offset)
        return _sealed(head, memoryview(self.data)[HEADER_BYTES:], self.body_crc, self._few)

    def with_producer(self, producer: bytes, sequence: int) -> Batch:
        """The same events, not placed yet, as what this producer sends under this number; nothing is decoded."""
        _check_producer(producer, sequence)
        head = self._head._replace(base_offset=0, producer=producer, sequence=sequence)
        return _sealed(head, memoryview(self.data)[HEADER_BYTES:], self.body_crc, self._few)

    # --- columns -------------------------------------------------------------------------------------------------

    @property
    def record_batch(self) -> pa.RecordBatch:
        if self._rows is None:
            body = pa.py_buffer(self.data).slice(HEADER_BYTES)
            self._rows = batch_message.read(decompress_untrusted(body, self._head.codec))
        return self._rows

    @property
    def few(self) -> Few | None:
        """The columns as Python has them, if the events are few and small: much quicker than by Arrow."""
        if self._few is None:
            self._few = _few_untrusted(self._head, self.data)
        return self._few

    @property
    def timestamps(self) -> pa.Int64Array:
        return self.record_batch.column(0)

    @property
    def keys(self) -> pa.BinaryArray:
        return self.record_batch.column(1)

    @property
    def headers(self) -> pa.MapArray:
        return self.record_batch.column(2)

    @property
    def payloads(self) -> pa.BinaryArray:
        return self.record_batch.column(3)

    # --- parts ---------------------------------------------------------------------------------------------------

    def rows(self, first_offset: int, end_offset: int | None = None) -> pa.RecordBatch:
        """The rows from ``first_offset`` up to, not including, ``end_offset``: a view, not a copy.

        Offsets outside of the batch mean its ends, so that a range of a stream can be cut out of all its batches.
        """
        first = max(first_offset - self.base_offset, 0)
        end = len(self) if end_offset is None else min(end_offset - self.base_offset, len(self))
        return self.record_batch.slice(first, max(end - first, 0))

    def slice(self, first_offset: int, end_offset: int | None = None, *, compression: Compression = None) -> Batch:
        """The same rows as a batch of their own, without a producer: they are not what it sent."""
        rows = self.rows(first_offset, end_offset)
        if not rows.num_rows:
            raise UsageError(
                "no events there", first=first_offset, end=end_offset, base=self.base_offset, count=len(self)
            )
        return _assemble(rows, base_offset=max(first_offset, self.base_offset), compression=compression)

    def events_from(self, offset: int) -> list[Event]:
        """The events from ``offset`` on, for a reader that starts inside the batch."""
        if self.few is not None:
            return _few_events(self.few)[max(offset - self.base_offset, 0) :]
        return _events(self.rows(offset))

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events_from(self.base_offset))

    def __eq__(self, other: object) -> bool:
        return self.data == other.data if isinstance(other, Batch) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} from {self.base_offset}, {len(self.data)} bytes, compression {self.compression}>"

    @property
    def body_crc(self) -> int:
        """CRC-32C of all its events as they were sent, wherever it was placed since."""
        if self._body_crc is None:
            self._body_crc = int(google_crc32c.value(pa.py_buffer(self.data).slice(HEADER_BYTES)))
        return self._body_crc


def _assemble(
    rows: pa.RecordBatch,
    *,
    base_offset: int = 0,
    producer: bytes | None = None,
    sequence: int = 0,
    compression: Compression,
) -> Batch:
    _check_producer(producer, sequence)
    message = batch_message.write(rows)
    if message.size > MESSAGE_BYTES_MAX:
        raise UsageError("too much for one batch", events=rows.num_rows, bytes=message.size, limit=MESSAGE_BYTES_MAX)
    codec, body = _compressed(message, compression)
    times = time_range(rows.column(0).to_numpy())
    head = BatchHeader(codec, base_offset, rows.num_rows, len(body), *times, producer, sequence)
    return _sealed(head, body, int(google_crc32c.value(body)))


def _compressed(message: pa.Buffer, compression: Compression) -> tuple[Codec, pa.Buffer | bytes]:
    if compression not in CODEC_OF:
        raise UsageError("no such compression", compression=compression, known="None, lz4, zstd")
    codec = CODEC_OF[compression]
    if codec is not Codec.NONE:
        body = compress(message, codec)
        if len(body) <= message.size * WORTHWHILE:
            return codec, body
    return Codec.NONE, message


def _assemble_few(few: Few, base_offset: int, producer: bytes | None, sequence: int) -> Batch:
    body = batch_few.write(few)
    head = BatchHeader(Codec.NONE, base_offset, len(few.payloads), len(body), *few.time_range, producer, sequence)
    return _sealed(head, body, int(google_crc32c.value(body)), few)


def _few_untrusted(head: BatchHeader, data: bytes) -> Few | None:
    if head.event_count > FEW_MAX or head.codec is not Codec.NONE or len(data) > SMALL_BYTES_MAX:
        return None
    return batch_few.read_untrusted(data[HEADER_BYTES:], head.event_count)


def _sealed(head: BatchHeader, body: pa.Buffer | bytes | memoryview, body_crc: int, few: Few | None = None) -> Batch:
    return Batch(head, b"".join((head.pack(body_crc), body)), body_crc, few=few)


def _check_producer(producer: bytes | None, sequence: int) -> None:
    if producer is None:
        if sequence:
            raise UsageError("a sequence needs a producer", sequence=sequence)
    elif len(producer) != PRODUCER_BYTES or producer == NO_PRODUCER:
        raise UsageError("a producer id is 16 bytes, not all zero", producer=producer.hex())
    elif not 0 <= sequence <= SEQUENCE_MAX:
        raise UsageError("sequence out of range", sequence=sequence, limit=SEQUENCE_MAX)


def _few_events(few: Few) -> list[Event]:
    return list(map(Event, few.payloads, few.timestamps_us, few.keys or repeat(None), few.headers or repeat(None)))


def _events(rows: pa.RecordBatch) -> list[Event]:
    timestamps, keys, headers, payloads = rows.columns
    return list(
        map(
            Event,
            payloads.to_pylist(),
            timestamps.to_pylist(),
            keys.to_pylist() if keys.null_count < len(rows) else repeat(None),
            _header_dicts(headers) if headers.null_count < len(rows) else repeat(None),
        )
    )


def _header_dicts(headers: pa.MapArray) -> list[Headers | None]:
    return [None if pairs is None else dict(pairs) for pairs in headers.to_pylist()]
