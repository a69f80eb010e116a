"""Frames without messages are paid for: by time, by bytes, by messages that we send."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.wire.http2.support import SERVER
from weft.wire.http2 import BadHttp2, ErrorCode
from weft.wire.http2.budget import Budget

SETTINGS = replace(
    SERVER, idle_frames_burst=100.0, idle_frames_per_s=10.0, bytes_per_idle_frame=256, idle_frames_per_message=3.0
)


def affordable(budget: Budget, now_s: float) -> int:
    """How many frames go now."""
    for count in range(10_000):
        try:
            budget.pay(1.0, now_s)
        except BadHttp2 as error:
            assert error.code is ErrorCode.ENHANCE_YOUR_CALM
            return count
    raise AssertionError("there is no end")


def test_a_burst() -> None:
    assert affordable(Budget(SETTINGS, 5.0), 5.0) == 100


@pytest.mark.parametrize(
    ("data_bytes", "messages", "passed_s", "earned"),
    [
        (256 * 7, 0, 0.0, 7),
        (0, 4, 0.0, 12),
        (0, 0, 2.0, 20),
        (256, 1, 1.0, 14),
        (1 << 30, 0, 0.0, 101),
        (0, 0, 1e6, 101),
    ],
)
def test_what_is_earned(data_bytes: int, messages: int, passed_s: float, earned: int) -> None:
    """Never more than a burst, after the frame that asked for it."""
    budget = Budget(SETTINGS, 0.0)
    budget.pay(100.0, 0.0)
    budget.data_bytes, budget.messages = data_bytes, messages
    assert affordable(budget, passed_s) == earned


def test_nothing_is_earned_twice() -> None:
    budget = Budget(SETTINGS, 0.0)
    budget.data_bytes = 256 * 50
    assert affordable(budget, 1.0) == 160
    with pytest.raises(BadHttp2):
        budget.pay(1.0, 1.0)
