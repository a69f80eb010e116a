"""The batch: events of one stream that were accepted together. Publishers send batches, the log stores them, and
readers get them.

A batch is a header of 64 bytes (batch_header) and one Arrow record batch message (batch_message) with a fixed schema
(batch_schema), the latter optionally compressed (batch_compression). Everything works on whole columns; only iteration
makes Python objects of single events. The parts that need Arrow are in batch_arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Final, Literal

import google_crc32c

from weft.errors import UsageError
from weft.limits import BATCH_EVENTS_MAX, EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN, OFFSET_MAX
from weft.model import batch_few
from weft.model.batch_few import BYTES, FEW_MAX, INTEGERS, SMALL_BYTES_MAX, Few, few_of
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
    packed_header,
    unpack_untrusted,
)
from weft.model.event import Event, check_times_us

if TYPE_CHECKING:
    import pyarrow as pa

Compression = Literal["lz4", "zstd"] | None
Headers = Mapping[str, str]
COLUMNS: Final = ("timestamp", "key", "headers", "payload")  # the names in batch_schema.SCHEMA
COMPRESSION_OF: Final[dict[Codec, Compression]] = {Codec.NONE: None, Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}


class Batch:
    """An immutable batch. ``data`` has all its bytes, as they are sent and stored; columns are views of them."""

    __slots__ = ("_body", "_body_crc", "_data", "_few", "_head", "_rows")

    def __init__(
        self,
        head: BatchHeader,
        data: bytes | None,
        body_crc: int | None,
        rows: pa.RecordBatch | None = None,
        few: Few | None = None,
        body: pa.Buffer | bytes | memoryview = b"",
    ) -> None:
        """Only this module calls this: use the class methods to make batches. Without ``data``, there is a ``body``."""
        self._head = head
        self._data = data  # put together when first needed: many batches are placed or gathered before that
        self._body = body
        self._body_crc = body_crc  # computed when it is first needed, like the rows
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
        """Make a batch of events. If you still have columns, use from_columns."""
        payloads, timestamps_us, keys, headers = _columns_of(events)
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
        """Make a batch of one list per column; a single timestamp is for all events."""
        if compression is None and (few := few_of(payloads, timestamps_us, keys, headers)) is not None:
            _check_producer(producer, sequence)
            try:
                return _within_time(_assemble_few(few, 0, producer, sequence))
            except struct.error:
                pass  # a timestamp that does not fit
        from weft.model import batch_arrow

        rows = batch_arrow.rows_of_lists(payloads, timestamps_us, keys, headers)
        return _within_time(_assemble(rows, producer=producer, sequence=sequence, compression=compression))

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
        """Make a batch of Arrow data with a column ``payload`` and optionally ``timestamp``, ``key`` and ``headers``.

        Types are cast where this loses nothing (text to binary, other units of time, large and dictionary types); only
        nanoseconds are cut to microseconds. ``timestamp_us`` is for data that has no ``timestamp``.
        """
        from weft.model import batch_arrow

        rows = batch_arrow.rows_of_arrow(data, timestamp_us)
        return _within_time(_assemble(rows, producer=producer, sequence=sequence, compression=compression))

    @classmethod
    def restored(cls, data: pa.RecordBatch | pa.Table, base_offset: int) -> Batch:
        """Make a batch of events that were in a log before and come back from elsewhere, at their old offsets. They are
        checked as in ``from_arrow``, and not compressed."""
        from weft.model import batch_arrow

        if not 0 <= base_offset <= OFFSET_MAX - data.num_rows:
            raise UsageError("offset out of range", offset=base_offset, events=data.num_rows, limit=OFFSET_MAX)
        return _assemble(batch_arrow.rows_of_arrow(data, None), base_offset=base_offset, compression=None)

    @classmethod
    def concat(cls, batches: Sequence[Batch], *, compression: Compression = None) -> Batch:
        """Join the events of several batches into one without a producer.

        Either none has been placed yet (all have base offset 0), or each begins at the offset where the one before it
        ends: other gaps and overlaps would silently change the offsets of events.
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
        from weft.model import batch_arrow

        rows = batch_arrow.concat([batch.record_batch for batch in batches])
        return _assemble(rows, base_offset=batches[0].base_offset, compression=compression)

    # --- reading one ---------------------------------------------------------------------------------------------

    @classmethod
    def read_untrusted(cls, data: bytes, known_as: Callable[[bytes], bytes] | None = None) -> Batch:
        """Read a batch and check every rule of the format. Raise only BadBatch, whatever the bytes.

        ``known_as`` returns the id that its producer has from here on.
        """
        head = unpack_untrusted(data, known_as)
        if len(data) > SMALL_BYTES_MAX:
            body: bytes | memoryview = memoryview(data)[HEADER_BYTES:]
            body_crc = _crc_of_body(data)
        else:
            body = data[HEADER_BYTES:]
            body_crc = google_crc32c.value(body)
        if not crc_fits(data, body_crc):
            raise BadBatch("checksum does not fit", at=CRC_AT)
        few = _few_untrusted(head, body)
        rows = None
        if few is None or not (few.is_bare or few.is_usual) or few.time_range != head[4:6]:
            from weft.model import batch_arrow

            few, rows = None, batch_arrow.read_rows_untrusted(head, data)
        if known_as is None or head[6] is None:
            return cls(head, data, body_crc, rows, few)
        return cls(head, None, body_crc, rows, few, body)

    @classmethod
    def read_stored(cls, data: bytes) -> Batch:
        """Read a batch that was checked before it was stored: only its header and length are checked again (BadBatch).

        ``intact`` says whether its checksum still fits.
        """
        return cls(unpack_untrusted(data), data, None)

    @property
    def intact(self) -> bool:
        """Whether the checksum fits. Always true for batches from read_untrusted."""
        return crc_fits(self.data, self.body_crc)

    @property
    def data(self) -> bytes:
        """All its bytes, as they are sent and stored."""
        if self._data is None:
            self._data = b"".join((self._head.pack(self.body_crc), self._body))
            self._body = b""
        return self._data

    @property
    def size(self) -> int:
        """How many bytes ``data`` has."""
        return HEADER_BYTES + self._head.body_bytes

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
        """The producer's id, 16 bytes; together with ``sequence`` it identifies a retry."""
        return self._head.producer

    @property
    def sequence(self) -> int:
        return self._head.sequence

    @property
    def compression(self) -> Compression:
        return COMPRESSION_OF[self._head.codec]

    def with_base_offset(self, offset: int) -> Batch:
        """The same batch placed at ``offset``: this copies the bytes once and decodes nothing."""
        if not 0 <= offset <= OFFSET_MAX - len(self):
            raise UsageError("offset out of range", offset=offset, events=len(self), limit=OFFSET_MAX)
        head = self._head
        return self._with_head(BatchHeader(head[0], offset, *head[2:]))

    def data_at(self, offset: int) -> bytes:
        """The bytes of the same batch placed at ``offset``, as a log stores it. The offset must be in range."""
        body = self._body if self._data is None else memoryview(self._data)[HEADER_BYTES:]
        return b"".join((self._head.pack_at(offset, self.body_crc), body))

    def with_producer(self, producer: bytes, sequence: int) -> Batch:
        """The same events, not placed yet, as this producer sends them under this number; nothing is decoded."""
        _check_producer(producer, sequence)
        head = self._head
        return self._with_head(BatchHeader(head[0], 0, *head[2:6], producer, sequence))

    def _with_head(self, head: BatchHeader) -> Batch:
        body = self._body if self._data is None else memoryview(self._data)[HEADER_BYTES:]
        return Batch(head, None, self.body_crc, few=self._few, body=body)

    # --- columns -------------------------------------------------------------------------------------------------

    @property
    def record_batch(self) -> pa.RecordBatch:
        if self._rows is None:
            from weft.model import batch_arrow

            self._rows = batch_arrow.read_rows(self._head, self.data)
        return self._rows

    @property
    def few(self) -> Few | None:
        """The columns as Python lists, if the events are few and small: much faster than through Arrow."""
        if self._few is None and self._head.event_count <= FEW_MAX and self.size <= SMALL_BYTES_MAX:
            self._few = _few_untrusted(self._head, self.data[HEADER_BYTES:])
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
        """The rows from ``first_offset`` up to but not including ``end_offset``: a view, not a copy.

        Offsets outside the batch stand for its ends, so that the same range can be applied to all batches of a stream.
        """
        first = max(first_offset - self.base_offset, 0)
        end = len(self) if end_offset is None else min(end_offset - self.base_offset, len(self))
        return self.record_batch.slice(first, max(end - first, 0))

    def slice(self, first_offset: int, end_offset: int | None = None, *, compression: Compression = None) -> Batch:
        """The same rows as a batch of their own, without a producer, because the producer did not send it like this."""
        rows = self.rows(first_offset, end_offset)
        if not rows.num_rows:
            raise UsageError(
                "no events there", first=first_offset, end=end_offset, base=self.base_offset, count=len(self)
            )
        return _assemble(rows, base_offset=max(first_offset, self.base_offset), compression=compression)

    def first_at(self, timestamp_us: int, first_offset: int) -> int | None:
        """The offset of the first event at or after a time, from ``first_offset`` on; None if there is none."""
        skipped = max(first_offset - self.base_offset, 0)
        if self.few is not None:
            later = enumerate(self.few.timestamps_us[skipped:], skipped)
            found = next((at for at, time_us in later if time_us >= timestamp_us), None)
        else:
            is_late = self.timestamps.to_numpy()[skipped:] >= timestamp_us
            found = skipped + int(is_late.argmax()) if is_late.any() else None
        return None if found is None else self.base_offset + found

    def events_from(self, offset: int, end_offset: int | None = None) -> list[Event]:
        """The events from ``offset`` on, up to but not including ``end_offset``, for a reader that starts inside the
        batch."""
        if self.few is not None:
            end = None if end_offset is None else max(end_offset - self.base_offset, 0)
            return _few_events(self.few)[max(offset - self.base_offset, 0) : end]
        from weft.model import batch_arrow

        return batch_arrow.events_of(self.rows(offset, end_offset))

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
        """CRC-32C of all its events as they were sent, independent of where it was placed."""
        if self._body_crc is None:
            self._body_crc = _crc_of_body(self.data)
        return self._body_crc


