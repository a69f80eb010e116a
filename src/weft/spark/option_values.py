"""Options as Spark hands them over, text by a name in any case, and what can be made of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.errors import UsageError

FLAGS = {"true": True, "false": False}


class BadOption(UsageError):
    """An option that there is not, or that cannot have this value."""


def by_name(given: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """The options under the names that they are documented by. Spark hands them over in lower case."""
    names = {name.lower(): name for name in known}
    found = {}
    for name, value in given.items():
        if name.lower() not in names:
            raise BadOption(f"no such option {name!r}", known=", ".join(sorted(known)))
        found[names[name.lower()]] = str(value).strip()
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


def parse_list(value: str) -> tuple[str, ...]:
    """What stands between commas; each once, empty ones left out."""
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
