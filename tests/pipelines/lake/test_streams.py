"""Spark writes tables: streams and single frames, tables of current state, and what readers see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.pipelines.lake.made import COLUMNS, SCHEMA, offsets_of, rows
from weft.lake.files import batch_of
from weft.pipelines import lake
from weft.pipelines.lake import TableError, TableFormat, TableSettings

pytestmark = pytest.mark.xdist_group("spark")
NOW = {"availableNow": True}


class Inbox:
    """A directory that a stream reads: a file is a batch."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._place = place
        self._numbers = iter(range(1000))
        place.mkdir()

    def put(self, *batches: pa.RecordBatch) -> None:
        pq.write_table(pa.Table.from_batches(batches, COLUMNS), self._place / f"{next(self._numbers):03}.parquet")

    def stream(self) -> DataFrame:
        return self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self._place))


@pytest.fixture
def inbox(spark: SparkSession, tmp_path: Path) -> Iterator[Inbox]:
    yield Inbox(spark, tmp_path / "inbox")


def settings(place: Path, kind: TableFormat = TableFormat.DELTA) -> TableSettings:
    return TableSettings(str(place / "table"), kind, ("date",), ("topic",))


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize("kind", list(TableFormat))
def test_a_stream_fills_a_table_and_goes_on_where_it_stopped(
    spark: SparkSession, tmp_path: Path, inbox: Inbox, kind: TableFormat
) -> None:
    table = settings(tmp_path, kind)
    inbox.put(rows(range(10)), rows(range(10, 20), topic="plant.a"))
    inbox.put(rows(range(20, 30), day=20_773))
    for expected in (30, 35):
        query = lake.write_stream(
            inbox.stream(), table, query_name="fill", checkpoint=tmp_path / "checkpoint", trigger=NOW
        )
        query.awaitTermination()
        assert offsets_of(lake.open_table(table)) == list(range(expected)), "by readers of the format"
        read = lake.read(spark, table)
        assert [row.offset for row in read.orderBy("offset").select("offset").collect()] == list(range(expected))
        assert [(each.name, each.dataType) for each in read.schema] == [(each.name, each.dataType) for each in SCHEMA]
        inbox.put(rows(range(30, 35)))
    row = lake.read(spark, table).where("offset = 12").first()
    assert row is not None
    assert (row.topic, bytes(row.value), row.headers) == ("plant.a", b"payload 12", {"unit": "C"})
    queries = {batch[0] for file in lake.open_table(table).files() if (batch := batch_of(file.path))}
    assert len(queries) == 1, "Spark's own query id is the same for as long as there is the checkpoint"
    assert UUID(queries.pop()).version is not None


def test_a_frame_is_added_to_a_table_and_replaces_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = settings(tmp_path)
    lake.register(spark)
    frame = spark.createDataFrame(pa.Table.from_batches([rows(range(10))]))
    for expected in (10, 20):
        frame.write.format("weft-lake").options(**table.options()).mode("append").save()
        assert lake.read(spark, table).count() == expected
    with pytest.raises(Exception, match="weft-lake adds rows: use mode append"):
        frame.write.format("weft-lake").options(**table.options()).mode("overwrite").save()


def test_a_stream_that_does_not_fit_is_refused_before_it_starts(tmp_path: Path, inbox: Inbox) -> None:
    inbox.put(rows(range(1)))
    table = settings(tmp_path)
    lake.prepare(table, SCHEMA)
    with pytest.raises(TableError, match=r"the table has other columns .*column more"):
        lake.write_stream(
            inbox.stream().withColumnRenamed("value", "more"),
            table,
            query_name="odd",
            checkpoint=tmp_path / "checkpoint",
            trigger=NOW,
        )


@pytest.mark.req("SPK-03")
def test_one_query_fills_two_tables_and_a_batch_done_again_changes_neither(
    spark: SparkSession, tmp_path: Path, inbox: Inbox
) -> None:
    even, odd = settings(tmp_path / "even"), settings(tmp_path / "odd", TableFormat.PARQUET)
    done = []

    def write(batch_rows: DataFrame, batch: int) -> None:
        query = lake.query_id(tmp_path / "c")
        done.append(lake.append_batch(batch_rows.where("offset % 2 = 0"), even, query=query, batch=batch))
        if len(done) == 1:
            raise RuntimeError("killed between the two tables")
        lake.append_batch(batch_rows.where("offset % 2 = 1"), odd, query=query, batch=batch)

    inbox.put(rows(range(10)))
    for is_killed in (True, False):
        query = inbox.stream().writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "c"))
        running = query.trigger(availableNow=True).start()
        if is_killed:
            with pytest.raises(Exception, match="killed between"):
                running.awaitTermination()
        else:
            running.awaitTermination()
    assert done == [True, False]
    assert offsets_of(lake.open_table(even)) == list(range(0, 10, 2))
    assert offsets_of(lake.open_table(odd)) == list(range(1, 10, 2))


@pytest.mark.parametrize("content", [None, "", "{}", '{"id": 5}'])
def test_a_query_has_its_id_from_its_checkpoint(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "metadata").write_text(content)
    with pytest.raises(TableError, match="the checkpoint has no id of a query"):
        lake.query_id(tmp_path)


# --- tables of current state -----------------------------------------------------------------------------------------


def test_a_table_of_current_state_has_the_latest_of_each_key(spark: SparkSession, tmp_path: Path, inbox: Inbox) -> None:
    table = TableSettings(str(tmp_path / "table"))
    inbox.put(rows(range(5), topic="a"), rows(range(5, 8), topic="b"))
    inbox.put(rows(range(2, 4), topic="a"), rows(range(8, 9), topic="b"), rows(range(9, 10), topic="c"))
    query = lake.upsert_stream(
        inbox.stream(),
        table,
        keys=["topic"],
        order_by=["timestamp", "offset"],
        query_name="state",
        checkpoint=tmp_path / "checkpoint",
        trigger=NOW,
    )
    query.awaitTermination()
    found = lake.read(spark, table).select("topic", "offset").collect()
    assert sorted((row.topic, row.offset) for row in found) == [("a", 4), ("b", 8), ("c", 9)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": TableFormat.ICEBERG}, "has to be a Delta table .*format iceberg"),
        ({"keys": []}, "needs keys"),
        ({"order_by": ["time"]}, "no such column .*column time"),
        ({"partition_by": ("date",)}, "partitioned by keys only"),
    ],
)
def test_what_cannot_be_merged_is_refused(tmp_path: Path, inbox: Inbox, changes: dict[str, object], words: str) -> None:
    inbox.put(rows(range(1)))
    layout = {name: changes.pop(name) for name in ("format", "partition_by") if name in changes}
    wanted: dict[str, object] = {"keys": ["topic"], "order_by": ["offset"]} | changes
    with pytest.raises(TableError, match=words):
        lake.upsert_stream(
            inbox.stream(),
            TableSettings(str(tmp_path / "table"), **layout),  # type: ignore[arg-type]
            query_name="state",
            checkpoint=tmp_path / "c",
            trigger=NOW,
            **wanted,  # type: ignore[arg-type]
        )
