"""Many seeds of trouble, after which all must be well. A failure names its seed; ``chaos.run(seed)`` replays it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.membership import chaos
from tests.membership.world import Faults, World, edge_of
from weft.membership import Effect, Liveness, MemberChanged, SetInterest, Settings, suspicion_timeout_s
from weft.model import NodeId, Pattern

SEEDS = 200
CHUNK = 25  # of seeds in one test, so that workers can share them


def watch_deaths(world: World) -> list[tuple[NodeId, NodeId]]:
    """Who declares whom dead, from now on."""
    deaths: list[tuple[NodeId, NodeId]] = []

    def watch(observer: NodeId, effect: Effect) -> None:
        match effect:
            case MemberChanged(before, after) if after.liveness.gone and (before is None or not before.liveness.gone):
                deaths.append((observer, after.node_id))

    world.on_effect = watch
    return deaths


@pytest.mark.req("MSH-05")
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_after_healing_everybody_knows_the_same_and_it_is_true(first: int) -> None:
    """Interest and links of every live node, with whatever crashed, returned, left, changed or was cut before.

    No live node stays declared dead, no crashed one stays alive, and no message was too large.
    """
    for seed in range(first, first + CHUNK):
        chaos.run(seed)


@pytest.mark.parametrize("seed", [3, 8])
def test_a_seed_replays_exactly(seed: int) -> None:
    one, other = (chaos.run(seed, traces=True) for _ in range(2))
    assert one.trace
    assert (one.trace, one.now_s, one.traffic) == (other.trace, other.now_s, other.traffic)


def test_a_failing_seed_names_itself() -> None:
    world = World(4711, Settings())
    world.start("a")
    with pytest.raises(AssertionError, match="seed 4711"):
        world.run_until(lambda: False, limit_s=2.0)


@pytest.mark.parametrize("topology", chaos.TOPOLOGIES)
@pytest.mark.parametrize("silent", [0.0, 1.0])
def test_a_crashed_node_is_dead_everywhere_within_a_bound(topology: str, silent: float) -> None:
    """Also if no connection says that it broke. Nobody else is declared dead meanwhile."""
    size = 8
    world = World(5, Settings(), Faults(loss=0.02, silent=silent))
    chaos.build(world, size, topology)
    world.run_until(world.agrees, 20.0)
    victim = NodeId(f"n{size - 1:03d}")  # the mesh holds together without it
    deaths = watch_deaths(world)
    world.crash(victim)
    settings = world.settings
    suspicion_s = suspicion_timeout_s(size, settings.suspicion_multiplier, settings.probe_interval_s)
    degree = size - 1  # a peer is probed once in as many periods as there are links
    bound_s = (degree + 1) * settings.probe_interval_s + suspicion_s + 3.0
    world.run_until(lambda: all(world.liveness(node, victim) is Liveness.DEAD for node in world.running), bound_s)
    assert {subject for _, subject in deaths} == {victim}


@pytest.mark.req("MSH-05")
def test_a_restarted_node_rebuilds_all_it_knew_from_gossip() -> None:
    """From one address and nothing else; it takes a second or two for 60 nodes."""
    world = World(6, Settings())
    chaos.build(world, 60, "random")
    for node_id in world.running:
        world.tell(node_id, SetInterest((Pattern(f"{node_id}.>"),)))
    world.run(5.0)
    before = {node_id: state.interest for node_id, state in world.view(NodeId("n059")).items()}
    world.crash(NodeId("n059"))
    world.run(2.0)
    node_id = world.start("n059", ["n000:1"])
    world.run(2.0)
    after = {key: state.interest for key, state in world.view(node_id).items() if key != node_id}
    assert after == {key: interest for key, interest in before.items() if key != node_id}
    assert len(after) == 59


@pytest.mark.req("MSH-05")
@pytest.mark.parametrize(
    ("topology", "bound_s"), [("random", 1.0), ("full", 1.0), ("tree", 1.5), ("star", 2.0), ("chain", 4.0)]
)
def test_a_new_subscription_is_known_everywhere_soon(topology: str, bound_s: float) -> None:
    """In a few spread delays per hop; a hub tells some at once and the others when they next ask."""
    world = World(7, Settings())
    chaos.build(world, 40, topology)
    world.run(5.0)
    assert world.agrees()
    world.tell(NodeId("n020"), SetInterest((Pattern("plant.>"),)))
    world.run_until(world.agrees, bound_s, step_s=0.05)


@dataclass(frozen=True)
class Cost:
    """At rest, per node; and how long a change of interest takes to be known everywhere."""

    messages: float
    bytes: float
    known_s: float


def cost_of(size: int) -> Cost:
    world = World(8, Settings())
    chaos.build(world, size, "random")
    world.run(5.0)
    assert world.agrees()
    messages, transferred = world.traffic.messages, world.traffic.bytes
    world.run(5.0)
    at_rest = (world.traffic.messages - messages) / size, (world.traffic.bytes - transferred) / size
    world.tell(world.running[size // 2], SetInterest((Pattern("plant.>"),)))
    return Cost(*at_rest, world.run_until(world.agrees, 60.0, step_s=0.02))


@pytest.mark.req("NFR-03")
def test_the_cost_of_a_node_does_not_grow_with_the_mesh() -> None:
    """From 64 to 256 nodes, four times as many: neither messages nor bytes of a node at rest grow by a quarter, and a
    change, which doubles those who know it with every hop, takes two more hops and not four times as long.

    ``make sim`` holds 1,000 nodes to bounds, by ``bench/gossip.py``.
    """
    small, large = cost_of(64), cost_of(256)
    assert large.messages < 1.25 * small.messages
    assert large.bytes < 1.25 * small.bytes
    assert large.known_s < 2.0 * small.known_s and large.known_s < 1.0


def test_one_node_that_was_cut_off_does_not_take_down_the_mesh() -> None:
    """It comes back and thinks everybody dead. Nobody believes it, and everybody refutes."""
    world = World(9, Settings(unreachable_s=10.0))
    chaos.build(world, 8, "random")
    world.run(3.0)
    loner = NodeId("n007")
    world.cut_edges([edge_of(loner, other) for other in world.nodes])
    world.run(60.0)
    assert set(world.view(loner)) == {loner}
    deaths = watch_deaths(world)
    world.cut.clear()
    world.run_until(world.agrees, 15.0)
    assert deaths == []
