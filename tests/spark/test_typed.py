"""Payloads as columns, without Spark: which schema a topic has, the columns they make, and events as rows."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from weft.model import parse_pattern
from weft.schema import Kind, parse_schema
from weft.spark.typed import EVENT_COLUMNS, SchemaConflict, TypedPattern, TypedReader, TypedRows, TypedTopics

pytestmark = pytest.mark.req("LAK-02")


def of(*schemas: tuple[str, str]) -> TypedTopics:
    """Patterns and their DDL; versions count up."""
    made = (
        TypedPattern(parse_pattern(pattern), parse_schema(Kind.DDL, ddl), version)
        for version, (pattern, ddl) in enumerate(schemas, 1)
    )
    return TypedTopics(tuple(made))


def events(*given: tuple[str, object]) -> pa.RecordBatch:
    """Topics and payloads; what is no bytes is JSON."""
    payloads = [value if isinstance(value, bytes) else json.dumps(value).encode() for _, value in given]
    return pa.record_batch(
        {
            "topic": pa.array([topic for topic, _ in given], pa.string()),
            "value": pa.array(payloads, pa.binary()),
            "offset": pa.array(range(len(given)), pa.int64()),
        }
    )


def test_each_topic_is_read_by_its_own_schema_and_rows_keep_their_order() -> None:
    topics = of(("a.x", "n INT, only_x STRING"), ("a.*", "n BIGINT, s STRUCT<p: INT>"))
    reader = TypedReader(topics)
    found = reader.read(
        events(
            ("a.x", {"n": 1, "only_x": "x"}),
            ("a.y", {"n": 1 << 40, "s": {"p": 7}}),
            ("a.x", {"n": "no number"}),
            ("b", {"n": 5}),
            ("a.y", b"{no json"),
        )
    )
    assert found.columns.schema == pa.schema(
        [
            ("n", pa.int64()),  # the wider of two
            ("only_x", pa.string()),
            ("s", pa.struct([("p", pa.int32())])),
            ("_rescued", pa.string()),
            ("_corrupt", pa.binary()),
        ]
    )
    assert found.columns.to_pylist() == [
        {"n": 1, "only_x": "x", "s": None, "_rescued": None, "_corrupt": None},
        {"n": 1 << 40, "only_x": None, "s": {"p": 7}, "_rescued": None, "_corrupt": None},
        {"n": None, "only_x": None, "s": None, "_rescued": '{"n":"no number"}', "_corrupt": None},
        {"n": None, "only_x": None, "s": None, "_rescued": None, "_corrupt": b'{"n": 5}'},
        {"n": None, "only_x": None, "s": None, "_rescued": None, "_corrupt": b"{no json"},
    ]
    assert found.reasons().to_pylist()[:4] == [
        None,
        None,
        "n: expected INT, found text",
        "no schema is set for topic b",
    ]
    assert str(found.reasons()[4]).startswith("the payload is not JSON")


def test_one_schema_for_all_is_one_run_and_an_empty_batch_is_none() -> None:
    reader = TypedReader(of((">", "n INT")))
    assert reader.read(events(("a", {"n": 1}), ("b", {"n": 2}))).columns.column("n").to_pylist() == [1, 2]
    empty = reader.read(events())
    assert len(empty) == 0
    assert empty.columns.schema.names == ["n", "_rescued", "_corrupt"]


def test_a_field_that_is_called_like_a_column_of_events_gets_another_name() -> None:
    topics = of((">", "Timestamp STRING, value DOUBLE, date DATE, key STRING"))
    assert topics.columns().names == ["payload_Timestamp", "value", "payload_date", "payload_key"]
    found = TypedReader(topics).read(events(("t", {"Timestamp": "now", "value": 1.5, "key": "k"})))
    assert found.columns.to_pylist()[0] | {} == {
        "payload_Timestamp": "now",
        "value": 1.5,
        "payload_date": None,
        "payload_key": "k",
        "_rescued": None,
        "_corrupt": None,
    }


@pytest.mark.parametrize(
    ("schemas", "words"),
    [
        (
            [("plant.a", "n INT"), ("plant.b", "n STRING")],
            r"column n is INT for plant\.a \(version 1\) and STRING for plant\.b \(version 2\)",
        ),
        ([("plant.a", "n INT"), ("plant.b", "N INT")], r"differ by case only, n of plant\.a .* and N of plant\.b"),
        ([("plant.a", "timestamp INT, payload_timestamp INT")], "both be the column payload_timestamp"),
        (
            [("plant.a", "s STRUCT<p: INT>"), ("plant.b", "s STRUCT<p: DATE>")],
            r"column s is STRUCT<p: INT> for .* and STRUCT<p: DATE>",
        ),
    ],
)
def test_schemas_that_cannot_be_one_table_are_refused(schemas: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(SchemaConflict, match=words):
        of(*schemas).columns()


def test_rows_have_the_columns_that_are_asked_for() -> None:
    topics = of((">", "n INT, m INT"))
    rows = TypedRows(topics, ("m", "offset", "_rescued"))
    assert rows.fetched() == ("offset", "topic", "value")
    found = list(rows.rows([events(("t", {"n": 1, "m": 2, "more": True}))]))
    assert [batch.to_pylist() for batch in found] == [[{"m": 2, "offset": 0, "_rescued": '{"more":true}'}]]
    bare = TypedRows(topics, ("offset",))
    assert bare.fetched() == ("offset",)  # payloads stay where they are
    assert TypedRows(topics, (*EVENT_COLUMNS, "n")).schema.names[-1] == "n"


def test_it_travels_to_executors() -> None:
    rows = TypedRows(of(("a.>", "n INT")), ("n",))
    again = pickle.loads(pickle.dumps(rows))
    assert (again, again.schema) == (rows, rows.schema)
