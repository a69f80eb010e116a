"""The fuzz targets accept their seeds, and a little noise: the long runs are tools/fuzz.py's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets_exmp import SEEDS, TARGETS


def test_every_target_has_seeds() -> None:
    assert set(SEEDS) == set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=50)
@given(data=st.data())
def test_seeds_and_what_becomes_of_them(name: str, data: st.DataObject) -> None:
    seed = bytearray(data.draw(st.sampled_from(SEEDS[name])))
    TARGETS[name](bytes(seed))
    for at in data.draw(st.lists(st.integers(0, len(seed) - 1), max_size=3)):
        seed[at] = data.draw(st.integers(0, 255))
    TARGETS[name](bytes(seed))
