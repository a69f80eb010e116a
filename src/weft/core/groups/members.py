"""A member of a group at this node, and its hold on each stream that it has or is about to get.

A stream that it holds goes through these states, forwards and back:

=========  ==========================================================  =================================================
hold       meaning                                                     what comes next
=========  ==========================================================  =================================================
Claimed    others are told that the member wants the stream            they heard it, and nobody holds it: Served
Served     the member gets the stream's events                         owner changed, or group was moved: Paused
Paused     the member was told to release the stream                   it did, or time is up: gone, or Served again
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
    """The module ``claims`` knows what the stream still waits for."""


@dataclass(frozen=True, slots=True)
class Served:
    """``version``: the version of the group's position at which serving began. What the member handles counts only as
    long as the position has this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Paused:
    """``generation``: the generation of the first assignment without the stream. When the member answers that
    assignment, the stream is released."""

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
    generation: int = 0  # the number of the last assignment
    taken_over: int = 0  # the last generation that the member has answered
    holds: dict[StreamKey, Hold] = field(default_factory=dict)
    assigned: frozenset[StreamKey] = frozenset()
    unassigned: bool = False  # the streams that it is served may differ from its last assignment
    hand: Hand | None = None  # only a member that acknowledges by hand has one

    def state(self) -> MemberState:
        return MemberState(self.pattern, self.turn, frozenset(self.holds), self.owner)

    def assign(self) -> Assignment | None:
        """Return the next assignment, if the streams that the member is served have changed since the last one."""
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
        """Note that the member has taken over an assignment; return whether a paused stream was waiting for that."""
        before, self.taken_over = self.taken_over, max(self.taken_over, min(generation, self.generation))
        return self.taken_over > before and any(isinstance(hold, Paused) for hold in self.holds.values())

    def has_let_go(self, hold: Paused, now_s: float) -> bool:
        return self.taken_over >= hold.generation or now_s >= hold.until_s
