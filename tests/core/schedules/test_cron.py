"""Cron expressions: the minutes that are found are those that are meant, also when clocks are set (CON-03)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.schedules.cron import MINUTE_US, Cron, parse_cron
from weft.errors import UsageError

pytestmark = pytest.mark.req("CON-03")

BERLIN = "Europe/Berlin"  # sets its clocks by an hour
LORD_HOWE = "Australia/Lord_Howe"  # by half an hour
PARTS = st.sampled_from(["*", "*/7", "5", "0,30", "10-20/3"])
HOURS = st.sampled_from(["*", "*/5", "2", "1-3", "0,23"])
DAYS = st.sampled_from(["*", "1", "29", "25-31", "*/10"])
WEEKDAYS = st.sampled_from(["*", "sun", "mon-fri", "7", "0,3"])
# Around the nights in which clocks are set, and some other nights.
TIMES = st.sampled_from(
    ["2026-03-28T20:00Z", "2026-10-24T20:00Z", "2026-04-04T10:00Z", "2026-10-03T10:00Z", "2024-02-28T22:00Z"]
)


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000


def local(at_us: int | None, cron: Cron) -> str:
    assert at_us is not None
    return datetime.fromtimestamp(at_us / 1e6, UTC).astimezone(cron.zone_info).strftime("%m-%d %H:%M%z")


def following(cron: Cron, start: str, times: int) -> list[str]:
    at_us, found = us(start), []
    for _ in range(times):
        found.append(local(at_us := cron.next_after(at_us) or 0, cron))
    return found


@given(PARTS, HOURS, DAYS, WEEKDAYS, st.sampled_from(["UTC", BERLIN, LORD_HOWE]), TIMES, st.integers(0, 700))
def test_what_is_found_is_the_first_that_matches(
    minute: str, hour: str, day: str, weekday: str, zone: str, start: str, skipped: int
) -> None:
    cron = parse_cron(f"{minute} {hour} {day} * {weekday}", zone)
    at_us = us(start) + skipped * MINUTE_US
    meant = [each for each in range(at_us + MINUTE_US, at_us + 900 * MINUTE_US, MINUTE_US) if cron.matches(each)]
    found = cron.next_after(at_us)
    assert found is not None
    if meant:
        assert found == meant[0]
        assert cron.last_before(meant[-1] + 5, at_us) == meant[-1]
    else:
        assert found >= at_us + 900 * MINUTE_US
    assert cron.last_before(found, found) is None


def test_a_time_that_is_skipped_fires_after_the_gap_and_one_that_comes_twice_fires_once() -> None:
    daily = parse_cron("30 2 * * *", BERLIN)
    assert following(daily, "2026-03-28T12:00Z", 2) == ["03-29 03:00+0200", "03-30 02:30+0200"]
    assert following(daily, "2026-10-24T12:00Z", 2) == ["10-25 02:30+0200", "10-26 02:30+0100"]


def test_every_half_hour_goes_by_real_time() -> None:
    often = parse_cron("*/30 * * * *", BERLIN)
    found = ["10-25 02:00+0200", "10-25 02:30+0200", "10-25 02:00+0100", "10-25 02:30+0100", "10-25 03:00+0100"]
    assert following(often, "2026-10-24T23:30Z", 5) == found
    assert following(often, "2026-03-29T00:30Z", 2) == ["03-29 03:00+0200", "03-29 03:30+0200"]


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("0 0 29 2 *", "2026-03-01T00:00Z", ["02-29 00:00+0000"]),
        ("0 12 13 * fri", "2026-03-28T00:00Z", ["04-03 12:00+0000", "04-10 12:00+0000", "04-13 12:00+0000"]),
        ("@weekly", "2026-11-18T00:00Z", ["11-22 00:00+0000"]),
        ("5/20 0 * Jan-MAR *", "2026-12-31T00:00Z", ["01-01 00:05+0000", "01-01 00:25+0000", "01-01 00:45+0000"]),
        ("0 0 * * 7", "2026-11-18T00:00Z", ["11-22 00:00+0000"]),
    ],
)
def test_what_expressions_mean(text: str, start: str, expected: list[str]) -> None:
    assert following(parse_cron(text), start, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * foo *", "month"),
        ("* * * * 8", "day of week"),
        ("5-1 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("²* * * * *", "minute"),
        ("0 0 30 2 *", "never comes"),
        ("1 " * 200, "too long"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_cron(text)


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "../../etc/passwd", "/etc/localtime", "x" * 65, "a\0b"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="time zone"):
        parse_cron("* * * * *", zone)


@given(st.text(max_size=30), st.text(max_size=10))
def test_any_text_is_read_or_refused(text: str, zone: str) -> None:
    with suppress(UsageError):
        parse_cron(text)
    with suppress(UsageError):
        parse_cron("* * * * *", zone)