def few_bytes(payloads: Sequence[bytes], timestamps_us: Sequence[int], producer: bytes, sequence: int) -> bytes:
    """The bytes of a batch of a few events without keys and headers, made without a Batch object. Empty if there are
    too many, or something is wrong with them: then use ``Batch.from_columns``."""
    count = len(payloads)
    if not 1 <= count <= FEW_MAX or set(map(type, payloads)) != BYTES or set(map(type, timestamps_us)) != INTEGERS:
        return b""
    least, greatest = min(timestamps_us), max(timestamps_us)
    if not EVENT_TIMESTAMP_US_MIN <= least <= greatest <= EVENT_TIMESTAMP_US_MAX:
        return b""
    body = batch_few.write_bare(payloads, timestamps_us)
    if len(body) > SMALL_BYTES_MAX:
        return b""
    head = packed_header(0, 0, count, len(body), least, greatest, producer, sequence, google_crc32c.value(body))
    return head + body


def _within_time(batch: Batch) -> Batch:
    """Check the times of new events. Events that were stored before there was a bound stay readable."""
    head = batch._head
    check_times_us(head[4], head[5])
    return batch


def _assemble(
    rows: pa.RecordBatch,
    *,
    base_offset: int = 0,
    producer: bytes | None = None,
    sequence: int = 0,
    compression: Compression,
) -> Batch:
    _check_producer(producer, sequence)
    from weft.model import batch_arrow

    codec, count, body, times = batch_arrow.make_body(rows, compression)
    head = BatchHeader(codec, base_offset, count, len(body), *times, producer, sequence)
    return _sealed(head, body, int(google_crc32c.value(body)))


