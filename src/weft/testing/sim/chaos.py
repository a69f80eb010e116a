"""One seed's worth of trouble: a mesh of random shape and size, a random mix of faults, and the final check. Some seeds
are calm, some are hell. All heal in the end, and then everything that was promised must be true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from weft.core.groups import GroupSettings
from weft.core.messages import Edge, FromTime, Start
from weft.core.policy import GroupPolicy
from weft.log.retention import RetentionRule
from weft.membership import suspicion_timeout_s
from weft.model import NodeId, Position, Topic, matches, parse_node_id, parse_pattern, parse_topic
from weft.testing.sim.epilogue import Epilogue
from weft.testing.sim.group_members import GroupBook, Member
from weft.testing.sim.hand_members import HandBook, HandMember
from weft.testing.sim.kv import SimKvClient
from weft.testing.sim.later import SimLaterClient
from weft.testing.sim.network import Conditions
from weft.testing.sim.node import LAG_S_MAX, SimNode
from weft.testing.sim.plain_peers import PlainPeer
from weft.testing.sim.publishers import SimPublisher
from weft.testing.sim.requests import TOPICS as ASKED_TOPICS
from weft.testing.sim.requests import SimAsker, SimServer
from weft.testing.sim.schedule import chance_of
from weft.testing.sim.subscribers import SimSubscriber
from weft.testing.sim.world import MEMBERSHIP, PAST_TIMEOUT_S, Hardware, World
from weft.transport.peers.settings import DropPolicy

# Topics whose names begin with "old" are subject to retention, "keyed" to compaction; "safe" asks for copies.
TOPICS: Final = tuple(
    map(
        parse_topic,
        ("plant.line1.temp", "plant.line2.temp", "plant.line2.state", "old.news", "keyed.state", "safe.order"),
    )
)
PATTERNS: Final = tuple(
    map(parse_pattern, (">", "plant.>", "plant.*.temp", "plant.line2.*", "old.>", "keyed.state", "safe.*", "*.news"))
)
HAND_PATTERNS: Final = tuple(map(parse_pattern, (">", "plant.>", "plant.*.temp", "safe.*")))
HANDS_SHARE: Final = 0.34
REQUESTS_SHARE: Final = 0.34
COMPACTED: Final = parse_pattern("keyed.>")
RETENTION: Final = (RetentionRule(parse_pattern("old.>"), stream_bytes_max=1500),)
LIARS_TOPIC: Final = Topic("weft.liar")  # what they publish themselves: nobody wants it
REST_S: Final = 1.0  # in which everybody acts on what they have last heard
EXPIRE_AFTER_S: Final = (100.0, *(5 * (GroupSettings().expire_after_s,)))  # twice what clocks and cuts come to
IDLE: Final = "idle"  # a group that is moved once, and used by nobody
PAUSE_S_MAX: Final = 3.0  # between two troubles: some are over before the next one, some are not

SHAPES: Final[dict[str, Callable[[Random, list[NodeId]], list[NodeId]]]] = {
    # Whom a node dials that comes after these. A ring is closed by the last one.
    "chain": lambda _, before: before[-1:],
    "ring": lambda _, before: before[-1:],
    "star": lambda _, before: before[:1],
    "tree": lambda chance, before: chance.sample(before, min(len(before), 1)),
    "random": lambda chance, before: chance.sample(before, min(len(before), 2)),
    "full": lambda _, before: before[-6:],
}


@dataclass(frozen=True, slots=True)
class Mix:
    """What a seed is made of."""

    nodes: int
    shape: str
    hardware: Hardware
    conditions: Conditions
    troubles: int
    kinds: tuple[str, ...]  # of trouble
    publishers: int
    batches: int
    publish_s: float  # how long it takes to publish them
    tidy_s: float  # between rounds of retention and compaction; 0: there are none
    subscribers: int
    groups: int
    kv_clients: int  # that write and read keys
    later_clients: int  # that publish for later
    plain_peers: int
    mutual: float  # how often both of two nodes have the other's address, and dial
    latecomers: int  # subscribers that come when others have been there for long
    only_new: bool  # all others begin with new events
    liars: int = 0
    hands: bool = True  # a third of the seeds has groups that settle by hand
    requests: bool = True  # a third of the seeds has clients that ask and serve

    @property
    def expires(self) -> bool:
        """Groups that nobody uses are forgotten before the end."""
        return self.hardware.expire_after_s == EXPIRE_AFTER_S[0]

    @property
    def is_prompt(self) -> bool:
        """Nothing breaks, and what a node says is heard everywhere in less time than members of groups listen for."""
        is_quick = self.hardware.sync_s_max <= 0.01 and self.conditions.delay_s_max <= 0.01
        return is_quick and not self.troubles and not self.liars


def draw(seed: int, *, large: bool) -> Mix:
    chance, dice = chance_of(seed, "mix"), chance_of(seed, "links")
    kinds = chance.sample(list(TROUBLES), chance.randint(2, 7))
    return Mix(
        nodes=chance.randint(8, 30) if large else chance.choice([3, 3, 4, 4, 5, 6]),
        shape=chance.choice(list(SHAPES)),
        hardware=Hardware(
            drift=chance.choice([0.0, 0.05]),
            skew_s=chance.choice([0.0, 0.5, 30.0]),
            sync_s_max=chance.choice([0.004, 0.004, 0.1, 1.0]),
            window_bytes=chance.choice([2_000, 16_000, 1_000_000]),
            settle_s=dice.choice([0.05, 5.0]),
            inline=dice.random() < 0.5,
            queue_frames_max=dice.choice([16, 64, 8192]),
            send_timeout_s=dice.choice([0.0, 0.3, 1.0]),
            drop_policy=dice.choice(list(DropPolicy)),
            patterns_max=chance_of(seed, "interest").choice([1, 224]),
            expire_after_s=chance_of(seed, "groups").choice(EXPIRE_AFTER_S),
        ),
        conditions=Conditions(
            delay_s_max=chance.choice([0.005, 0.05, 0.5]),
            loss=chance.choice([0.0, 0.0, 0.05, 0.2]),
            duplication=chance.choice([0.0, 0.1]),
            reordering=chance.choice([0.0, 0.3]),
            silent=chance.choice([0.0, 0.5, 1.0]),
            window_bytes=dice.choice([1_000, 64_000]),
        ),
        troubles=chance.choice([0, 4, 8, 12]),
        kinds=tuple(kinds),
        publishers=chance.randint(1, 3),
        batches=chance.choice([10, 20, 40]),
        publish_s=chance.choice([0.5, 15.0, 25.0]),
        tidy_s=chance.choice([0.0, 0.0, 1.0, 3.0]),
        subscribers=chance.randint(1, 4),
        groups=chance.choice([0, 1, 1, 2]),
        kv_clients=chance_of(seed, "kv").choice([0, 1, 2, 3]),
        later_clients=chance_of(seed, "later").choice([0, 0, 1, 2]),
        plain_peers=chance.choice([0, 0, 0, 1, 2]),
        mutual=dice.choice([0.0, 0.5, 1.0]),
        latecomers=chance_of(seed, "late").choice([0, 1, 2, 3]),
        only_new=chance_of(seed, "new").random() < 0.4,
    )


def with_liars(mix: Mix, seed: int) -> Mix:
    """The same with nodes that lie, and without what would let them: all honest nodes are linked, and stay so. Where
    the way to an origin breaks, others are believed what they bring of it."""
    chance = chance_of(seed, "liars")
    return replace(
        mix,
        nodes=chance.randint(2, 5),
        shape="full",
        conditions=Conditions(delay_s_max=0.05, duplication=mix.conditions.duplication),
        troubles=max(mix.troubles, 4),  # as long as they last, there is time to lie
        kinds=HARMLESS,
        plain_peers=0,
        liars=chance.choice([1, 1, 2]),
    )


# --- a run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trouble:
    """One trouble of a seed, as it happened. ``chance``: the state of its random generator."""

    number: int
    kind: str
    chance: tuple[Any, ...]


@dataclass(slots=True)
class Record:
    """What a run leaves for those that replay a part of it."""

    troubles: list[Trouble] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


def run(
    seed: int,
    *,
    large: bool = False,
    liars: bool = False,
    traces: bool = False,
    on_line: Callable[[str], None] | None = None,
    simplify: Callable[[Mix], Mix] = lambda mix: mix,
    replayed: Sequence[Trouble] | None = None,
    record: Record | None = None,
) -> World:
    """Trouble, healing, and the check that all is well.

    ``replayed``: these troubles instead of those of the seed. ``simplify``: what the seed is made of, made simpler.

    A Violation says what was broken. It, and whatever else is raised, gets a note with the seed and what it is made of.
    """
    mix = draw(seed, large=large)
    if liars:
        mix = with_liars(mix, seed)
    mix = simplify(mix)
    world = World(seed, mix.hardware, traces=traces)
    world.schedule.trace.on_line = on_line
    world.schedule.story = None if record is None else record.story
    try:
        _live_through(world, mix, chance_of(seed, "troubles"), replayed, record or Record())
    except Exception as error:
        error.add_note(f"seed {seed} at {world.schedule.now_s:.3f} s: {mix}")
        raise
    finally:
        world.close()
    return world


def _live_through(world: World, mix: Mix, chance: Random, replayed: Sequence[Trouble] | None, record: Record) -> None:
    world.schedule.note("chaos", mix)
    _build(world, mix, chance)
    world.schedule.run(chance.uniform(0.0, 3.0))
    if mix.liars:
        _let_in_liars(world, mix, chance)
    world.network.conditions = mix.conditions
    _trouble(world, mix, chance, replayed, record)
    for liar in world.liars:
        liar.stop()
    _heal(world, chance)
    patience_s = _patience_s(len(world.nodes))
    if world.truth.lost or any(node.retired for node in world.nodes.values()):
        patience_s += PAST_TIMEOUT_S  # what they alone had is waited for
    world.run_until(world.unfinished, patience_s)
    world.schedule.run(REST_S)
    for book in world.groups:
        book.at_rest = True
    world.run_until(world.unfinished, patience_s)
    Epilogue(world).perform(patience_s)
    _ask_at_rest(world, patience_s)
    if mix.expires:
        world.run_until(lambda: world.remembered(IDLE), 2 * mix.hardware.expire_after_s)
        world.run_until(world.unfinished, patience_s)
    world.check_logs()


def _trouble(world: World, mix: Mix, chance: Random, replayed: Sequence[Trouble] | None, record: Record) -> None:
    for number in range(mix.troubles) if replayed is None else ():
        kind = chance.choice(mix.kinds)
        trouble = Trouble(number, kind, chance.getstate())
        record.troubles.append(trouble)
        _happen(world, trouble, chance)
    for trouble in replayed or ():
        chance.setstate(trouble.chance)
        _happen(world, trouble, chance)


def _happen(world: World, trouble: Trouble, chance: Random) -> None:
    world.schedule.tell("trouble", f"{trouble.number}: {trouble.kind}")
    TROUBLES[trouble.kind](world, chance)
    world.schedule.run(chance.uniform(0.0, PAUSE_S_MAX))


def _build(world: World, mix: Mix, chance: Random) -> None:
    names = [parse_node_id(f"n{number:02d}") for number in range(mix.nodes)]
    for name, seeds in _seeds(mix, names, chance).items():
        node = world.add_node(name, seeds)
        world.schedule.at(chance.uniform(0.0, 1.0), partial(_start_again, world, node))
        if mix.tidy_s:
            _tidy(world, node, mix.tidy_s)
    nodes = list(world.nodes.values())
    topics = chance.sample(TOPICS, chance.randint(1, 4))
    for number in range(mix.publishers):
        publisher = SimPublisher(f"p{number}", world.desk, nodes, topics, mix.batches)
        world.publishers.append(publisher)
        world.schedule.at(chance.uniform(0.0, 4.0), partial(publisher.run, mix.publish_s / mix.batches))
    for number in range(mix.subscribers):
        start = chance.choice([Edge.EARLIEST, Edge.EARLIEST, Edge.LATEST])
        start = Edge.LATEST if mix.only_new else start
        subscriber = SimSubscriber(f"s{number}", world.desk, nodes, chance.choice(PATTERNS), start)
        subscriber.slow_s = chance.choice([0.01, 0.01, 1.0])
        world.subscribers.append(subscriber)
        world.schedule.at(chance.uniform(0.0, 12.0), subscriber.connect)
    _build_latecomers(world, mix, nodes)
    for number in range(mix.kv_clients):
        client = SimKvClient(f"k{number}", world.schedule, chance_of(world.seed, f"kv{number}"), nodes, world.kv)
        world.kv_clients.append(client)
        world.schedule.at(chance_of(world.seed, f"kv start {number}").uniform(0.0, 4.0), client.run)
    for number in range(mix.later_clients):
        dice = chance_of(world.seed, f"later{number}")
        later = SimLaterClient(f"l{number}", world.schedule, dice, nodes, topics, world.later)
        world.later_clients.append(later)
        world.schedule.at(dice.uniform(0.0, 4.0), later.run)
    for number in range(mix.groups):
        book = GroupBook(f"g{number}", chance.choice(PATTERNS), world.truth)
        world.groups.append(book)
        for place in range(chance.randint(1, 3)):
            member = Member(f"g{number}m{place}", world.desk, nodes, book)
            world.schedule.at(chance.uniform(0.0, 12.0), member.connect)
    _build_hands(world, mix, nodes)
    _build_requests(world, mix, nodes)
    _end_groups(world, mix)
    for number in range(mix.plain_peers):
        peer_id = parse_node_id(f"x{number}")
        home, events, dice = chance.choice(nodes), chance.randint(0, 20), chance_of(world.seed, peer_id)
        peer = PlainPeer(peer_id, home, events, world.schedule, world.network, world.desk.chance, dice, world.truth)
        world.desk.plain[peer_id] = peer
        world.schedule.at(chance.uniform(0.0, 6.0), peer.run)


def _build_latecomers(world: World, mix: Mix, nodes: list[SimNode]) -> None:
    """Subscribers that come when others have long been there, and want everything, what is new, or what is not too old.
    What came before is then at some nodes only."""
    chance = chance_of(world.seed, "latecomers")
    for number in range(mix.latecomers):
        since_us = chance.choice(nodes).clock.wall_us(chance.uniform(0.0, 30.0))
        starts: list[Start] = [Edge.EARLIEST, Edge.LATEST, FromTime(since_us)]
        start = chance.choice(starts)
        subscriber = SimSubscriber(f"l{number}", world.desk, nodes, chance.choice(PATTERNS), start)
        world.subscribers.append(subscriber)
        world.schedule.at(chance.uniform(6.0, 36.0), subscriber.connect)


def _let_in_liars(world: World, mix: Mix, chance: Random) -> None:
    """Once everybody knows everybody: a node that does not know the way to another believes any node that names one."""
    nodes = list(world.nodes.values())
    world.run_until(lambda: _unlinked(nodes) or world.disagreement(), _patience_s(len(nodes)), step_s=0.5)
    for number in range(mix.liars):
        peers = chance.sample(nodes, chance.randint(1, len(nodes)))
        world.add_liar(f"liar{number}", peers, [LIARS_TOPIC]).run()


def _unlinked(nodes: list[SimNode]) -> str:
    """Who has no link yet to one of the others."""
    names = {node.node_id for node in nodes}
    lonely = (node.node_id for node in nodes if not node.running or names - {node.node_id} - node.peers)
    return "".join(f"{name} is not linked to everybody" for name in list(lonely)[:1])


def _build_hands(world: World, mix: Mix, nodes: list[SimNode]) -> None:
    """In every third seed, a group whose members settle event by event."""
    chance = chance_of(world.seed, "hands")
    if chance.random() > HANDS_SHARE or not mix.hands:
        return
    policy = GroupPolicy(
        max_deliveries=chance.choice([1, 2, 4]),
        retry_s_min=chance.choice([0.0, 0.5]),
        retry_s_max=2.0,
        in_order=chance.random() < 0.5,
    )
    book = HandBook("hands", chance.choice(HAND_PATTERNS), world.truth, policy, prompt=mix.is_prompt)
    world.groups.append(book)
    for place in range(chance.randint(1, 3)):
        member = HandMember(f"h{place}", world.desk, nodes, book)
        world.schedule.at(chance.uniform(0.0, 12.0), member.connect)


def _build_requests(world: World, mix: Mix, nodes: list[SimNode]) -> None:
    """In every third seed, clients that ask and serve."""
    chance = chance_of(world.seed, "requests")
    if chance.random() > REQUESTS_SHARE or not mix.requests:
        return
    for number in range(chance.randint(1, 3)):
        name = f"v{number}"
        server = SimServer(name, world.schedule, chance_of(world.seed, name), nodes, world.requests)
        world.servers.append(server)
        world.schedule.at(chance.uniform(0.0, 8.0), server.run)
    for number in range(chance.randint(1, 2)):
        name = f"q{number}"
        asker = SimAsker(name, world.schedule, chance_of(world.seed, name), nodes, world.requests)
        world.askers.append(asker)
        world.schedule.at(chance.uniform(0.0, 8.0), asker.run)


def _ask_at_rest(world: World, patience_s: float) -> None:
    """In a mesh at rest, every request to a topic that somebody serves is answered, wherever it is asked."""
    if not world.askers:
        return
    for server in world.servers:
        server.reliable = True
    world.run_until(lambda: _unserved(world) or world.unfinished(), patience_s)
    world.schedule.run(REST_S)
    world.requests.at_rest = True
    for node in world.running:
        for topic in ASKED_TOPICS:
            if any(matches(server.pattern, topic) for server in world.servers):
                world.askers[0].ask(node, topic, timeout_s=patience_s)
    world.run_until(lambda: world.requests.waiting(world.schedule.now_s), patience_s)


def _unserved(world: World) -> str:
    return "".join(f"{server.name} serves nowhere" for server in world.servers if not server.serves)


def _end_groups(world: World, mix: Mix) -> None:
    """Some groups are dropped, and one is used only once, if it can be forgotten."""
    dice = chance_of(world.seed, "ends of groups")
    for book in world.groups:
        if dice.random() < 0.25:
            world.schedule.at(dice.uniform(4.0, 40.0), partial(_drop, world, book, dice))
    if mix.expires:
        world.schedule.at(dice.uniform(2.0, 12.0), partial(_use_once, world, dice))


def _drop(world: World, book: GroupBook, dice: Random) -> None:
    book.drop(world.desk, _some_node(world, dice))


def _use_once(world: World, dice: Random) -> None:
    node = _some_node(world, dice)
    places = node.log.streams() if node.running else []
    if places:
        where = Position(places[0].stream, places[0].epoch, places[0].start)
        session = world.desk.connect(node, lambda: None)
        session.move_group(IDLE, (where,), lambda _: world.desk.close(session))


def _seeds(mix: Mix, names: list[NodeId], chance: Random) -> dict[NodeId, list[NodeId]]:
    """Whom each node dials."""
    found: dict[NodeId, list[NodeId]] = {}
    for number, name in enumerate(names):
        found[name] = SHAPES[mix.shape](chance, names[:number])
        if mix.shape == "ring" and number == mix.nodes - 1:
            found[name] = [*found[name], names[0]]
    for name in names:
        for seed in list(found[name]):
            if seed < name and chance.random() < mix.mutual:
                found[seed].append(name)
    return found


def _tidy(world: World, node: SimNode, pause_s: float) -> None:
    """One round ends a segment, the next one may take it."""
    node.maintain(RETENTION, COMPACTED)
    world.schedule.at(pause_s, partial(_tidy, world, node, pause_s))


def _heal(world: World, chance: Random) -> None:
    """No more faults: every link is available, every disk has room, and every node runs; but some never come back."""
    world.schedule.tell("chaos", "all heals")
    world.network.heal()
    for node in world.nodes.values():
        node.make_room()
        node.disk.store.worn_out = False
        node.set_lag(LAG_S_MAX)
        node.disk.sync_s_max = min(node.disk.sync_s_max, 0.05)
        node.retired = not node.running and node.life > 0 and chance.random() < 0.3 and _can_go(world, node)
        if not node.retired:
            _start_again(world, node)
    for subscriber in world.subscribers:
        subscriber.slow_s = 0.01


def _can_go(world: World, node: SimNode) -> bool:
    """Whether the others are still one mesh without it, by the addresses that they were given."""
    if any(peer.node is node for peer in world.desk.plain.values()):
        return False  # it knows no other
    alive = sorted(name for name, each in world.nodes.items() if not each.retired and each is not node)
    found, left = alive[:1], set(alive[1:])
    while found:
        name = found.pop()
        near = {other for other in left if other in world.seeds[name] or name in world.seeds[other]}
        left -= near
        found += sorted(near)
    return not left and bool(alive)


def _patience_s(nodes: int) -> float:
    """How long the mesh may take until all nodes know everything and all events are where they must be."""
    suspicion_s = suspicion_timeout_s(nodes, MEMBERSHIP.suspicion_multiplier, MEMBERSHIP.probe_interval_s)
    return MEMBERSHIP.unreachable_s + 2 * suspicion_s + 30.0


# --- troubles --------------------------------------------------------------------------------------------------------


def _some_node(world: World, chance: Random) -> SimNode:
    """More often one where something is published: that is where there is something to lose."""
    nodes = list(world.nodes.values())
    homes = [publisher.home for publisher in world.publishers] or nodes
    return chance.choice(homes if chance.random() < 0.5 else nodes)


def _down(world: World, chance: Random, end: Callable[[SimNode], None], *, loses_disk: bool = False) -> None:
    node = _some_node(world, chance)
    if not node.running or (loses_disk and any(peer.node is node for peer in world.desk.plain.values())):
        return  # the document has no epochs: a plain peer would not know that its node has forgotten everything
    end(node)
    if loses_disk:
        node.lose_disk()
    world.schedule.at(chance.choice([0.2, 2.0, 12.0]) * (0.5 + chance.random()), partial(_start_again, world, node))


def _start_again(world: World, node: SimNode) -> None:
    """Once it is down."""
    if node.stopping or node.failed:
        world.schedule.at(0.5, partial(_start_again, world, node))
    elif not node.running and not node.retired:
        node.start()


def _flap(world: World, chance: Random) -> None:
    for edge in sorted(world.network.links):
        if chance.random() < 0.5:
            world.network.break_link(world.network.links[edge])


def _partition(world: World, chance: Random) -> None:
    names = sorted(world.nodes)
    side = set(chance.sample(names, chance.randint(1, len(names) - 1)))
    edges = [edge for edge in sorted(world.network.links) if len(side.intersection(edge)) == 1]
    world.schedule.tell("chaos", f"nothing gets through between {', '.join(sorted(side))} and the others")
    world.network.cut(edges)
    world.schedule.at(chance.choice([1.0, 5.0, 20.0]), partial(_join, world, edges))


def _join(world: World, edges: list[tuple[NodeId, NodeId]]) -> None:
    for edge in edges:
        world.network.links[edge].is_cut = False


def _slow_links(world: World, chance: Random) -> None:
    for edge in sorted(world.network.links):
        world.network.links[edge].slow_s = chance.choice([0.0, 0.05, 0.3])


def _stall(world: World, chance: Random) -> None:
    """Some links silently carry nothing for a while. After 15 to 20 s, missed heartbeats show it (PL-03)."""
    end_s = world.schedule.now_s + chance.choice([2.0, 25.0])
    for edge in sorted(world.network.links):
        if chance.random() < 0.3:
            world.network.links[edge].stalled_s = end_s


def _slow_disk(world: World, chance: Random) -> None:
    _some_node(world, chance).disk.sync_s_max = chance.choice([0.5, 3.0])


def _full_disk(world: World, chance: Random) -> None:
    node = _some_node(world, chance)
    if not node.running:
        return
    if chance.random() < 0.5:
        node.fill_disk()
    else:
        node.refuse_syncs()
    world.schedule.at(chance.uniform(0.5, 6.0), node.make_room)


def _worn_out_disk(world: World, chance: Random) -> None:
    """The next sync fails, the node says so and ends; it comes back with all that its disk had."""
    node = _some_node(world, chance)
    if node.running and not node.stopping:
        node.wear_out_disk()
        _start_again_until(world, node, node.life)


def _start_again_until(world: World, node: SimNode, life: int) -> None:
    """Make sure that a node that is about to fail comes back, whenever that is."""
    if node.life == life:
        if not node.running:
            _start_again(world, node)
        world.schedule.at(1.0, partial(_start_again_until, world, node, life))


def _busy_loop(world: World, chance: Random) -> None:
    """A node's loop learns late of what its threads have done."""
    _some_node(world, chance).set_lag(chance.choice([0.05, 0.5]))


