"""Rates, sizes and latencies per topic and window, from the mesh and from an archive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pydantic import ValidationError
from pyspark.sql import SparkSession

from weft.pipelines import lake
from weft.pipelines.rollup import PIPELINE, RollupSettings, WindowSection, measured, start, windows
from weft.testing import blocking_mesh

pytestmark = pytest.mark.xdist_group("spark")

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUERY_TIMEOUT_S = 480  # a machine that is busy with other tests takes its time
COLUMNS = "topic string, timestamp timestamp, headers map<string, string>, value binary"


def micros(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)


def event(topic: str, after_s: float, size: int = 4, **headers: str) -> tuple[Any, ...]:
    return topic, NOON + timedelta(seconds=after_s), headers or None, bytes(size)


def rolled_up(spark: SparkSession, rows: list[tuple[Any, ...]], *, live: bool = False) -> list[dict[str, Any]]:
    """The rows of windows of a minute, by topic and time."""
    window = WindowSection(sent_header="sent")
    frame = windows(measured(spark.createDataFrame(rows, COLUMNS), window, live=live), window)
    return [row.asDict() for row in frame.orderBy("topic", "window_start").collect()]


def table_rows(path: Path) -> list[dict[str, Any]]:
    """As any reader of Delta sees the table."""
    rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["window_start"]))


# --- what a row says ---------------------------------------------------------------------------------------------


def test_a_row_counts_the_events_of_a_topic_in_a_window(spark: SparkSession) -> None:
    rows = rolled_up(
        spark, [event("a", 0, 10), event("a", 59.9, 30), event("a", 60, 100), event("b", 30, 1), event("b", 31, 2)]
    )
    assert [(row["topic"], row["window_start"].minute, row["events"], row["payload_bytes"]) for row in rows] == [
        ("a", 0, 2, 40),
        ("a", 1, 1, 100),
        ("b", 0, 2, 3),
    ]
    first = rows[0]
    assert first["events_per_s"] == pytest.approx(2 / 60)
    assert first["payload_bytes_per_s"] == pytest.approx(40 / 60)
    assert (first["payload_bytes_p50"], first["payload_bytes_p99"], first["payload_bytes_max"]) == (10, 30, 30)
    assert (first["window_end"] - first["window_start"]).total_seconds() == 60
    assert first["date"] == NOON.date()


def test_percentiles_are_those_of_the_events(spark: SparkSession) -> None:
    sent = [event("a", 1, 1, sent=str(micros(NOON) + 1_000_000 - 1_000 * delay_ms)) for delay_ms in range(1, 101)]
    (row,) = rolled_up(spark, sent)
    assert row["sent_events"] == 100
    names = ("p50", "p95", "p99", "max")
    assert [row[f"sent_to_timestamp_ms_{name}"] for name in names] == [50.0, 95.0, 99.0, 100.0]


def test_a_header_that_is_no_time_of_about_then_is_counted_as_rejected(spark: SparkSession) -> None:
    bad = ["", "soon", "12.5", "-5", "0", "99999999999999999", "1" * 400]
    rows = rolled_up(
        spark, [each for n, value in enumerate(bad) for each in (event(f"t{n}", 0), event(f"t{n}", 1, sent=value))]
    )
    for value, row in zip(bad, rows, strict=True):
        assert (row["events"], row["sent_events"], row["sent_rejected"]) == (2, 0, 1), value
        assert row["sent_to_timestamp_ms_p50"] is None, value


def test_clocks_that_disagree_show_as_negative_delays(spark: SparkSession) -> None:
    (row,) = rolled_up(spark, [event("a", 0, sent=str(micros(NOON) + 2_500))])
    assert row["sent_to_timestamp_ms_max"] == -2.5


def test_the_time_to_read_is_measured_only_while_events_come(spark: SparkSession) -> None:
    now = datetime.now(UTC)  # noqa: TID251  Spark looks at the clock itself
    rows = [("a", now - timedelta(seconds=2), None, b"")]
    (live,) = rolled_up(spark, rows, live=True)
    assert 2_000 <= live["timestamp_to_read_ms_p50"] < 120_000
    (old,) = rolled_up(spark, rows)
    assert old["timestamp_to_read_ms_max"] is None


def test_an_event_of_an_impossible_time_counts_where_it_was_read(spark: SparkSession) -> None:
    before = datetime.now(UTC)  # noqa: TID251  Spark looks at the clock itself
    times = [before + timedelta(days=400), datetime(1969, 12, 31, tzinfo=UTC)]
    rows = rolled_up(spark, [(topic, time, None, b"") for topic, time in zip("ab", times, strict=True)], live=True)
    for row in rows:
        assert (row["events"], row["misdated_events"]) == (1, 1)
        assert abs(row["window_start"].replace(tzinfo=UTC) - before) < timedelta(minutes=5)
        assert row["timestamp_to_read_ms_max"] is None


# --- settings ----------------------------------------------------------------------------------------------------


def settings(tmp_path: Path, **more: object) -> RollupSettings:
    given = {"run": {"checkpoint": tmp_path / "checkpoint", "trigger": "available-now"}}
    return RollupSettings.model_validate({**given, "table": {"path": tmp_path / "table"}, **more})


@pytest.mark.parametrize("more", [{}, {"source": {"subscribe": ">"}, "archive": {"path": "/tmp/x"}}])
def test_there_is_one_input(tmp_path: Path, more: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"either \[source\].* or \[archive\]"):
        settings(tmp_path, **more)


@pytest.mark.parametrize("window", [{"length": "a while"}, {"late": "-1 minute"}, {"sent_header": ""}])
def test_a_bad_window_is_refused(tmp_path: Path, window: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=next(iter(window))):
        settings(tmp_path, source={"subscribe": ">"}, window=window)


# --- stories -----------------------------------------------------------------------------------------------------


@pytest.mark.req("SPK-03")
def test_windows_from_the_mesh_are_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """Each run takes up where the last one was; a window is written when later events show that it is over."""
    with blocking_mesh(nodes=1) as mesh, mesh.client() as client:
        wanted = settings(
            tmp_path,
            mesh={"nodes": [mesh.address("n0")], "insecure": True},
            source={"subscribe": "plant.>"},
            window={"length": "1 minute", "late": "2 minutes"},
        )

        def publish(topic: str, *after_s: float) -> None:
            times = [NOON + timedelta(seconds=each) for each in after_s]
            rows = {"payload": [b"1234"] * len(times), "timestamp": pa.array(times, pa.timestamp("us", "UTC"))}
            client.publish_batch(topic, pa.table(rows))

        def run() -> list[tuple[str, int, int]]:
            for query in start(spark, wanted):
                assert query.awaitTermination(QUERY_TIMEOUT_S)
            rows = table_rows(tmp_path / "table")
            return [(row["topic"], row["window_start"].minute, row["events"]) for row in rows]

        publish("plant.a", 0, 10, 20)
        publish("plant.b", 30)
        assert run() == []  # the window may still get more
        publish("plant.a", 59, 301)  # late, but not too late; and one that ends the wait
        ended = [("plant.a", 0, 4), ("plant.b", 0, 1)]
        assert run() == ended
        publish("plant.a", 5)  # too late
        assert run() == ended
        publish("plant.b", 1000)
        assert run() == [("plant.a", 0, 4), ("plant.a", 5, 1), ("plant.b", 0, 1)]


@pytest.mark.req("SPK-03")
def test_an_archive_is_rolled_up_again_and_again(spark: SparkSession, tmp_path: Path) -> None:
    events = lake.TableSettings(str(tmp_path / "events"))
    lake.register(spark)

    def archive(*rows: tuple[Any, ...]) -> None:
        frame = spark.createDataFrame(list(rows), COLUMNS)
        frame.write.format("weft-lake").options(**events.options()).mode("append").save()

    def run(**more: object) -> list[tuple[str, int, int]]:
        wanted = settings(tmp_path, archive={"path": events.path, **more})
        assert start(spark, wanted) == []
        rows = table_rows(tmp_path / "table")
        return [(row["topic"], row["window_start"].minute, row["events"]) for row in rows]

    archive(event("a", 1), event("a", 2), event("a", 61), event("b", 3))
    first = [("a", 0, 2), ("a", 1, 1), ("b", 0, 1)]
    assert run() == first
    assert run() == first
    archive(event("a", 62), event("c", 600))
    assert run(until=NOON + timedelta(minutes=9)) == [("a", 0, 2), ("a", 1, 2), ("b", 0, 1)]
    assert run(since=NOON + timedelta(minutes=9)) == [("a", 0, 2), ("a", 1, 2), ("b", 0, 1), ("c", 10, 1)]


def test_the_catalogue_finds_it() -> None:
    assert PIPELINE.name == "rollup"
