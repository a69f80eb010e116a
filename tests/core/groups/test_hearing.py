"""Who wants a stream hears what others handled of it before it begins."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.core.groups.talk import (
    ALL,
    ONE,
    SETTINGS,
    A,
    B,
    C,
    T,
    assignments,
    hear,
    name_that_wins,
    place,
    state,
    stream,
)
from weft.core.groups import Groups
from weft.core.groups.hearing import Hearing
from weft.model import Epoch

PATIENCE_S = SETTINGS.release_timeout_s
SETTLE_S = SETTINGS.settle_s


@dataclass
class Disk:
    """How much has arrived, and how much of it was read."""

    arrived: int = 0
    read: int = 0

    def hearing(self) -> Hearing:
        return Hearing(lambda: self.arrived, lambda: self.read, PATIENCE_S)


def joined(hearing: Hearing) -> Groups:
    """Node a, which has heard of b and has just said that it wants a stream."""
    groups = Groups(A, SETTINGS, lambda group: (), hearing=hearing)
    groups.stream_known(T, 0.0)
    groups.node_lives(B, ONE, True, 0.0)
    groups.join(1, "g", name_that_wins(T, A, "x", B), ALL, 0.0)
    assert assignments(groups.tick(0.0)) == []
    return groups


@pytest.mark.req("CON-01")
def test_it_listens_from_the_moment_that_others_can_hear_of_it() -> None:
    """What is said leaves a node when it is durable, and a disk may need longer than ``settle_s``."""
    groups = joined(Disk().hearing())
    assert assignments(groups.tick(SETTLE_S * 2)) == []
    groups.said("g", 3.0)
    assert assignments(groups.tick(3.0)) == []
    assert groups.get_timer() == 3.0 + SETTLE_S
    assert assignments(groups.tick(3.0 + SETTLE_S)) == [(1, 1, (T,))]


def test_an_older_statement_that_becomes_durable_says_nothing_of_a_claim() -> None:
    groups = joined(Disk().hearing())
    groups.said("g", 1.0)
    groups.tick(1.0 + SETTLE_S)
    other = stream("plant.t", B)
    groups.stream_known(other, 2.0)
    groups.said("g", 2.0)  # the last that was said is durable; that this one is wanted was not said yet
    groups.tick(2.0)
    assert assignments(groups.tick(2.0 + SETTLE_S)) == []
    groups.said("g", 3.0)
    assert assignments(groups.tick(3.0 + SETTLE_S)) == [(1, 2, (T, other))]


@pytest.mark.req("CON-01")
def test_what_arrived_in_time_is_read_first_however_slow_the_disk_is() -> None:
    disk = Disk()
    groups = joined(disk.hearing())
    groups.said("g", 0.0)
    disk.arrived = 7  # with it, what b handled
    assert assignments(groups.tick(SETTLE_S)) == []
    disk.arrived = 9  # what comes later is not waited for
    groups.listened(1.0)
    assert assignments(groups.tick(1.0)) == []
    hear(groups, B, place(T, 0, 5), state(B), offset=0, now_s=2.0)
    disk.read = 7
    groups.listened(2.0)
    assert groups.get_timer() == 2.0
    assert assignments(groups.tick(2.0)) == [(1, 1, (T,))]
    assert groups.position("g", T) == 5


@pytest.mark.req("CON-01")
def test_a_node_that_has_not_been_heard_to_the_end_is_waited_for() -> None:
    hearing = Disk().hearing()
    hearing.lives(B, ONE, 3, 0.0)
    hearing.lives(C, ONE, 0, 0.0)
    groups = joined(hearing)
    groups.said("g", 0.0)
    assert assignments(groups.tick(SETTLE_S)) == []
    hearing.heard(B, ONE, 2, 1.0)
    groups.listened(1.0)
    assert assignments(groups.tick(1.0)) == []
    hearing.heard(B, ONE, 1, 2.0)
    groups.listened(2.0)
    assert assignments(groups.tick(2.0)) == [(1, 1, (T,))]


@pytest.mark.parametrize("ends", ["dies", "has another log"])
def test_a_node_that_cannot_be_heard_any_more_is_not_waited_for(ends: str) -> None:
    hearing = Disk().hearing()
    hearing.lives(B, ONE, 3, 0.0)
    assert hearing.caught_up_s(1.0) == PATIENCE_S
    if ends == "dies":
        hearing.gone(B)
    else:
        hearing.lives(B, Epoch(2), 0, 1.0)
    assert hearing.caught_up_s(1.0) == 1.0


@pytest.mark.req("SEC-05")
def test_who_says_more_than_there_is_holds_up_nobody_for_long_and_only_once() -> None:
    hearing = Disk().hearing()
    hearing.lives(B, ONE, 1 << 40, 0.0)
    groups = joined(hearing)
    groups.said("g", 0.0)
    groups.tick(SETTLE_S)
    assert groups.get_timer() == PATIENCE_S
    assert assignments(groups.tick(PATIENCE_S)) == [(1, 1, (T,))]
    hearing.lives(B, ONE, 1 << 41, 60.0)
    assert hearing.caught_up_s(60.0) <= 60.0


def test_a_disk_that_writes_nothing_holds_up_nobody_for_ever() -> None:
    """It is full, say: then what this node wants is never said, and members here get their streams all the same."""
    groups = joined(Disk(arrived=1).hearing())
    assert groups.get_timer() == PATIENCE_S
    assert assignments(groups.tick(PATIENCE_S)) == [(1, 1, (T,))]
