"""Text ordered the way the reference orders it when a filter compares strings, or a query sorts by them.

The reference asks the collator of its JavaScript engine, that is, Unicode's root collation. What follows agrees with
it on ASCII and on letters with accents; other scripts come in the order of their code points. Three levels, each
consulted only if the ones before say "equal": letters without case and accents, then accents, then case (small first).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TypeAlias

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
