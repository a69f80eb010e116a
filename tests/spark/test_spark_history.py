"""Spark reads over the seam: ranges begin in the archive table of a node, and tasks fetch them from that node."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.lake.archived import Archive, key_of
from tests.node.read_through import client_of, config_of, cut, filled, fresh, old, publish
from tests.up import RunningNode, up
from weft.lake.spans import StreamKey

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.req("LAK-04")]

QUERY_S = 300


def values(rows: Iterable[Row]) -> list[str]:
    return sorted((bytes(row.value).decode() for row in rows), key=lambda text: int(text.split()[1]))


def wanted(count: int, start: int = 0) -> list[str]:
    return [f"event {number}" for number in range(start, start + count)]


async def test_a_batch_reads_everything_once(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")
    archive.write((key_of("plant.old", "gone", epoch=3), 0, old(5, 100)))
    config = config_of(tmp_path / "weft.toml", archive.settings)
    with up(tmp_path / "data", "--insecure", "--config", str(config)) as node:
        (stream, _) = await _filled(node, archive)
        options = {"nodes": node.grpc, "insecure": "true", "subscribe": "plant.>"}
        batch = spark.read.format("weft").options(**options, minPartitions="3").load()
        rows = batch.select("value", "topic", "origin", "offset").collect()
        assert values(rows) == [*wanted(20), *wanted(5, 100)]
        assert {(row.topic, row.origin) for row in rows} == {("plant.temp", stream.origin), ("plant.old", "gone")}
        only_logs = spark.read.format("weft").options(**options, history="false").load()
        assert values(only_logs.collect()) == wanted(10, 10)
        node.end_quietly()


async def _filled(node: RunningNode, archive: Archive) -> StreamKey:
    async with client_of(node) as client:
        return await filled(client, archive)


async def test_a_stream_that_falls_behind_the_log_goes_on_in_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """It begins in the table, too, and stops there in the middle."""
    archive = Archive(tmp_path / "lake")
    config = config_of(tmp_path / "weft.toml", archive.settings)
    with up(tmp_path / "data", "--insecure", "--config", str(config)) as node:

        def run() -> list[str]:
            options = {"nodes": node.grpc, "insecure": "true", "subscribe": "plant.>", "startingOffsets": "earliest"}
            frame = spark.readStream.format("weft").options(**options, maxEventsPerTrigger="7").load()
            places = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "rows")}
            query = frame.writeStream.format("parquet").options(**places).trigger(availableNow=True).start()
            assert query.awaitTermination(QUERY_S)
            assert query.exception() is None
            return values(spark.read.parquet(str(tmp_path / "rows")).select("value").collect())

        await _archived_and_cut(node, archive, 0)
        assert run() == wanted(10)
        await _archived_and_cut(node, archive, 10)
        await _published(node, 20)
        assert run() == wanted(25)
        node.end_quietly()


async def _archived_and_cut(node: RunningNode, archive: Archive, first: int) -> None:
    """Ten more events, which only the table has."""
    async with client_of(node) as client:
        key, at = await publish(client, "plant.temp", old(10, first))
        assert at == first
        archive.write((key, first, old(10, first)))
        await cut(client, "plant.temp", first + 10)


async def _published(node: RunningNode, first: int) -> None:
    async with client_of(node) as client:
        await publish(client, "plant.temp", fresh(5, first))


async def test_a_hole_is_a_loss_that_is_told(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "lake")
    config = config_of(tmp_path / "weft.toml", archive.settings)
    with up(tmp_path / "data", "--insecure", "--config", str(config)) as node:
        await _with_a_hole(node, archive)
        options = {"nodes": node.grpc, "insecure": "true", "subscribe": "plant.>"}
        with pytest.raises(PySparkException, match=r"offsets 4 to 9 \(6 events\)"):
            spark.read.format("weft").options(**options).load().collect()
        partly = spark.read.format("weft").options(**options, failOnDataLoss="false").load()
        assert values(partly.collect()) == [*wanted(4), *wanted(3, 10)]


async def _with_a_hole(node: RunningNode, archive: Archive) -> None:
    async with client_of(node) as client:
        key, _ = await publish(client, "plant.temp", old(10))
        archive.write((key, 0, old(4)))
        await cut(client, "plant.temp", 10)
        await publish(client, "plant.temp", fresh(3, 10))
