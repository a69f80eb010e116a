"""Accepted packets as batches for the log, one per topic, and rejected ones for the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from weft.gateway.emm.rows import Accepted, Header, Rejected, headers_column
from weft.model import SCHEMA, Batch, Topic
from weft.model.batch_schema import HEADERS_TYPE
from weft.model.traces import SpanRef
from weft.wire.datagram import protocol_of_untrusted
from weft.wire.reject import BadPacket

# Headers are mostly the same from event to event: compression saves two thirds of the bytes, and the log writes faster.
COMPRESSION: Final = "lz4"
NEITHER: Final = "neither"  # of the two protocols


def batches(
    accepted: Iterable[Accepted], begin_trace: Callable[[Topic, int], SpanRef | None]
) -> Iterator[tuple[Topic, Batch]]:
    """Each topic's events together, in the order in which they came. A batch of devices that know no traces may begin
    one, which its first event carries."""

    def batch(topic: Topic, rows: pa.RecordBatch) -> Batch:
        span = None if has_traces else begin_trace(topic, rows.num_rows)
        return Batch.from_arrow(rows if span is None else _in_span(rows, span), compression=COMPRESSION)

    for some in accepted:
        has_traces = Header.TRACEPARENT in some.headers
        rows = pa.RecordBatch.from_arrays(
            [pa.array(some.timestamps_us), some.keys, headers_column(some.headers), some.payloads], schema=SCHEMA
        )
        if len(some.topics) == 1:
            yield some.topics[0], batch(some.topics[0], rows)
            continue
        topics = sorted(set(some.topics))  # several names may go to one topic
        numbers = np.array([topics.index(topic) for topic in some.topics], np.int32)[some.codes]
        order = np.argsort(numbers, kind="stable")
        ordered = rows.take(pa.array(order))
        ends = np.searchsorted(numbers[order], np.arange(len(topics)), side="right").tolist()
        first = 0
        for topic, end in zip(topics, ends, strict=True):
            if end > first:
                yield topic, batch(topic, ordered.slice(first, end - first))
            first = end


def _in_span(rows: pa.RecordBatch, span: SpanRef) -> pa.RecordBatch:
    headers = rows.column("headers")
    first = [*(headers[0].as_py() or ()), (str(Header.TRACEPARENT), span.traceparent)]
    marked = pa.concat_arrays([pa.array([first], HEADERS_TYPE), headers.slice(1)])
    return rows.set_column(rows.schema.get_field_index("headers"), SCHEMA.field("headers"), marked)


def quarantined(rejected: Sequence[Rejected], unix_s: float) -> Batch:
    """Datagrams as they came, with reason and source."""
    headers = {
        Header.REASON: pa.array([str(each.reason) for each in rejected], pa.string()),
        Header.SOURCE: pa.array([each.source for each in rejected], pa.string()),
        Header.PROTOCOL: pa.array([_protocol(each.data) for each in rejected], pa.string()),
    }
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(rejected), int(unix_s * 1_000_000), np.int64)),
            pa.nulls(len(rejected), pa.binary()),
            headers_column(headers),
            pa.array([each.data for each in rejected], pa.binary()),
        ],
        schema=SCHEMA,
    )
    return Batch.from_arrow(rows, compression=COMPRESSION)


def _protocol(datagram: bytes) -> str:
    try:
        return str(protocol_of_untrusted(datagram))
    except BadPacket:
        return NEITHER
