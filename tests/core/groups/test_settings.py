from __future__ import annotations

from math import nan

import pytest

from weft.core.groups import GroupSettings
from weft.core.groups.settings import RANGES
from weft.errors import UsageError


@pytest.mark.req("PL-07")
@pytest.mark.parametrize("knob", RANGES)
def test_every_knob_has_a_range_and_a_default_inside(knob: str) -> None:
    least, most = RANGES[knob]
    assert least <= getattr(GroupSettings(), knob) <= most
    for value in (least, most):
        assert getattr(GroupSettings(**{knob: value}), knob) == value
    for value in (least - 0.001, most + 0.001, nan):
        with pytest.raises(UsageError, match=f"{knob} is out of range"):
            GroupSettings(**{knob: value})
