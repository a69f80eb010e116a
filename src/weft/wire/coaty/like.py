"""Patterns of the Like operator: ``%`` is any run of characters, ``_`` any one, a backslash takes the next literally.

As in the reference, neither wildcard matches a line break. Each run between two ``%`` is searched for once, from left
to right, without going back (atomic groups): the first place where it fits leaves the most room for the rest. So the
time is bounded by pattern times text, whatever the pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

# What JavaScript takes for a line break is marked with the one that Python's dot stops at.
_MARKED = str.maketrans({line_break: "\n" + line_break for line_break in "\n\r\u2028\u2029"})


def like(pattern: str, text: str) -> bool:
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
