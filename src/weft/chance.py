"""Chance as an argument: what membership needs of a ``random.Random``, which satisfies this."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Chance(Protocol):
    def random(self) -> float:
        """From 0 up to but not including 1."""

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """``k`` different ones, in random order."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """In place."""


def some(chance: Chance, population: Sequence[T], count_max: int) -> list[T]:
    """At most ``count_max`` members of the population, in random order."""
    return chance.sample(population, min(count_max, len(population)))
