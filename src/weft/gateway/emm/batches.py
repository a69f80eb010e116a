"""Accepted packets as batches for the log, one per topic, and rejected ones for the quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from weft.gateway.emm.rows import Accepted, Header, Rejected, headers_column, same_text
from weft.model import SCHEMA, Batch, Topic

# Headers are mostly the same from event to event: a third of the bytes, and the log writes faster than without.
COMPRESSION: Final = "lz4"


def batches(accepted: Iterable[Accepted]) -> Iterator[tuple[Topic, Batch]]:
    """Each topic's events together, in the order in which they came."""
    for some in accepted:
        rows = pa.RecordBatch.from_arrays(
            [pa.array(some.timestamps_us), some.keys, headers_column(some.headers), some.payloads], schema=SCHEMA
        )
        if len(some.topics) == 1:
            yield some.topics[0], Batch.from_arrow(rows, compression=COMPRESSION)
            continue
        topics = sorted(set(some.topics))  # several names may go to one topic
        numbers = np.array([topics.index(topic) for topic in some.topics], np.int32)[some.codes]
        order = np.argsort(numbers, kind="stable")
        ordered = rows.take(pa.array(order))
        ends = np.searchsorted(numbers[order], np.arange(len(topics)), side="right").tolist()
        first = 0
        for topic, end in zip(topics, ends, strict=True):
            if end > first:
                yield topic, Batch.from_arrow(ordered.slice(first, end - first), compression=COMPRESSION)
            first = end


def quarantined(rejected: Sequence[Rejected], unix_s: float) -> Batch:
    """Datagrams as they came, with reason and source."""
    headers = {
        Header.REASON: pa.array([str(each.reason) for each in rejected], pa.string()),
        Header.SOURCE: pa.array([each.source for each in rejected], pa.string()),
        Header.PROTOCOL: same_text("emm", len(rejected)),
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
