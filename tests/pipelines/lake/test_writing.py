"""A task's files: every row once, in the right partition, sorted within row groups, with ranges that hold."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pipelines.lake.made import COLUMNS, FIRST_DAY, rows
from weft.lake.files import Attempt, WrittenFile
from weft.pipelines.lake import TableError, TableSettings
from weft.pipelines.lake import writing as module
from weft.pipelines.lake.writing import FileWriter, stored_schema

CALM = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(place: Path, *batches: pa.RecordBatch, **layout: object) -> list[WrittenFile]:
    wanted = {"partition_by": ("date",), "sort_by": ("topic",)} | layout
    table = TableSettings(str(place), **wanted)  # type: ignore[arg-type]
    return FileWriter(table, COLUMNS, Attempt("q", 0, 0, "00"), str).write_all(batches)


def read(place: Path, file: WrittenFile) -> pa.Table:
    return pq.ParquetFile(place / file.path).read()


@CALM
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b.c", "b"]), st.integers(0, 3), st.integers(0, 40)), min_size=0, max_size=8
    )
)
def test_every_row_is_in_the_file_of_its_day_once_and_sorted(
    tmp_path_factory: pytest.TempPathFactory, stretches: list[tuple[str, int, int]]
) -> None:
    place = tmp_path_factory.mktemp("t")
    batches, given_rows, offset = [], Counter[tuple[str, str, int]](), 0
    for topic, day, size in stretches:
        batches.append(rows(range(offset, offset + size), topic=topic, day=FIRST_DAY + day))
        given_rows.update((f"2026-11-{15 + day}", topic, number) for number in range(offset, offset + size))
        offset += size
    found = Counter[tuple[str, str, int]]()
    for file in write(place, *batches):
        content = read(place, file)
        topics, offsets = content["topic"].to_pylist(), content["offset"].to_pylist()
        day_text = file.partition["date"]
        assert day_text is not None
        found.update((day_text, topic, number) for topic, number in zip(topics, offsets, strict=True))
        assert list(zip(topics, offsets, strict=True)) == sorted(zip(topics, offsets, strict=True))
        assert file.rows == len(topics)
        assert file.size_bytes == (place / file.path).stat().st_size
        assert (file.ranges["offset"].least, file.ranges["offset"].most) == (min(offsets), max(offsets))
        assert (file.ranges["topic"].least, file.ranges["topic"].most) == (min(topics), max(topics))
        assert file.path.startswith(f"date={day_text}/")
    assert found == given_rows


def test_an_order_by_many_columns_of_many_values_is_still_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLACES_MAX", 100)
    schema = pa.schema([(name, pa.int64()) for name in "abcd"])
    chance = np.random.default_rng(1)
    batch = pa.record_batch([pa.array(chance.integers(0, 30, 500)) for _ in schema], schema=schema)
    table = TableSettings(str(tmp_path), partition_by=("a",), sort_by=("b", "c", "d"))
    files = FileWriter(table, schema, Attempt("q", 0, 0, "00"), str).write_all([batch])
    found = []
    for file in files:
        rows_of = [tuple(row.values()) for row in read(tmp_path, file).to_pylist()]
        assert rows_of == sorted(rows_of)
        found += [(int(str(file.partition["a"])), *row) for row in rows_of]
    assert sorted(found) == sorted(tuple(row.values()) for row in batch.to_pylist())


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    assert write(tmp_path) == write(tmp_path, rows(range(0))) == []
    assert list(tmp_path.iterdir()) == []


def test_nulls_are_a_partition_and_are_counted(tmp_path: Path) -> None:
    batch = rows(range(4))
    days = pa.array([FIRST_DAY, None, None, FIRST_DAY], pa.int32()).cast(pa.date32())
    (null, day) = sorted(
        write(tmp_path, batch.set_column(5, "date", days).set_column(0, "topic", pa.array(["a", None, "b", "c"]))),
        key=lambda file: file.partition["date"] or "",
    )
    assert (null.partition, null.rows, null.ranges["topic"].nulls) == ({"date": None}, 2, 1)
    assert (day.rows, read(tmp_path, day)["offset"].to_pylist()) == (2, [0, 3])


def test_times_that_nobody_can_have_meant_are_kept_without_a_range(tmp_path: Path) -> None:
    """Publishers set timestamps: no value of theirs may stop an archive."""
    batch = rows(range(2))
    times = pa.array([-(2**63), 2**63 - 1], pa.int64()).cast(pa.timestamp("us", "UTC"))
    (file,) = write(tmp_path, batch.set_column(2, "timestamp", times))
    assert "timestamp" not in file.ranges
    assert read(tmp_path, file)["timestamp"].cast(pa.int64()).to_pylist() == [-(2**63), 2**63 - 1]


def test_numbers_that_json_does_not_know_have_no_range(tmp_path: Path) -> None:
    schema = pa.schema([("offset", pa.int64()), ("ratio", pa.float64())])
    for ratios, told in (([1.0, 2.0], True), ([1.0, float("inf")], False), ([1.0, float("nan")], True)):
        batch = pa.record_batch([pa.array([1, 2]), pa.array(ratios)], schema=schema)
        table = TableSettings(str(tmp_path))
        (file,) = FileWriter(table, schema, Attempt("q", 0, 0, "00"), str).write_all([batch])
        assert ("ratio" in file.ranges) is told


def test_times_are_utc_whatever_zone_the_session_has(tmp_path: Path) -> None:
    batch = rows(range(1))
    berlin = batch.column(2).cast(pa.timestamp("us", "Europe/Berlin"))
    (file,) = write(tmp_path, batch.set_column(2, "timestamp", berlin))
    assert file.ranges["timestamp"].least == datetime(2026, 11, 15, tzinfo=UTC)


def test_a_full_file_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAKE_GROUP_ROWS", 1000)
    files = write(tmp_path, *(rows(range(n, n + 1000)) for n in range(0, 10_000, 1000)), file_bytes=1)
    assert len(files) == 10
    assert len({file.path for file in files}) == 10


def test_many_partitions_do_not_hold_many_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAKE_OPEN_FILES_MAX", 3)
    files = write(tmp_path, *(rows(range(n, n + 1), day=FIRST_DAY + n) for n in range(20)))
    assert sum(file.rows for file in files) == 20


def test_long_texts_have_no_range(tmp_path: Path) -> None:
    (file,) = write(tmp_path, rows(range(2), topic="x" * 300))
    assert "topic" not in file.ranges
    assert "offset" in file.ranges


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"partition_by": ("day",)}, "no such column to lay the table out by .*day"),
        ({"partition_by": ("value",)}, "tables are laid out by text, dates, .*binary"),
        ({"partition_by": ("timestamp",)}, "tables are laid out by text, dates, "),
        ({"sort_by": ("headers",)}, "tables are laid out by text, dates, "),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: dict[str, tuple[str, ...]], words: str) -> None:
    with pytest.raises(TableError, match=words):
        stored_schema(TableSettings("/t", **layout), COLUMNS)  # type: ignore[arg-type]
