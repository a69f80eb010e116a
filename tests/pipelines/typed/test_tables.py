"""A typed archive with Spark: columns and dead letters, a schema that grows, a lost checkpoint, and the replay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession

from tests.pipelines.lake.made import made_table
from weft.client.blocking import Client
from weft.configuration import BadConfig, Source, validated
from weft.pipelines import archive, lake, replay
from weft.pipelines.archive import ArchiveSettings
from weft.pipelines.base import JobRun, Outcome
from weft.pipelines.lake.table import TableChanged
from weft.pipelines.typed import replaying
from weft.pipelines.typed.tables import LetterCount, TypedTables
from weft.schema import NoSchema
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.req("LAK-02")]

FIRST = "n INT NOT NULL, s STRING"
SECOND = "n BIGINT NOT NULL, s STRING, part STRUCT<x: INT>"


@pytest.fixture(scope="module")
def mesh() -> Iterator[BlockingMesh]:
    with blocking_mesh(nodes=1) as made:
        yield made


@pytest.fixture
def client(mesh: BlockingMesh) -> Iterator[Client]:
    with mesh.client("n0") as made:
        yield made


def configured(mesh: BlockingMesh, place: Path, topics: str, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "mesh": {"nodes": [mesh.address("n0")], "insecure": True},
        "source": {"subscribe": topics},
        "table": {"path": str(place / "table")},
        "run": {"checkpoint": str(place / "checkpoint"), "trigger": "available-now"},
        "typed": {},
    }
    return values | changes


def settings_of(values: dict[str, Any]) -> ArchiveSettings:
    return validated(ArchiveSettings, [Source("a test", values)])


def archive_all(spark: SparkSession, values: dict[str, Any]) -> None:
    (query,) = archive.start(spark, settings_of(values))
    query.awaitTermination()


def replayed(spark: SparkSession, values: dict[str, Any], *, execute: bool = True) -> Outcome:
    file = validated(replay.ReplayFile, [Source("a test", values)])
    return replay.PIPELINE.run(spark, file, JobRun(execute, lambda _: None))


def tables_of(values: dict[str, Any]) -> TypedTables:
    tables = settings_of(values).typed_tables()
    assert tables is not None
    return tables


def rows(spark: SparkSession, values: dict[str, Any]) -> list[Row]:
    return lake.read(spark, tables_of(values).table).orderBy("topic", "offset").collect()


def letters(spark: SparkSession, values: dict[str, Any]) -> list[Row]:
    return lake.read(spark, tables_of(values).dead_letters).orderBy("topic", "offset").collect()


def publish(client: Client, topic: str, *payloads: object) -> None:
    for payload in payloads:
        client.publish(topic, payload if isinstance(payload, bytes) else json.dumps(payload))


@pytest.mark.parametrize("kind", lake.TableFormat)
def test_columns_dead_letters_growth_and_replay(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path, kind: lake.TableFormat
) -> None:
    """The whole story, for each format."""
    topic = f"ta.{kind}"
    values = configured(mesh, tmp_path, topic, table={"path": str(tmp_path / "table"), "format": kind.value})
    client.schemas.set(topic, FIRST, kind="ddl", mode="off")
    publish(client, topic, {"n": 1, "s": "x"}, {"n": 2, "more": [1]}, b"no json", {"n": 1 << 40})
    archive_all(spark, values)
    assert [(row.offset, row.n, row.s, row._rescued) for row in rows(spark, values)] == [
        (0, 1, "x", None),
        (1, 2, None, '{"more":[1]}'),
        (3, None, None, '{"n":1099511627776}'),
    ]
    (letter,) = letters(spark, values)
    assert (letter.offset, bytes(letter.value), letter.schema, letter.replayed) == (
        2,
        b"no json",
        f"{topic} (version 1)",
        None,
    )

    client.schemas.set(topic, SECOND, kind="ddl")
    publish(client, topic, {"n": 1 << 41, "part": {"x": 5}})
    archive_all(spark, values)
    assert [(row.n, row.part) for row in rows(spark, values)] == [
        (1, None),
        (2, None),
        (None, None),
        (1 << 41, Row(x=5)),
    ]
    before = rows(spark, values)
    client.schemas.set(topic, "n STRING", kind="ddl", compatibility="none")
    publish(client, topic, {"n": "late"})
    with pytest.raises(lake.TableError, match=r"only become wider.*n BIGINT.*n STRING"):
        archive_all(spark, values)
    assert rows(spark, values) == before
    client.schemas.set(topic, SECOND, kind="ddl")
    archive_all(spark, values)
    assert [row.offset for row in rows(spark, values)] == [0, 1, 3, 4, 5]
    assert len(letters(spark, values)) == 1


def test_a_fix_and_a_replay_put_letters_into_the_table_once(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = configured(mesh, tmp_path, "tb.>", typed={"strict": True})
    client.schemas.set("tb.a", FIRST, kind="ddl", mode="off")
    publish(client, "tb.a", {"n": 1}, {"n": "7"}, {"s": "no n"}, {"n": 1 << 40}, b"no json")
    publish(client, "tb.b", {"n": 5})
    archive_all(spark, values)
    assert [(row.topic, row.offset) for row in rows(spark, values)] == [("tb.a", 0)]
    assert [row.reason for row in letters(spark, values)][:3] == [
        "n: expected INT, found text",
        "n: is required",
        "n: expected INT, found the number 1099511627776",
    ]
    nothing = replayed(spark, values, execute=False)
    assert nothing.summary == "0 of 5 dead letters fit the schema of now. Nothing was done: run it with --execute"
    assert {"letters": 1, "reason": "n: is required"} in nothing.rows

    client.schemas.set("tb.a", "n BIGINT, s STRING", kind="ddl")
    client.schemas.set("tb.b", "n BIGINT", kind="ddl", mode="off")
    plan = replayed(spark, values, execute=False)
    assert plan.summary.startswith("3 of 5 dead letters fit")
    assert len(rows(spark, values)) == 1
    with monkeypatch.context() as patch:  # it dies when the rows are in, and before letters are marked
        patch.setattr(replaying, "mark", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            replayed(spark, values)
    assert [row.replayed for row in letters(spark, values)] == [None] * 5
    again = replayed(spark, values)
    assert again.summary == "0 of 2 dead letters fit the schema of now; 3 marked as done"
    assert [(row.topic, row.offset, row.n, row.s) for row in rows(spark, values)] == [
        ("tb.a", 0, 1, None),
        ("tb.a", 2, None, "no n"),
        ("tb.a", 3, 1 << 40, None),
        ("tb.b", 0, 5, None),
    ]
    assert [(row.offset, row.replayed is None) for row in letters(spark, values)] == [
        (1, True),
        (2, False),
        (3, False),
        (4, True),
        (0, False),
    ]
    assert replayed(spark, values).summary == "0 of 2 dead letters fit the schema of now; 0 marked as done"


def test_of_two_replays_one_wins(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = configured(mesh, tmp_path, "tc.>")
    client.schemas.set("tc.a", FIRST, kind="ddl", mode="off")
    publish(client, "tc.a", {"n": 1})
    publish(client, "tc.b", {"n": 2})
    archive_all(spark, values)
    assert [row.topic for row in letters(spark, values)] == ["tc.b"]
    client.schemas.set("tc.b", FIRST, kind="ddl", mode="off")
    judge = replaying._judge
    others = [values]

    def late(*args: Any) -> Any:
        found = judge(*args)
        if others:
            replayed(spark, others.pop())  # another one, all of it, before this one commits
        return found

    monkeypatch.setattr(replaying, "_judge", late)
    with pytest.raises(TableChanged, match="another replay of these dead letters was faster"):
        replayed(spark, values)
    assert [(row.topic, row.n) for row in rows(spark, values)] == [("tc.a", 1), ("tc.b", 2)]


def test_a_lost_checkpoint_and_a_driver_that_died_between_two_commits(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = configured(mesh, tmp_path, "td.a")
    client.schemas.set("td.a", FIRST, kind="ddl", mode="off")
    publish(client, "td.a", {"n": 1}, b"dead", {"n": 2})
    tables = tables_of(values)
    kind = type(lake.open_table(tables.table))
    commit = kind.commit

    def dies(self: lake.Table, *args: Any) -> bool:
        if self.settings.path == tables.dead_letters.path:
            raise ZeroDivisionError
        return commit(self, *args)

    with monkeypatch.context() as patch, pytest.raises(StreamingQueryException):
        patch.setattr(kind, "commit", dies)
        archive_all(spark, values)
    assert [row.offset for row in rows(spark, values)] == [0, 2]
    assert letters(spark, values) == []
    shutil.rmtree(tmp_path / "checkpoint")
    publish(client, "td.a", {"n": 3})
    archive_all(spark, values)
    assert [row.offset for row in rows(spark, values)] == [0, 2, 3]
    assert [row.offset for row in letters(spark, values)] == [1]


def test_what_cannot_be_is_refused_before_anything_is_written(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    values = configured(mesh, tmp_path, "te.a")
    with pytest.raises(NoSchema, match=r"no schema is set for topics of te\.a"):
        archive_all(spark, values)
    assert not (tmp_path / "table").exists()
    raw = {name: value for name, value in values.items() if name != "typed"}
    publish(client, "te.a", {"n": 1})
    archive_all(spark, raw)
    schema = tmp_path / "schema.sql"
    schema.write_text("n INT")
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(lake.TableError, match="not made by a typed archive"):
        archive_all(spark, values | {"typed": {"schema_file": str(schema)}})
    with pytest.raises(BadConfig, match=r"\[dead_letters\] is for a typed archive"):
        settings_of(raw | {"dead_letters": {"path": "/t"}})
    with pytest.raises(BadConfig, match="the file of an archive with"):
        replayed(spark, {"table": values["table"]})


def test_a_file_instead_of_the_mesh_and_tables_elsewhere(
    spark: SparkSession, mesh: BlockingMesh, client: Client, tmp_path: Path
) -> None:
    schema = tmp_path / "schema.avsc"
    fields = [{"name": "n", "type": "long"}, {"name": "timestamp", "type": ["null", "string"], "default": None}]
    schema.write_text(json.dumps({"type": "record", "name": "Reading", "fields": fields}))
    values = configured(mesh, tmp_path, "tf.a", typed={"schema_file": str(schema)})
    values |= {"dead_letters": {"path": str(tmp_path / "elsewhere")}, "layout": {"sort_by": ["n"]}}
    publish(client, "tf.a", b"\x0a\x00", b"\x0a\x02\x04hi", b"\xff")
    archive_all(spark, values)
    assert [(row.n, row.payload_timestamp) for row in rows(spark, values)] == [(5, None), (5, "hi")]
    assert [row.offset for row in letters(spark, values)] == [2]
    assert tables_of(values).dead_letters.path == str(tmp_path / "elsewhere")
    assert str(tables_of(values | {"dead_letters": None}).dead_letters.path) == str(tmp_path / "table_dead_letters")


def test_dead_letters_that_cannot_be_counted_are_no_reason_for_a_run_to_fail(tmp_path: Path) -> None:
    """They are counted when all is done, and a store may be away just then."""
    table = made_table(tmp_path, "parquet")
    letters = LetterCount(table)
    assert str(letters) == ""
    shutil.rmtree(table.settings.path)
    assert str(letters).startswith(f"the dead letters in {table.settings.path} could not be counted: there is no")
