"""The membership of one node: inputs in, effects out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, assert_never

from weft.chance import Chance
from weft.errors import UsageError
from weft.limits import INCARNATION_MAX
from weft.membership.exchange import Exchange
from weft.membership.heartbeats import Heartbeats
from weft.membership.messages import (
    Dial,
    Effect,
    Gossip,
    GossipRefused,
    Health,
    HealthChanged,
    Heartbeat,
    Input,
    Leave,
    LinkDown,
    LinkUp,
    MemberChanged,
    MemberForgotten,
    Message,
    MessageReceived,
    PeerLeaves,
    Ping,
    PingFor,
    Pong,
    Send,
    SetAddresses,
    SetInterest,
    SignAgain,
    Start,
    Stopped,
    Tick,
)
from weft.membership.prober import Prober
from weft.membership.reach import Reach
from weft.membership.rumours import Rumours, Verdict
from weft.membership.settings import Settings, suspicion_timeout_s
from weft.membership.state import NEIGHBOURS_MAX, Digest, Liveness, NodeState, Signed
from weft.membership.table import Table
from weft.model import NodeId


class Members:
    """The nodes of the mesh, as one node knows them.

    ``own`` is what the node first says about itself. Its incarnation has to be higher than in any earlier life, so it
    comes from a counter on disk or from the clock. If the mesh remembers a higher incarnation all the same, the node
    takes a still higher one. But if two lives use the same numbers for different content, digests cannot show the
    difference.

    ``sign`` signs what the node says about itself. It returns None if nothing is signed here.
    """

    def __init__(
        self,
        own: NodeState,
        settings: Settings,
        chance: Chance,
        seeds: Sequence[str] = (),
        sign: Callable[[NodeState], Signed | None] = lambda _: None,
        talked: Callable[[], int] = lambda: 0,
    ) -> None:
        if own.liveness is not Liveness.ALIVE or own.neighbours:
            raise UsageError("a node starts alive and without links", node=own.node_id, liveness=own.liveness.name)
        self._me = own.node_id
        self._settings = settings
        self._chance = chance
        self._seeds = tuple(seeds)
        self._dials = 0
        self._sign = sign
        self._talked = talked
        self._table = Table(replace(own, signed=sign(own)))
        self._heartbeats = Heartbeats()
        self._exchange = Exchange(self._table, settings, chance)
        self._prober = Prober(settings, chance, self._helpers)
        self._reach = Reach(self._me)
        self._rumours = Rumours()
        self._checked_s: dict[NodeId, float] = {}  # when each peer was asked whether a rumour about it is true
        # When each of these is due. An absent timer is off.
        self._timers_s: dict[str, float] = {}
        self._stopped = False

    # --- what is known ---

    @property
    def own(self) -> NodeState:
        return self._table.states[self._me]

    @property
    def states(self) -> Mapping[NodeId, NodeState]:
        """The states of all members, including this node and those that have recently gone."""
        return MappingProxyType(self._table.states)

    @property
    def refused(self) -> int:
        """States of nodes for which there was no room."""
        return self._table.refused

    def health(self, peer: NodeId) -> Health:
        link = self._heartbeats.links.get(peer)
        return Health.DISCONNECTED if link is None else link.health

    # --- inputs and time ---

    def get_timer(self) -> float | None:
        """When to call ``step`` with a ``Tick``; None: not until something else happens."""
        if self._stopped:
            return None
        probe_s = self._prober.get_timer()
        return min(chain(self._timers_s.values(), () if probe_s is None else (probe_s,)), default=None)

    def step(self, event: Input, now_s: float) -> list[Effect]:
        if self._stopped:
            return []
        effects = self._step(event, now_s)
        if self._exchange.waiting:
            self._timers_s.setdefault("spread", now_s + self._settings.spread_delay_s)
        return effects + self._goodbye(now_s)

    def _step(self, event: Input, now_s: float) -> list[Effect]:
        match event:
            case Start():
                return self._start(now_s)
            case Tick():
                return self._tick(now_s)
            case LinkUp():
                return self._link_up(event, now_s)
            case LinkDown(peer):
                return self._link_down(peer, now_s)
            case MessageReceived(peer, message):
                return self._received(peer, message, now_s)
            case PeerLeaves():
                return self._peer_leaves(event, now_s)
            case SignAgain():
                return self._sign_again(now_s)
            case SetAddresses(addresses):
                return self._say(now_s, addresses=addresses)
            case SetInterest(patterns, capped, summary, since_us):
                return self._say(
                    now_s,
                    interest=patterns,
                    interest_capped=capped,
                    interest_summary=summary,
                    interest_since_us=since_us,
                )
            case Leave():
                return self._leave(now_s)
            case _:
                assert_never(event)

    def _start(self, now_s: float) -> list[Effect]:
        settings = self._settings
        intervals_s = {
            "gossip": settings.gossip_interval_s,
            "probe": settings.probe_interval_s,
            "beat": settings.heartbeat_interval_s,
        }
        for name, interval_s in intervals_s.items():  # nodes that start together should not all speak at once
            self._timers_s[name] = now_s + interval_s * self._chance.random()
        self._timers_s["dial"] = now_s + settings.rejoin_interval_s
        return [MemberChanged(None, self.own), *map(Dial, self._seeds)]

    def _tick(self, now_s: float) -> list[Effect]:
        settings = self._settings
        sends, failed = self._prober.on_time(now_s)
        effects: list[Effect] = [*sends]
        for target in failed:
            effects += self._find(target, Liveness.SUSPECT, now_s)
        if self._due("probe", now_s, settings.probe_interval_s):
            effects += self._prober.begin(self._probe_targets(), now_s)
            effects += self._sweep(now_s)
        if self._due("beat", now_s, settings.heartbeat_interval_s):
            effects += self._heartbeats.beat(now_s)
            effects += self._say_neighbours(now_s)
        if self._due("dial", now_s, settings.rejoin_interval_s):
            effects += self._rejoin()
        if self._due("gossip", now_s, settings.gossip_interval_s):
            effects += self._exchange.begin_round()
        if self._due("spread", now_s, None):
            effects += self._exchange.flush()
        return effects

    def _due(self, name: str, now_s: float, again_s: float | None) -> bool:
        due_s = self._timers_s.get(name)
        if due_s is None or due_s > now_s:
            return False
        if again_s is None:
            del self._timers_s[name]
        else:
            self._timers_s[name] = now_s + again_s
        return True

    def _leave(self, now_s: float) -> list[Effect]:
        self._timers_s["leave"] = now_s + self._settings.leave_timeout_s
        effects = self._say(now_s, liveness=Liveness.LEFT)
        self._exchange.tell_everybody(self._me)
        return effects

    def _goodbye(self, now_s: float) -> list[Effect]:
        """Stop once all peers have been told that this node leaves, or when the time for that is over."""
        leave_s = self._timers_s.get("leave")
        if leave_s is None or (now_s < leave_s and not self._exchange.is_told(self._me)):
            return []
        self._stopped = True
        return [Stopped()]

    # --- links ---

    def _link_up(self, link: LinkUp, now_s: float) -> list[Effect]:
        effects = self._heartbeats.up(link.peer, link.gossips)
        self._prober.found(link.peer)
        effects += self._say_neighbours(now_s)
        if link.gossips:
            effects += self._exchange.open(link.peer, self._me)
        else:
            self._exchange.close(link.peer)
        return effects

    def _link_down(self, peer: NodeId, now_s: float) -> list[Effect]:
        if peer not in self._heartbeats.links:
            return []
        effects = self._heartbeats.down(peer)
        self._exchange.close(peer)
        self._checked_s.pop(peer, None)
        effects += self._say_neighbours(now_s)
        state = self._table.states.get(peer)
        if state is not None and state.liveness is Liveness.ALIVE:
            effects += self._prober.lost(peer, now_s)
        return effects

    def _peer_leaves(self, goodbye: PeerLeaves, now_s: float) -> list[Effect]:
        """Take a peer's goodbye. An old link may end after the peer has come back, so a goodbye from an earlier life is
        ignored."""
        state = self._table.states.get(goodbye.peer)
        if state is None or state.incarnation != goodbye.incarnation:
            return []
        return self._find(goodbye.peer, Liveness.LEFT, now_s)

    def _rejoin(self) -> list[Effect]:
        """If this node has no link, dial the addresses that it was given and those that it has learned, in turn."""
        if self._heartbeats.links:
            return []
        learned = (a for s in self._table.states.values() if s.node_id != self._me for a in s.addresses)
        addresses = list(dict.fromkeys(chain(self._seeds, learned)))
        if not addresses:
            return []
        self._dials += 1
        return [Dial(addresses[self._dials % len(addresses)])]

    # --- messages ---

    def _received(self, peer: NodeId, message: Message, now_s: float) -> list[Effect]:
        match message:
            case Gossip():
                return self._on_gossip(peer, message, now_s)
            case Ping(sequence):
                return [Send(peer, Pong(sequence, self._me, self.own.incarnation))]
            case Pong():
                return [*self._prober.on_pong(peer, message)]
            case PingFor(_, target):
                linked = target in self._heartbeats.links
                return [*self._prober.on_ping_for(peer, message, linked=linked, now_s=now_s)]
            case Heartbeat():
                return self._on_heartbeat(peer, message, now_s)
            case _:
                assert_never(message)

    def _on_heartbeat(self, peer: NodeId, heartbeat: Heartbeat, now_s: float) -> list[Effect]:
        """Take a heartbeat. Nearly all heartbeats change nothing; then the other links need not be looked at."""
        effects = self._heartbeats.on_heartbeat(peer, heartbeat, now_s)
        changed = any(isinstance(each, HealthChanged) for each in effects)
        return effects + self._say_neighbours(now_s) if changed else effects

    def _on_gossip(self, peer: NodeId, gossip: Gossip, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        states: list[NodeState] = []
        digests: list[Digest] = []
        heard = list(gossip.digests)
        for state in gossip.states:
            if state.signed is None and self._signs(state.node_id) and state.node_id != peer:
                heard.append(state.digest)
                effects += self._refuse_unsigned(peer, state.digest)
                continue
            believed, doubts = (True, []) if state.signed else self._judge(peer, state.digest, now_s)
            effects += doubts
            if believed:
                states.append(state)
                effects += self._hear_state(peer, state, now_s)
        for digest in heard:
            if self._signs(digest.node_id):
                digest = self._as_rumour(digest)
            believed, doubts = (True, []) if self._signs(digest.node_id) else self._judge(peer, digest, now_s)
            effects += doubts
            if believed:
                digests.append(digest)
                effects += self._hear_digest(peer, digest, now_s)
        return [*effects, *self._exchange.answer(peer, Gossip(tuple(digests), tuple(states), gossip.reply))]

    def _signs(self, node_id: NodeId) -> bool:
        """Whether a node signs what it says. If it does, only its own signature makes us believe that it is in another
        incarnation, says something new, or has left. If something seems to be new, we ask for it; if it is true, it
        comes signed."""
        known = self._table.states.get(node_id)
        return known is not None and known.signed is not None

    def _refuse_unsigned(self, peer: NodeId, heard: Digest) -> list[Effect]:
        """Report an unsigned state of a node that signs. Its sender is either a liar or a peer of an earlier version,
        which does not pass signatures on."""
        if self._table.digest_of(heard.node_id).has_content_of(heard):
            return []
        return [GossipRefused(peer, "signature", f"a state of {heard.node_id} without the signature of that node")]

    def _as_rumour(self, heard: Digest) -> Digest:
        """What to believe of a digest of a node that signs: others may say how they found it, but only the node itself
        can say that it has left."""
        if heard.liveness is not Liveness.LEFT or self._table.digest_of(heard.node_id).liveness is Liveness.LEFT:
            return heard
        return heard._replace(liveness=Liveness.ALIVE)

    def _judge(self, peer: NodeId, heard: Digest, now_s: float) -> tuple[bool, list[Effect]]:
        """Return whether to believe what a peer says about a node, and what to do if not."""
        node_id = heard.node_id
        if node_id == peer:
            return True, []
        linked = self.health(node_id) is Health.HEALTHY and self._heartbeats.links[node_id].gossips
        match self._rumours.judge(heard, self._table.digest_of(node_id), now_s, linked=linked):
            case Verdict.BELIEVE:
                return True, []
            case Verdict.ASK:
                return False, self._check(heard, now_s)
            case Verdict.REFUSE:
                what = f"{node_id} is said to be in incarnation {heard.incarnation}, far beyond the one known"
                return False, [GossipRefused(peer, "incarnation", what)]

    def _check(self, heard: Digest, now_s: float) -> list[Effect]:
        """Tell a node what others say about it, and what we know of it. The node refutes a lie, and sends what is
        new."""
        node_id = heard.node_id
        if now_s - self._checked_s.get(node_id, float("-inf")) < self._settings.gossip_interval_s:
            return []  # a rumour that is true comes again
        self._checked_s[node_id] = now_s
        return [Send(node_id, Gossip((heard, self._table.digest_of(node_id)), (), reply=True))]

    def _hear_state(self, peer: NodeId, state: NodeState, now_s: float) -> list[Effect]:
        if state.node_id == self._me:
            return self._refute(state.digest, now_s)  # if it is signed, it is from an earlier life of ours
        before = self._table.states.get(state.node_id)
        after = self._table.merge(state, now_s)
        return [] if after is None else self._changed(before, after, peer)

    def _hear_digest(self, peer: NodeId, digest: Digest, now_s: float) -> list[Effect]:
        if digest.node_id == self._me:
            is_next_life = digest.incarnation > self.own.incarnation
            return [] if is_next_life and self.own.signed else self._refute(digest, now_s)
        before = self._table.states.get(digest.node_id)
        after = self._table.hear(digest, now_s)
        return [] if after is None else self._changed(before, after, peer)

    def _refute(self, heard: Digest, now_s: float) -> list[Effect]:
        """Answer a node that suspects us or takes us for dead, or that remembers an earlier life of ours: take an
        incarnation above the one that it names."""
        own = self.own
        if own.digest.covers(heard) or heard.incarnation >= INCARNATION_MAX:
            return []
        return self._say(now_s, incarnation=heard.incarnation + 1)

    # --- changes ---

    def _say(self, now_s: float, **changes: Any) -> list[Effect]:
        """Publish something new about this node, as a new version. Once it has left, it publishes nothing more."""
        before = self.own
        after = replace(before, **changes)
        if after == before or before.liveness is Liveness.LEFT:
            return []
        after = replace(after, version=before.version + 1, talked=self._talked())
        after = replace(after, signed=self._sign(after))
        self._table.keep(after, now_s)
        return self._changed(before, after, None)

    def _sign_again(self, now_s: float) -> list[Effect]:
        """Publish this node's state again, signed with its new certificate, because the old one ends."""
        before = self.own
        if before.signed is None or before.liveness is Liveness.LEFT:
            return []
        after = replace(before, version=before.version + 1)
        after = replace(after, signed=self._sign(after))
        self._table.keep(after, now_s)
        return self._changed(before, after, None)

    def _say_neighbours(self, now_s: float) -> list[Effect]:
        return self._say(now_s, neighbours=self._heartbeats.healthy()[:NEIGHBOURS_MAX])

    def _find(self, node_id: NodeId, liveness: Liveness, now_s: float) -> list[Effect]:
        """Note what this node itself has found out about another one."""
        before = self._table.states.get(node_id)
        if before is None or liveness <= before.liveness:
            return []
        after = before.found(liveness)
        self._table.keep(after, now_s)
        return self._changed(before, after, None)

    def _changed(self, before: NodeState | None, after: NodeState, source: NodeId | None) -> list[Effect]:
        self._exchange.spread(before, after, source)
        if after.liveness.gone:
            self._prober.found(after.node_id)
        return [MemberChanged(before, after)]

    # --- who is alive ---

    def _probe_targets(self) -> list[NodeId]:
        states = self._table.states
        return [peer for peer in self._heartbeats.gossiping() if peer in states and not states[peer].liveness.gone]

    def _helpers(self, target: NodeId) -> list[NodeId]:
        states = self._table.states
        return [
            peer
            for peer in self._heartbeats.gossiping()
            if peer != target and peer in states and target in states[peer].neighbours
        ]

    def _sweep(self, now_s: float) -> list[Effect]:
        """Make the changes that only time brings: suspects die, dead nodes are forgotten, and nodes that stay out of
        reach become suspects."""
        settings = self._settings
        timeout_s = suspicion_timeout_s(
            self._table.live_count, settings.suspicion_multiplier, settings.probe_interval_s
        )
        effects: list[Effect] = []
        for suspect in self._table.expired_suspects(timeout_s, now_s):
            effects += self._find(suspect.node_id, Liveness.DEAD, now_s)
        effects += map(MemberForgotten, self._table.forget(settings.dead_retention_s, now_s))
        for node_id in self._reach.lost(self._table, settings.unreachable_s, now_s):
            effects += self._find(node_id, Liveness.SUSPECT, now_s)
        return effects
