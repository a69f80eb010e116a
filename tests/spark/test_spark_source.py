"""The source within Spark: planner process, executors, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_weft import DefaultSource
from tests.node.secured import key_for, secured, tls_of
from tests.spark.meshes import LONG_AGO_US, WAIT_S, fill, fill_old, let_retention_pass, until
from weft.client.blocking import Client, connect
from weft.client.loop_thread import LoopThread
from weft.model.pipeline_reports import PIPELINES_BUCKET, read_report_untrusted
from weft.node.runtime import Node
from weft.pipelines.listening import report_queries, run_name
from weft.spark.source import WeftSource
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.req("SPK-01")]

QUERY_S = 300.0  # on a machine that is busy with other things; the quickest takes two


@pytest.fixture
def read(spark: SparkSession, mesh: BlockingMesh) -> Callable[..., DataFrame]:
    def load(subscribe: str, **options: str) -> DataFrame:
        given = {"nodes": mesh.address("n0"), "insecure": "true", "subscribe": subscribe, **options}
        return spark.read.format("weft").options(**given).load()

    return load


class Job:
    """A streaming query into Parquet files, to be run again and again from one checkpoint."""

    def __init__(self, spark: SparkSession, directory: Path, **options: str) -> None:
        self._spark = spark
        self._directory = directory
        self._options = {"insecure": "true", "startingOffsets": "earliest", **options}

    def writer(self) -> DataStreamWriter:
        frame = self._spark.readStream.format("weft").options(**self._options).load()
        places = {"checkpointLocation": str(self._directory / "checkpoint"), "path": str(self._directory / "rows")}
        return frame.writeStream.format("parquet").options(**places)

    def run(self) -> StreamingQuery:
        """As far as there is something now."""
        query = self.writer().trigger(availableNow=True).start()
        assert query.awaitTermination(int(QUERY_S)), "it ends by itself"
        return query

    def values(self) -> list[str]:
        rows = self._spark.read.parquet(str(self._directory / "rows")).select("value").collect()
        return sorted(bytes(row.value).decode() for row in rows)


def test_a_batch_by_pattern_with_all_columns(read: Callable[..., DataFrame], client: Client) -> None:
    client.publish("jb.one", "21.5", key="k", headers={"unit": "C"}, timestamp_us=1_000_001)
    fill(client, "jb.two", "abc")
    frame = read("jb.*")
    assert frame.count() == 4
    row = frame.where("topic = 'jb.one'").selectExpr("*", "unix_micros(timestamp) AS us").collect()[0]
    epoch = client.positions("jb.one")[0].epoch
    assert (bytes(row.key), bytes(row.value), row.headers, row.us) == (b"k", b"21.5", {"unit": "C"}, 1_000_001)
    assert (row.topic, row.partition, row.offset, row.origin, row.epoch) == ("jb.one", 0, 0, "n0", epoch)
    assert frame.where("topic = 'jb.two'").selectExpr("max(key)", "max(offset)").collect()[0] == (None, 2)
    assert read("jb.none").count() == 0


def test_a_batch_of_some_columns_in_some_partitions(read: Callable[..., DataFrame], client: Client) -> None:
    fill(client, "jc.one", "0123456789")
    frame = read("jc.one", columns="offset,topic", minPartitions="4", endingOffsets="latest")
    assert frame.columns == ["offset", "topic"]
    assert frame.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in frame.collect()) == list(range(10))
    at = str(client.positions("jc.one")[0].last_timestamp_us // 1000 + 1)
    assert read("jc.one", startingTimestamp=at).count() == 0
    assert read("jc.one", endingTimestamp=at).count() == 10


def test_topics_by_path_and_in_sql(
    spark: SparkSession, read: Callable[..., DataFrame], mesh: BlockingMesh, client: Client
) -> None:
    fill(client, "jq.one", "123")
    options = {"nodes": mesh.address("n0"), "insecure": "true"}
    assert spark.read.format("weft").options(**options).load("jq.*").count() == 3
    given = ", ".join(f"{name} '{value}'" for name, value in {**options, "subscribe": "jq.*"}.items())
    spark.sql(f"CREATE TEMPORARY VIEW jq USING weft OPTIONS ({given})")
    assert spark.sql("SELECT cast(value AS string) FROM jq WHERE offset = 1").collect() == [("2",)]
    spark.sql("DROP VIEW jq")
    with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW name USING weft OPTIONS"):
        spark.sql(f"CREATE TABLE jq_table USING weft OPTIONS ({given})")


def test_nodes_are_read_together(read: Callable[..., DataFrame]) -> None:
    with blocking_mesh(2, links=()) as two, two.client("n0") as one, two.client("n1") as other:
        fill(one, "jn.a", "12")
        fill(other, "jn.a", "3")
        frame = read("jn.a", nodes=f"{two.address('n0')},{two.address('n1')}")
        assert sorted((row.origin, bytes(row.value)) for row in frame.collect()) == [
            ("n0", b"1"),
            ("n0", b"2"),
            ("n1", b"3"),
        ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "no such option 'startingoffset'"),
        ({"columns": "colour"}, "no column 'colour'"),
        ({"token": "weft_k1_s3cret"}, "a key must not stand in one"),
        ({"group": "job"}, "option group is only for readStream"),
    ],
)
def test_a_bad_option_is_named(read: Callable[..., DataFrame], options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        read("a", **options).count()


def rows_reported(client: Client, query: StreamingQuery) -> int | None:
    """How many rows the mesh knows of, if it knows that the query has ended."""
    entry = client.kv(PIPELINES_BUCKET).get(run_name(None, str(query.id)))
    report = None if entry is None else read_report_untrusted(entry.key, entry.value)
    return report.rows_total if report is not None and report.state == "ended" else None


def test_a_query_restarts_without_gap_or_duplicate(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, nodes=mesh.address("n0"), subscribe="js.>", maxEventsPerTrigger="40", group="js")
    wanted = [f"{topic}{number:03d}" for topic in ("js.a", "js.b") for number in range(60)]
    for topic in ("js.a", "js.b"):
        fill(client, topic, [value for value in wanted if value.startswith(topic)])
    listener = report_queries(spark, nodes=mesh.address("n0"), insecure="true")
    try:
        query = job.run()
        until(lambda: rows_reported(client, query) == 120)
    finally:
        spark.streams.removeListener(listener)
    sizes = [progress.numInputRows for progress in query.recentProgress]
    assert sum(sizes) == 120
    assert max(sizes) <= 40, "the limit is kept"
    assert job.values() == wanted
    assert [stream.lag_events for stream in client.groups("js")[0].streams] == [0, 0], "weft lag shows Spark jobs"
    fill(client, "js.a", ["later"])
    fill(client, "js.c", ["another topic"])
    assert sum(stream.lag_events for stream in client.groups("js")[0].streams) == 1
    job.run()
    assert job.values() == sorted([*wanted, "later", "another topic"])
    job.run()
    assert job.values() == sorted([*wanted, "later", "another topic"]), "nothing new, nothing twice"


def test_a_running_query_takes_up_new_topics_and_can_be_stopped_anywhere(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, nodes=mesh.address("n0"), subscribe="jr.>", maxEventsPerTrigger="5")
    wanted = [f"{number:03d}" for number in range(30)]
    fill(client, "jr.a", wanted[:15])
    query = job.writer().trigger(processingTime="0 seconds").start()
    try:
        until(lambda: any(progress.numInputRows for progress in query.recentProgress))
        fill(client, "jr.b", wanted[15:])
        until(lambda: "jr.b" in str(query.lastProgress))
    finally:
        query.stop()
    job.run()
    assert job.values() == wanted


def test_what_retention_took_ends_a_query_or_is_passed_over(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    options = {"nodes": mesh.address("n0"), "subscribe": "jl.a"}
    client.publish("jl.a", "first", timestamp_us=LONG_AGO_US)
    Job(spark, tmp_path, **options).run()
    fill_old(client, "jl.a")
    fill(client, "jl.a", ["last"])
    let_retention_pass(mesh, client, "n0", "jl.a")
    with pytest.raises(StreamingQueryException, match=r"jl.a@n0/0:e\d+ offsets 1 to \d+ .*failOnDataLoss=false"):
        Job(spark, tmp_path, **options).run()
    lenient = Job(spark, tmp_path, **options, failOnDataLoss="false")
    lenient.run()
    values = lenient.values()
    assert {"first", "last"} <= set(values)
    assert len(values) < 22


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Node]:
    """A protected node on a thread of its own."""
    thread = LoopThread(lambda: None)
    nodes = secured(tmp_path / "nodes", time.time(), "safe")
    try:
        yield thread.run(nodes.__aenter__(), WAIT_S)[0]
        thread.run(nodes.__aexit__(None, None, None), WAIT_S)
    finally:
        thread.stop()


def test_a_protected_node_is_read_with_files_and_a_key(
    spark: SparkSession, read: Callable[..., DataFrame], secure: Node, tmp_path: Path
) -> None:
    files = tls_of(secure)
    _, writer = key_for(secure.config.node.data, time.time(), publish=("jt.>",), subscribe=("jt.>",))
    with connect(secure.grpc_address, tls=files, token=writer) as client:
        fill(client, "jt.a", "123")
    (tmp_path / "key").write_text(writer)
    options = {
        "nodes": secure.grpc_address,
        "insecure": "false",
        "tlsRoot": str(files.root),
        "tlsCertificate": str(files.certificate),
        "tlsKey": str(files.key),
    }
    assert read("jt.a", **options, token=f"file:{tmp_path / 'key'}").count() == 3
    with pytest.raises(PySparkException, match="NotAllowed"):
        read("other", **options, token=f"file:{tmp_path / 'key'}").count()
    job = Job(spark, tmp_path, **options, subscribe="jt.a", token=f"file:{tmp_path / 'key'}")
    job.run()
    assert job.values() == list("123")


def test_spark_finds_the_source_by_its_name() -> None:
    assert DefaultSource is WeftSource
