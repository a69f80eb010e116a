"""What a group knew of very many streams goes some at a time, once the group is over."""

from __future__ import annotations

import pytest

from tests.core.groups.talk import ALL, A, at, make, stream
from weft.core.groups import leavings
from weft.core.groups.leavings import Leavings
from weft.core.groups.owners import GroupMember, Owners, WorkShare


@pytest.mark.req("SEC-05")
def test_some_of_it_is_freed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leavings, "FREED_AT_ONCE", 3)
    many, few = dict.fromkeys(range(5)), dict.fromkeys(range(2))
    left = Leavings()
    left.take([many, {}, few])
    sizes = []
    while left:
        left.free_some()
        sizes.append(len(many) + len(few))
    assert sizes == [4, 1, 0]


@pytest.mark.req("SEC-05")
def test_a_group_that_is_dropped_goes_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leavings, "FREED_AT_ONCE", 10)
    mesh = make()
    mesh.move("g", [at(stream(f"plant.t{number}"), 1) for number in range(100)], 0.0)
    mesh.drop("g", 1.0)
    ticks = 0
    while mesh.get_timer() == 0.0:
        mesh.tick(1.0)
        ticks += 1
    assert ticks >= 100 / 10
    assert mesh.names() == []


@pytest.mark.req("SEC-05")
def test_whose_streams_are_is_forgotten_some_at_a_time() -> None:
    """When the last member has left."""
    keys = [stream(f"plant.t{number}") for number in range(10)]
    owners, member = Owners(), GroupMember(A, "m", ALL)
    owners.set_members(frozenset({member}), keys)
    owners.work(WorkShare(1_000))
    owners.set_members(frozenset(), keys)
    assert [owners.get(key) for key in keys] == [None] * 10, "from now on"
    assert owners.work(WorkShare(4)) == (False, [])
    assert 0 < len(owners.end()) < 10
    assert owners.work(WorkShare(1_000)) == (True, [])
    assert not owners.end()
