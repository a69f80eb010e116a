"""The pipeline ``health``: settings, and stories on a real mesh and on a table of packets."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pydantic import ValidationError
from pyspark.sql import SparkSession

from tests.pipelines.coaty_events import advertise, deadvertise, identity, uuid
from weft.client.blocking import Client
from weft.pipelines import lake
from weft.pipelines.devices.output import HealthOutput
from weft.pipelines.health import PIPELINE, HealthSettings, start
from weft.pipelines.packet.schema import EVENTS
from weft.testing import blocking_mesh

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGENT, OTHER = uuid(1), uuid(2)
ADV, DAD = "coaty.plant.ADV.Identity", "coaty.plant.DAD"
QUERY_TIMEOUT_S = 480  # a machine that is busy with other tests takes its time

TABLES = ("nodes", "alerts", "rejected")


def settings(tmp_path: Path, **more: object) -> HealthSettings:
    tables = {name: {"path": tmp_path / name} for name in TABLES}
    run = {"checkpoint": tmp_path / "checkpoint", "trigger": "available-now"}
    return HealthSettings.model_validate({"run": run, **tables, **more})


def rows_of(path: Path) -> list[dict[str, Any]]:
    """As any reader of Delta sees the table."""
    rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return rows


def statuses(tmp_path: Path) -> dict[str, tuple[str, int]]:
    """Status of each node, and how many seconds after noon it came to it."""
    rows = rows_of(tmp_path / "nodes")
    assert len({row["node"] for row in rows}) == len(rows)
    return {row["node"]: (row["status"], round((row["since"] - NOON).total_seconds())) for row in rows}


def alerts(tmp_path: Path) -> list[tuple[str, str, int]]:
    rows = rows_of(tmp_path / "alerts")
    found = [(row["node"], row["alert"], round((row["at"] - NOON).total_seconds())) for row in rows]
    return sorted(found, key=lambda alert: alert[2])


# --- settings ----------------------------------------------------------------------------------------------------

MESH = {"source": {"subscribe": "weft.emm.*"}}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, r"either \[source\].* or \[packets\]"),
        ({**MESH, "packets": {"path": "/tmp/x"}}, r"either \[source\].* or \[packets\]"),
        ({"packets": {"path": "/tmp/x"}, "alert_topic": "alerts"}, r"alert_topic needs \[source\]"),
        ({"source": {"subscribe": ">"}, "alert_topic": "alerts.health"}, "among the topics"),
        ({**MESH, "alert_topic": "weft.alerts"}, "belong to the mesh"),
        ({**MESH, "alert_topic": "alerts.*"}, "only allowed in patterns"),
        ({**MESH, "rules": {"late_intervals": 3, "gone_intervals": 3}}, "more than late_intervals"),
        ({**MESH, "rules": {"interval_s": 0}}, "interval_s"),
        ({**MESH, "rules": {"wait": "for ever"}}, "a time like"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, more: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        settings(tmp_path, **more)


def test_the_catalogue_finds_it() -> None:
    assert PIPELINE.name == "health"


# --- stories -----------------------------------------------------------------------------------------------------


def publisher(client: Client) -> Callable[[str, float, bytes], None]:
    def publish(topic: str, after_s: float, payload: bytes) -> None:
        time = pa.array([NOON + timedelta(seconds=after_s)], pa.timestamp("us", "UTC"))
        client.publish_batch(topic, pa.table({"payload": [payload], "timestamp": time}))

    return publish


@pytest.mark.xdist_group("spark")
@pytest.mark.req("SPK-03")
def test_agents_come_and_go_and_alerts_are_published_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs from one checkpoint. One dies when all is written and Spark does not know it yet: it is done again."""
    with blocking_mesh(nodes=1) as mesh, mesh.client() as client:
        publish = publisher(client)
        wanted = settings(
            tmp_path,
            mesh={"nodes": [mesh.address("n0")], "insecure": True},
            source={"subscribe": "coaty.plant.>"},
            rules={"wait": "10 seconds"},
            alert_topic="alerts.health",
        )

        def run() -> None:
            for query in start(spark, wanted):
                assert query.awaitTermination(QUERY_TIMEOUT_S)

        publish(ADV, 0, advertise(identity(AGENT)))
        publish(DAD, 30, b"not Coaty")
        publish("coaty.plant.CHN.x", 60, b"time goes on")
        run()
        assert statuses(tmp_path) == {AGENT: ("alive", 0)}
        assert alerts(tmp_path) == []

        publish(ADV, 80, advertise(identity(AGENT)))
        publish(DAD, 70, deadvertise(AGENT, OTHER))  # comes after what it came before
        publish("coaty.plant.CHN.x", 200, b"time goes on")
        put = HealthOutput.put

        def put_and_die(self: HealthOutput, checkpoint: str, rows: Any, batch: int) -> None:
            put(self, checkpoint, rows, batch)
            if alerts(tmp_path):
                raise RuntimeError("the driver dies")

        with monkeypatch.context() as dying:
            dying.setattr(HealthOutput, "put", put_and_die)
            with pytest.raises(Exception, match="the driver dies"):
                run()
        run()
        assert statuses(tmp_path) == {AGENT: ("alive", 80)}
        assert alerts(tmp_path) == [(AGENT, "gone", 70), (AGENT, "back", 80)]

        with client.subscribe("alerts.health", start="earliest") as events:
            published = [next(iter(events)) for _ in range(2)]
        client.publish("alerts.health", b"last")
        with client.subscribe("alerts.health", start=2) as events:
            assert next(iter(events)).payload == b"last", "each alert was published once"
    found = [json.loads(event.payload) for event in published]
    assert [(each["alert"], each["node"]) for each in found] == [("gone", AGENT), ("back", AGENT)]
    assert found[0]["at"] == "2026-03-01T12:01:10.000Z"
    assert [event.key for event in published] == [AGENT.encode()] * 2
    (row,) = rows_of(tmp_path / "rejected")
    assert (row["topic"], row["offset"]) == (DAD, 0)
    assert "not JSON" in row["rejected"]