class Client(Protocol):
    def disconnect(self) -> None: ...


def _clients_move(world: World, chance: Random) -> None:
    """Connections of clients break; they come back, most of them elsewhere."""
    members = [member for book in world.groups for member in book.members]
    clients: tuple[Client, ...] = (*world.publishers, *world.subscribers, *members, *world.desk.plain.values())
    for client in clients:
        if chance.random() < 0.5:
            client.disconnect()


def _move_groups(world: World, chance: Random) -> None:
    for book in world.groups:
        book.move_back(world.desk, _some_node(world, chance))


def _slow_client(world: World, chance: Random) -> None:
    for subscriber in world.subscribers:
        subscriber.slow_s = chance.choice([0.01, 3.0])


TROUBLES: Final[dict[str, Callable[[World, Random], None]]] = {
    "crash": partial(_down, end=SimNode.crash),
    "lost disk": partial(_down, end=SimNode.crash, loses_disk=True),
    "stop": partial(_down, end=SimNode.stop),
    "flap": _flap,
    "partition": _partition,
    "slow links": _slow_links,
    "stalled links": _stall,
    "slow disk": _slow_disk,
    "full disk": _full_disk,
    "worn out disk": _worn_out_disk,
    "busy loop": _busy_loop,
    "clients move": _clients_move,
    "slow clients": _slow_client,
    "move groups": _move_groups,
}

# Kinds of trouble in which no link breaks and no node ends.
HARMLESS: Final = ("slow links", "slow disk", "full disk", "busy loop", "clients move", "slow clients", "move groups")
