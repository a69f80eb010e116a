"""One seed's worth of trouble: a random mesh in which nodes crash, return, leave and change, and links break."""

from __future__ import annotations

from collections.abc import Callable

from tests.membership.world import Faults, World
from weft.membership import Leave, SetInterest, Settings, suspicion_timeout_s
from weft.model import NodeId, Pattern

SETTINGS = Settings(unreachable_s=15.0, dead_retention_s=12.0)
PAUSE_S_MAX = 10.0  # between two troubles: some heal before the next one, some do not
LARGE_EVERY = 40  # one seed in so many has up to 60 nodes; it costs as much as twenty others

TOPOLOGIES: dict[str, Callable[[World, list[str], int], list[str]]] = {
    "chain": lambda _world, names, i: names[i - 1 : i],
    "ring": lambda _world, names, i: names[i - 1 : i] + (names[:1] if i == len(names) - 1 else []),
    "star": lambda _world, names, i: names[: min(i, 1)],
    "tree": lambda world, names, i: world.chance.sample(names[:i], min(i, 1)),
    "random": lambda world, names, i: world.chance.sample(names[:i], min(i, 3)),
    "full": lambda _world, names, i: names[:i] if len(names) <= 12 else names[max(0, i - 6) : i],
}


def build(world: World, size: int, topology: str) -> None:
    """Start the nodes one after the other; each knows the addresses of those before it that it is to dial."""
    names = [f"n{number:03d}" for number in range(size)]
    for i, name in enumerate(names):
        world.start(name, [f"{seed}:1" for seed in TOPOLOGIES[topology](world, names, i)])


def bound_s(size: int) -> float:
    """Until everything is known to everybody once faults are over.

    A suspicion may begin when a node has been out of reach for long enough, has to run out, and may have to run out
    again at a node that heard only its end; some seconds are for redialling and for missing a few messages.
    """
    settings = SETTINGS
    suspicion_s = suspicion_timeout_s(size, settings.suspicion_multiplier, settings.probe_interval_s)
    return settings.unreachable_s + 2 * suspicion_s + 15.0


def run(seed: int, *, traces: bool = False) -> World:
    """Trouble, healing, and the check that all is well; an AssertionError names the seed."""
    world = World(seed, SETTINGS)
    world.traces = traces
    chance = world.chance
    size = chance.randint(3, 7) if seed % LARGE_EVERY else chance.randint(10, 60)
    build(world, size, chance.choice(list(TOPOLOGIES)))
    world.run(chance.uniform(0.0, 3.0))
    world.faults = Faults(
        loss=chance.choice([0.0, 0.05, 0.3 if size < 8 else 0.1]),
        duplication=chance.choice([0.0, 0.1]),
        delay_s_max=chance.choice([0.02, 0.3]),
        silent=chance.choice([0.0, 0.5, 1.0]),
    )
    for _ in range(chance.randint(2, 6)):
        _trouble(world)
        world.run(chance.uniform(0.0, PAUSE_S_MAX))
    heal(world)
    world.run_until(world.agrees, bound_s(size))
    return world


def _trouble(world: World) -> None:
    chance = world.chance
    node_id = chance.choice(list(world.nodes))
    if not world.nodes[node_id].running:
        restart(world, node_id)
        return
    match chance.choice(["change", "change", "crash", "crash", "leave", "cut", "partition", "flap"]):
        case "change":
            world.tell(node_id, SetInterest((Pattern(f"plant.line{chance.randrange(9)}.>"),)))
        case "crash":
            world.crash(node_id)
        case "leave":
            world.tell(node_id, Leave())
        case "cut":
            world.cut_edges(edge for edge in world.edges if node_id in edge)
        case "partition":
            side = set(chance.sample(sorted(world.nodes), len(world.nodes) // 2))
            world.cut_edges(edge for edge in world.edges if len(side.intersection(edge)) == 1)
        case "flap":
            for edge in [edge for edge, up in world.edges.items() if up and node_id in edge]:
                world.drop_link(edge)
        case other:
            raise AssertionError(f"no such trouble: {other}")


def restart(world: World, node_id: NodeId) -> None:
    """With its disk, or without: then its incarnation comes from the clock, and its log begins a new epoch."""
    before = world.nodes[node_id].members.own
    if world.chance.random() < 0.5:
        world.start(node_id, epoch=before.epoch)
    else:
        world.start(node_id, incarnation=1000 + int(world.now_s * 1000), epoch=before.epoch + 1)


def heal(world: World) -> None:
    """No more faults. Of the nodes that are down, those without whom the mesh would be in pieces are started again."""
    world.faults = Faults()
    world.cut.clear()
    for node_id in list(world.nodes):
        if not world.nodes[node_id].running and not world.connected(world.running):
            restart(world, node_id)
