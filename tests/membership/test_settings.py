"""Ranges and formulas."""

from __future__ import annotations

from dataclasses import fields
from math import nan

import pytest

from weft.errors import UsageError
from weft.membership import Settings, spread_times, suspicion_timeout_s
from weft.membership.settings import RANGES


@pytest.mark.parametrize(
    ("members", "multiplier", "times"), [(1, 2, 2), (2, 2, 4), (3, 2, 4), (60, 1, 6), (60, 2, 12), (1000, 2, 20)]
)
def test_spread_times(members: int, multiplier: int, times: int) -> None:
    assert spread_times(members, multiplier) == times


@pytest.mark.parametrize(
    ("members", "multiplier", "interval_s", "timeout_s"),
    [
        (1, 3, 1.0, 3.0),
        (3, 3, 1.0, 6.0),
        (3, 3, 2.0, 12.0),
        (63, 3, 1.0, 18.0),
        (1023, 3, 1.0, 30.0),
        (1023, 1, 0.5, 5.0),
    ],
)
def test_suspicion_timeout(members: int, multiplier: int, interval_s: float, timeout_s: float) -> None:
    assert suspicion_timeout_s(members, multiplier, interval_s) == timeout_s


def test_every_knob_has_a_range() -> None:
    assert {knob.name for knob in fields(Settings)} == set(RANGES)


@pytest.mark.parametrize("knob", RANGES)
@pytest.mark.parametrize("side", ["below", "above", "nan"])
def test_a_value_out_of_range_is_refused_by_name(knob: str, side: str) -> None:
    least, most = RANGES[knob]
    value = {"below": least - 0.01, "above": most + 0.01, "nan": nan}[side]
    with pytest.raises(UsageError, match=f"{knob}.*least {least}.*most {most}"):
        Settings(**{knob: value})  # type: ignore[arg-type]


@pytest.mark.req("PL-03")
@pytest.mark.parametrize("interval_s", [1.9, 10.1])
def test_heartbeats_come_every_2_to_10_s(interval_s: float) -> None:
    with pytest.raises(UsageError, match="heartbeat_interval_s"):
        Settings(heartbeat_interval_s=interval_s)
    assert {Settings(heartbeat_interval_s=value).heartbeat_interval_s for value in (2.0, 10.0)} == {2.0, 10.0}


def test_a_ping_has_to_time_out_before_the_next() -> None:
    with pytest.raises(UsageError, match="probe_timeout_s"):
        Settings(probe_interval_s=1.0, probe_timeout_s=1.0)
