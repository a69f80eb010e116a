"""Failures by source, and refusals in the log: both bounded, both with the clock as an argument."""

from __future__ import annotations

import pytest

from weft.security import Cause, FailureLimiter, RefusalLog, source_of


@pytest.mark.req("SEC-02")
def test_a_burst_is_free_and_then_there_is_one_every_ten_seconds() -> None:
    limiter = FailureLimiter(burst=3, per_s=0.1)
    for _ in range(3):
        assert limiter.wait_s("a", 0.0) == 0
        limiter.failed("a", 0.0)
    assert limiter.wait_s("a", 0.0) == pytest.approx(10.0)
    assert limiter.wait_s("b", 0.0) == 0
    assert limiter.wait_s("a", 4.0) == pytest.approx(6.0)
    assert limiter.wait_s("a", 10.0) == pytest.approx(0.0)
    limiter.failed("a", 10.0)
    assert limiter.wait_s("a", 10.0) == pytest.approx(10.0)
    assert limiter.wait_s("a", 1000.0) == 0


def test_a_clock_that_jumps_back_makes_nobody_wait_longer() -> None:
    limiter = FailureLimiter(burst=1, per_s=0.1)
    limiter.failed("a", 1000.0)
    assert limiter.wait_s("a", 0.0) == pytest.approx(10.0)


def test_sources_are_bounded_and_the_oldest_goes_first() -> None:
    limiter = FailureLimiter(burst=1, per_s=0.1, sources_max=2)
    for source in ("a", "b", "a", "c"):
        limiter.failed(source, 0.0)
    assert [limiter.wait_s(source, 0.0) > 0 for source in "abc"] == [True, False, True]


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("unix", "unix"),
    ],
)
def test_an_ipv6_host_is_its_network(host: str, source: str) -> None:
    assert source_of(host) == source


@pytest.mark.req("SEC-02")
def test_one_line_a_minute_for_each_cause_and_caller() -> None:
    log = RefusalLog()
    assert log.note(Cause.PUBLISH, "key k3", 0.0) == 1
    assert log.note(Cause.SUBSCRIBE, "key k3", 1.0) == 1
    assert log.note(Cause.PUBLISH, "key k4", 1.0) == 1
    assert [log.note(Cause.PUBLISH, "key k3", now_s) for now_s in (1.0, 30.0, 59.9)] == [None] * 3
    assert log.note(Cause.PUBLISH, "key k3", 60.0) == 4, "it stands for the three that were held back"
    assert log.note(Cause.PUBLISH, "key k3", 61.0) is None
    assert log.totals == {Cause.PUBLISH: 7, Cause.SUBSCRIBE: 1}


def test_what_is_held_back_is_bounded() -> None:
    log = RefusalLog(kept_max=2)
    for who in ("a", "b", "c"):
        log.note(Cause.BAD_KEY, who, 0.0)
    assert [log.note(Cause.BAD_KEY, who, 1.0) for who in ("b", "c", "a")] == [None, None, 1]
    assert log.totals[Cause.BAD_KEY] == 6