def _assemble_few(few: Few, base_offset: int, producer: bytes | None, sequence: int) -> Batch:
    body = batch_few.write(few)
    head = BatchHeader(Codec.NONE, base_offset, len(few.payloads), len(body), *few.time_range, producer, sequence)
    return _sealed(head, body, int(google_crc32c.value(body)), few)


def _few_untrusted(head: BatchHeader, body: bytes | memoryview) -> Few | None:
    """Read a few events; None if the body is a view and not a copy, because then it is too large for this."""
    if head.codec is not Codec.NONE or not isinstance(body, bytes):
        return None
    return batch_few.read_untrusted(body, head.event_count)


def _sealed(head: BatchHeader, body: pa.Buffer | bytes | memoryview, body_crc: int, few: Few | None = None) -> Batch:
    return Batch(head, None, body_crc, few=few, body=body)


def _crc_of_body(data: bytes) -> int:
    if len(data) <= SMALL_BYTES_MAX:
        return int(google_crc32c.value(data[HEADER_BYTES:]))
    from weft.model import batch_arrow

    return batch_arrow.body_crc(data)


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


def _columns_of(
    events: Sequence[Event],
) -> tuple[list[bytes], list[int], list[bytes | None] | None, list[Headers | None] | None]:
    """The columns of events: payloads, timestamps, keys, headers."""
    try:
        payloads = [event.payload for event in events]
        timestamps_us = [event.timestamp_us for event in events]
        keys = [event.key for event in events]
        headers = [event.headers for event in events]
    except AttributeError:
        things: Sequence[object] = events
        culprit = next(index for index, thing in enumerate(things) if not isinstance(thing, Event))
        raise UsageError(f"not an Event but {type(things[culprit]).__name__}", event=culprit) from None
    # Mostly nobody uses headers, and then the column costs nothing.
    some_keys = keys if keys.count(None) < len(keys) else None
    some_headers = headers if headers.count(None) < len(headers) else None
    return payloads, timestamps_us, some_keys, some_headers
