"""From a lake table back into a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pydantic import ValidationError
from pyspark.sql import SparkSession

from weft.client import NotAllowed
from weft.client.blocking import Client
from weft.client.received import Received
from weft.errors import UsageError
from weft.pipelines import archive
from weft.pipelines import replay as room
from weft.pipelines.base import JobRun, Outcome
from weft.pipelines.lake import TableChanged
from weft.pipelines.replay import PIPELINE, ReplaySettings, _recipients, _time
from weft.pipelines.replay_plan import StreamKey, Stretch, plan
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

pytestmark = pytest.mark.xdist_group("spark")

TIMEOUT_S = 300
DAY = datetime(2026, 3, 1, tzinfo=UTC)
DAY_US = int(DAY.timestamp()) * 1_000_000
HEADERS = pa.map_(pa.string(), pa.string())


@pytest.fixture
def mesh() -> Iterator[BlockingMesh]:
    with blocking_mesh(nodes=1) as mesh:
        yield mesh


@pytest.fixture
def client(mesh: BlockingMesh) -> Iterator[Client]:
    with mesh.client() as client:
        yield client


def fill(path: Path, topic: str, offsets: range, **columns: Any) -> None:
    """A stream of an archive, an event a second."""
    count = len(offsets)
    rows = {
        "topic": pa.array([topic] * count),
        "origin": pa.array(["far"] * count),
        "epoch": pa.array([7] * count, pa.int64()),
        "partition": pa.array([1] * count, pa.int32()),
        "offset": pa.array(list(offsets), pa.int64()),
        "timestamp": pa.array([DAY_US + offset * 1_000_000 for offset in offsets], pa.timestamp("us", "UTC")),
        "key": pa.array([b"k"] * count),
        "headers": pa.array([[("unit", "C"), ("weft-replay-topic", "older")]] * count, HEADERS),
        "value": pa.array([f"{topic} {offset}".encode() for offset in offsets]),
        "date": pa.array([date(2026, 3, 1)] * count),
        **columns,
    }
    write_deltalake(path, pa.table(rows), mode="append", partition_by=["date"])


def settings_of(path: Path, mesh: BlockingMesh, **changes: Any) -> ReplaySettings:
    return ReplaySettings.model_validate(
        {
            "name": changes.pop("name", "again"),
            "mesh": {"nodes": (mesh.address("n0"),), "insecure": True},
            "table": {"path": path},
            "replay": {"topics": "plant.>", "step_events": 10, **changes},
        }
    )


def run(spark: SparkSession, settings: ReplaySettings, *, execute: bool = True) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    file = PIPELINE.settings.model_validate(settings.model_dump(exclude_unset=True))
    return PIPELINE.run(spark, file, JobRun(execute, said.append)), said


def events(client: Client, pattern: str) -> list[Received]:
    places = client.positions(pattern)
    return [
        event for place in places for batch in client.fetch(place.stream, place.epoch, 0) for event in batch.events()
    ]


def values(client: Client, topic: str) -> list[int]:
    return [int(event.payload.split()[1]) for event in events(client, topic)]


@pytest.mark.req("SPK-04")
def test_a_plan_first_then_every_event_once(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    table = tmp_path / "events"
    fill(table, "plant.a", range(15))
    fill(table, "plant.b", range(3, 8), headers=pa.nulls(5, HEADERS))
    fill(table, "other", range(5))
    settings = settings_of(table, mesh)
    with client.subscribe("replay.plant.*") as subscription:
        subscription.opened(20.0)
        outcome, _ = run(spark, settings, execute=False)
    assert "20 events of 2 topics" in outcome.summary
    assert "from 2026-03-01T00:00:00+00:00 until 2026-03-01T00:00:14+00:00" in outcome.summary
    assert "Nothing was done" in outcome.summary
    assert (outcome.rows[0]["events"], outcome.rows[0]["to"]) == (15, "replay.plant.a")
    assert outcome.rows[0]["received by"] == "n0 (replay.plant.*)"
    assert events(client, "replay.>") == []

    outcome, said = run(spark, settings)
    assert outcome.summary == "20 events written"
    assert any(line.startswith("step 1 of ") for line in said)
    assert values(client, "replay.plant.a") == list(range(15))
    assert values(client, "replay.plant.b") == list(range(3, 8))
    first = events(client, "replay.plant.a")[0]
    assert (first.partition, first.key) == (1, b"k")
    assert first.timestamp_us > DAY_US + 60_000_000, "an event of now"
    assert first.headers == {
        "unit": "C",
        "weft-replay-topic": "plant.a",
        "weft-replay-origin": "far",
        "weft-replay-epoch": "7",
        "weft-replay-partition": "1",
        "weft-replay-offset": "0",
        "weft-replay-timestamp": str(DAY_US),
    }

    bare = events(client, "replay.plant.b")[0]
    assert bare.headers is not None and set(bare.headers) == set(first.headers) - {"unit"}

    outcome, _ = run(spark, settings)
    assert outcome.summary == "0 events written; 20 were by earlier runs of this name"
    assert len(events(client, "replay.>")) == 20


@pytest.mark.req("SPK-04")
def test_a_replay_that_died_goes_on_though_the_table_has_grown(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "events"
    fill(table, "plant.a", range(25))
    settings = settings_of(table, mesh)
    write = room.write

    def dying(*arguments: Any) -> None:
        write(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        run(spark, settings)
    monkeypatch.setattr(room, "write", write)
    fill(table, "plant.a", range(25, 40))
    outcome, said = run(spark, settings)
    assert any("begun before" in line for line in said)
    assert outcome.summary == "15 events written; 10 were by earlier runs of this name"
    assert values(client, "replay.plant.a") == list(range(25))
    with pytest.raises(TableChanged, match=r"another name.*planned 10, found 0"):
        lost = settings_of(tmp_path / "less", mesh)
        fill(tmp_path / "less", "plant.a", range(25))
        monkeypatch.setattr(room, "write", dying)
        with pytest.raises(KeyboardInterrupt):
            run(spark, lost)
        monkeypatch.setattr(room, "write", write)
        write_deltalake(tmp_path / "less", pa.table(_first(tmp_path / "less", 10)), mode="overwrite")
        run(spark, lost)


def _first(path: Path, count: int) -> pa.Table:
    from deltalake import DeltaTable

    return pa.table(DeltaTable(path).to_pyarrow_table()).sort_by("offset").slice(0, count)


@pytest.mark.req("SPK-04")
def test_what_was_archived_can_be_replayed(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    """All the way round, by a table of another format."""
    for number in range(5):
        client.publish("plant.a", f"a {number}", headers={"n": str(number)} if number else None)
    table = {"path": tmp_path / "events", "format": "parquet"}
    node = {"nodes": (mesh.address("n0"),), "insecure": True}
    archiving = archive.ArchiveSettings.model_validate(
        {
            "mesh": node,
            "table": table,
            "source": {"subscribe": "plant.>"},
            "run": {"checkpoint": tmp_path / "checkpoint", "trigger": "available-now"},
        }
    )
    [query] = archive.start(spark, archiving)
    assert query.awaitTermination(TIMEOUT_S)
    settings = ReplaySettings.model_validate({"mesh": node, "table": table, "replay": {"topics": ">"}})
    outcome, _ = run(spark, settings)
    assert (outcome.summary, values(client, "replay.plant.a")) == ("5 events written", list(range(5)))
    for old, new in zip(events(client, "plant.a"), events(client, "replay.plant.a"), strict=True):
        told = new.headers or {}
        assert told["weft-replay-timestamp"] == str(old.timestamp_us)
        assert (told["weft-replay-origin"], told["weft-replay-offset"]) == (old.origin, str(old.offset))
        assert told.get("n") == (old.headers or {}).get("n")


def test_a_time_and_a_place_of_ones_own(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    table = tmp_path / "events"
    fill(table, "plant.a", range(20))
    settings = settings_of(
        table,
        mesh,
        starting_timestamp=datetime(2026, 3, 1, 0, 0, 5, tzinfo=UTC),
        ending_timestamp=datetime(2026, 3, 1, 0, 0, 8, tzinfo=UTC),
        prefix="",
        events_per_s_max=1000.0,
    )
    outcome, _ = run(spark, settings)
    assert (outcome.summary, values(client, "plant.a")) == ("3 events written", [5, 6, 7])
    outcome, _ = run(spark, settings_of(table, mesh, topics="nothing"))
    assert outcome.summary == "the table has no such events"
    with pytest.raises(UsageError, match="not a table of raw events"):
        write_deltalake(tmp_path / "odd", pa.table({"x": [1]}))
        run(spark, settings_of(tmp_path / "odd", mesh), execute=False)


# --- without Spark ---------------------------------------------------------------------------------------------------


def test_another_wish_is_another_replay() -> None:
    def application(**changes: Any) -> str:
        given = {"topics": "plant.>", **changes}
        name = given.pop("name", None)
        path = given.pop("path", "/lake")
        return ReplaySettings.model_validate({"name": name, "table": {"path": path}, "replay": given}).application()

    wishes: list[dict[str, Any]] = [
        {},
        {"name": "other"},
        {"path": "/lake2"},
        {"topics": "plant.a"},
        {"starting_timestamp": DAY},
        {"ending_timestamp": DAY},
        {"prefix": "again."},
    ]
    assert len({application(**wish) for wish in wishes}) == len(wishes)
    assert application() == application(copies=2, events_per_s_max=5.0, step_events=7)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        ReplaySettings.model_validate(
            {"table": {"path": "/lake"}, "replay": {"topics": ">", "starting_timestamp": datetime(2026, 3, 1)}}
        )


def test_a_rate_makes_small_steps() -> None:
    def of_a_step(**changes: Any) -> int:
        return room.ReplaySection.model_validate({"topics": ">", **changes}).events_of_a_step()

    assert (of_a_step(), of_a_step(events_per_s_max=50.0), of_a_step(events_per_s_max=1e9)) == (
        1_000_000,
        500,
        1_000_000,
    )


def test_times_that_python_cannot_tell() -> None:
    assert _time((1 << 63) - 1).startswith("9999-12-31")
    assert _time(-(1 << 63)).startswith("0001-01-01")
    assert _time(DAY_US) == "2026-03-01T00:00:00+00:00"


def test_rights_for_all_topics_are_asked_for_before_the_first_step() -> None:
    """A client that can do nothing else: who may publish to some of the topics publishes to none."""

    class Asked:
        topics: tuple[str, ...] = ()

        def check_publish(self, topics: list[str]) -> None:
            self.topics = tuple(topics)
            raise NotAllowed("not allowed to publish", topic="replay.plant.b")

    stretches = [Stretch(StreamKey(topic, "n0", 0, 1), 0, 9, 10, 1000, 0, 1) for topic in ("plant.b", "plant.a")]
    settings = ReplaySettings.model_validate({"table": {"path": "/lake"}, "replay": {"topics": ">"}})
    client: Any = Asked()
    rows: Any = None
    with pytest.raises(NotAllowed):
        room.execute(rows, settings, client, b"secret", plan(stretches, 10), JobRun(True, print))
    assert client.topics == ("replay.plant.a", "replay.plant.b")


def test_who_may_not_ask_is_told_so() -> None:
    class Refusing:
        def explain(self, topic: str) -> Any:
            raise NotAllowed("not allowed")

    client: Any = Refusing()
    assert "admin right" in _recipients(client, "t")
