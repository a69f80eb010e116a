"""Many seeds of trouble, after which all must be well. A failure names its seed; ``chaos.run`` replays it."""

from __future__ import annotations

from gc import get_referents
from types import FunctionType, ModuleType

import pytest

from tests.core.groups import chaos
from tests.core.groups.talk import is_quiet
from tests.core.groups.world import GROUP, SETTINGS, Faults, World
from weft.core.groups import Groups, GroupSettings
from weft.model import Epoch, NodeId, Stream, Topic

SEEDS = 16
CHUNK = 8  # of seeds in one test, so that workers can share them
FIRSTS = range(0, SEEDS, CHUNK)


def nothing_skipped(world: World) -> bool:
    """Work begins where the group stands, or before: never beyond what was handled."""
    return all(begin <= handled for _, begin, handled in world.starts)


@pytest.mark.parametrize("first", FIRSTS)
def test_while_nodes_hear_each_other_in_time_a_stream_has_one_member_and_nothing_comes_twice(first: int) -> None:
    for seed in range(first, first + CHUNK):
        world = chaos.run(seed)
        assert not world.overlaps, (seed, world.overlaps[:3])
        assert all(begin == handled for _, begin, handled in world.starts), seed


@pytest.mark.parametrize("first", FIRSTS)
def test_moves_take_nobody_by_surprise(first: int) -> None:
    for seed in range(first, first + CHUNK):
        world = chaos.run(seed, moves=True)
        assert not world.overlaps, (seed, world.overlaps[:3])
        assert nothing_skipped(world), seed


@pytest.mark.parametrize("first", FIRSTS)
def test_nodes_that_die_and_return_have_their_streams_taken_over(first: int) -> None:
    """With and without their disks."""
    for seed in range(first, first + CHUNK):
        assert nothing_skipped(chaos.run(seed, deaths=True)), seed


@pytest.mark.parametrize("first", FIRSTS)
def test_after_any_trouble_every_stream_has_its_rightful_member_and_all_nodes_agree(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert nothing_skipped(chaos.run(seed, deaths=True, partitions=True, moves=True)), seed


def test_a_seed_replays_exactly() -> None:
    one, other = (chaos.run(3, deaths=True, partitions=True, moves=True) for _ in range(2))
    assert one.assignments
    assert (one.assignments, one.starts) == (other.assignments, other.starts)


def test_a_failing_seed_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "workers", lambda world, key: ["nobody"])
    with pytest.raises(AssertionError, match="seed 3"):
        chaos.run(3)


def three_nodes(settings: GroupSettings, faults: Faults) -> World:
    world = World(1, faults, settings)
    for name in "abc":
        world.start(name)
    for number in range(30):
        world.learn((Stream(Topic(f"plant.t{number}"), NodeId("a"), 0), Epoch(1)))
    world.run(3.0)
    return world


@pytest.mark.parametrize(("settle_s", "overlaps"), [(SETTINGS.settle_s, False), (0.0, True)])
def test_listening_is_what_keeps_two_from_taking_a_stream_at_once(settle_s: float, overlaps: bool) -> None:
    """All join at the same moment. That it goes wrong without shows that the watching works."""
    world = three_nodes(GroupSettings(settle_s=settle_s), Faults())
    for node_id in world.nodes:
        world.join(node_id, f"m-{node_id}", "plant.>")
    world.run(20.0)
    assert bool(world.overlaps) is overlaps
    world.quiet = True
    world.run(20.0)
    world.check_settled()


def test_who_joins_gets_its_share_and_nobody_else_notices() -> None:
    world = three_nodes(SETTINGS, Faults())
    for node_id in world.nodes:
        world.join(node_id, f"m-{node_id}", "plant.>")
    world.run(20.0)
    before = {key: world.workers(key) for key in world.ends}
    world.assignments.clear()
    newcomer = world.join(NodeId("b"), "newcomer", "plant.>")
    world.run(20.0)
    moved = [key for key in world.ends if world.workers(key) != before[key]]
    assert 0 < len(moved) < 15
    assert all(world.workers(key) == [("b", "newcomer")] for key in moved)
    told = [subscription for subscription, _ in world.assignments if subscription != newcomer]
    assert len(told) == len(set(told)), "one assignment takes from a member all that it loses"


def footprint(groups: Groups) -> int:
    """How many objects the groups of a node are made of."""
    seen, waiting = set[int](), list[object]([groups])
    while waiting:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType):
            seen.add(id(each))
            waiting += get_referents(each)
    return len(seen)


def churn(world: World, times: int) -> None:
    for number in range(times):
        subscription = world.join(NodeId("abc"[number % 3]), f"m{number}", "plant.>")
        world.run(0.5)
        world.leave(subscription)
    world.run(30.0)


def test_a_long_life_takes_no_memory() -> None:
    """Members come and go; what a node keeps of them is nothing."""
    world = three_nodes(SETTINGS, Faults(duplication=0.0))
    churn(world, 60)
    before = [footprint(node.groups) for node in world.live()]
    churn(world, 120)
    assert [footprint(node.groups) for node in world.live()] == pytest.approx(before, abs=60)
    for node in world.live():
        assert is_quiet(node.groups)
        assert {node.groups.holder(GROUP, key) for key in world.ends} == {None}
