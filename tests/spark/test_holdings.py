"""What several nodes have of a stream, together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.client import StreamPositions
from weft.model import Epoch, NodeId, Stream, Topic
from weft.spark.holdings import Copy, Held, resolve, union
from weft.spark.offsets import EARLIEST, LATEST, NamedOffsets, NamedTimes, Place
from weft.spark.option_values import BadOption

STREAM = Stream(Topic("a"), NodeId("n"), 0)
PLACE, OTHER = Place(STREAM, Epoch(1)), Place(STREAM, Epoch(2))

COPIES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda each: Copy("h:1", each[0], each[0] + each[1])),
    min_size=1,
    max_size=4,
)


def held(*spans: tuple[int, int], time_offset: int | None = None) -> Held:
    copies = (Copy(f"h:{number}", first, end) for number, (first, end) in enumerate(spans, 1))
    return Held(tuple(copies), 100, time_offset)


def said(first: int, end: int, size_bytes: int = 0, time: int | None = None, epoch: int = 1) -> StreamPositions:
    return StreamPositions(STREAM, Epoch(epoch), first, end, size_bytes, 0, 0, None, time)


@given(COPIES, st.integers(0, 45))
def test_places_are_as_a_set_of_offsets_has_them(copies: list[Copy], offset: int) -> None:
    """The slow definition: the offsets that are there, one by one."""
    there = {each for copy in copies for each in range(copy.first, copy.end)}
    stream = Held(tuple(copies), 1)
    following = [each for each in there if each >= offset]
    assert stream.next_from(offset) == min(following, default=max(offset, stream.latest))
    reach = offset
    while reach in there:
        reach += 1
    assert stream.reach(offset) == reach
    assert stream.earliest <= min(there, default=stream.earliest)
    assert stream.latest >= max(there, default=-1) + 1


def test_home_is_where_an_offset_can_be_committed() -> None:
    stream = held((10, 20), (0, 15))
    assert [stream.home_of(offset) for offset in (0, 9, 10, 20, 21)] == ["h:2", "h:2", "h:1", "h:1", None]


@pytest.mark.req("LAK-04")
def test_what_an_archive_table_has_counts_as_a_copy_but_takes_no_commits() -> None:
    here = replace(said(40, 50, 1000), history=((0, 30), (35, 45)))
    (stream,) = union({"h:1": [here]}).values()
    assert (stream.earliest, stream.latest, stream.event_bytes) == (0, 50, 100)
    assert [stream.next_from(offset) for offset in (0, 29, 30, 44, 49, 50)] == [0, 29, 35, 44, 49, 50]
    assert [stream.reach(offset) for offset in (0, 30, 35)] == [30, 30, 50]
    assert [stream.home_of(offset) for offset in (10, 40, 50)] == [None, "h:1", "h:1"]
    late = replace(here, late_us=7)
    assert union({"h:1": [late]})[PLACE].earliest == 0, "other nodes may have what is before the table"


@pytest.mark.req("LAK-04")
def test_a_stream_that_only_a_table_has_ends_there() -> None:
    gone = replace(said(30, 30), history=((10, 30),), only_history=True)
    (stream,) = union({"h:1": [gone]}).values()
    assert (stream.earliest, stream.latest, stream.home_of(30)) == (10, 30, None)
    assert stream.event_bytes > 1, "its tasks are cut by a guess"


@pytest.mark.req("MSH-03")
def test_where_a_stream_begins_is_what_a_node_says_that_knows_it() -> None:
    """A copy that begins in the middle does not. If nobody else answers, what is missing is a loss that is told."""
    late = replace(said(40, 50), late_us=7)
    assert union({"h:1": [late], "h:2": [said(10, 50)]})[PLACE].earliest == 10
    alone = union({"h:1": [late]})[PLACE]
    assert (alone.earliest, alone.next_from(0), alone.reach(40)) == (0, 40, 50)


def test_nodes_are_put_together_by_stream_and_epoch() -> None:
    found = union({"h:1": [said(0, 10, 1000), said(0, 5, 10, epoch=2)], "h:2": [said(5, 20, 3000)], "h:3": []})
    assert found == {
        PLACE: Held((Copy("h:1", 0, 10), Copy("h:2", 5, 20)), 160),
        OTHER: Held((Copy("h:1", 0, 5),), 2),
    }
    assert (found[PLACE].earliest, found[PLACE].latest) == (0, 20)


def test_empty_streams_have_a_size_too() -> None:
    assert union({"h:1": [said(7, 7)]})[PLACE].event_bytes == 1


@pytest.mark.parametrize(
    ("copies", "wanted"),
    [
        ([said(0, 10, time=4)], 4),
        ([said(0, 10, time=10)], 10),  # later than all there is
        ([said(0, 10, time=10), said(5, 20, time=12)], 12),  # the first ends too early to know
        ([said(0, 10, time=3), said(5, 20, time=5)], 3),  # the second begins too late to know
        ([said(0, 10)], None),
    ],
)
def test_a_time_is_where_the_node_says_that_knows(copies: list[StreamPositions], wanted: int | None) -> None:
    assert union({f"h:{number}": [each] for number, each in enumerate(copies, 1)})[PLACE].time_offset == wanted


def test_places_by_name_and_by_time() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    holdings = {PLACE: held((3, 10), time_offset=7), OTHER: held((0, 5))}
    assert resolve("x", "earliest", holdings, otherwise="latest") == {PLACE: 3, OTHER: 0}
    assert resolve("x", "latest", holdings, otherwise="earliest") == {PLACE: 10, OTHER: 5}
    assert resolve("x", now, holdings, otherwise="earliest") == {PLACE: 7, OTHER: 5}


@pytest.mark.parametrize(("given_", "wanted"), [(EARLIEST, 3), (LATEST, 10), (5, 5), (0, 0), (10, 10)])
def test_places_by_offset(given_: int, wanted: int) -> None:
    holdings = {PLACE: held((3, 10)), OTHER: held((0, 5))}
    assert resolve("x", NamedOffsets({PLACE: given_}), holdings, otherwise="latest") == {PLACE: wanted, OTHER: 5}


def test_a_named_stream_that_is_not_there_is_kept_to_be_missed_later() -> None:
    assert resolve("x", NamedOffsets({OTHER: 5}), {PLACE: held((3, 10))}, otherwise="earliest") == {PLACE: 3, OTHER: 5}


def test_places_that_cannot_be() -> None:
    holdings = {PLACE: held((3, 10))}
    with pytest.raises(BadOption, match=r"option x: a@n/0:e1 has no offset 11 yet \(earliest 3, latest 10\)"):
        resolve("x", NamedOffsets({PLACE: 11}), holdings, otherwise="earliest")
    with pytest.raises(BadOption, match="option x names a@n/0:e2, which none of the nodes has"):
        resolve("x", NamedOffsets({OTHER: EARLIEST}), holdings, otherwise="earliest")


def test_places_by_topic_by_partition_and_by_stream() -> None:
    """The closest counts; what nobody named is elsewhere."""
    one, two = (Place(Stream(Topic("a"), NodeId("n"), number), Epoch(1)) for number in (1, 2))
    holdings = {PLACE: held((3, 10)), one: held((0, 9)), two: held((0, 8)), OTHER: held((0, 7))}
    named = NamedOffsets({Topic("a"): 4, (Topic("a"), 1): LATEST, two: EARLIEST})
    assert resolve("x", named, holdings, otherwise="latest") == {PLACE: 4, OTHER: 4, one: 9, two: 0}
    assert resolve("x", NamedOffsets({(Topic("a"), 2): 1}), holdings, otherwise="latest")[PLACE] == 10


def test_times_of_some_topics() -> None:
    holdings = {PLACE: held((3, 10), time_offset=7), OTHER: held((0, 5), time_offset=2)}
    named = NamedTimes({PLACE: datetime(2026, 1, 1, tzinfo=UTC)})
    assert resolve("x", named, holdings, otherwise="earliest") == {PLACE: 7, OTHER: 0}
