"""The index of a table's files: one listing at a time, kept over restarts, and made again if it is of no use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lake.archived import key_of
from weft.lake.files import DataFile
from weft.lake.index import Extent, Index
from weft.lake.spans import Span, StreamKey
from weft.model import Pattern

pytestmark = pytest.mark.req("LAK-04")

KEY = key_of()


def listing(*paths: str) -> list[DataFile]:
    return [DataFile(path, 1) for path in paths]


def span(first: int, end: int, key: StreamKey = KEY) -> Span:
    return Span(*key, first, end, 1000 + first, 1000 + end)


def paths(index: Index, first: int, key: StreamKey = KEY) -> list[str]:
    return [located.path for located in index.spans(key, first)]


def test_files_count_once_their_listing_is_whole() -> None:
    index = Index(None, "t")
    first = listing("a", "b")
    assert index.missing(first) == ["a", "b"]
    index.add("a", [span(0, 10)])
    assert index.extents(Pattern(">"), None, 10).extents == [] and paths(index, 0) == [], "half a listing is none"
    index.add("b", [span(10, 20)])
    assert index.adopt(first) == set()
    assert index.extents(Pattern(">"), None, 10).extents == [Extent(*KEY, 0, 20, 1000, 1020)]
    assert (paths(index, 0), paths(index, 9), paths(index, 10), paths(index, 20)) == (["a", "b"], ["a", "b"], ["b"], [])
    assert index.files() == 2


def test_compaction_swaps_files_in_one_step() -> None:
    index = Index(None, "t")
    for path, first in (("a", 0), ("b", 10), ("c", 20)):
        index.add(path, [span(first, first + 10)])
    index.adopt(listing("a", "b", "c"))
    index.add("ab", [span(0, 20)])
    assert paths(index, 0) == ["a", "b", "c"]
    assert index.adopt(listing("ab", "c")) == {"a", "b"}
    assert paths(index, 0) == ["ab", "c"]
    assert index.missing(listing("a")) == ["a"]


def test_a_stream_that_left_the_table_is_not_there() -> None:
    other = key_of("other")
    index = Index(None, "t")
    index.add("a", [span(0, 10), span(5, 9, other)])
    index.adopt(listing("a"))
    index.add("b", [span(0, 10)])
    index.adopt(listing("b"))
    assert [each.key for each in index.extents(Pattern(">"), None, 10).extents] == [KEY]
    index.adopt([])
    assert index.extents(Pattern(">"), None, 10).extents == []


def test_long_spans_are_found_among_short_ones() -> None:
    index = Index(None, "t")
    index.add("long", [span(0, 1000)])
    for number in range(50):
        index.add(f"short{number}", [span(10 * number, 10 * number + 10)])
    index.adopt(listing("long", *(f"short{number}" for number in range(50))))
    assert set(paths(index, 495)) == {"long", "short49"}
    assert paths(index, 999) == ["long"]


def test_streams_come_by_pattern_and_in_pages() -> None:
    names = ("a", "a.b", "a.b.c", "a.ü", "b")
    keys = sorted(key_of(topic, origin, 0, epoch) for topic in names for origin in ("n", "m") for epoch in (1, 2))
    index = Index(None, "t")
    index.add("f", [span(0, 1, key) for key in keys])
    index.adopt(listing("f"))
    selected = {
        ">": set(names),
        "a.>": {"a.b", "a.b.c", "a.ü"},
        "a.*": {"a.b", "a.ü"},
        "a.b": {"a.b"},
        "*.b": {"a.b"},
        "c.>": set[str](),
    }
    for pattern, topics in selected.items():
        wanted = [key for key in keys if key[0].topic in topics]
        assert [each.key for each in index.extents(Pattern(pattern), None, 100).extents] == wanted
        found: list[StreamKey] = []
        after: StreamKey | None = None
        while True:
            extents, after = index.extents(Pattern(pattern), after, 3)
            found += [each.key for each in extents]
            if after is None:
                break
        assert found == wanted


def test_it_outlives_a_restart_and_is_made_again_if_it_is_anothers_or_damaged(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "index.db"
    index = Index(place, "one")
    index.add("a", [span(0, 10)])
    index.adopt(listing("a"))
    index.close()
    again = Index(place, "one")
    assert paths(again, 0) == ["a"]
    again.close()
    other = Index(place, "another")
    assert paths(other, 0) == []
    other.add("b", [span(0, 10)])
    other.adopt(listing("b"))
    other.close()
    place.write_bytes(b"not a database" * 100)
    damaged = Index(place, "another")
    assert damaged.missing(listing("b")) == ["b"]
    damaged.close()
