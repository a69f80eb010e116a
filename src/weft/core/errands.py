"""Work on very many streams, of which some is done in each turn of the loop.

A peer may come or go with a hundred thousand streams, or the mesh may change for all of them. Handling that all at once
would hold up the loop for seconds (SEC-05).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, TypeAlias

from weft.core.messages import Effect

STEPS_AT_ONCE: Final = 256  # in one turn of the loop; 6 to 30 µs each
BEGINNING_STEPS: Final = 32  # what it counts to begin or resume an errand, which may list the streams

Errand: TypeAlias = Iterator[Sequence[Effect]]  # one step looks at one stream, or only at the names of a few


class Errands:
    """The errands of one owner are done in order, and owners take turns."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, deque[Errand]] = {}  # no line is empty
        self._left = STEPS_AT_ONCE

    def __bool__(self) -> bool:
        return bool(self._lines)

    def begin_turn(self) -> None:
        self._left = STEPS_AT_ONCE

    def add(self, owner: Hashable, errand: Errand) -> None:
        self._lines.setdefault(owner, deque()).append(errand)

    def drop(self, owner: Hashable) -> None:
        """Drop the owner's errands: what it still had to do no longer matters."""
        self._lines.pop(owner, None)

    def run(self) -> list[Effect]:
        """Do what this turn has time for."""
        effects: list[Effect] = []
        while self._lines and self._left > 0:
            owner, line = next(iter(self._lines.items()))
            self._left -= BEGINNING_STEPS
            is_done = self._run(line[0], effects)
            del self._lines[owner]
            if is_done:
                line.popleft()
            if line:
                self._lines[owner] = line  # at the end of the queue
        return effects

    def _run(self, errand: Errand, effects: list[Effect]) -> bool:
        """Run an errand as far as this turn allows; return whether it is done."""
        while True:
            try:
                effects += next(errand)
            except StopIteration:
                return True
            self._left -= 1
            if self._left <= 0:
                return False
