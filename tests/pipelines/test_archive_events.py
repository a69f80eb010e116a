"""What tasks make of events for an archive: without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import date
from functools import partial

import pyarrow as pa
import pytest

from weft.pipelines.archive import ByTopic, LayoutSection
from weft.pipelines.archive_events import Events, bucket, first_token
from weft.spark.options import COLUMNS
from weft.spark.rows import schema_of


def events(*topics: str) -> pa.RecordBatch:
    size = len(topics)
    columns = {
        "topic": pa.array(topics, pa.string()),
        "timestamp": pa.array([20_772 * 86_400_000_000] * size, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "offset": pa.array(range(size), pa.int64()),
    }
    made = [columns.get(each.name, pa.nulls(size, each.type)) for each in schema_of(COLUMNS)]
    return pa.RecordBatch.from_arrays(made, schema=schema_of(COLUMNS))


@pytest.mark.parametrize(
    ("by", "names", "last"),
    [
        (ByTopic.NONE, ("date",), [date(2026, 11, 15)] * 3),
        (ByTopic.TOKEN, ("date", "topic_token"), ["plant", "office", "plant"]),
        (ByTopic.BUCKET, ("date", "topic_bucket"), [bucket(each, 4) for each in ("plant.a", "office", "plant.b")]),
    ],
)
def test_rows_get_the_columns_that_the_table_is_partitioned_by(
    by: ByTopic, names: tuple[str, ...], last: Sequence[object]
) -> None:
    made = LayoutSection(topics=by, buckets=4).events()
    rows = made.laid_out(events("plant.a", "office", "plant.b"))
    assert made.partition_by() == names
    assert rows.schema == made.columns()
    assert rows.column(len(COLUMNS) + len(names) - 1).to_pylist() == last
    assert rows.column("offset").to_pylist() == [0, 1, 2]


def test_a_topic_is_in_the_same_bucket_for_ever() -> None:
    assert [bucket(topic, 16) for topic in ("plant.line1.temp", "plant.line2.temp", "ü")] == [1, 15, 5]
    assert first_token("plant") == first_token("plant.line1.temp") == "plant"


def test_what_travels_to_executors_can_travel() -> None:
    made = LayoutSection(topics=ByTopic.BUCKET).events()
    assert made == Events(made.by_topic)
    copy = pickle.loads(pickle.dumps(made))
    assert copy.laid_out(events("plant.a")) == made.laid_out(events("plant.a"))
    assert isinstance(copy.by_topic.of_topic, partial)
