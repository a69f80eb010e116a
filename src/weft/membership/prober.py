"""Finds out whether a peer is alive: first it gets a ping, then others are asked to ping it, then it is suspected.

Only peers with a link, or whose link broke a moment ago, are probed: a mesh need not be fully connected, and every node
has at least one neighbour to watch it. Helpers are peers that say that they have a link to the target.

    DIRECT --timeout--> INDIRECT --timeout--> failed        a pong ends it in either phase
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.chance import Chance, some
from weft.membership.messages import Ping, PingFor, Pong, Send
from weft.membership.settings import Settings
from weft.model import NodeId

PROBE_RELAYS_MAX: Final = 1024  # unanswered pings for others; further requests are ignored


Helpers: TypeAlias = Callable[[NodeId], list[NodeId]]


@dataclass(frozen=True, slots=True)
class Probe:
    """``ask_s``: when to ask others; None: they have been asked. ``fail_s``: when to give up."""

    target: NodeId
    ask_s: float | None
    fail_s: float


@dataclass(frozen=True, slots=True)
class Relay:
    """A ping that this node sends for another one, under a sequence of its own."""

    asker: NodeId
    sequence: int
    target: NodeId
    expire_s: float


class Prober:
    """``helpers`` names the peers that could ping a target."""

    def __init__(self, settings: Settings, chance: Chance, helpers: Helpers) -> None:
        self._settings = settings
        self._chance = chance
        self._helpers = helpers
        self._sequence = 0
        self._turn: list[NodeId] = []  # peers to be probed, the next one at the end
        self._probes: dict[int, Probe] = {}
        self._relays: dict[int, Relay] = {}

    def get_timer(self) -> float | None:
        return min((_due_s(probe) for probe in self._probes.values()), default=None)

    def begin(self, peers: list[NodeId], now_s: float) -> list[Send]:
        """Probe the next of these peers. Each is probed once before any is probed twice, in a random order."""
        still = frozenset(peers)
        turn = [peer for peer in self._turn if peer in still]
        if not turn:
            turn = list(peers)
            self._chance.shuffle(turn)
        self._turn = turn
        self._relays = {number: relay for number, relay in self._relays.items() if relay.expire_s > now_s}
        if not turn:
            return []
        target = turn.pop()
        settings = self._settings
        probe = Probe(target, now_s + settings.probe_timeout_s, now_s + settings.probe_interval_s)
        return [Send(target, Ping(self._remember(probe)))]

    def lost(self, target: NodeId, now_s: float) -> list[Send]:
        """The link to the target broke, so ask others whether it is alive."""
        self.found(target)
        probe = Probe(target, None, now_s + self._settings.probe_interval_s)
        return self._ask(self._remember(probe), target)

    def found(self, target: NodeId) -> None:
        """Stop probing a node: it is known to be alive, or gone for good."""
        for number in [number for number, probe in self._probes.items() if probe.target == target]:
            del self._probes[number]

    def on_time(self, now_s: float) -> tuple[list[Send], list[NodeId]]:
        """Return what to send next, and which nodes have failed to answer."""
        sends: list[Send] = []
        failed: list[NodeId] = []
        for number, probe in list(self._probes.items()):
            if probe.fail_s <= now_s:
                del self._probes[number]
                failed.append(probe.target)
            elif probe.ask_s is not None and probe.ask_s <= now_s:
                self._probes[number] = Probe(probe.target, None, probe.fail_s)
                sends += self._ask(number, probe.target)
        return sends, failed

    def on_pong(self, peer: NodeId, pong: Pong) -> list[Send]:
        relay = self._relays.get(pong.sequence)
        if relay is not None and relay.target == peer == pong.node_id:
            del self._relays[pong.sequence]
            return [Send(relay.asker, Pong(relay.sequence, pong.node_id, pong.incarnation))]
        probe = self._probes.get(pong.sequence)
        if probe is not None and probe.target == pong.node_id:
            del self._probes[pong.sequence]
        return []

    def on_ping_for(self, peer: NodeId, request: PingFor, *, linked: bool, now_s: float) -> list[Send]:
        """Ping a node for a peer, if there is a link to that node. The peer asks several nodes, so there need not be an
        answer."""
        if not linked or len(self._relays) >= PROBE_RELAYS_MAX:
            return []
        self._sequence += 1
        expire_s = now_s + self._settings.probe_interval_s
        self._relays[self._sequence] = Relay(peer, request.sequence, request.target, expire_s)
        return [Send(request.target, Ping(self._sequence))]

    def _remember(self, probe: Probe) -> int:
        self._sequence += 1
        self._probes[self._sequence] = probe
        return self._sequence

    def _ask(self, number: int, target: NodeId) -> list[Send]:
        helpers = some(self._chance, self._helpers(target), self._settings.probe_helpers)
        return [Send(helper, PingFor(number, target)) for helper in helpers]


def _due_s(probe: Probe) -> float:
    return probe.fail_s if probe.ask_s is None else probe.ask_s
