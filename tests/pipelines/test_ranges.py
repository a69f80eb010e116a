"""What goes through Spark instead of events, and how tasks get the events: without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from weft.errors import UsageError
from weft.limits import SPARK_BATCH_ROWS
from weft.pipelines.ranges import NAME, RangeReader, RangeSource, fetched
from weft.spark.offsets import place_of
from weft.spark.options import COLUMNS, parse_options
from weft.spark.planning import Range
from weft.spark.reading import Reading
from weft.spark.source import RangePartition

OPTIONS = {"nodes": "127.0.0.1:1", "insecure": "true", "subscribe": "plant.>"}


def ranges(*lengths: int) -> tuple[Range, ...]:
    return tuple(
        Range(place_of(f"plant.t{n}", "n0", 0, 1), 5, 5 + size, ("a:1",), 100) for n, size in enumerate(lengths)
    )


@pytest.mark.parametrize("lengths", [(1,), (2,), (3, 4), (SPARK_BATCH_ROWS,), (SPARK_BATCH_ROWS + 1,), (25_000, 7)])
def test_spark_gets_one_row_to_read_by_and_counts_every_event(lengths: tuple[int, ...]) -> None:
    reader = RangeReader(parse_options(OPTIONS))
    batches = list(reader.read(RangePartition(ranges(*lengths))))
    assert sum(batch.num_rows for batch in batches) == sum(lengths)
    rows = [value for batch in batches for value in batch.column(0).drop_null().to_pylist()]
    ((reading, found),) = map(pickle.loads, rows)
    assert (reading.columns, found) == (COLUMNS, ranges(*lengths))
    assert list(reader.read(InputPartition(0))) == [], "Spark's own, when there is nothing"


def test_the_task_that_wants_the_events_fetches_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(_: Reading, wanted: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        for each in wanted:
            yield pa.record_batch({"topic": [each.place.stream.topic] * len(each)})

    monkeypatch.setattr(Reading, "rows", rows)
    told = RangeReader(parse_options(OPTIONS)).read(RangePartition(ranges(3, 2)))
    assert [batch.column("topic").to_pylist() for batch in fetched([next(told)])] == [
        ["plant.t0"] * 3,
        ["plant.t1"] * 2,
    ]


def test_ranges_are_for_streams() -> None:
    with pytest.raises(UsageError, match="weft-ranges is for streams: read weft"):
        RangeSource(OPTIONS).reader(RangeSource(OPTIONS).schema())
    assert RangeSource.name() == NAME
