"""Events added up in Arrow: the same in whatever order and pieces they come, and another sum for another event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.lake.events import TYPES
from weft.pipelines.audit_sums import AUDIT_STRETCH_BITS, COMPARED, STREAM, SUMS, added_up, event_digests
from weft.pipelines.topics import selected

SCHEMA = pa.schema([(name, TYPES[name]) for name in (*STREAM, "offset", *COMPARED)])
Event = dict[str, Any]
EVENT: Event = {
    "topic": "t",
    "origin": "n0",
    "epoch": 7,
    "partition": 0,
    "offset": 5,
    "timestamp": 1_790_000_000_000_000,
    "key": b"k",
    "value": b"v",
    "headers": [("b", "2"), ("a", "1")],
}
BYTES = st.none() | st.binary(max_size=4)
HEADERS = st.none() | st.dictionaries(st.text(max_size=2), st.none() | st.text(max_size=2), max_size=3)
EVENTS = st.lists(
    st.builds(
        lambda **given: EVENT | given,
        topic=st.sampled_from(["t", "u"]),
        epoch=st.sampled_from([7, 8]),
        offset=st.integers(0, 3 << AUDIT_STRETCH_BITS),
        timestamp=st.integers(-5, 5),
        key=BYTES,
        value=BYTES,
        headers=HEADERS.map(lambda found: None if found is None else list(found.items())),
    ),
    max_size=12,
)


def batch(events: Sequence[Event]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(events), SCHEMA)


def digest(**changes: object) -> int:
    return int(event_digests(batch([EVENT | changes]))[0])


def sums(*batches: pa.RecordBatch) -> dict[tuple[object, ...], tuple[int, ...]]:
    """By stream and stretch, as Spark adds the rows of all tasks up: count, first, last, low, high."""
    found: dict[tuple[object, ...], list[tuple[int, ...]]] = defaultdict(list)
    for each in added_up(batches):
        assert each.schema == SUMS
        for row in each.to_pylist():
            key = (*(row[name] for name in STREAM), row["stretch"])
            found[key].append(tuple(row[name] for name in ("count", "first", "last", "low", "high")))
    return {
        key: (
            sum(row[0] for row in rows),
            min(row[1] for row in rows),
            max(row[2] for row in rows),
            sum(row[3] for row in rows),
            sum(row[4] for row in rows),
        )
        for key, rows in found.items()
    }


def one_by_one(events: Sequence[Event]) -> dict[tuple[object, ...], tuple[int, ...]]:
    """The slow definition: each event in a batch of its own."""
    return sums(*(batch([event]) for event in events))


@given(events=EVENTS, cut=st.integers(0, 12), turned=st.booleans())
def test_neither_order_nor_batches_matter(events: list[Event], cut: int, turned: bool) -> None:
    whole = batch(events[::-1] if turned else events)
    assert sums(whole.slice(0, cut), whole.slice(cut)) == one_by_one(events)
    assert sum(count for count, *_ in one_by_one(events).values()) == len(events)


def test_the_order_of_headers_does_not_matter() -> None:
    assert digest(headers=[("a", "1"), ("b", "2")]) == digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": 6},
        {"timestamp": 1_790_000_000_000_001},
        {"timestamp": None},
        {"key": b"v", "value": b"k"},
        {"key": b""},
        {"key": None},
        {"value": b"v\0"},
        {"value": None},
        {"key": None, "value": b"kv"},
        {"headers": None},
        {"headers": []},
        {"headers": [("a", "2"), ("b", "1")]},
        {"headers": [("a", "1")]},
        {"headers": [("a", "1"), ("b", "")]},
        {"headers": [("a", "1"), ("b", None)]},
        {"headers": [("a", "1"), ("b", "2"), ("c", "3")]},
    ],
)
def test_another_event_has_another_digest(changes: dict[str, object]) -> None:
    assert digest(**changes) != digest()


def test_what_is_empty_is_not_what_is_missing() -> None:
    assert len({digest(headers=None), digest(headers=[]), digest(key=None), digest(key=b"")}) == 4


def test_digests_are_the_same_in_every_process() -> None:
    """Tasks on different machines add up the two sides."""
    assert digest() == 923_744_853_071_272_098  # by this code, in another process


def test_topics_are_chosen_as_in_spark() -> None:
    rows = batch([EVENT | {"topic": topic} for topic in ("a.b", "a.c", "b.b", "a.b")])
    assert selected("a.*,!a.c", rows).column("topic").to_pylist() == ["a.b", "a.b"]
    assert selected("a.b", rows.slice(0, 1)).num_rows == 1
    assert selected("c", rows).num_rows == 0
    assert selected(">", rows) is rows
