"""Whole meshes from one seed: loss, duplication, reordering, crashes and cut ways, while events are published.

Whatever happens, no application gets an event twice. While nothing is lost, each gets every event. When the trouble is
over, everybody who was told to join somebody has its relationships again.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.emm_compact.world import Conditions, World, ring_pairs, star_pairs
from weft.emm_compact import Settings

NODES = 12


def random_pairs(random: Random) -> list[tuple[int, int]]:
    """A tree, so that the mesh holds together, and a few ways more."""
    tree = [(number, random.randrange(number)) for number in range(1, NODES)]
    more = [(a, b) for a, b in ((random.randrange(NODES), random.randrange(NODES)) for _ in range(8)) if a != b]
    return tree + more


def shapes(seed: int) -> list[tuple[int, int]]:
    random = Random(seed)  # noqa: S311 - not a secret
    return (ring_pairs(NODES), star_pairs(NODES), random_pairs(random))[seed % 3]


def start_again(world: World, number: int, pairs: list[tuple[int, int]]) -> None:
    world.restart(number)
    for who, whom in pairs:
        if who == number:
            world.join(who, whom)


def each_once(world: World) -> None:
    """In one life: what a node had seen is forgotten with a crash."""
    for place in world.places:
        assert len(set(place.texts)) == len(place.texts), f"node {place.number} got an event twice"


@pytest.mark.req("EMC-12", "EMC-13")
@pytest.mark.parametrize("seed", range(12))
def test_every_event_everywhere_once_in_spite_of_duplicates_and_reordering(seed: int) -> None:
    world = World(NODES, seed, conditions=Conditions(duplication=0.3, delay_s=(0.001, 0.2)))
    world.link(*shapes(seed))
    world.run(2.0)
    random, published = Random(seed), dict[str, int]()  # noqa: S311 - not a secret
    for number in range(30):
        who = random.randrange(NODES)
        published[f"event {number}"] = who
        world.publish(who, f"event {number}", urgent=random.random() < 0.2)
        world.run(random.uniform(0, 0.1))
    world.run(5.0)
    each_once(world)
    for place in world.places:
        assert set(place.texts) == {text for text, who in published.items() if who != place.number}


@pytest.mark.req("EMC-11", "EMC-12", "EMC-13", "EMC-15")
@pytest.mark.parametrize("seed", range(6))
def test_trouble_of_all_kinds_and_then_peace(seed: int) -> None:
    world = World(
        NODES,
        seed,
        settings=Settings(heartbeat_interval_s=5),
        conditions=Conditions(loss=0.2, duplication=0.2, delay_s=(0.001, 2.0)),
    )
    pairs = shapes(seed)
    world.link(*pairs)
    random = Random(1000 + seed)  # noqa: S311 - not a secret
    for number in range(60):
        who = random.randrange(NODES)
        match random.randrange(6), world.places[who].is_up:
            case 0, True:
                world.crash(who)
            case 0 | 1, False:
                start_again(world, who, pairs)
            case 2, _:
                world.sever(*random.choice(pairs))
            case _, True:
                world.publish(who, f"event {number}")
            case _:
                pass
        world.run(random.uniform(0, 5))
        each_once(world)
    world.heal()
    world.conditions.loss = 0
    for place in world.places:
        if not place.is_up:
            start_again(world, place.number, pairs)
    world.run(120)
    for a, b in pairs:
        assert b in world.places[a].neighbours and a in world.places[b].neighbours, (a, b)
    world.publish(0, "peace")
    world.run(10)
    assert [place.texts.count("peace") for place in world.places] == [0] + [1] * (NODES - 1)


def test_the_same_seed_gives_the_same_story() -> None:
    def story() -> list[tuple[int, int, bytes]]:
        world = World(5, 7, conditions=Conditions(loss=0.3, delay_s=(0.0, 1.0)))
        world.link(*ring_pairs(5))
        world.publish(2, "x")
        world.run(30)
        return [(source, target, outgoing.data) for source, target, outgoing in world.wire]

    assert story() == story()
