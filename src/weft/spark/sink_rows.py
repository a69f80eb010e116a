"""Rows of a DataFrame as batches for their topics. Pure: columns in, columns out, without handling single rows.

=========  ===================  =================================================================================
column     Spark type           meaning
=========  ===================  =================================================================================
value      binary or string     the event; needed
topic      string               where to; needed unless the option ``topic`` is set, which then counts for all rows
key        binary or string     which events belong together
headers    map<string, string>  names and values
timestamp  timestamp            of the event; without one, the time of writing
partition  int                  of the topic; without one, 0
=========  ===================  =================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import UsageError
from weft.limits import BATCH_EVENTS_MAX, EVENT_PAYLOAD_BYTES_MAX, PARTITIONS_MAX
from weft.model import Batch, Topic, parse_topic
from weft.spark.staging import Target

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
from weft.limits import MIB

SINK_BATCH_BYTES: Final = 1 * MIB  # of rows that are published together, the same as the client's own batches
SINK_GATHER_BYTES: Final = 8 * MIB  # of rows gathered before they are sorted by topic: many topics, larger batches


# For each column, the types it may have, by Spark's names in a schema.
TYPES: Final = {
    "value": ("binary", "string"),
    "topic": ("string",),
    "key": ("binary", "string"),
    "headers": ("map<string,string>",),
    "timestamp": ("timestamp",),
    "partition": ("int",),
}
OWN_TOKEN: Final = "weft"  # noqa: S105  of topics, no secret


class BadRows(UsageError):
    """A DataFrame cannot be written to the mesh, because of a column or a row."""


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raise BadRows unless a DataFrame with these columns can be written; ``topic`` is the option."""
    names = [field.name for field in schema.fields]
    for field in schema.fields:
        kinds = TYPES.get(field.name)
        if kinds is None:
            raise BadRows(f"the sink has no column {field.name!r}: select those it has", known=", ".join(TYPES))
        have = field.dataType.simpleString()
        if have.split(" ")[0] not in kinds:  # a string may have a collation behind it
            raise BadRows(f"column {field.name} is {have}: cast it", need=" or ".join(kinds))
    if len(set(names)) < len(names):
        raise BadRows("a column is there twice", columns=", ".join(names))
    if "value" not in names:
        raise BadRows("there is no column value, which is the event itself", have=", ".join(names) or "none")
    if topic is None and "topic" not in names:
        raise BadRows("no topic to write to: give the option topic, or a column topic", have=", ".join(names))


def gathered(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in pieces of a few MiB, in order: the larger they are, the more rows of a topic come together."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= SINK_GATHER_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def batches(rows: pa.Table, topic: Topic | None, now_us: int) -> Iterator[tuple[Target, Batch]]:
    """Batches for each topic and partition, the rows of each in their order; raise BadRows."""
    events = _events(rows, now_us)
    for target, some in _by_target(rows, events, topic):
        for part in _parts(some):
            yield target, _batch(target, part)


def _events(rows: pa.Table, now_us: int) -> pa.Table:
    """The columns that a batch stores, made from these rows."""
    columns: dict[str, Any] = {"payload": _without_nulls(rows, "value")}
    for name in ("key", "headers"):
        if name in rows.schema.names:
            columns[name] = rows.column(name)
    now = pa.scalar(now_us, pa.timestamp("us", "UTC"))
    if "timestamp" in rows.schema.names:
        columns["timestamp"] = pc.fill_null(rows.column("timestamp").cast(now.type), now)
    else:
        columns["timestamp"] = pa.repeat(now, rows.num_rows)
    return pa.table(columns)


def _without_nulls(rows: pa.Table, name: str) -> Any:
    column = rows.column(name)
    if column.null_count:
        raise BadRows(f"column {name} is null in {column.null_count} of {len(column)} rows: every event needs one")
    return column


def _by_target(rows: pa.Table, events: pa.Table, topic: Topic | None) -> Iterator[tuple[Target, pa.Table]]:
    """The events of each topic and partition. The sort is stable, so they stay in order."""
    topics, topic_of = _topics(rows, topic)
    codes = topic_of * PARTITIONS_MAX + _partitions(rows)
    if (codes == codes[0]).all():
        yield Target(topics[codes[0] // PARTITIONS_MAX], int(codes[0]) % PARTITIONS_MAX), events
        return
    order = np.argsort(codes, kind="stable")
    events, codes = events.take(pa.array(order)), codes[order]
    begins = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for first, end in pairwise(begins):
        code = int(codes[first])
        yield Target(topics[code // PARTITIONS_MAX], code % PARTITIONS_MAX), events.slice(first, end - first)


def _topics(rows: pa.Table, topic: Topic | None) -> tuple[list[Topic], Any]:
    """The distinct topics, and for each row which of them it has."""
    if topic is not None:
        return [topic], np.zeros(rows.num_rows, np.int64)
    coded = _without_nulls(rows, "topic").combine_chunks().dictionary_encode()
    return list(map(check_topic, coded.dictionary.to_pylist())), coded.indices.to_numpy().astype(np.int64)


def check_topic(text: str) -> Topic:
    """Check that a sink may write to this topic: what the node would refuse later, after deciding, is refused now."""
    topic = parse_topic(text)
    if topic.split(".", 1)[0] == OWN_TOKEN:
        raise BadRows("topics below weft. belong to the mesh; write to another one", topic=topic)
    return topic


def _partitions(rows: pa.Table) -> Any:
    if "partition" not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int64)
    partitions = pc.fill_null(rows.column("partition"), 0).combine_chunks().to_numpy().astype(np.int64)
    for extreme in (partitions.min(), partitions.max()):
        if not 0 <= extreme < PARTITIONS_MAX:
            raise BadRows("no such partition", partition=int(extreme), limit=PARTITIONS_MAX - 1)
    return partitions


def _parts(events: pa.Table) -> Iterator[pa.Table]:
    """Split rows in half until each part is small enough for a batch; a single row is never split."""
    if events.num_rows > 1 and (events.nbytes > SINK_BATCH_BYTES or events.num_rows > BATCH_EVENTS_MAX):
        middle = events.num_rows // 2
        yield from _parts(events.slice(0, middle))
        yield from _parts(events.slice(middle))
    else:
        yield events


def _batch(target: Target, events: pa.Table) -> Batch:
    try:
        batch = Batch.from_arrow(events)
    except UsageError as error:
        facts = {name: value for name, value in error.facts.items() if name != "event"}
        raise BadRows(error.what, topic=target.topic, **facts) from None
    if len(batch.data) > EVENT_PAYLOAD_BYTES_MAX:
        raise BadRows(
            "a row is too large to be staged", topic=target.topic, bytes=len(batch.data), limit=EVENT_PAYLOAD_BYTES_MAX
        )
    return batch
