"""``archive``: the table ends equal to the log, row by row, whatever happens to the driver and wherever it runs."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Never

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.pipelines.archiving import Publisher, in_order, kill_while_it_writes, table_rows
from tests.pipelines.lake.made import configure_catalog
from tests.pipelines.s3 import S3, SECRET_KEY
from weft.client.blocking import Client
from weft.configuration import BadConfig, Source, validated
from weft.lake.address import TableError
from weft.limits import EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN
from weft.model.traces import TRACEPARENT, SpanRef
from weft.pipelines import archive, lake
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.tracing import BatchTraces
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

pytestmark = pytest.mark.xdist_group("spark")
SOAK = os.environ.get("WEFT_SOAK") == "1"
ROUNDS = 10 if SOAK else 1
KILLS_S_MAX = 3600.0 if SOAK else 600.0  # a minute for each of ten drivers, on a machine with a load of 30
KINDS = (
    [(kind, place) for kind in lake.TableFormat for place in ("directory", "s3")]
    if SOAK
    else [(lake.TableFormat.DELTA, "directory"), (lake.TableFormat.PARQUET, "s3")]
)


@pytest.fixture(scope="module")
def mesh() -> Iterator[BlockingMesh]:
    with blocking_mesh(nodes=1) as made:
        yield made


@pytest.fixture
def client(mesh: BlockingMesh) -> Iterator[Client]:
    with mesh.client("n0") as made:
        yield made


def configured(mesh: BlockingMesh, place: Path, **changes: object) -> dict[str, object]:
    """A configuration, as a file would have it."""
    values: dict[str, object] = {
        "mesh": {"nodes": [mesh.address("n0")], "insecure": True},
        "source": {"subscribe": "plant.>", "max_events_per_trigger": 500},
        "table": {"path": str(place / "data" / "table")},
        "run": {"checkpoint": str(place / "data" / "checkpoint"), "trigger": "100 milliseconds"},
        "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}},
    }
    return values | changes


def settings_of(values: dict[str, object]) -> ArchiveSettings:
    return validated(ArchiveSettings, [Source("a test", values)])


def archive_all(spark: SparkSession, values: dict[str, object]) -> tuple[ArchiveSettings, int]:
    """Archive all there is, in this process; how many events that were, as Spark has counted."""
    settings = settings_of(values | {"run": values["run"] | {"trigger": "available-now"}})  # type: ignore[operator]
    (query,) = archive.start(spark, settings)
    query.awaitTermination()
    return settings, sum(int(progress["numInputRows"]) for progress in query.recentProgress)


@pytest.mark.req("SPK-03")
def test_the_table_is_the_log_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        publisher = Publisher(client, seed=1)
        values = configured(mesh, tmp_path)
        for _ in range(2):
            before = len(publisher.rows)
            for _ in range(10):
                publisher.publish()
            settings, counted = archive_all(spark, values)
            assert counted == len(publisher.rows) - before
            assert in_order(table_rows(settings)) == in_order(publisher.rows)
        days = {str(file.partition["date"]) for file in lake.open_table(settings.table_settings()).files()}
        assert days == {"2026-11-14", "2026-11-15"}, "by UTC"


@pytest.mark.req("SEE-03")
def test_a_micro_batch_has_a_span_that_is_joined_to_the_traces_of_its_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What Spark tells of a batch is enough to find them."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    span = SpanRef(0xABC, 0xDEF)
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        client.publish("plant.traced", b"1", headers={TRACEPARENT: span.traceparent})
        client.publish("plant.untraced", b"2")
        values = configured(mesh, tmp_path)
        settings = settings_of(values | {"run": values["run"] | {"trigger": "available-now"}})  # type: ignore[operator]
        (query,) = archive.start(spark, settings)
        query.awaitTermination()
        traces = BatchTraces(provider.get_tracer("test"), "night", lambda: client)
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                traces.finished("archive", progress)
    batch, handled = exporter.get_finished_spans()
    assert (batch.name, batch.parent, handled.name) == ("night batch", None, "night handle")
    assert [link.context.trace_id for link in batch.links] == [span.trace_id]
    assert handled.parent is not None and (handled.parent.trace_id, handled.parent.span_id) == span
    assert batch.context is not None and [link.context.span_id for link in handled.links] == [batch.context.span_id]
    assert batch.attributes is not None and batch.attributes["messaging.batch.message_count"] == 2
    assert batch.start_time is not None and batch.end_time is not None and batch.start_time < batch.end_time


@pytest.mark.req("SPK-03")
def test_a_lost_checkpoint_puts_no_event_into_the_table_twice(spark: SparkSession, tmp_path: Path) -> None:
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        publisher = Publisher(client, seed=2, topics=2)
        values = configured(mesh, tmp_path)
        publisher.publish()
        archive_all(spark, values)
        shutil.rmtree(tmp_path / "data" / "checkpoint")
        client.publish("other.topic", b"not selected")
        for _ in range(5):
            publisher.publish()
        settings, _ = archive_all(spark, values)
        assert in_order(table_rows(settings)) == in_order(publisher.rows)


@pytest.mark.req("SPK-03")
def test_a_lost_checkpoint_is_made_up_for_also_if_the_first_batch_after_it_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has written down where that batch ends, and asks once more where it begins."""

    def fails(*_: object, **__: object) -> Never:
        raise TableError("the store is away")

    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        publisher = Publisher(client, seed=6, topics=2)
        values = configured(mesh, tmp_path)
        publisher.publish()
        archive_all(spark, values)
        shutil.rmtree(tmp_path / "data" / "checkpoint")
        publisher.publish()
        with monkeypatch.context() as patch, pytest.raises(StreamingQueryException):
            patch.setattr(lake, "append_batch", fails)
            archive_all(spark, values)
        settings, _ = archive_all(spark, values)
        assert in_order(table_rows(settings)) == in_order(publisher.rows)


