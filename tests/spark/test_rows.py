"""Stored batches as Spark's rows."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from weft.client import ReceivedBatch
from weft.limits import MIB, SPARK_BATCH_ROWS
from weft.model import SCHEMA, Batch, Epoch, Event, NodeId, Stream, Topic
from weft.spark.offsets import Place
from weft.spark.options import COLUMNS
from weft.spark.rows import SPARK_BATCH_BYTES, RowMaker, grouped, schema_of, stored_columns

PLACE = Place(Stream(Topic("plant.a"), NodeId("node-a"), 3), Epoch(7))


def received(first: int, rows: pa.RecordBatch) -> ReceivedBatch:
    return ReceivedBatch(*PLACE, first, rows)


def numbered(first: int, count: int, payload: bytes = b"x") -> ReceivedBatch:
    rows = pa.record_batch(
        [
            pa.array(np.arange(first, first + count)),
            pa.nulls(count, pa.binary()),
            pa.nulls(count, SCHEMA[2].type),
            pa.repeat(pa.scalar(payload), count),
        ],
        schema=SCHEMA,
    )
    return received(first, rows)


def test_an_event_as_a_row() -> None:
    events = [Event(b"21.5", 1_000_001, b"k", {"unit": "C", "n": "1"}), Event(b"", -1), Event(b"x", 0, b"", {})]
    (rows,) = RowMaker(COLUMNS).rows([received(40, Batch.from_events(events).record_batch)])
    assert rows.schema == schema_of(COLUMNS)
    rows.validate(full=True)
    assert rows.to_pylist()[0] == {
        "key": b"k",
        "value": b"21.5",
        "topic": "plant.a",
        "partition": 3,
        "offset": 40,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC),
        "headers": [("unit", "C"), ("n", "1")],
        "origin": "node-a",
        "epoch": 7,
    }
    assert [row["key"] for row in rows.to_pylist()] == [b"k", None, b""]
    assert [row["headers"] for row in rows.to_pylist()[1:]] == [None, []]
    assert rows.column("offset").to_pylist() == [40, 41, 42]


@pytest.mark.parametrize("columns", [COLUMNS, ("value",), ("offset", "key"), tuple(reversed(COLUMNS))])
def test_types_are_exactly_those_that_spark_expects(columns: tuple[str, ...]) -> None:
    """SPARK.md, trap 7: this is the comparison that Spark makes."""
    spark_schema = from_arrow_schema(schema_of(columns))
    (rows,) = RowMaker(columns).rows([numbered(0, 5)])
    assert to_arrow_schema(spark_schema, timezone="UTC").equals(rows.schema)
    assert spark_schema.names == list(columns)


@pytest.mark.parametrize(
    ("columns", "fetched"),
    [
        (COLUMNS, ()),
        (("value",), ("payload",)),
        (("key", "topic", "timestamp"), ("key", "timestamp")),
        (("offset", "topic", "epoch"), ("timestamp",)),
    ],
)
def test_only_what_is_needed_is_fetched(columns: tuple[str, ...], fetched: tuple[str, ...]) -> None:
    assert stored_columns(columns) == fetched
    stored = numbered(5, 3).record_batch.select(list(fetched or SCHEMA.names))
    (rows,) = RowMaker(columns).rows([received(5, stored)])
    assert rows.schema.names == list(columns)
    assert rows.num_rows == 3


SIZES = st.lists(st.integers(1, 4000) | st.sampled_from([SPARK_BATCH_ROWS, 3 * SPARK_BATCH_ROWS + 1]), max_size=8)


@settings(max_examples=30)
@given(SIZES, st.integers(0, 5))
def test_batches_are_gathered_and_cut_and_nothing_is_lost(sizes: list[int], gap: int) -> None:
    """``gap``: compaction leaves offsets out between batches."""
    batches, first = [], 100
    for size in sizes:
        batches.append(numbered(first, size))
        first += size + gap
    made = list(RowMaker(("offset", "timestamp")).rows(batches))
    offsets = [offset for batch in batches for offset in batch.offsets]
    assert [each for rows in made for each in rows.column("offset").to_pylist()] == offsets
    assert all(rows.num_rows <= SPARK_BATCH_ROWS for rows in made)
    assert all(one.num_rows + two.num_rows > SPARK_BATCH_ROWS for one, two in pairwise(made))
    assert [each for rows in made for each in rows.column("timestamp").cast(pa.int64()).to_pylist()] == offsets


def test_large_events_make_small_batches() -> None:
    groups = list(grouped([numbered(0, 100, bytes(MIB))]))
    assert sum(len(part) for group in groups for part in group) == 100
    for group in groups:
        assert sum(part.record_batch.nbytes for part in group) <= SPARK_BATCH_BYTES + MIB


def of(place: Place, batch: ReceivedBatch) -> ReceivedBatch:
    return ReceivedBatch(*place, batch.first_offset, batch.record_batch)


def test_rows_of_small_streams_go_together() -> None:
    places = [Place(Stream(Topic(f"t{n}"), NodeId(f"n{n % 2}"), n % 3), Epoch(n)) for n in range(30)]
    small = [of(place, numbered(first, 50)) for place in places for first in (0, 50)]
    (together,) = RowMaker(COLUMNS).rows(small)
    together.validate(full=True)
    assert together.num_rows == 3000
    assert together.schema == schema_of(COLUMNS)
    found = [[row[name] for name in ("topic", "origin", "partition", "epoch")] for row in together.to_pylist()[::100]]
    assert found == [[f"t{n}", f"n{n % 2}", n % 3, n] for n in range(30)]
    assert together.column("topic").value_counts().field("counts").to_pylist() == [100] * 30
    assert together.column("offset").to_pylist() == list(range(100)) * 30
    assert list(RowMaker(COLUMNS).rows([])) == []


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6000)), max_size=8))
def test_every_row_is_of_its_stream(drawn: list[tuple[int, int]]) -> None:
    """In whatever order streams come, and however long the stream before was."""
    places = [Place(Stream(Topic(f"t{n}"), NodeId("n"), n), Epoch(1)) for n in range(3)]
    batches = [of(places[which], numbered(0, count)) for which, count in drawn]
    made = list(RowMaker(("topic", "partition", "offset")).rows(batches))
    found = [row for rows in made for row in zip(*(each.to_pylist() for each in rows.columns), strict=True)]
    assert found == [(f"t{which}", which, offset) for which, count in drawn for offset in range(count)]
    assert all(one.num_rows + two.num_rows > SPARK_BATCH_ROWS for one, two in pairwise(made))
