"""``objects`` inside Spark, without Spark: events to changes, and the processor with its state and timers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from tests.pipelines.coaty_events import advertise, coaty_object, deadvertise, uuid
from weft.pipelines.derived_tables import MISDATED
from weft.pipelines.object_changes import CHANGES, NO_OBJECT, OUTPUT, ObjectProcessor, read_changes

LAMP = uuid(1)
KEY = f"plant/{LAMP}"
READ_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
READ_MS = round(READ_AT.timestamp() * 1000)
DAY_MS = 86_400_000

EVENTS = pa.schema(
    {
        "topic": pa.string(),
        "origin": pa.string(),
        "epoch": pa.int64(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "value": pa.binary(),
        "timestamp_us": pa.int64(),
        "misdated": pa.bool_(),
        "read_at": pa.timestamp("us", "UTC"),
    }
)


def event(topic: str, at_us: int, value: bytes, *, misdated: bool = False) -> dict[str, Any]:
    where = {"origin": "n0", "epoch": 1, "partition": 0, "offset": at_us % 1000}
    return {"topic": topic, "value": value, "timestamp_us": at_us, "misdated": misdated, "read_at": READ_AT, **where}


def lamp(at_us: int, name: str) -> dict[str, Any]:
    return event("coaty.plant.ADV.CoatyObject", at_us, advertise(coaty_object(LAMP, name)))


def gone(at_us: int) -> dict[str, Any]:
    return event("coaty.plant.DAD", at_us, deadvertise(LAMP))


def changes(*events: dict[str, Any]) -> pa.Table:
    return pa.Table.from_batches(read_changes([pa.RecordBatch.from_pylist(list(events), EVENTS)]), CHANGES)


class Table:
    """The processor under Spark's own tester, and what a table made of its rows would hold."""

    def __init__(self, *, marks: bool = False) -> None:
        self.tester = TwsTester(
            ObjectProcessor(marks=marks, remember_s=86_400.0),
            timeMode="eventTime",
            eventTimeExtractor=lambda row: row["read_at"].value // 1_000_000,
        )

    def batch(self, *events: dict[str, Any], key: str = KEY) -> list[dict[str, Any]]:
        frame: Any = self.tester.testInPandas(key, changes(*events).to_pandas())
        assert not len(frame) or list(frame.columns) == list(OUTPUT)
        assert all(dtype.kind == "O" for dtype in frame.dtypes), "Arrow takes NaN for a number, in any column"
        found: list[dict[str, Any]] = frame.to_dict("records")
        return found

    @property
    def is_kept(self) -> bool:
        return self.tester.peekValueState("known", KEY) is not None


def test_changes_are_found_by_their_object() -> None:
    rows = changes(lamp(5, "one"), event("coaty.plant.DAD", 6, deadvertise(LAMP, uuid(2)))).to_pylist()
    assert [row["object_key"] for row in rows] == [KEY, KEY, f"plant/{uuid(2)}"]


@pytest.mark.parametrize(
    ("bad", "reason", "at_us"),
    [
        (event("coaty.plant.DAD", 9, b"{"), "not JSON", 9),
        (event("coaty.plant.DAD", 1 << 62, deadvertise(LAMP), misdated=True), MISDATED, None),
        (event("coaty.plant.DAD", -(1 << 62), deadvertise(LAMP), misdated=True), MISDATED, None),
    ],
)
def test_bad_events_are_kept_apart_with_their_place_and_reason(
    bad: dict[str, Any], reason: str, at_us: int | None
) -> None:
    assert [row["object_key"] for row in changes(lamp(5, "one"), bad).to_pylist()] == [KEY, NO_OBJECT]
    (row,) = Table().batch(bad, key=NO_OBJECT)
    assert (row["topic"], row["origin"], row["offset"]) == ("coaty.plant.DAD", "n0", bad["offset"])
    assert (row["timestamp_us"], row["object_id"]) == (at_us, None)
    assert reason in row["rejected"]


def test_an_object_comes_changes_and_leaves() -> None:
    table = Table()
    (row,) = table.batch(lamp(5, "one"))
    assert (row["object_id"], row["name"], row["revision"]) == (LAMP, "one", 1)
    assert (row["advertised_at_us"], row["deadvertised_at_us"], row["changed_at_us"]) == (5, None, 5)
    (row,) = table.batch(lamp(8, "three"), lamp(7, "two"))
    assert (row["name"], row["revision"]) == ("three", 2)
    (row,) = table.batch(gone(9))
    assert (row["deadvertised_at_us"], row["revision"]) == (9, 3)


def test_old_news_and_repeated_ones_are_no_news() -> None:
    table = Table()
    table.batch(lamp(5, "one"), gone(9))
    assert table.batch(lamp(5, "one"), gone(9)) == []
    assert table.batch(lamp(8, "late")) == []
    (row,) = table.batch(lamp(10, "again"))
    assert (row["name"], row["deadvertised_at_us"]) == ("again", None)


def test_with_marks_the_last_state_stays() -> None:
    table = Table(marks=True)
    table.batch(lamp(5, "one"))
    (row,) = table.batch(gone(9))
    assert (row["name"], row["deadvertised_at_us"], row["changed_at_us"]) == ("one", 9, 9)
    (row,) = table.batch(lamp(8, "late"))
    assert (row["name"], row["deadvertised_at_us"], row["advertised_at_us"]) == ("late", 9, 8)
    table.tester.setWatermark(READ_MS + 2 * DAY_MS)
    assert table.is_kept


def test_a_removed_object_is_forgotten_after_its_time() -> None:
    table = Table()
    table.batch(lamp(5, "one"), gone(9))
    table.tester.setWatermark(READ_MS + DAY_MS - 1)
    assert table.is_kept
    table.tester.setWatermark(READ_MS + DAY_MS)
    assert not table.is_kept


def test_an_object_that_came_back_is_not_forgotten() -> None:
    table = Table()
    table.batch(lamp(5, "one"), gone(9))
    table.batch(lamp(10, "again"))
    table.tester.setWatermark(READ_MS + 2 * DAY_MS)
    assert table.is_kept
