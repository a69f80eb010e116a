"""Events as rows of a typed table and as dead letters, without Spark: each is in one of the two."""

from __future__ import annotations

import pickle
from datetime import date

import pyarrow as pa
import pytest

from weft.model import parse_pattern
from weft.pipelines.archive_events import Events, TopicColumn, first_token
from weft.pipelines.typed.events import DEAD, TypedArchive, typed_columns
from weft.schema import Kind, parse_schema
from weft.spark.options import COLUMNS
from weft.spark.rows import schema_of
from weft.spark.typed import TypedPattern, TypedTopics

pytestmark = pytest.mark.req("LAK-02")

DAY_US = 86_400_000_000
TOPICS = TypedTopics((TypedPattern(parse_pattern("plant.*"), parse_schema(Kind.DDL, "n INT NOT NULL, s STRING"), 3),))


def events(*payloads: bytes, topic: str = "plant.a", first: int = 0) -> pa.RecordBatch:
    rows = [
        {
            "key": b"k",
            "value": payload,
            "topic": topic,
            "partition": 0,
            "offset": first + at,
            "timestamp": 20_000 * DAY_US,
            "headers": [("h", "1")],
            "origin": "node-a",
            "epoch": 7,
        }
        for at, payload in enumerate(payloads)
    ]
    return pa.RecordBatch.from_pylist(rows, schema_of(COLUMNS))


def archived(
    archive: TypedArchive, *batches: pa.RecordBatch
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    dead: list[pa.RecordBatch] = []
    good = list(archive.rows(batches, dead))
    assert all(batch.schema == archive.columns for batch in good)
    assert all(batch.schema == DEAD for batch in dead)
    return [row for batch in good for row in batch.to_pylist()], [row for batch in dead for row in batch.to_pylist()]


def of(columns: pa.Schema | None = None, *, strict: bool = False, layout: Events | None = None) -> TypedArchive:
    layout = layout or Events()
    return TypedArchive(TOPICS, columns or typed_columns(TOPICS, layout), layout, strict)


MIXED = (
    events(b'{"n": 1, "s": "x"}', b'{"n": 2, "more": 1}', b"no json", b'{"s": "no n"}', b'{"n": "text"}'),
    events(b'{"n": 9}', topic="site.a"),
)


def test_only_what_cannot_be_read_is_dead() -> None:
    good, dead = archived(of(), *MIXED)
    assert [(row["offset"], row["n"], row["s"], row["_rescued"]) for row in good] == [
        (0, 1, "x", None),
        (1, 2, None, '{"more":1}'),
        (3, None, "no n", None),
        (4, None, None, '{"n":"text"}'),
    ]
    assert [(row["topic"], row["offset"], row["value"], row["schema"]) for row in dead] == [
        ("plant.a", 2, b"no json", "plant.* (version 3)"),
        ("site.a", 0, b'{"n": 9}', None),
    ]
    assert str(dead[0]["reason"]).startswith("the payload is not JSON")
    assert dead[1]["reason"] == "no schema is set for topic site.a"
    assert {row["date"] for row in (*good, *dead)} == {date(2024, 10, 4)}
    assert {row["replayed"] for row in dead} == {None}
    assert (dead[0]["key"], dead[0]["headers"], dead[0]["epoch"]) == (b"k", [("h", "1")], 7)


def test_strictly_every_fault_is_dead_and_what_is_only_more_is_not() -> None:
    good, dead = archived(of(strict=True), *MIXED)
    assert [row["offset"] for row in good] == [0, 1]
    assert [(row["topic"], row["offset"]) for row in dead] == [
        ("plant.a", 2),
        ("plant.a", 3),
        ("plant.a", 4),
        ("site.a", 0),
    ]
    assert [row["reason"] for row in dead[1:3]] == ["n: is required", "n: expected INT, found text"]


def test_rows_have_the_columns_of_the_table_wider_ones_and_old_ones() -> None:
    table = pa.schema([("old", pa.float64()), *typed_columns(TOPICS, Events())])
    table = table.set(table.get_field_index("n"), pa.field("n", pa.int64()))
    good, _ = archived(of(table), events(b'{"n": 1}'))
    assert (good[0]["old"], good[0]["n"], good[0]["topic"]) == (None, 1, "plant.a")


def test_a_table_may_be_laid_out_by_topic() -> None:
    layout = Events(TopicColumn("topic_token", pa.string(), first_token))
    good, _ = archived(of(layout=layout), events(b'{"n": 1}'))
    assert good[0]["topic_token"] == "plant"


def test_it_travels_to_executors() -> None:
    again = pickle.loads(pickle.dumps(of(strict=True)))
    assert archived(again, *MIXED) == archived(of(strict=True), *MIXED)
