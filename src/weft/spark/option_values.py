"""Options as Spark hands them over (names in any case, values as text), and parsing them into values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from weft.errors import UsageError

FLAGS: Final = {"true": True, "false": False}
UNITS_S: Final = {
    unit: seconds
    for units, seconds in (
        ("ms millisecond milliseconds", 0.001),
        ("s second seconds", 1.0),
        ("m min minute minutes", 60.0),
        ("h hour hours", 3600.0),
        ("d day days", 86_400.0),
    )
    for unit in units.split()
}
DURATION: Final = re.compile(rf"(\d{{1,9}}) ?({'|'.join(UNITS_S)})")


class BadOption(UsageError):
    """An option does not exist, or cannot have this value."""


def by_name(
    given: Mapping[str, str],
    known: Sequence[str],
    *,
    aliases: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The options under their documented names. Spark hands the names over in lower case.

    ``aliases`` are other names for some of them; ``refused`` are names that people may try, with what to use instead.
    """
    names = {name.lower(): name for name in known} | {name.lower(): to for name, to in (aliases or {}).items()}
    advice = {name.lower(): text for name, text in (refused or {}).items()}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in names:
            if name.lower() in advice:
                raise BadOption(f"there is no option {name}: {advice[name.lower()]}")
            raise BadOption(f"no such option {name!r}", known=", ".join(sorted(known)))
        known_as = names[name.lower()]
        if known_as in found:
            raise BadOption(f"option {known_as} is given twice, once by another name: give it once")
        found[known_as] = str(value).strip()
    return found


def parse_flag(name: str, value: str) -> bool:
    if value.lower() not in FLAGS:
        raise BadOption(f"option {name} is true or false, not {value!r}")
    return FLAGS[value.lower()]


def parse_count(name: str, value: str, least: int, most: int) -> int:
    """A whole number between two others."""
    digits = value.removeprefix("-")
    number = int(value) if digits.isascii() and digits.isdigit() and len(digits) <= len(str(most)) else None
    if number is None or not least <= number <= most:
        raise BadOption(f"option {name} is a number from {least} to {most}, not {value!r}")
    return number


def parse_duration(name: str, value: str, most_s: float) -> float:
    """A time such as ``15m``, ``30 seconds`` or ``500ms``, in seconds."""
    found = DURATION.fullmatch(value.lower())
    seconds = int(found[1]) * UNITS_S[found[2]] if found else None
    if seconds is None or not 0 < seconds <= most_s:
        raise BadOption(f"option {name} is a time such as 15m, 30s or 500ms, at most {most_s:g} s, not {value!r}")
    return seconds


def parse_list(value: str) -> tuple[str, ...]:
    """The parts between commas, without repeats and empty parts."""
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
