"""A run with nothing to do ends without Spark, and every other run starts it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Never

import msgspec
import pytest
from pyspark.sql import SparkSession

import weft.sync
from tests.lake.archived import Archive, key_of, plain
from tests.node.read_through import config_of
from tests.pipelines.test_archive import archive_all, configured, settings_of
from tests.up import up
from weft.pipelines import archive, running
from weft.pipelines.idle import finished, has_begun, nothing_since, runs_here
from weft.pipelines.records import Records
from weft.pipelines.running import Wish
from weft.pipelines.settings import SparkSection
from weft.spark.planning import DataLoss
from weft.testing import blocking_mesh

pytestmark = pytest.mark.xdist_group("spark")
OFFSETS = {"plant.a": {"n0/0/1": 7}}


def written(checkpoint: Path, log: str, batch: int, *lines: str) -> None:
    (checkpoint / log).mkdir(parents=True, exist_ok=True)
    (checkpoint / log / f".{batch}.crc").touch()
    (checkpoint / log / str(batch)).write_text("\n".join(lines))


def test_a_query_is_where_its_last_batch_ended(tmp_path: Path) -> None:
    assert (has_begun(tmp_path), finished(tmp_path)) == (False, None)
    for batch in (9, 10):
        ended = msgspec.json.encode({"plant.a": {"n0/0/1": batch - 3}}).decode()
        written(tmp_path, "offsets", batch, "v1", "{}", ended)
        assert (has_begun(tmp_path), finished(tmp_path)) == (batch > 9, None), "it is not done with this batch"
        written(tmp_path, "commits", batch, "v1", "{}")
    assert finished(tmp_path) == OFFSETS


@pytest.mark.parametrize(
    "lines",
    [("v2", "{}", "{}"), ("v1", "{}", "-"), ("v1", "{}", "{}", "{}"), ("v1", "{}"), ("v1", "{}", '{"a": 1}'), ()],
    ids=["another format", "no offset", "two sources", "no source", "not ours", "half written"],
)
def test_what_is_not_understood_is_left_to_spark(tmp_path: Path, lines: tuple[str, ...]) -> None:
    written(tmp_path, "offsets", 0, *lines)
    written(tmp_path, "commits", 0, "v1", "{}")
    assert finished(tmp_path) is None


def test_only_spark_on_this_machine_has_its_checkpoint_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert runs_here(SparkSection()) and runs_here(SparkSection(master="local[2]"))
    assert not runs_here(SparkSection(master="yarn"))
    assert not runs_here(SparkSection(master="sc://there:15002"))
    assert not runs_here(SparkSection(conf={"spark.master": "spark://there:7077"}))
    monkeypatch.setenv("SPARK_REMOTE", "sc://there:15002")
    assert not runs_here(SparkSection())


@pytest.mark.req("SPK-03")
def test_a_run_with_nothing_new_does_not_start_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Started(Exception):
        """Spark would have been."""

    def no_spark(*_: Any, **__: Any) -> Never:
        raise Started

    monkeypatch.setattr(running, "session", no_spark)
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        values = configured(mesh, tmp_path)
        values |= {"run": values["run"] | {"trigger": "available-now"}}  # type: ignore[operator]
        config = tmp_path / "archive.yaml"
        config.write_bytes(msgspec.json.encode(values))  # JSON is YAML
        records = Records(tmp_path / "runs")

        def run(**overrides: object) -> str:
            wish = Wish(config, {name.replace("__", "."): value for name, value in overrides.items()})
            return running.run(archive.PIPELINE, wish, records, lambda line: None).summary

        client.publish("plant.a", b"1")
        with pytest.raises(Started):
            run()
        settings, count = archive_all(spark, values)
        assert count == 1
        assert run() == "done: archive 0 rows; nothing is new, and Spark was not started"
        assert [record.state for record, _ in records.all()] == ["ended"]
        with pytest.raises(Started):
            run(run__trigger="1 second")  # it goes on
        assert "nothing is new" in run(source__subscribe="plant.>,other.>")
        client.publish("other.a", b"1")
        with pytest.raises(Started):
            run(source__subscribe="plant.>,other.>")
        with pytest.raises(DataLoss):
            run(source__subscribe="none.>")
        client.publish("plant.a", b"2")
        with pytest.raises(Started):
            run()
        assert archive_all(spark, values)[1] == 1
        assert "nothing is new" in run()
        shutil.rmtree(settings.table.path or "")
        with pytest.raises(Started):
            run()  # which makes it again


@pytest.mark.req("SPK-03")
def test_streams_that_only_an_archive_table_has_are_nothing_new(tmp_path: Path) -> None:
    """The query does not read them, so they are no reason to start Spark at every run."""
    table = Archive(tmp_path / "lake")
    table.write((key_of("plant.old", "gone"), 0, plain(3)))
    config = config_of(tmp_path / "weft.toml", table.settings)
    with (
        up(tmp_path / "data", "--insecure", "--config", str(config)) as node,
        weft.sync.connect(node.grpc, insecure=True) as client,
    ):
        client.publish("plant.a", b"1")
        (place,) = client.positions("plant.a")
        settings = settings_of(
            {
                "mesh": {"nodes": [node.grpc], "insecure": True},
                "source": {"subscribe": "plant.>"},
                "table": {"path": table.settings.path},
                "run": {"checkpoint": str(tmp_path / "checkpoint"), "trigger": "available-now"},
            }
        )
        ended = msgspec.json.encode({"plant.a": {f"{place.stream.origin}/0/{place.epoch}": 1}}).decode()
        written(tmp_path / "checkpoint", "offsets", 0, "v1", "{}", ended)
        written(tmp_path / "checkpoint", "commits", 0, "v1", "{}")
        assert nothing_since(settings.run.checkpoint, settings.source_options())
        node.end_quietly()


def test_small_files_are_something_to_do(spark: SparkSession, tmp_path: Path) -> None:
    """Upkeep is part of a run."""
    with blocking_mesh(nodes=1) as mesh, mesh.client("n0") as client:
        values = configured(mesh, tmp_path) | {"upkeep": {"share": 0.0}}
        for number in range(9):
            client.publish("plant.a", b"%d" % number)
            archive_all(spark, values)
        ended = values | {"run": values["run"] | {"trigger": "available-now"}}  # type: ignore[operator]
        assert archive.is_idle(settings_of(ended)), "nobody wants upkeep"
        assert not archive.is_idle(settings_of(ended | {"upkeep": {"share": 0.2}}))
