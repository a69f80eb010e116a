"""Long work that pauses now and then, so that the caller can do something else in between."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")
Pieces: TypeAlias = Generator[None, None, T]

PIECE_PATTERNS: Final = 1_000  # at 1 to 5 µs each


def in_pieces(things: Iterable[T], size: int = PIECE_PATTERNS) -> Iterator[list[T]]:
    left = iter(things)
    while piece := list(islice(left, size)):
        yield piece


def finished(work: Pieces[T]) -> T:
    """Do all of the work at once, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
