"""A packet taken apart for people: a tree of named byte ranges in which every byte belongs to exactly one leaf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """``size`` bytes from ``at`` on, what they are called and what they mean."""

    name: str
    at: int
    size: int
    value: str = ""
    parts: tuple[Part, ...] = ()

    @property
    def end(self) -> int:
        return self.at + self.size

    def leaves(self) -> Iterator[Part]:
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


def unaccounted(part: Part) -> list[tuple[int, int]]:
    """Byte ranges of ``part`` that its children leave out or cover twice; empty for a sound description."""
    if not part.parts:
        return []
    gaps: list[tuple[int, int]] = []
    at = part.at
    for child in part.parts:
        if child.at != at:
            gaps.append((min(at, child.at), max(at, child.at)))
        gaps += unaccounted(child)
        at = child.end
    if at != part.end:
        gaps.append((min(at, part.end), max(at, part.end)))
    return gaps
