"""docs/spark.md says what is, and the examples with Spark run, of whichever page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import weft.spark
from tests.docs.blocks import Block, blocks_for
from tests.spark.meshes import fill
from weft.client.blocking import Client
from weft.spark.options import ALIASES, BATCH_OPTIONS, COLUMNS, REFUSED, SOURCE_OPTIONS, STREAM_OPTIONS
from weft.testing.live_blocking import BlockingMesh

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def table_below(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| `.*$", section, re.MULTILINE)]


def test_every_option_and_column_is_told() -> None:
    told = {name: row[1] for row in table_below("Options") for name in re.findall(r"`(\w+)`", row[0])}
    assert sorted(told) == sorted(SOURCE_OPTIONS)
    assert {name for name, kind in told.items() if kind == "`read`"} == set(BATCH_OPTIONS)
    assert {name for name, kind in told.items() if kind == "`readStream`"} == set(STREAM_OPTIONS)
    assert [row[0].strip("`") for row in table_below("Columns")] == list(COLUMNS)


@pytest.mark.req("SPK-01")
def test_what_people_know_from_kafka_is_told() -> None:
    section = PAGE.split("## Coming from Kafka\n")[1].split("\n## ")[0]
    for name in {*ALIASES} - {"path"}:
        assert f"`{name}`" in section, name
    for name in REFUSED:
        assert name in section or name.startswith(("kafka.", "fetchOffset.", "startingOffsetsBy", "kafkaConsumer.")), (
            name
        )


def names_of(block: Block, **given: Any) -> dict[str, Any]:
    names = dict(given)
    exec(compile(block.code, block.place, "exec"), names)
    return names


@pytest.mark.xdist_group("spark")
def test_the_examples_run(spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path) -> None:
    fill(client, "plant.line1.temp", ["21.5"])
    places = {"spark": spark, "nodes": mesh.address("n0"), "directory": str(tmp_path)}
    examples = [*blocks_for("docs/spark.md", __file__), *blocks_for("docs/spark-sink.md", __file__)]
    for block in examples:
        if block.language == "sql":
            here = block.code.replace("context 'prod'", f"nodes '{places['nodes']}', insecure 'true'")
            view, query = (statement for statement in here.split(";") if statement.strip())
            spark.sql(view)
            assert "plant.line1.temp" in [row.topic for row in spark.sql(query).collect()]
        else:
            main = names_of(block)["main"]
            main(**{name: places[name] for name in inspect.signature(main).parameters})
    assert "21.5" in [bytes(row.value).decode() for row in spark.read.parquet(str(tmp_path / "rows")).collect()]
    with client.subscribe("plant.alerts", start="earliest") as events:
        alert = next(iter(events))
    assert (alert.key, alert.payload) == (b"kiln-1", b"921.5")


@pytest.mark.xdist_group("spark")
def test_the_examples_with_tables_run(spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path) -> None:
    fill(client, "plant.line1.temp", ["21.5"])
    reading, reading_in_spark, writing = (names_of(block) for block in blocks_for("docs/lake.md", __file__))
    weft.spark.register(spark)
    events = spark.readStream.format("weft").options(nodes=mesh.address("n0"), insecure="true", subscribe="plant.>")
    alarms = events.option("startingOffsets", "earliest").load().selectExpr("to_date(timestamp) date", "topic", "value")
    writing["write_alarms"](alarms, str(tmp_path)).awaitTermination()
    table = str(tmp_path / "alarms")
    assert b"21.5" in list(reading["temperatures"](table)["value"])
    assert reading_in_spark["events"](spark, table).where("topic = 'plant.line1.temp'").count() >= 1


@pytest.mark.xdist_group("spark")
def test_the_example_of_the_readme_reads_topics(spark: SparkSession) -> None:
    (block,) = blocks_for("README.md", __file__)
    readings = names_of(block, spark=spark)["readings"]
    assert readings.isStreaming and {"key", "value", "topic", "offset", "timestamp"} <= set(readings.columns)
