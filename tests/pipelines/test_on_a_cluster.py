"""Every pipeline on a standalone cluster, through Spark Connect, ends with the right table or topic.

One driver runs them all, in the order of the catalogue, beside a secured node; later ones use the archive of the first.
Another driver, without Connect, runs two of them: one that reads the mesh and one that needs
a file which is sent along with the job.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.pipelines.archiving import ROW, Publisher, in_order, table_rows
from tests.pipelines.cluster import Cluster, ConnectServer
from tests.pipelines.cluster_driver import pipeline_of
from tests.pipelines.coaty_events import advertise, coaty_object, deadvertise, identity, uuid
from tests.pipelines.packets import EPOCH, GROUP_KEYS, KEY_ID, NODE, NOW_US, SECRET, event, notification
from tests.spark.secured_pair import run_with_spark, secured_pair
from weft.client.blocking import Client
from weft.client.received import Received
from weft.configuration import Source, validated
from weft.pipelines import lake
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.catalogue import CATALOGUE
from weft.security.secret import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(1500)]  # longer than the story may take

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGENT, LAMP, GONE = uuid(1), uuid(2), uuid(3)
BROKEN = b"no JSON at all"
MINUTE_US = 60_000_000
LATE_MINUTES = 2
BATCHES = 8
STORY_S = 1200.0  # a bound: eight pipelines, each with Pythons of its own, on a machine that is busy otherwise


@dataclass(frozen=True)
class Story:
    """What was published, what each pipeline said, and where its tables are."""

    place: Path
    master: str
    client: Client
    events: list[tuple[object, ...]]  # in the columns of ROW
    configurations: dict[str, Any]
    outcomes: dict[str, Any]
    log: str  # of the driver

    def ended_well(self, pipeline: str) -> dict[str, Any]:
        found: dict[str, Any] = self.outcomes[pipeline]
        assert found["ok"], found["summary"]
        assert found["master"] == self.master
        return found

    def rows(self, table: str) -> list[dict[str, Any]]:
        """As any reader of Delta sees the table."""
        found: list[dict[str, Any]] = DeltaTable(str(self.place / table)).to_pyarrow_table().to_pylist()
        return found

    def archived(self) -> ArchiveSettings:
        return validated(ArchiveSettings, [Source("a test", self.configurations["archive"])])

    def topic(self, pattern: str) -> list[Received]:
        """All events of its topics."""
        return [
            event
            for place in self.client.positions(pattern)
            for batch in self.client.fetch(place.stream, place.epoch, 0)
            for event in batch.events()
        ]


CONNECT = pytest.param("connect_server", marks=pytest.mark.req("SPK-06", "LAK-05"))
CLASSIC = pytest.param("cluster", marks=pytest.mark.req("SPK-06"))
IN_CLASSIC = ("archive", "packets")
through_connect = pytest.mark.parametrize("story", [CONNECT], indirect=True)
both_ways = pytest.mark.parametrize("story", [CLASSIC, CONNECT], indirect=True)


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    cluster: Cluster | ConnectServer = request.getfixturevalue(request.param)
    place = tmp_path_factory.mktemp("story")
    with secured_pair(place) as nodes, nodes.client(nodes.first) as client:
        publisher = Publisher(client, seed=4)
        for _ in range(BATCHES):
            publisher.publish()
        publish_packets(client)
        publish_coaty(client)
        publish_typed(client)
        trust = place / "trust"
        add_device(trust, DeviceKey(NODE, KEY_ID, KeyKind.HMAC, Secret(SECRET)))
        add_group(trust, Secret(GROUP_KEYS[0]))
        section: Any = cluster.spark_section()
        wanted = configurations(place, {**nodes.mesh, "nodes": [nodes.first]})
        if isinstance(cluster, Cluster):  # sent along with the job, as where executors share no disk with the driver
            wanted = {name: wanted[name] for name in IN_CLASSIC}
            section["conf"]["spark.files"] = str(trust / "trust.json")
            wanted["packets"]["trust"]["file"] = "trust.json"
        plan, outcomes = place / "plan.json", place / "outcomes.json"
        plan.write_text(json.dumps({"spark": section, "pipelines": wanted}))
        ended = run_with_spark([sys.executable, "-m", "tests.pipelines.cluster_driver", plan, outcomes], STORY_S)
        assert ended.status == 0, ended.err[-5000:]
        log = ended.out + ended.err
        yield Story(place, cluster.master, client, publisher.rows, wanted, json.loads(outcomes.read_text()), log)


def publish_packets(client: Client) -> None:
    for packet in (event(1), event(2), b"junk", event(2), notification(3)):
        client.publish("emm.raw.a", packet, timestamp_us=NOW_US)


def publish_coaty(client: Client) -> None:
    """In one namespace an agent that goes and comes back, in another objects."""

    def publish(topic: str, after_s: float, payload: bytes) -> None:
        time = pa.array([NOON + timedelta(seconds=after_s)], pa.timestamp("us", "UTC"))
        client.publish_batch(topic, pa.table({"payload": [payload], "timestamp": time}))

    publish("coaty.plant.ADV.Identity", 0, advertise(identity(AGENT)))
    publish("coaty.plant.DAD", 70, deadvertise(AGENT))
    publish("coaty.plant.ADV.Identity", 80, advertise(identity(AGENT)))
    publish("coaty.plant.CHN.x", 200, b"time goes on")
    publish("coaty.hall.ADV.CoatyObject", 0, advertise(coaty_object(LAMP, "lamp")))
    publish("coaty.hall.ADV.CoatyObject", 0, advertise(coaty_object(GONE, "gone")))
    publish("coaty.hall.DAD", 5, deadvertise(GONE))
    publish("coaty.hall.DAD", 6, b"not Coaty")


def publish_typed(client: Client) -> None:
    client.schemas.set("hall.*.temp", "celsius DOUBLE NOT NULL, unit STRING", kind="ddl", mode="off")
    for payload in (b'{"celsius": 21.5, "unit": "C"}', b'{"celsius": 22, "more": true}', BROKEN):
        client.publish("hall.line1.temp", payload)


def configurations(place: Path, mesh: dict[str, Any]) -> dict[str, Any]:
    """As files would have them, without the cluster."""

    def tables(*names: str) -> dict[str, object]:
        return {name.rpartition("-")[2]: {"path": str(place / name)} for name in names}

    def streaming(pipeline: str, subscribe: str, **source: object) -> dict[str, object]:
        run = {"checkpoint": str(place / "checkpoints" / pipeline), "trigger": "available-now"}
        return {"mesh": mesh, "source": {"subscribe": subscribe, **source}, "run": run}

    events = {"table": {"path": str(place / "archive")}}
    return {
        "archive": {**streaming("archive", "plant.>", max_events_per_trigger=400), **events},
        "archive typed": {
            **streaming("typed", "hall.>"),
            **tables("typed-table", "typed-dead_letters"),
            "name": "typed",
            "typed": {},
        },
        "packets": {
            **streaming("packets", "emm.raw.>"),
            **tables("events", "quarantine"),
            "trust": {"file": str(place / "trust" / "trust.json")},
            "replays": {"buckets": 2},
        },
        "health": {
            **streaming("health", "coaty.plant.>"),
            **tables("nodes", "alerts", "health-rejected"),
            "rules": {"wait": "10 seconds"},
            "alert_topic": "alerts.health",
        },
        "rollup": {
            **streaming("rollup", "plant.>"),
            **tables("rollup-table"),
            "window": {"length": "1 minute", "late": f"{LATE_MINUTES} minutes"},
        },
        "objects": {**streaming("objects", "coaty.hall.>"), **tables("objects-table", "objects-rejected")},
        "compact": events,
        "replay": {"name": "again", "mesh": mesh, **events, "replay": {"topics": "plant.>"}},
        "audit": {"mesh": mesh, **events, "audit": {"subscribe": "plant.>"}},
    }


@through_connect
def test_every_pipeline_of_the_catalogue_is_here(story: Story) -> None:
    ran = dict.fromkeys(map(pipeline_of, story.outcomes))
    assert list(ran) == [entry.name for entry in CATALOGUE]


@both_ways
def test_no_secret_is_logged(story: Story) -> None:
    assert SECRET.hex() not in story.log


@both_ways
def test_archive_has_the_log_row_by_row(story: Story) -> None:
    story.ended_well("archive")
    assert in_order(table_rows(story.archived())) == in_order(story.events)


@through_connect
@pytest.mark.req("LAK-02")
def test_a_typed_archive_has_columns_and_dead_letters(story: Story) -> None:
    story.ended_well("archive typed")
    rows = sorted(story.rows("typed-table"), key=lambda row: row["offset"])
    assert [(row["celsius"], row["unit"], row["_rescued"]) for row in rows] == [
        (21.5, "C", None),
        (22.0, None, '{"more":true}'),
    ]
    (dead,) = story.rows("typed-dead_letters")
    assert (dead["value"], dead["topic"], dead["schema"]) == (BROKEN, "hall.line1.temp", "hall.*.temp (version 1)")
    assert dead["reason"]


@both_ways
def test_packets_are_judged_with_keys_of_the_file(story: Story) -> None:
    story.ended_well("packets")
    assert sorted(row["message_id"] for row in story.rows("events")) == [1, 2, 3 << 32 | EPOCH << 16 | 2]
    assert sorted(row["reason"] for row in story.rows("quarantine")) == ["protocol", "replay"]


@through_connect
def test_health_has_the_state_and_publishes_alerts(story: Story) -> None:
    story.ended_well("health")
    assert [(row["node"], row["status"]) for row in story.rows("nodes")] == [(AGENT, "alive")]
    assert sorted(row["alert"] for row in story.rows("alerts")) == ["back", "gone"]
    published = [json.loads(each.payload) for each in story.topic("alerts.health")]
    assert [(each["node"], each["alert"]) for each in published] == [(AGENT, "gone"), (AGENT, "back")]


@through_connect
def test_rollup_has_the_windows_that_are_over(story: Story) -> None:
    story.ended_well("rollup")
    topic, time = ROW.index("topic"), ROW.index("timestamp")
    minutes = Counter((str(row[topic]), int(str(row[time])) // MINUTE_US) for row in story.events)
    over = max(int(str(row[time])) for row in story.events) // MINUTE_US - LATE_MINUTES
    wanted = {key: count for key, count in minutes.items() if key[1] < over}
    found = {
        (row["topic"], round(row["window_start"].timestamp()) // 60): row["events"]
        for row in story.rows("rollup-table")
    }
    assert found == wanted and len(found) > 10


@through_connect
def test_objects_are_those_that_were_advertised_and_stayed(story: Story) -> None:
    story.ended_well("objects")
    assert [(row["object_id"], row["name"]) for row in story.rows("objects-table")] == [(LAMP, "lamp")]
    (rejected,) = story.rows("objects-rejected")
    assert "not JSON" in rejected["rejected"]


@through_connect
def test_compact_leaves_fewer_files(story: Story) -> None:
    (said,) = story.ended_well("compact")["rows"]
    files = lake.open_table(story.archived().table_settings()).files()
    assert len(files) == said["files_after"] < said["files_before"]


@through_connect
def test_replay_writes_every_event_once(story: Story) -> None:
    assert story.ended_well("replay")["summary"] == f"{len(story.events)} events written"
    replayed = story.topic("replay.plant.>")
    found = [((each.headers or {})["weft-replay-topic"], each.payload) for each in replayed]
    topic, value = ROW.index("topic"), ROW.index("value")
    assert sorted(found) == sorted((row[topic], row[value]) for row in story.events)


@through_connect
def test_audit_finds_the_table_to_agree_with_the_log(story: Story) -> None:
    streams = {row[:4] for row in story.events}
    summary = f"{len(streams)} streams with {len(story.events)} events in the table agree with the log"
    assert story.ended_well("audit")["summary"] == summary
