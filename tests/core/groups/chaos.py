"""Random trouble for a simulated mesh of groups, from one seed."""

from __future__ import annotations

from tests.core.groups.world import SETTINGS, Faults, World
from weft.core.groups import GroupSettings
from weft.core.messages import StreamKey
from weft.model import Epoch, Stream, Topic

STEPS = 40
PATTERNS = ("plant.>", "plant.>", "plant.*.temp", "office.>")
TOPICS = ("plant.a.temp", "plant.a.load", "plant.b.temp", "office.door", "weft.groups.other")


def make(seed: int, faults: Faults | None = None, settings: GroupSettings = SETTINGS) -> World:
    world = World(seed, faults, settings)
    for number in range(world.chance.randint(2, 5)):
        world.start(f"n{number}")
    for topic in TOPICS:
        for origin in list(world.nodes)[:2]:
            world.learn((Stream(Topic(topic), origin, world.chance.randrange(2)), Epoch(1)))
    return world


def step(world: World, *, deaths: bool, partitions: bool, moves: bool) -> None:
    """One thing happens, if it can."""
    chance = world.chance
    up = [node.node_id for node in world.live()]
    down = [node_id for node_id, node in world.nodes.items() if not node.up]
    members = [number for node in world.live() for number in node.clients]
    match chance.randrange(10):
        case 0 | 1 | 2:
            world.join(chance.choice(up), chance.choice(["", *"abcdefgh"]), chance.choice(PATTERNS))
        case 3 | 4 if members:
            world.leave(chance.choice(members))
        case 5 if deaths and len(up) > 1:
            world.kill(chance.choice(up))
        case 6 if deaths and down:
            world.restart(chance.choice(down), lost_disk=chance.random() < 0.3)
        case 7 if partitions and len(up) > 1:
            world.part(*chance.sample(up, 2))
        case 8 if partitions:
            world.heal()
        case 9 if moves:
            key = chance.choice([key for key in world.ends if not is_talk(key)])
            world.move(chance.choice(up), key, chance.randint(0, world.ends[key]))


def run(seed: int, *, deaths: bool = False, partitions: bool = False, moves: bool = False) -> World:
    """Trouble, then peace, then all must be well."""
    world = make(seed)
    for _ in range(STEPS):
        step(world, deaths=deaths, partitions=partitions, moves=moves)
        world.run(world.chance.choice((0.0, 0.05, 0.3, 2.0, 6.0)))
    world.heal()
    world.run(20.0)
    world.quiet = True
    world.run(40.0)
    try:
        world.check_settled()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return world


def is_talk(key: StreamKey) -> bool:
    return key[0].topic.startswith("weft.groups.")
