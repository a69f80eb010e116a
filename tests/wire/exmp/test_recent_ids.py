"""The ids a peer has used of late, against the obvious definition: a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.exmp.messages import REQUEST_ID_MAX
from weft.wire.exmp.recent_ids import RecentIds

# Small numbers meet each other; 0 forgets the oldest.
STEPS = st.lists(st.integers(0, 30) | st.integers(REQUEST_ID_MAX - 3, REQUEST_ID_MAX) | st.just(0), max_size=80)


@pytest.mark.req("EXM-05")
@given(STEPS)
def test_it_is_a_list_that_forgets_from_its_front(steps: list[int]) -> None:
    ids, model = RecentIds(), list[int]()
    for step in steps:
        if step > 0:
            assert ids.add(step) == (step not in model)
            model += [step] if step not in model else []
        elif model:
            ids.drop_oldest()
            model.pop(0)
        assert ids.count == len(model)
        assert {number for number in range(32) if number in ids} == {number for number in model if number < 32}
        assert (REQUEST_ID_MAX in ids) == (REQUEST_ID_MAX in model)


@pytest.mark.req("EXM-05")
def test_a_peer_that_counts_costs_one_run_however_long_it_talks() -> None:
    ids = RecentIds()
    for number in range(1, 200_000):
        ids.add(number)
        if ids.count > 65_536:
            ids.drop_oldest()
    assert ids.count == 65_536
    assert not ids._firsts
    assert not ids._order
    assert 200_000 - 65_536 in ids
    assert 200_000 - 65_537 not in ids
