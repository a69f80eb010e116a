"""Bounds of events, looked for in whole columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from weft.model.batch_schema import SCHEMA, Fault, find_excess

NAMES = st.sampled_from(["", "a", "b", "aa", "ab", "content-type"])
HEADERS = st.none() | st.lists(NAMES, max_size=4)


def found(headers: Sequence[list[str] | None]) -> Fault | None:
    count = len(headers)
    pairs = [None if names is None else [(name, "x") for name in names] for names in headers]
    columns = [pa.array(range(count)), pa.nulls(count, pa.binary()), pa.array(pairs, SCHEMA[2].type), [b""] * count]
    return find_excess(pa.record_batch(columns, schema=SCHEMA))


@given(st.lists(HEADERS, min_size=1, max_size=8) | st.integers(1, 6).flatmap(lambda n: HEADERS.map(lambda h: [h] * n)))
def test_a_name_given_twice_is_found_in_its_event(headers: list[list[str] | None]) -> None:
    twice = [event for event, names in enumerate(headers) if names and len(set(names)) < len(names)]
    assert found(headers) == (Fault("header given twice", {"event": twice[0]}) if twice else None)


def test_the_last_of_many_alike_is_looked_at_too() -> None:
    """One character is all that tells them apart from events that have nothing twice."""
    assert found([["ab", "ac"]] * 999) is None
    assert found([["ab", "ac"]] * 999 + [["ac", "ac"]]) == Fault("header given twice", {"event": 999})
    assert found([["ab", "ac"]] * 999 + [["ab", "a"]]) is None
    assert found([["a", "b"]] * 9 + [["b", "b"]] + [["a", "b"]] * 9) == Fault("header given twice", {"event": 9})
