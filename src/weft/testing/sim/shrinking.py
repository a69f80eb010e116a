"""A failing seed, made smaller: the fewest troubles and the simplest mesh that still fail in the same way.

A ``Course`` says what is left of a seed: which of its troubles happen, and what was made simpler. With the seed, it can
be replayed. Each trouble keeps the chance that it had in the whole seed, so it does the same when others are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from weft.testing.sim.chaos import Mix
from weft.testing.sim.network import Conditions

Simplify = Callable[[Mix], Mix]

# By name, the largest steps first. None of them makes a mesh larger.
SIMPLER: Final[dict[str, Simplify]] = {
    "no-groups": lambda mix: replace(mix, groups=0),
    "no-hands": lambda mix: replace(mix, hands=False),
    "no-requests": lambda mix: replace(mix, requests=False),
    "no-kv": lambda mix: replace(mix, kv_clients=0),
    "no-later": lambda mix: replace(mix, later_clients=0),
    "no-plain-peers": lambda mix: replace(mix, plain_peers=0),
    "no-latecomers": lambda mix: replace(mix, latecomers=0),
    "no-subscribers": lambda mix: replace(mix, subscribers=0),
    "1-subscriber": lambda mix: replace(mix, subscribers=min(mix.subscribers, 1)),
    "2-nodes": lambda mix: replace(mix, nodes=min(mix.nodes, 2)),
    "3-nodes": lambda mix: replace(mix, nodes=min(mix.nodes, 3)),
    "4-nodes": lambda mix: replace(mix, nodes=min(mix.nodes, 4)),
    "no-publishers": lambda mix: replace(mix, publishers=0),
    "1-publisher": lambda mix: replace(mix, publishers=min(mix.publishers, 1)),
    "1-batch": lambda mix: replace(mix, batches=min(mix.batches, 1)),
    "3-batches": lambda mix: replace(mix, batches=min(mix.batches, 3)),
    "no-upkeep": lambda mix: replace(mix, tidy_s=0.0),
    "right-clocks": lambda mix: replace(mix, hardware=replace(mix.hardware, drift=0.0, skew_s=0.0)),
    "good-links": lambda mix: replace(mix, conditions=Conditions(delay_s_max=0.005), mutual=0.0),
    "chain": lambda mix: replace(mix, shape="chain"),
}


class BadCourse(ValueError):
    """A course that was typed in and does not exist."""


@dataclass(frozen=True, slots=True)
class Course:
    """``troubles``: the numbers of those that happen; None: all. ``simpler``: names in SIMPLER."""

    troubles: tuple[int, ...] | None = None
    simpler: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As ``read_course`` takes it: ``2,5:no-groups,3-nodes``."""
        troubles = "all" if self.troubles is None else ",".join(map(str, self.troubles))
        return f"{troubles}:{','.join(self.simpler)}"

    def mix_of(self, mix: Mix) -> Mix:
        for name in self.simpler:
            mix = SIMPLER[name](mix)
        return mix


def read_course(text: str) -> Course:
    troubles, _, simpler = text.partition(":")
    names = tuple(filter(None, simpler.split(",")))
    if unknown := [name for name in names if name not in SIMPLER]:
        raise BadCourse(f"there is no {unknown[0]}; there are: {', '.join(SIMPLER)}")
    if troubles == "all":
        return Course(None, names)
    if not re.fullmatch(r"(\d{1,4}(,\d{1,4})*)?", troubles):
        raise BadCourse(f"not the numbers of troubles: {troubles}")
    return Course(tuple(int(each) for each in troubles.split(",") if each), names)


def kind_of(failure: str) -> str:
    """What is the same about two failures of one kind: the words of the first line, without names and figures."""
    words = (failure.splitlines() or [""])[0].split()
    return " ".join(word for word in words if re.fullmatch(r"[a-zA-Z,:;'\"]+", word))


@dataclass(slots=True)
class Shrinking:
    """``fails``: how a course ends; empty if all goes well. ``is_over``: there is no time left."""

    fails: Callable[[Course], str]
    is_over: Callable[[], bool]
    kind: str
    tries: int = 0

    def run(self, course: Course) -> Course:
        """The smallest course found. ``course`` names all troubles that happened."""
        before = None
        while before != course and not self.is_over():
            before = course
            course = self._simplify(self._leave_out(course))
        return course

    def _still_fails(self, course: Course) -> bool:
        if self.is_over():
            return False
        self.tries += 1
        return kind_of(self.fails(course)) == self.kind

    def _leave_out(self, course: Course) -> Course:
        """Delta debugging: all troubles, halves, quarters, down to single ones."""
        size = len(course.troubles or ())
        while size:
            at = 0
            while at < len(course.troubles or ()):
                kept = course.troubles or ()
                fewer = replace(course, troubles=kept[:at] + kept[at + size :])
                if self._still_fails(fewer):
                    course = fewer
                else:
                    at += size
            size //= 2
        return course

    def _simplify(self, course: Course) -> Course:
        for name in SIMPLER:
            simpler = replace(course, simpler=(*course.simpler, name))
            if name not in course.simpler and self._still_fails(simpler):
                course = simpler
        return course
