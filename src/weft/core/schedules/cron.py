"""Cron expressions of five fields, in a time zone (CON-03): which minutes they mean.

``minute hour day-of-month month day-of-week``; each is ``*``, a number, a range ``a-b``, any of these with a step
``/n``, or a list of them with commas. Months and days of the week have names (``jan``, ``mon``); Sunday is 0 and 7. If
both days are restricted, a match of either is enough, as in every cron.

When clocks are set forward, a time that is skipped fires at the first minute after the gap. When they are set back, a
time that comes twice fires the first time. An expression with ``*`` as its hour counts real minutes instead: it fires
in both of the repeated hours, and not at all in the skipped one.

``matches`` is the definition. ``next_after`` finds the first minute for which it is true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from weft.errors import UsageError

TEXT_CHARS_MAX: Final = 256
ZONE_CHARS_MAX: Final = 64
DAYS_LOOKED: Final = 9 * 366  # 29 February comes within eight years, even around 2100
MINUTE_US: Final = 60_000_000
PART: Final = re.compile(r"(?P<first>\*|[a-z0-9]+)(?:-(?P<last>[a-z0-9]+))?(?:/(?P<step>[0-9]{1,4}))?")
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SHORT: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Field:
    """The possible values of a field. ``names`` begin with the number ``least``."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


FIELDS: Final = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of week", 0, 7, WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. Each set has the values that its field allows; None stands for a star."""

    text: str
    zone: str
    minutes: frozenset[int]
    hours: frozenset[int] | None
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    @property
    def zone_info(self) -> tzinfo:
        return zone_of(self.zone)

    def is_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month = self.days is None or day.day in self.days
        by_week = self.weekdays is None or day.isoweekday() % 7 in self.weekdays
        if self.days is not None and self.weekdays is not None:
            return by_month or by_week
        return by_month and by_week

    def matches(self, at_us: int) -> bool:
        """Whether this minute is meant. ``at_us``: a whole minute, in microseconds since 1970."""
        if at_us % MINUTE_US:
            return False
        zone = self.zone_info
        local = _local(at_us, zone)
        if self.hours is None:
            return self.is_day(local.date()) and local.minute in self.minutes
        if local.fold == 0 and self._is_wanted(local):
            return True
        before = _local(at_us - MINUTE_US, zone)
        skipped = before + timedelta(minutes=1)  # as a clock on the wall shows it; differs from ``local`` in a gap
        while skipped.replace(tzinfo=None) < local.replace(tzinfo=None, fold=0):
            if self._is_wanted(skipped):
                return True
            skipped += timedelta(minutes=1)
        return False

    def _is_wanted(self, wall: datetime) -> bool:
        assert self.hours is not None, "asked where hours are named"
        return self.is_day(wall.date()) and wall.hour in self.hours and wall.minute in self.minutes

    def next_after(self, after_us: int) -> int | None:
        """The first minute after a time that is meant; None if there is none in nine years."""
        first = _local(after_us, self.zone_info).date() - timedelta(days=1)  # a gap may move a time over midnight
        for number in range(DAYS_LOOKED):
            try:
                day = first + timedelta(days=number)
            except OverflowError:
                return None
            if self.is_day(day):
                found = next((at_us for at_us in _minutes_of(self, day) if at_us > after_us), None)
                if found is not None:
                    return found
        return None

    def last_before(self, at_us: int, since_us: int) -> int | None:
        """The last minute up to ``at_us`` that is meant, if it is after ``since_us``."""
        last = _local(at_us, self.zone_info).date() + timedelta(days=1)
        earliest = _local(since_us, self.zone_info).date() - timedelta(days=1)
        for number in range(min((last - earliest).days + 1, DAYS_LOOKED)):
            day = last - timedelta(days=number)
            if self.is_day(day):
                found = [each for each in _minutes_of(self, day) if since_us < each <= at_us]
                if found:
                    return found[-1]
        return None


@lru_cache(4096)
def _minutes_of(cron: Cron, day: date) -> tuple[int, ...]:
    """The minutes that are meant on a matching day, in order."""
    zone = cron.zone_info
    if cron.hours is None:
        first_us, end_us = _instant_us(datetime(day.year, day.month, day.day), zone), _end_us(day, zone)
        every = range(first_us, end_us, MINUTE_US)
        return tuple(each for each in every if _local(each, zone).minute in cron.minutes)
    found = {
        _instant_us(datetime(day.year, day.month, day.day, hour, minute), zone)
        for hour in cron.hours
        for minute in cron.minutes
    }
    return tuple(sorted(found))


