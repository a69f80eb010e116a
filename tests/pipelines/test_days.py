"""The day of a time, for tables."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.pipelines.days import days

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_event_has_the_day_of_its_time_if_that_can_be(micros: int) -> None:
    (found,) = days(pa.array([micros], pa.int64()).cast(pa.timestamp("us", "UTC"))).to_pylist()
    try:
        day = (EPOCH + timedelta(microseconds=micros)).date()
    except OverflowError:
        day = None
    assert found == (day if day is not None and date(2000, 1, 1) <= day < date(2100, 1, 1) else None)


@pytest.mark.parametrize(
    ("time", "day"),
    [
        (datetime(1999, 12, 31, 23, 59, 59, 999_999, UTC), None),
        (datetime(2000, 1, 1, tzinfo=UTC), date(2000, 1, 1)),
        (datetime(2026, 11, 15, 23, 59, 59, 999_999, UTC), date(2026, 11, 15)),
        (datetime(2099, 12, 31, 23, 59, 59, 999_999, UTC), date(2099, 12, 31)),
        (datetime(2100, 1, 1, tzinfo=UTC), None),
    ],
)
def test_the_edges_of_days(time: datetime, day: date | None) -> None:
    assert days(pa.array([time], pa.timestamp("us", "UTC"))).to_pylist() == [day]


def test_no_time_has_no_day() -> None:
    assert days(pa.array([None], pa.timestamp("us", "UTC"))).to_pylist() == [None]
