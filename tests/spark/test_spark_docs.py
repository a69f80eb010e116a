"""docs/spark.md says what is, and its examples run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.meshes import fill
from weft.client.blocking import Client
from weft.spark.options import ALIASES, BATCH_OPTIONS, COLUMNS, REFUSED, SOURCE_OPTIONS, STREAM_OPTIONS
from weft.testing.live_blocking import BlockingMesh

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
EXAMPLES = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def main(spark" in code]


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


@pytest.mark.xdist_group("spark")
def test_the_examples_run(spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path) -> None:
    fill(client, "plant.line1.temp", ["21.5"])
    places = {"spark": spark, "nodes": mesh.address("n0"), "directory": str(tmp_path)}
    assert len(EXAMPLES) >= 2
    for code in EXAMPLES:
        names: dict[str, Any] = {}
        exec(compile(code, "docs/spark.md", "exec"), names)
        wanted = inspect.signature(names["main"]).parameters
        names["main"](**{name: places[name] for name in wanted})
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 1