@pytest.mark.parametrize(
    ("layout", "partitions"),
    [
        ({"topics": "token"}, {"date": {"2026-11-14"}, "topic_token": {"plant", "office"}}),
        ({"topics": "bucket", "buckets": 2}, {"date": {"2026-11-14"}, "topic_bucket": {"0", "1"}}),
    ],
)
def test_a_table_can_be_partitioned_by_topic_too(
    spark: SparkSession, tmp_path: Path, layout: dict[str, object], partitions: dict[str, set[str]]
) -> None:
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        for number in range(8):
            rows = pa.table({"payload": [b"x"], "timestamp": pa.array([20_771 * 86_400_000_000], pa.int64())})
            client.publish_batch(f"{'plant' if number % 2 else 'office'}.line{number}", rows)
        values = configured(mesh, tmp_path, layout=layout, source={"subscribe": ">"})
        settings, _ = archive_all(spark, values)
        found: dict[str, set[str]] = {}
        for file in lake.open_table(settings.table_settings()).files():
            for name, value in file.partition.items():
                found.setdefault(name, set()).add(str(value))
        assert found == partitions
        assert lake.read(spark, settings.table_settings()).where("topic = 'plant.line1'").count() == 1


def test_times_that_nobody_can_have_meant_do_not_stop_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    times = [0, -1, EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN, 20_772 * 86_400_000_000]
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        client.publish_batch("plant.odd", pa.table({"payload": [b"x"] * 5, "timestamp": pa.array(times, pa.int64())}))
        settings, _ = archive_all(spark, configured(mesh, tmp_path))
        rows = lake.read(spark, settings.table_settings()).selectExpr("unix_micros(timestamp) t", "date").collect()
        assert sorted(row.t for row in rows) == sorted(times)
        assert sorted(str(row.date) for row in rows) == ["2026-11-15", "None", "None", "None", "None"]


def test_settings_are_refused_in_words(mesh: BlockingMesh, tmp_path: Path) -> None:
    for change, words in (
        ({"layout": {"topics": "hash"}}, "layout.topics = \"hash\": has to be 'none', 'token' or 'bucket'"),
        ({"table": {"path": "/t", "format": "orc"}}, "table.format"),
        ({"source": {"subscribe": "a.>.b"}}, "source.subscribe"),
    ):
        with pytest.raises(BadConfig) as refusal:
            settings_of(configured(mesh, tmp_path, **change))
        assert words in str(refusal.value)


@pytest.mark.timeout(KILLS_S_MAX)
@pytest.mark.xdist_group("drivers")
@pytest.mark.req("SPK-03", "LAK-01")
@pytest.mark.parametrize(("kind", "place"), KINDS)
def test_a_driver_that_is_killed_again_and_again_leaves_every_event_once(
    spark: SparkSession,
    tmp_path: Path,
    kind: lake.TableFormat,
    place: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last of its drivers, which goes on to the end, is the session of this process."""
    table: dict[str, object] = {"path": str(tmp_path / "data" / "table"), "format": kind.value}
    if place == "s3":
        s3: S3 = request.getfixturevalue("s3")
        table |= {"path": f"{s3.bucket()}/table", "store": s3.section}
        if kind is lake.TableFormat.ICEBERG:
            configure_catalog(monkeypatch, "lake", s3.iceberg(tmp_path / "catalog.db"))
            table["catalog"] = "lake"
    chance = random.Random(int(os.environ.get("WEFT_SEED", "7")))  # noqa: S311  a seed is the point
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        publisher = Publisher(client, seed=3)
        values = configured(mesh, tmp_path, table=table)
        store = settings_of(values).table_settings().store()
        publisher.publish()
        for _ in range(ROUNDS):
            kill_while_it_writes(tmp_path, values, store, publisher, chance, patience=60)
        archive_all(spark, values | {"source": {"subscribe": "plant.>", "max_events_per_trigger": 100_000}})
        rows = table_rows(settings_of(values))
        assert len(rows) == len(publisher.rows)
        assert in_order(rows) == in_order(publisher.rows)
        if place == "s3":
            assert SECRET_KEY not in (tmp_path / "driver.log").read_text()
