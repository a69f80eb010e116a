"""What files say they have, against sets of offsets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lake.archived import key_of, plain, rows_of
from weft.lake.address import TableError
from weft.lake.spans import (
    Span,
    Stretch,
    following,
    joined,
    merge_runs,
    pack_runs,
    runs_of,
    runs_of_span,
    spans_of,
    stretches,
    unpack_runs,
)

OFFSETS = st.lists(st.integers(0, 60), min_size=1, max_size=30)


def span(offsets: list[int]) -> Span:
    """Of one stream."""
    runs = runs_of(np.sort(np.array(offsets, dtype=np.int64)))
    packed = b"" if len(runs) == 1 else pack_runs(runs)
    return Span(*key_of(), min(offsets), max(offsets) + 1, 0, 0, packed)


def held(spans: list[Span]) -> set[int]:
    return {offset for each in spans for first, end in runs_of_span(each).tolist() for offset in range(first, end)}


@given(OFFSETS)
def test_runs_are_the_offsets(offsets: list[int]) -> None:
    found = span(offsets)
    assert held([found]) == set(offsets)
    runs = runs_of_span(found)
    assert (runs[1:, 0] > runs[:-1, 1]).all(), "no run touches the next"
    assert (unpack_runs(pack_runs(runs)) == runs).all()


@given(st.lists(OFFSETS, min_size=1, max_size=5))
def test_files_together_have_what_each_of_them_has(files: list[list[int]]) -> None:
    spans = sorted((span(offsets) for offsets in files), key=lambda each: each.first)
    everything = {offset for offsets in files for offset in offsets}
    assert held(joined(spans)) == everything
    found = list(stretches(spans))
    assert {offset for each in found for offset in range(each.first, each.end)} == everything
    assert all(one.end < other.first for one, other in pairwise(found))


@given(st.lists(OFFSETS, min_size=1, max_size=5), st.integers(0, 62))
def test_where_a_reader_goes_on(files: list[list[int]], first: int) -> None:
    spans = sorted((span(offsets) for offsets in files), key=lambda each: each.first)
    everything = {offset for offsets in files for offset in offsets}
    assert following(spans, first) == min((offset for offset in everything if offset >= first), default=None)


def test_runs_that_touch_are_one() -> None:
    parts = [np.array([[0, 3], [9, 10]]), np.array([[3, 5], [4, 8]])]
    assert merge_runs(parts).tolist() == [[0, 8], [9, 10]]
    assert list(stretches([])) == []
    assert list(stretches([span([4, 5])])) == [Stretch(4, 6)]


def test_a_file_of_many_streams() -> None:
    keys = [
        key_of(topic, origin, partition, epoch)
        for topic in ("b", "a")
        for origin in ("node-b", "node-a")
        for partition in (1, 0)
        for epoch in (9, 3)
    ]
    rows = pa.Table.from_batches(
        [batch for number, key in enumerate(keys) for batch in rows_of(key, 100 * number, plain(number + 1))]
    )
    found = {each.key: each for each in spans_of(rows)}
    assert found.keys() == set(keys)
    for number, key in enumerate(keys):
        assert (found[key].first, found[key].end) == (100 * number, 101 * number + 1)
        assert found[key].last_us - found[key].first_us == number
        assert not found[key].runs


def test_rows_without_an_identity_are_refused() -> None:
    (rows,) = (pa.Table.from_batches([batch]) for batch in rows_of(key_of(), 0, plain(2)))
    bad = {
        "topic": pa.array([None, "a"]),
        "origin": pa.array(["node a", "node a"]),
        "epoch": pa.array([0, 0], pa.int64()),
        "offset": pa.array([-1, 0], pa.int64()),
        "partition": pa.array([1 << 16, 0], pa.int32()),
    }
    for name, column in bad.items():
        with pytest.raises(TableError, match=r"identity|offset that there cannot be"):
            spans_of(rows.set_column(rows.schema.get_field_index(name), name, column))