@pytest.mark.xdist_group("spark")
@pytest.mark.req("SPK-03")
def test_the_history_of_devices_is_told_by_a_table_of_packets(spark: SparkSession, tmp_path: Path) -> None:
    events = lake.TableSettings(str(tmp_path / "events"))
    lake.register(spark)

    def heartbeat(after_s: float, protocol: str, node: str, **more: object) -> dict[str, object]:
        number = round(after_s * 1000)
        where = {"topic": "raw", "origin": "n0", "epoch": 1, "partition": 0, "offset": number}
        said = {"protocol": protocol, "kind": "heartbeat", "node_id": node, "message_id": number}
        return {**where, **said, "arrived": NOON + timedelta(seconds=after_s), **more}

    def add(*rows: dict[str, object]) -> None:
        table = pa.Table.from_pylist([{name: row.get(name) for name in EVENTS.names} for row in rows], EVENTS)
        frame = spark.createDataFrame(table)
        frame.write.format("weft-lake").options(**events.options()).mode("append").save()

    def run() -> None:
        assert start(spark, settings(tmp_path, packets={"path": events.path})) == []

    add(
        heartbeat(0, "emm", "d1", created_at=NOON - timedelta(seconds=2)),
        heartbeat(90, "emm", "d1", created_at=NOON + timedelta(seconds=89)),
        heartbeat(0, "emm-c", "d2", fields='{"uptime": 100, "propagation-map": {"hops": 2}}'),
        heartbeat(95, "emm-c", "d3", arrived=None),
    )
    for _ in range(2):
        run()
        assert statuses(tmp_path) == {"d1": ("alive", 90), "d2": ("late", 60)}
        assert alerts(tmp_path) == [("d1", "gap", 90)]
        assert len(rows_of(tmp_path / "rejected")) == 1
    first, second = sorted(rows_of(tmp_path / "nodes"), key=lambda row: row["node"])
    assert (first["delay_ms"], first["delay_ms_max"], first["missed"], first["signals"]) == (1000.0, 2000.0, 2, 2)
    assert (second["hops"], second["uptime_s"]) == (2, 100.0)
    add(heartbeat(200, "emm", "d1"))
    run()
    assert statuses(tmp_path) == {"d1": ("alive", 200), "d2": ("gone", 150)}
    assert alerts(tmp_path) == [("d1", "gap", 90), ("d2", "gone", 150), ("d1", "gap", 200)]
