"""Text as filters compare it: patterns of the Like operator, and the order in which strings come."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TypeAlias

# --- Like ------------------------------------------------------------------------------------------------------------

# What JavaScript takes for a line break is marked with the one that Python's dot stops at.
_MARKED = str.maketrans({line_break: "\n" + line_break for line_break in "\n\r\u2028\u2029"})


def like(pattern: str, text: str) -> bool:
    """Whether ``text`` matches: ``%`` is any run of characters, ``_`` any one, a backslash takes the next literally.

    As in the reference, neither wildcard matches a line break. Each run between two ``%`` is searched for once, from
    left to right, without going back (atomic groups): the first place where it fits leaves the most room for the rest.
    So the time is bounded by pattern times text, whatever the pattern.
    """
    return _compile(pattern).match(text.translate(_MARKED)) is not None


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    first, *others = _runs(pattern)
    if not others:
        return re.compile(rf"{first}\Z")
    *middle, last = others
    return re.compile(first + "".join(f"(?>.*?{run})" for run in middle if run) + rf".*{last}\Z")


def _runs(pattern: str) -> list[str]:
    """The parts between ``%`` as regular expressions of a fixed length."""
    runs = [""]
    characters = iter(pattern)
    for character in characters:
        match character:
            case "%":
                runs.append("")
            case "_":
                runs[-1] += "."
            case "\\":
                runs[-1] += _literal(next(characters, ""))  # one at the very end counts for nothing
            case _:
                runs[-1] += _literal(character)
    return runs


def _literal(character: str) -> str:
    return re.escape(character.translate(_MARKED))


# --- order -----------------------------------------------------------------------------------------------------------
#
# The reference asks the collator of its JavaScript engine, that is, Unicode's root collation. What follows agrees with
# it on ASCII and on letters with accents; other scripts come in the order of their code points. Three levels, each
# consulted only if the ones before say "equal": letters without case and accents, then accents, then case (small
# first).

# Level by level, one weight per character that has any at that level.
SortKey: TypeAlias = tuple[list[int], list[int], list[int]]

_ASCII_ORDER = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_ACCENT_ORDER = "\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307"
_RANKS = {character: rank for rank, character in enumerate(_ASCII_ORDER)}
_ACCENTS = {accent: rank for rank, accent in enumerate(_ACCENT_ORDER, start=1)}
_UNMARKED = 0
_SMALL, _CAPITAL = 0, 1


def sort_key(text: str) -> SortKey:
    """Compares like the text it is made of; equal keys mean that the collation sees no difference."""
    primary: list[int] = []
    secondary: list[int] = []
    tertiary: list[int] = []
    for character in unicodedata.normalize("NFD", text):
        weights = _weights(character)
        if weights is None:
            continue
        rank, accent, case = weights
        if rank is not None:
            primary.append(rank)
        secondary.append(accent)
        tertiary.append(case)
    return primary, secondary, tertiary


@lru_cache(maxsize=4096)
def _weights(character: str) -> tuple[int | None, int, int] | None:
    """Rank (none for an accent), accent, case; None for control characters, which do not count."""
    category = unicodedata.category(character)
    if category == "Mn":
        return None, _ACCENTS.get(character, ord(character)), _SMALL
    small = character.lower()
    case = _SMALL if small == character else _CAPITAL
    if small in _RANKS:
        return _RANKS[small], _UNMARKED, case
    if category in ("Cc", "Cf"):
        return None
    # Code points beyond ASCII are larger than any rank, so these come last.
    return ord(small[0]), _UNMARKED, case
