"""Rows of a DataFrame to batches, without Spark but for its types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from weft.errors import UsageError
from weft.model import Topic
from weft.spark import sink_rows as room
from weft.spark.sink_rows import BadRows, batches, check_schema, check_topic, gathered
from weft.spark.staging import Target

NOW_US = 1_700_000_000_000_000
HEADERS = pa.map_(pa.string(), pa.string())
TIME = pa.timestamp("us", "UTC")
KINDS: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "collated": StringType("UTF8_LCASE"),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema_of(columns: str) -> StructType:
    """A schema of names and kinds; Spark's own parser needs a JVM."""
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split(" ")
        schema.add(name, KINDS[kind])
    return schema


def made(table: pa.Table, topic: str | None = None) -> list[tuple[str, int, list[bytes]]]:
    found = batches(table, None if topic is None else Topic(topic), NOW_US)
    return [(target.topic, target.partition, [event.payload for event in batch]) for target, batch in found]


def test_rows_go_to_their_topics_and_partitions_in_order() -> None:
    table = pa.table(
        {
            "topic": ["a", "b", "a", "b", "a"],
            "value": ["1", "2", "3", "4", "5"],
            "partition": pa.array([0, 1, None, 1, 2], pa.int32()),
        }
    )
    assert made(table) == [("a", 0, [b"1", b"3"]), ("a", 2, [b"5"]), ("b", 1, [b"2", b"4"])]


def test_all_columns_arrive() -> None:
    table = pa.table(
        {
            "value": pa.array([b"\xff", b""]),
            "key": pa.array(["k", None]),
            "headers": pa.array([[("unit", "C")], None], HEADERS),
            "timestamp": pa.array([5, None], TIME),
        }
    )
    [(target, batch)] = batches(table, Topic("plant.t"), NOW_US)
    first, second = batch
    assert target == Target(Topic("plant.t"), 0)
    assert (first.payload, first.key, first.headers, first.timestamp_us) == (b"\xff", b"k", {"unit": "C"}, 5)
    assert (second.payload, second.key, second.headers, second.timestamp_us) == (b"", None, None, NOW_US)


def test_without_a_timestamp_it_is_now() -> None:
    [(_, batch)] = batches(pa.table({"value": ["x"]}), Topic("t"), NOW_US)
    assert [event.timestamp_us for event in batch] == [NOW_US]


def test_the_option_counts_more_than_the_column() -> None:
    assert made(pa.table({"topic": ["a", None], "value": ["1", "2"]}), "all") == [("all", 0, [b"1", b"2"])]


def test_large_groups_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SINK_BATCH_BYTES", 1000)
    found = made(pa.table({"value": [b"x" * 100] * 100}), "t")
    assert len(found) > 8
    assert sum(len(payloads) for _, _, payloads in found) == 100


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b.c", "d"]), st.integers(0, 3)), min_size=1, max_size=60),
    st.integers(1, 2000),
)
def test_nothing_is_lost_or_reordered(places: list[tuple[str, int]], batch_bytes: int) -> None:
    table = pa.table(
        {
            "topic": [topic for topic, _ in places],
            "partition": pa.array([partition for _, partition in places], pa.int32()),
            "value": [str(row) for row in range(len(places))],
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "SINK_BATCH_BYTES", batch_bytes)
        found = made(table)
    for place in set(places):
        rows = [payload for *target, payloads in found if tuple(target) == place for payload in payloads]
        assert rows == [str(row).encode() for row, each in enumerate(places) if each == place]
    assert sum(len(payloads) for _, _, payloads in found) == len(places)


def test_pieces_are_gathered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SINK_GATHER_BYTES", 100)
    pieces = [pa.record_batch({"value": [b"x" * size]}) for size in (10, 200, 10, 10)]
    empty = pa.record_batch({"value": pa.array([], pa.binary())})
    assert [table.num_rows for table in gathered([empty, *pieces])] == [2, 2]
    assert list(gathered([])) == []


# --- refusals --------------------------------------------------------------------------------------------------------

BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "null value": ({"value": pa.array([b"a", None])}, "column value is null in 1 of 2 rows"),
    "null topic": ({"value": ["a", "b"], "topic": ["t", None]}, "column topic is null in 1 of 2 rows"),
    "bad topic": ({"value": ["a"], "topic": ["a..b"]}, "token 2 is empty"),
    "the mesh's own": ({"value": ["a"], "topic": ["weft.groups.g"]}, "belong to the mesh"),
    "no such partition": ({"value": ["a"], "partition": pa.array([65_536], pa.int32())}, "partition 65536"),
    "negative partition": ({"value": ["a"], "partition": pa.array([-1], pa.int32())}, "partition -1"),
    "null header": ({"value": ["a"], "headers": pa.array([[("h", None)]], HEADERS)}, "header without a value"),
    "long key": ({"value": ["a"], "key": ["k" * 5000]}, "key too long.*have 5000, limit 4096"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_cannot_be_events_are_named(name: str) -> None:
    columns, message = BAD_ROWS[name]
    with pytest.raises(UsageError, match=message):
        made(pa.table({"topic": ["t"] * len(columns["value"]), **columns}))


def test_a_row_too_large_to_be_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "EVENT_PAYLOAD_BYTES_MAX", 1000)
    with pytest.raises(BadRows, match=r"too large to be staged.*topic t.*limit 1000"):
        made(pa.table({"value": [b"x" * 1000]}), "t")


@pytest.mark.parametrize(
    ("schema", "topic", "message"),
    [
        ("value binary, topic string, offset bigint", None, "no column 'offset'.*known value, topic"),
        ("value int, topic string", None, "column value is int: cast it.*need binary or string"),
        ("value string, topic binary", None, "column topic is binary.*need string"),
        ("value string, partition bigint", "t", "column partition is bigint.*need int"),
        ("value string, headers map<string,int>", "t", "column headers is map<string,int>"),
        ("value string, timestamp string", "t", "column timestamp is string.*need timestamp"),
        ("key string", "t", "no column value"),
        ("value string", None, "no topic to write to"),
        ("value string, value string", "t", "twice"),
    ],
)
def test_columns_that_do_not_fit_are_named(schema: str, topic: str | None, message: str) -> None:
    with pytest.raises(BadRows, match=message):
        check_schema(schema_of(schema), topic)


def test_columns_that_fit() -> None:
    everything = (
        "value string, topic string, key binary, headers map<string,string>, timestamp timestamp, partition int"
    )
    check_schema(schema_of(everything), None)
    check_schema(schema_of("value binary"), "t")
    check_schema(schema_of("value collated"), "t")


def test_topics_of_the_mesh_are_refused() -> None:
    assert check_topic("weftier.t") == "weftier.t"
    for topic in ("weft", "weft.staging.x"):
        with pytest.raises(BadRows, match="belong to the mesh"):
            check_topic(topic)
