"""The pipeline ``objects`` on a real mesh: the table is what was advertised and not deadvertised since."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pydantic import ValidationError
from pyspark.sql import SparkSession

from tests.pipelines.coaty_events import advertise, coaty_object, deadvertise, uuid
from weft.limits import EVENT_TIMESTAMP_US_MAX
from weft.pipelines.derived_tables import MISDATED
from weft.pipelines.lake import TableError
from weft.pipelines.objects import PIPELINE, ObjectsSettings, start
from weft.testing import blocking_mesh

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ADV, TYPED, DAD = "coaty.plant.ADV.CoatyObject", "coaty.plant.ADV.:com.example.Lamp", "coaty.plant.DAD"
QUERY_TIMEOUT_S = 480  # a machine that is busy with other tests takes its time


def settings(tmp_path: Path, **more: object) -> ObjectsSettings:
    return ObjectsSettings.model_validate(
        {
            "run": {"checkpoint": tmp_path / "checkpoint", "trigger": "available-now"},
            "source": {"subscribe": "coaty.plant.>"},
            "table": {"path": tmp_path / "objects"},
            "rejected": {"path": tmp_path / "rejected"},
            **more,
        }
    )


@pytest.mark.parametrize("objects", [{"deadvertised": "keep"}, {"remember_s": 0}])
def test_bad_settings_are_refused(tmp_path: Path, objects: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(objects))):
        settings(tmp_path, objects=objects)


def test_the_catalogue_finds_it() -> None:
    assert PIPELINE.name == "objects"


@pytest.mark.xdist_group("spark")
def test_a_table_that_cannot_be_changed_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="has to be a Delta table"):
        start(spark, settings(tmp_path, table={"path": tmp_path / "objects", "format": "parquet"}))


@pytest.mark.xdist_group("spark")
@pytest.mark.req("SPK-03")
@pytest.mark.parametrize("deadvertised", ["remove", "mark"])
def test_the_table_follows_the_namespace(spark: SparkSession, tmp_path: Path, deadvertised: str) -> None:
    """Two runs from one checkpoint; events come late and twice; one is none."""
    lamps = [uuid(number) for number in range(3)]
    with blocking_mesh(nodes=1) as mesh, mesh.client() as client:
        wanted = settings(
            tmp_path,
            mesh={"nodes": [mesh.address("n0")], "insecure": True},
            objects={"deadvertised": deadvertised},
        )

        def publish(topic: str, after_s: float, *payloads: bytes) -> None:
            times = pa.array([NOON + timedelta(seconds=after_s)] * len(payloads), pa.timestamp("us", "UTC"))
            client.publish_batch(topic, pa.table({"payload": list(payloads), "timestamp": times}))

        def run() -> dict[str, tuple[str, bool]]:
            """Name of each object, and whether it is marked."""
            for query in start(spark, wanted):
                assert query.awaitTermination(QUERY_TIMEOUT_S)
            rows = DeltaTable(str(tmp_path / "objects")).to_pyarrow_table().to_pylist()
            assert len({row["object_id"] for row in rows}) == len(rows)
            return {row["object_id"]: (row["name"], row["deadvertised_at"] is not None) for row in rows}

        marked = {lamps[1]: ("b", True)} if deadvertised == "mark" else {}
        for topic in (ADV, TYPED):  # as Coaty does it
            publish(topic, 0, *(advertise(coaty_object(lamp, name)) for lamp, name in zip(lamps, "abc", strict=True)))
        publish(DAD, 5, deadvertise(lamps[1]), b"not Coaty")
        far = pa.array([EVENT_TIMESTAMP_US_MAX]).cast(pa.timestamp("us", "UTC"))  # the end of the year 9999
        client.publish_batch(DAD, pa.table({"payload": [deadvertise(lamps[0])], "timestamp": far}))
        publish("coaty.plant.CHN.news", 6, b"of no interest")
        first = {lamps[0]: ("a", False), lamps[2]: ("c", False), **marked}
        assert run() == first
        publish(ADV, 4, advertise(coaty_object(lamps[1], "b")))  # older than its end
        publish(ADV, 7, advertise(coaty_object(lamps[0], "a2")))
        publish(DAD, 6, deadvertise(lamps[0]))  # older than its new beginning
        assert run() == {**first, lamps[0]: ("a2", False)}
    rejected = DeltaTable(str(tmp_path / "rejected")).to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(row["topic"], row["offset"], row["timestamp"]) for row in rejected] == [
        (DAD, 1, NOON + timedelta(seconds=5)),
        (DAD, 2, None),
    ]
    assert "not JSON" in rejected[0]["rejected"]
    assert rejected[1]["rejected"] == MISDATED