def _end_us(day: date, zone: tzinfo) -> int:
    following = day + timedelta(days=1)
    return _instant_us(datetime(following.year, following.month, following.day), zone)


def _local(at_us: int, zone: tzinfo) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).astimezone(zone)


def _instant_us(wall: datetime, zone: tzinfo) -> int:
    """When a clock on the wall first shows that time. If the clock skips the time, the first minute after the gap."""
    at_us = _us(wall.replace(tzinfo=zone))
    if _local(at_us, zone).replace(tzinfo=None, fold=0) == wall:
        return at_us
    # In a gap both offsets exist: fold=1 has the one after it, and gives a time before the gap.
    low_us, high_us = _us(wall.replace(tzinfo=zone, fold=1)), at_us
    while high_us - low_us > MINUTE_US:
        middle_us = (low_us + high_us) // 2 // MINUTE_US * MINUTE_US
        if _local(middle_us, zone).replace(tzinfo=None, fold=0) < wall:
            low_us = middle_us
        else:
            high_us = middle_us
    return high_us


def _us(at: datetime) -> int:
    return (at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


# --- reading one -----------------------------------------------------------------------------------------------------


def parse_cron(text: str, zone: str = "UTC") -> Cron:
    """Parse an expression, or raise UsageError. It must fire on some day. Takes untrusted text."""
    if len(text) > TEXT_CHARS_MAX:
        raise UsageError("the cron expression is too long", chars=len(text), limit=TEXT_CHARS_MAX)
    plain = SHORT.get(text.strip().lower(), text).lower().split()
    if len(plain) != len(FIELDS):
        raise UsageError(
            f"{text!r} is not a cron expression: write five fields, minute hour day month weekday, or one of "
            f"{', '.join(SHORT)}",
            fields=len(plain),
        )
    minutes, hours, days, months, weekdays = (
        _read_field(part, field, text) for part, field in zip(plain, FIELDS, strict=True)
    )
    if weekdays is not None:
        weekdays = frozenset(each % 7 for each in weekdays)
    zone_of(zone)
    cron = Cron(
        " ".join(plain),
        zone,
        minutes or frozenset(range(60)),
        hours,
        days,
        months or frozenset(range(1, 13)),
        weekdays,
    )
    if not any(cron.is_day(date(2024, 1, 1) + timedelta(days=number)) for number in range(DAYS_LOOKED)):
        raise UsageError(f"{text!r} means a day that never comes")
    return cron


def _read_field(text: str, field: Field, whole: str) -> frozenset[int] | None:
    """Parse one field; None for a star."""
    if text == "*":
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = PART.fullmatch(part)
        if match is None:
            raise _wrong(part, field, whole)
        first, last, step = match["first"], match["last"], int(match["step"] or 1)
        if first == "*":
            if last is not None:
                raise _wrong(part, field, whole)
            begin, end = field.least, field.most
        else:
            begin = _number(first, field, part, whole)
            end = begin if last is None else _number(last, field, part, whole)
            if last is None and match["step"]:
                end = field.most
        if not field.least <= begin <= end <= field.most or step == 0:
            raise _wrong(part, field, whole)
        found |= set(range(begin, end + 1, step))
    return frozenset(found)


def _number(text: str, field: Field, part: str, whole: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.least
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise _wrong(part, field, whole)
    return int(text)


def _wrong(part: str, field: Field, whole: str) -> UsageError:
    return UsageError(
        f"{part[:40]!r} is no {field.name} of cron expression {whole!r}", least=field.least, most=field.most
    )


@lru_cache(256)
def zone_of(name: str) -> tzinfo:
    """A time zone of the IANA database, or UsageError. Takes untrusted text."""
    if name in ("", "UTC"):
        return UTC
    if len(name) > ZONE_CHARS_MAX:
        raise UsageError("the name of the time zone is too long", chars=len(name), limit=ZONE_CHARS_MAX)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise UsageError(
            f"this node knows no time zone {name[:ZONE_CHARS_MAX]!r}: write one as Europe/Berlin"
        ) from None
