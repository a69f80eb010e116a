"""What is read: nothing twice, nothing left out, nothing above a limit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.limits import MIB
from weft.model import Epoch, NodeId, Stream, Topic
from weft.spark.holdings import Copy, Held
from weft.spark.offsets import Place
from weft.spark.planning import (
    SPARK_PARTITION_BYTES,
    SPARK_PARTITIONS,
    Loss,
    Range,
    describe,
    everything,
    fair_shares,
    limited,
    losses,
    passed_over,
    ranges,
    readable,
    split,
)


def place(number: int, epoch: int = 1) -> Place:
    return Place(Stream(Topic(f"t{number}"), NodeId("n"), 0), Epoch(epoch))


A, B, C = place(1), place(2), place(3)
PLACES = st.sampled_from([A, B, C, place(1, 2)])
SPANS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
HELD = st.builds(
    lambda spans, size: Held(tuple(Copy(f"h:{n}", first, end) for n, (first, end) in enumerate(spans, 1)), size),
    st.lists(SPANS, min_size=1, max_size=3),
    st.integers(1, 300),
)
HOLDINGS = st.dictionaries(PLACES, HELD, max_size=4)
OF_ONE_NODE = st.dictionaries(PLACES, SPANS.map(lambda span: Held((Copy("h:9", span[0], span[1]),), 1)), max_size=4)
OFFSETS = st.dictionaries(PLACES, st.integers(0, 25), max_size=4)
Event = tuple[Place, int]


def events(found: Sequence[Range]) -> list[Event]:
    return [(each.place, offset) for each in found for offset in range(each.first, each.end)]


# --- what there is ---------------------------------------------------------------------------------------------------


@given(HOLDINGS, OF_ONE_NODE)
def test_what_others_have_more_of_is_known_by_stream(here: dict[Place, Held], there: dict[Place, Held]) -> None:
    """The slow definition: events one by one."""

    def each_event(holdings: dict[Place, Held]) -> set[Event]:
        return {
            (place, offset)
            for place, held in holdings.items()
            for copy in held.copies
            for offset in range(copy.first, copy.end)
        }

    assert sorted(events(everything(here))) == sorted(each_event(here))


# --- ranges ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("SPK-01")
@given(OFFSETS, OFFSETS, HOLDINGS)
def test_every_event_is_read_once_or_called_lost(
    start: dict[Place, int], end: dict[Place, int], holdings: dict[Place, Held]
) -> None:
    found, lost = ranges(start, end, holdings)
    wanted = [(each, offset) for each in sorted(start) for offset in range(start[each], end.get(each, 0))]
    gone = [
        (loss.place, offset)
        for loss in lost
        for offset in range(loss.first, end.get(loss.place, 0) if loss.end is None else loss.end)
    ]
    assert sorted(events(found) + gone) == wanted
    for each in found:
        copies = {copy.address: copy for copy in holdings[each.place].copies}
        assert each.addresses, "somebody has it"
        for address in each.addresses:
            assert copies[address].first <= each.first < each.end <= copies[address].end
    for address_of, offset in gone:
        copies_of = holdings[address_of].copies if address_of in holdings else ()
        assert not any(copy.first <= offset < copy.end for copy in copies_of)


def test_a_range_is_cut_where_copies_end() -> None:
    stream = Held((Copy("h:1", 0, 10), Copy("h:2", 5, 20), Copy("h:3", 0, 20)), 7)
    assert ranges({A: 0}, {A: 20}, {A: stream}) == ([Range(A, 0, 20, ("h:3",), 7)], [])
    stream = Held(stream.copies[:2], 7)
    assert ranges({A: 0}, {A: 15}, {A: stream})[0] == [
        Range(A, 0, 10, ("h:1",), 7),
        Range(A, 10, 15, ("h:2",), 7),
    ]
    assert ranges({A: 6}, {A: 9}, {A: stream})[0] == [Range(A, 6, 9, ("h:1", "h:2"), 7)]


def test_a_stream_that_only_the_end_has_begins_there() -> None:
    assert ranges({}, {A: 5}, {A: Held((Copy("h:1", 0, 5),), 1)}) == ([], [])


# --- what is gone ----------------------------------------------------------------------------------------------------


def test_losses_are_named() -> None:
    holdings = {A: Held((Copy("h:1", 5, 10),), 1), B: Held((Copy("h:1", 0, 10),), 1)}
    lost = losses({A: 2, B: 2, C: 7}, holdings)
    assert lost == [Loss(A, 2, 5), Loss(C, 7, None)]
    assert describe(lost) == (
        "t1@n/0:e1 offsets 2 to 4 (3 events); t3@n/0:e1 is gone altogether; offset 7 was to be read next"
    )
    assert describe(lost, shown_max=1) == "t1@n/0:e1 offsets 2 to 4 (3 events); and 1 more streams"
    assert passed_over({A: 2, B: 2, C: 7}, holdings) == {A: 5, B: 2, C: 7}


@given(OFFSETS, HOLDINGS)
def test_offsets_never_go_back(start: dict[Place, int], holdings: dict[Place, Held]) -> None:
    """SPARK.md, trap 2."""
    first = passed_over(start, holdings)
    end = readable(first, holdings)
    assert start.keys() == first.keys() == end.keys()
    assert all(start[each] <= first[each] <= end[each] for each in start)
    assert not ranges(first, end, holdings)[1], "what is readable is not lost"
    assert {loss.place for loss in losses(start, holdings) if loss.end} == {
        each for each in start if first[each] > start[each]
    }


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("SPK-01")
@given(HOLDINGS, st.integers(1, 40), st.none() | st.integers(1, 3000))
def test_limits_are_kept_and_something_always_moves(
    holdings: dict[Place, Held], events_max: int, bytes_max: int | None
) -> None:
    start = {each: stream.earliest for each, stream in holdings.items()}
    end = readable(start, holdings)
    less = limited(start, end, holdings, events_max=events_max, bytes_max=bytes_max)
    counts = {each: less[each] - start[each] for each in less}
    assert less.keys() == end.keys()
    assert all(start[each] <= less[each] <= end[each] for each in less)
    assert sum(counts.values()) <= events_max
    if bytes_max is not None and sum(counts.values()) > 1:
        assert sum(count * holdings[each].event_bytes for each, count in counts.items()) <= bytes_max
    assert (less == start) == (end == start), "at least one event, if there is one"


@given(HOLDINGS)
def test_without_a_limit_all_is_read(holdings: dict[Place, Held]) -> None:
    start = {each: stream.earliest for each, stream in holdings.items()}
    end = readable(start, holdings)
    assert limited(start, end, holdings) == end


@given(st.dictionaries(PLACES, st.integers(0, 100), max_size=4), st.integers(0, 300))
def test_shares_are_fair(wanted: dict[Place, int], limit: int) -> None:
    shares = fair_shares(wanted, limit)
    assert sum(shares.values()) == min(limit, sum(wanted.values()))
    assert all(0 <= shares[each] <= wanted[each] for each in wanted)
    unsatisfied = [shares[each] for each in wanted if shares[each] < wanted[each]]
    most = max(shares.values(), default=0)
    assert all(share >= most - 1 for share in unsatisfied), "nobody has less because others have more"


def test_whoever_has_waited_longest_is_served_when_there_is_not_enough_for_all() -> None:
    assert fair_shares({A: 5, B: 9, C: 7}, 2) == {A: 0, C: 1, B: 1}


def test_a_stream_that_is_new_is_left_where_it_begins() -> None:
    holdings = {A: Held((Copy("h:1", 0, 10),), 1), B: Held((Copy("h:1", 3, 10),), 1)}
    assert limited({A: 0}, {A: 10, B: 3}, holdings, events_max=4) == {A: 4, B: 3}


# --- partitions ------------------------------------------------------------------------------------------------------

RANGES = st.lists(
    st.builds(
        lambda number, first, count, size: Range(place(number), first, first + count, ("h:1",), size),
        st.integers(0, 9),
        st.integers(0, 100),
        st.integers(1, 200),
        st.sampled_from([1, 7, 300, MIB]),
    ),
    max_size=6,
    unique_by=lambda each: each.place,
)


@pytest.mark.req("SPK-01")
@given(RANGES, st.none() | st.integers(1, 50))
def test_partitions_hold_every_event_once(found: list[Range], partitions_min: int | None) -> None:
    parts = split(found, partitions_min)
    assert [event for part in parts for event in events(part)] == events(found)
    assert all(part and all(len(each) for each in part) for part in parts)
    total = sum(len(each) * each.event_bytes for each in found)
    largest = max((each.event_bytes for each in found), default=0)
    for part in parts:
        assert sum(len(each) * each.event_bytes for each in part) <= SPARK_PARTITION_BYTES + largest
    if partitions_min and len({each.event_bytes for each in found}) == 1:
        assert len(parts) >= min(partitions_min, total // largest)


def test_small_streams_share_a_partition() -> None:
    found = [Range(place(number), 0, 10, ("h:1",), 100) for number in range(1000)]
    assert len(split(found, None)) == 1
    assert len(split(found, 4)) == 4


def test_large_streams_are_cut() -> None:
    (one,) = split([Range(A, 0, 1000, ("h:1",), MIB // 2000)], None)
    assert one == (Range(A, 0, 1000, ("h:1",), MIB // 2000),), "less than a MiB is not worth a second task"
    several = split([Range(A, 0, 10_000, ("h:1",), MIB // 100)], None)
    assert len(several) == SPARK_PARTITIONS
    many = split([Range(A, 5, 1_000_005, ("h:1",), MIB // 100)], None)
    assert len(many) == 1_000_000 * (MIB // 100) // SPARK_PARTITION_BYTES + 1
    assert split([], 5) == []
