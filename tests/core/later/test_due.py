"""The index of what is due: the same as a sorted list, in much less memory (CON-03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.later import Due, DueIndex

pytestmark = pytest.mark.req("CON-03")

DUES = st.builds(Due, st.integers(0, 50), st.integers(0, 3), st.integers(0, 1000))
STEPS = st.lists(st.one_of(DUES, st.lists(DUES, max_size=8), st.integers(0, 60)), max_size=60)


@given(STEPS)
def test_it_gives_what_a_sorted_list_would(steps: list[Due | list[Due] | int]) -> None:
    index, oracle = DueIndex(heap_max=4), list[Due]()
    for step in steps:
        match step:
            case Due():
                index.add(step)
                oracle.append(step)
            case list():
                for slot in {each.slot for each in step}:
                    mine = [each for each in step if each.slot == slot]
                    index.add_many(slot, [each.due_us for each in mine], [each.offset for each in mine])
                    oracle += mine
            case int():
                oracle.sort()
                while (found := index.pop(step)) is not None:
                    assert found == oracle.pop(0)
                assert not oracle or oracle[0].due_us > step
        assert len(index) == len(oracle)
        assert index.next_us() == min((each.due_us for each in oracle), default=None)


def test_a_hundred_thousand_take_few_bytes() -> None:
    """Sixteen each, beside a small heap."""
    index = DueIndex()
    for first in range(0, 100_000, 10_000):
        index.add_many(1, [(7919 * n) % 100_003 for n in range(first, first + 10_000)], range(first, first + 10_000))
    kept = sum(run.dues.nbytes + run.places.nbytes for run in index._runs)
    assert len(index) == 100_000 and kept == 16 * 100_000 and not index._heap
    popped = [index.pop(10) for _ in range(12)]
    assert [each.due_us for each in popped if each is not None] == list(range(11))
