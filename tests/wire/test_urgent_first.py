"""The queue by itself, against two plain lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.urgent_first import UrgentFirst


@pytest.mark.req("EMM-29")
@given(st.integers(1, 4), st.lists(st.sampled_from(["normal", "urgent", "pop"])))
def test_urgent_first_and_in_order(room: int, steps: list[str]) -> None:
    queue = UrgentFirst[int](room)
    kinds: dict[bool, list[int]] = {True: [], False: []}
    for number, step in enumerate(steps):
        if step == "pop":
            if queue:
                expected = (kinds[True] or kinds[False]).pop(0)
                assert queue.first() == expected
                assert queue.pop() == expected
        else:
            urgent = step == "urgent"
            fits = len(kinds[urgent]) < room
            assert queue.has_room(1, urgent) == fits
            assert queue.put(number, urgent) == fits
            if fits:
                kinds[urgent].append(number)
        assert len(queue) == len(kinds[True]) + len(kinds[False])
    assert queue.clear() == len(kinds[True]) + len(kinds[False])
    assert len(queue) == 0
