"""Schedules in the simulation: a time is fired once, whatever nodes and links do, and twice only where that is said
(CON-03)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from weft.core.schedules.cron import MINUTE_US, Cron
from weft.core.schedules.firing import CatchUp, Decision, decide
from weft.model import NodeId
from weft.testing.sim import Violation
from weft.testing.sim.loop import WALL_US
from weft.testing.sim.schedule import chance_of
from weft.testing.sim.schedules import ScheduleBook, every_minute, minutes, put
from weft.testing.sim.world import Hardware, World

pytestmark = pytest.mark.req("CON-03")


@contextmanager
def mesh(seed: int, hardware: Hardware | None = None) -> Iterator[tuple[World, ScheduleBook]]:
    """Three nodes, each linked with each, and a schedule."""
    world = World(seed, hardware or Hardware(skew_s=2.0))
    try:
        nodes = [
            world.add_node("a", []),
            world.add_node("b", [NodeId("a")]),
            world.add_node("c", [NodeId("a"), NodeId("b")]),
        ]
        book = ScheduleBook(world.truth)
        world.truth.repeating |= {"plant.tick", "plant.strict"}
        for node in nodes:
            node.start()
        world.run_until(world.disagreement, 60.0)
        put(nodes[seed % 3], "tick", every_minute("plant.tick", nodes[seed % 3]))
        put(nodes[seed % 3], "strict", every_minute("plant.strict", nodes[seed % 3], "none"))
        world.schedule.run(10.0)
        yield world, book
    finally:
        world.close()


def run_to(world: World, minute_us: int, more_s: float = 0.0) -> None:
    """Until the wall is there, but for how far clocks differ."""
    world.schedule.run((minute_us - WALL_US) / 1e6 + more_s - world.schedule.now_s)


def next_minutes(world: World, count: int) -> list[int]:
    now_s = world.schedule.now_s + 5.0
    return minutes(now_s, now_s + count * 60.0)


def cut(world: World, name: str, is_cut: bool) -> None:
    for edge, link in world.network.links.items():
        if name in edge:
            link.is_cut = is_cut
            if is_cut:
                world.network.break_link(link)


def calm(world: World, book: ScheduleBook) -> None:
    first, second = times = next_minutes(world, 2)
    run_to(world, second, 50.0)
    book.check_once("tick", times)
    assert book.nodes("tick", first) == book.nodes("tick", second), "who fired last goes on"


@pytest.mark.parametrize("seed", range(2))
def test_in_calm_times_one_node_fires_each_time_once(seed: int) -> None:
    with mesh(seed, Hardware(skew_s=20.0, drift=0.05)) as (world, book):
        calm(world, book)


def test_when_the_node_dies_another_goes_on() -> None:
    with mesh(1) as (world, book):
        (first,) = next_minutes(world, 1)
        run_to(world, first, 30.0)
        (owner,) = book.nodes("tick", first)
        run_to(world, first + MINUTE_US, -10.0)
        world.nodes[owner].crash()
        run_to(world, first + MINUTE_US, 50.0)
        world.nodes[owner].start()
        run_to(world, first + 3 * MINUTE_US, 50.0)
        times = [first + number * MINUTE_US for number in range(4)]
        book.check_once("tick", times)
        (other,) = book.nodes("tick", times[1])
        assert other != owner and book.nodes("tick", times[3]) == {other}, "who comes back takes nothing away"


def test_a_mesh_that_is_split_fires_once_in_each_part_and_then_once_again() -> None:
    with mesh(2) as (world, book):
        (first,) = next_minutes(world, 1)
        cut(world, "a", True)
        run_to(world, first + MINUTE_US, 50.0)
        split = book.nodes("tick", first + MINUTE_US)
        assert len(split) == 2 and "a" in split
        cut(world, "a", False)
        world.run_until(world.disagreement, 90.0)
        calm(world, book)


def test_what_nobody_fired_is_made_up_for_once_or_not_at_all() -> None:
    with mesh(0) as (world, book):
        (first,) = next_minutes(world, 1)
        run_to(world, first, 30.0)
        for node in world.nodes.values():
            node.crash()
        run_to(world, first + 5 * MINUTE_US, 10.0)
        for node in world.nodes.values():
            node.start()
        missed = [first + number * MINUTE_US for number in range(1, 6)]
        run_to(world, missed[-1], 50.0)
        assert book.count("tick", missed[0], missed[-1]) == 0
        book.check_once("tick", [missed[-1]])
        assert book.count("strict", missed[0], missed[-1]) == 0
        world.run_until(world.disagreement, 90.0)
        calm(world, book)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_no_node_is_early_or_fires_a_time_twice(seed: int) -> None:
    """The book sees to that. Afterwards all is as it should be."""
    dice = chance_of(seed, "schedules")
    with mesh(seed, Hardware(skew_s=20.0, drift=0.05, sync_s_max=0.5)) as (world, book):
        for _ in range(10):
            node = dice.choice(list(world.nodes.values()))
            trouble = dice.choice(["crash", "stop", "cut", "full"])
            if trouble in ("crash", "stop") and node.running and not node.stopping:
                getattr(node, trouble)()
            elif trouble == "cut":
                cut(world, node.node_id, True)
            elif trouble == "full" and node.running:
                node.fill_disk()
            world.schedule.run(dice.uniform(2.0, 25.0))
            cut(world, node.node_id, False)
            node.make_room()
            if not node.running:
                node.start()
        world.run_until(lambda: "".join(n for n, each in world.nodes.items() if each.stopping), 60.0)
        for node in world.nodes.values():
            if not node.running:
                node.start()
        world.run_until(world.disagreement, 120.0)
        world.schedule.run(60.0)
        calm(world, book)


# --- lies ------------------------------------------------------------------------------------------------------------


def test_nodes_that_all_think_they_are_first_are_found() -> None:
    first = mock.patch("weft.node.schedules.rank", lambda me, name, alive, last: 0)
    with first, mesh(1, Hardware()) as (world, book), pytest.raises(Violation, match="should be once"):
        calm(world, book)


def a_little_early(cron: Cron, since_us: int, now_us: int, able_us: int, before: int, catch_up: CatchUp) -> Decision:
    return decide(cron, since_us, now_us + 3_000_000, able_us, before, catch_up)


def test_a_node_that_fires_early_is_found() -> None:
    early = mock.patch("weft.node.schedules.decide", a_little_early)
    with mesh(1) as (world, book), early, pytest.raises(Violation, match="early"):
        calm(world, book)


def test_a_node_that_forgets_what_it_fired_is_found() -> None:
    forgotten = mock.patch("weft.node.schedules.Schedules._last", lambda self, name: None)
    with mesh(1) as (world, book), forgotten, pytest.raises(Violation, match="twice"):
        calm(world, book)
