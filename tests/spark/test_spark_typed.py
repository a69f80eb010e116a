"""The source with ``typed=true`` within Spark: every type, what does not fit, what is no JSON, batch and streaming."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from weft.client.blocking import Client
from weft.testing.live_blocking import BlockingMesh

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.req("LAK-02")]

QUERY_S = 300
DDL = """
    flag BOOLEAN, tiny TINYINT, small SMALLINT, n INT NOT NULL, big BIGINT, f FLOAT, d DOUBLE, price DECIMAL(10,2),
    s STRING, raw BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, list ARRAY<INT>, map MAP<STRING, DOUBLE>,
    part STRUCT<x: INT, items: ARRAY<STRUCT<p: STRING>>>, any JSON, timestamp STRING
"""
WHOLE = {
    "flag": True,
    "tiny": 1,
    "small": 2,
    "n": 3,
    "big": 1 << 40,
    "f": 0.5,
    "d": 1.25,
    "price": "12.50",
    "s": "text",
    "raw": "AAE=",
    "day": "2026-05-01",
    "at": "2026-05-01T14:00:00+02:00",
    "wall": "2026-05-01T14:00:00",
    "list": [1, None],
    "map": {"a": 1.5},
    "part": {"x": 1, "items": [{"p": "q"}]},
    "any": [1, {"b": 2}],
    "timestamp": "mine",
}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "schema.ddl"
    file.write_text(DDL)
    return str(file)


@pytest.fixture
def options(mesh: BlockingMesh, schema: str) -> Callable[..., dict[str, str]]:
    def given(**more: str) -> dict[str, str]:
        return {"nodes": mesh.address("n0"), "insecure": "true", "typed": "true", "schemaFile": schema, **more}

    return given


@pytest.fixture
def read(spark: SparkSession, options: Callable[..., dict[str, str]]) -> Callable[..., DataFrame]:
    def load(subscribe: str, **more: str) -> DataFrame:
        return spark.read.format("weft").options(**options(subscribe=subscribe, **more)).load()

    return load


def publish(client: Client, topic: str) -> None:
    """One of each kind: all fits, something does not, no JSON."""
    client.publish(topic, json.dumps(WHOLE), key="k", headers={"h": "1"})
    client.publish(topic, json.dumps({"n": 4, "tiny": 4000, "more": {"a": 1}}))
    client.publish(topic, b"\xff\x00 no JSON")


def test_every_type_and_nothing_dropped(read: Callable[..., DataFrame], client: Client) -> None:
    publish(client, "ty.one")
    first, second, third = read("ty.one").orderBy("offset").collect()
    assert (first.n, first.tiny, first.small, first.big, first.flag) == (3, 1, 2, 1 << 40, True)
    assert (first.f, first.d, first.price, first.s, bytes(first.raw)) == (
        0.5,
        1.25,
        Decimal("12.50"),
        "text",
        b"\x00\x01",
    )
    assert first.day == date(2026, 5, 1)
    assert first.at.astimezone(UTC) == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert first.wall == datetime(2026, 5, 1, 14)
    assert (first.list, first.map, first.part) == ([1, None], {"a": 1.5}, Row(x=1, items=[Row(p="q")]))
    assert (json.loads(first.any), first.payload_timestamp) == ([1, {"b": 2}], "mine")
    assert (bytes(first.key), first.headers, first.topic, first._rescued) == (b"k", {"h": "1"}, "ty.one", None)
    assert (second.n, second.tiny, json.loads(second._rescued)) == (4, None, {"tiny": 4000, "more": {"a": 1}})
    assert (third.n, third._rescued, bytes(third._corrupt), third.offset) == (None, None, b"\xff\x00 no JSON", 2)


def test_columns_prune_and_are_refused_by_name(read: Callable[..., DataFrame], client: Client) -> None:
    publish(client, "ty.two")
    frame = read("ty.two", columns="offset,n,part")
    assert frame.columns == ["offset", "n", "part"]
    assert [(row.offset, row.n) for row in frame.orderBy("offset").collect()] == [(0, 3), (1, 4), (2, None)]
    assert read("ty.two", columns="offset").count() == 3
    assert "headers" not in read("ty.two", includeHeaders="false").columns
    with pytest.raises(PySparkException, match="option columns: there is no column 'value'"):
        read("ty.two", columns="value")


def test_a_stream_has_the_same_rows(
    spark: SparkSession, options: Callable[..., dict[str, str]], client: Client, tmp_path: Path
) -> None:
    for _ in range(3):
        publish(client, "ty.three")
    frame = spark.readStream.format("weft").options(**options(subscribe="ty.three", startingOffsets="earliest")).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "rows"))
    assert query.awaitTermination(QUERY_S)
    rows = spark.read.parquet(str(tmp_path / "rows"))
    found = rows.selectExpr(
        "count(*)", "sum(n)", "count(_rescued)", "count(_corrupt)", "count(DISTINCT offset)"
    ).collect()
    assert tuple(found[0]) == (9, 21, 3, 3, 9)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"typed": "maybe"}, "option typed is true or false"),
        ({"typed": "false"}, "option schemaFile is for typed=true"),
        ({"schemaVersion": "2"}, "schemaFile and schemaVersion contradict each other"),
        ({"schemaFile": "/nowhere/schema.json"}, "cannot read the schema /nowhere/schema.json: No such file"),
        ({"schemaFile": "/etc/hostname"}, "does not follow from its ending"),
    ],
)
def test_what_cannot_be_is_refused(read: Callable[..., DataFrame], more: dict[str, str], words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        read("ty.one", **more)


def test_a_schema_that_changed_since_is_noticed(read: Callable[..., DataFrame], client: Client, schema: str) -> None:
    publish(client, "ty.four")
    frame = read("ty.four")
    Path(schema).write_text(f"{DDL}, late STRING")
    with pytest.raises(PySparkException, match="it was changed since the DataFrame was made"):
        frame.collect()
    assert read("ty.four").where("late IS NULL").count() == 3


# --- schemas of the mesh ---------------------------------------------------------------------------------------------


@pytest.fixture
def read_mesh(spark: SparkSession, mesh: BlockingMesh) -> Callable[..., DataFrame]:
    def load(subscribe: str, **more: str) -> DataFrame:
        given = {"nodes": mesh.address("n0"), "insecure": "true", "typed": "true", "subscribe": subscribe, **more}
        return spark.read.format("weft").options(**given).load()

    return load


def test_schemas_come_from_the_mesh_and_a_frame_keeps_its_version(
    read_mesh: Callable[..., DataFrame], client: Client
) -> None:
    client.schemas.set("tm.*", "n INT", kind="ddl", mode="off")
    client.publish("tm.one", b'{"n": 1, "late": "x"}')
    before = read_mesh("tm.one")
    client.schemas.set("tm.*", "n BIGINT, late STRING", kind="ddl")
    assert [(row.n, row._rescued) for row in before.collect()] == [(1, '{"late":"x"}')]  # planned after the change
    assert [(row.n, row.late, row._rescued) for row in read_mesh("tm.one").collect()] == [(1, "x", None)]
    old = read_mesh("tm.one", schemaVersion="1")
    assert (old.columns[-3:], dict(old.dtypes)["n"], old.count()) == (["n", "_rescued", "_corrupt"], "int", 1)
    with pytest.raises(PySparkException, match=r"does not have this version.*version 7, first 1, last 2"):
        read_mesh("tm.one", schemaVersion="7")


def test_topics_with_several_schemas_and_with_none(read_mesh: Callable[..., DataFrame], client: Client) -> None:
    client.schemas.set("tn.a", "n INT, a STRING", kind="ddl", mode="off")
    client.schemas.set("tn.b", "n BIGINT, b DATE", kind="ddl", mode="off")
    client.publish("tn.a", b'{"n": 1, "a": "x"}')
    client.publish("tn.b", b'{"n": 2, "b": "2026-05-01"}')
    client.publish("tn.none", b"anything")
    rows = {row.topic: row for row in read_mesh("tn.>").collect()}
    assert (rows["tn.a"].n, rows["tn.a"].a, rows["tn.b"].n, rows["tn.b"].b) == (1, "x", 2, date(2026, 5, 1))
    assert (rows["tn.none"].n, bytes(rows["tn.none"]._corrupt)) == (None, b"anything")
    client.schemas.set("tn.b", "n STRING", kind="ddl", compatibility="none")
    with pytest.raises(
        PySparkException, match=r"column n is INT for tn\.a \(version 1\) and STRING for tn\.b \(version 2\)"
    ):
        read_mesh("tn.>")
    with pytest.raises(PySparkException, match=r"these topics have several.*tn\.a, tn\.b"):
        read_mesh("tn.>", schemaVersion="1")
    with pytest.raises(PySparkException, match=r"no schema is set for topics of tn\.none.*weft schema set"):
        read_mesh("tn.none")
