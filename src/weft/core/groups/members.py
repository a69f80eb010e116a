"""A member of a group at this node, and its hold on each stream that it has or is about to have.

A stream that it holds goes through these states, forwards and back:

=========  ==========================================================  =================================================
hold       meaning                                                     what comes next
=========  ==========================================================  =================================================
Claimed    others are told that it wants the stream                    they heard it, nobody holds it: Served
Served     it gets the stream's events                                 it is somebody else's, or was moved: Paused
Paused     it was told to release it                                   it did, or was too slow: gone, or Served again
=========  ==========================================================  =================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from weft.core.groups.effects import Assignment
from weft.core.groups.events import MemberState
from weft.core.groups.hand import Hand
from weft.core.messages import StreamKey
from weft.model import Pattern


@dataclass(frozen=True, slots=True)
class Claimed:
    """``claims`` has what it waits for."""


@dataclass(frozen=True, slots=True)
class Served:
    """``version``: of the group's position where serving began. What the member handles counts only for this
    version."""

    version: int


@dataclass(frozen=True, slots=True)
class Paused:
    """``generation``: of the assignment without the stream. The answer to that assignment releases the stream."""

    version: int
    generation: int
    until_s: float


Hold: TypeAlias = Claimed | Served | Paused


@dataclass(slots=True)
class Member:
    subscription: int
    name: str
    pattern: Pattern
    turn: int
    owner: str = ""
    generation: int = 0  # of the last assignment
    taken_over: int = 0  # the last generation that the member has answered
    holds: dict[StreamKey, Hold] = field(default_factory=dict)
    assigned: frozenset[StreamKey] = frozenset()
    unassigned: bool = False  # what it is served may differ from what it was last told
    hand: Hand | None = None  # of a member that acknowledges by hand

    def state(self) -> MemberState:
        return MemberState(self.pattern, self.turn, frozenset(self.holds), self.owner)

    def assign(self) -> Assignment | None:
        """All streams that it is served now, if that differs from what it was last told."""
        if not self.unassigned:
            return None
        self.unassigned = False
        served = dict.fromkeys(key for key, hold in self.holds.items() if isinstance(hold, Served))
        if served.keys() == self.assigned:
            return None
        self.assigned = frozenset(served)
        self.generation += 1
        return Assignment(self.subscription, self.generation, tuple(served))

    def hold(self, key: StreamKey, hold: Hold | None) -> None:
        """Set the hold on a stream; None: it was released."""
        before = self.holds.get(key)
        self.unassigned = self.unassigned or isinstance(before, Served) != isinstance(hold, Served)
        if hold is None:
            del self.holds[key]
        else:
            self.holds[key] = hold

    def answer(self, generation: int) -> bool:
        """The member has taken over an assignment; return whether something was waiting for that."""
        before, self.taken_over = self.taken_over, max(self.taken_over, min(generation, self.generation))
        return self.taken_over > before and any(isinstance(hold, Paused) for hold in self.holds.values())

    def has_let_go(self, hold: Paused, now_s: float) -> bool:
        return self.taken_over >= hold.generation or now_s >= hold.until_s
