"""Sets of offsets: the same as a set of numbers."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from weft.model.offsets import OffsetRanges

RANGE = st.tuples(st.integers(0, 40), st.integers(0, 40))
STEPS = st.lists(st.tuples(st.booleans(), RANGE), max_size=30)


def both(steps: list[tuple[bool, tuple[int, int]]]) -> tuple[OffsetRanges, set[int]]:
    ranges, numbers = OffsetRanges(), set[int]()
    for adds, (first, end) in steps:
        if adds:
            ranges.add(first, end)
            numbers |= set(range(first, end))
        else:
            ranges.remove(first, end)
            numbers -= set(range(first, end))
    return ranges, numbers


def members(ranges: list[tuple[int, int]]) -> list[int]:
    return [offset for first, end in ranges for offset in range(first, end)]


@given(STEPS)
def test_it_holds_what_a_set_would_hold(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges, numbers = both(steps)
    assert members(list(ranges)) == sorted(numbers)
    assert len(ranges) == len(numbers)
    assert bool(ranges) == bool(numbers)
    assert ranges.first == min(numbers, default=None)
    assert all((offset in ranges) == (offset in numbers) for offset in range(45))
    assert ranges.ranges == sum(offset - 1 not in numbers for offset in numbers)


@given(STEPS, RANGE)
def test_parts_of_it_are_parts_of_the_set(steps: list[tuple[bool, tuple[int, int]]], part: tuple[int, int]) -> None:
    ranges, numbers = both(steps)
    first, end = part
    assert members(ranges.within(first, end)) == [each for each in range(first, end) if each in numbers]
    assert members(list(ranges.outside(first, end))) == [each for each in range(first, end) if each not in numbers]
    assert ranges.next_outside(first) == next(each for each in range(first, 100) if each not in numbers)
    assert ranges.next_inside(first) == next((each for each in range(first, 100) if each in numbers), None)


@given(STEPS)
def test_ranges_neither_touch_nor_overlap(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges = list(both(steps)[0])
    assert all(first < end for first, end in ranges)
    assert all(end < first for (_, end), (first, _) in itertools.pairwise(ranges))


@given(STEPS, st.integers(0, 20))
def test_the_first_ranges_are_kept(steps: list[tuple[bool, tuple[int, int]]], kept: int) -> None:
    ranges, _ = both(steps)
    expected = list(ranges)[:kept]
    ranges.keep_first(kept)
    assert list(ranges) == expected
    assert len(ranges) == len(members(expected))
