"""Everything that one node knows about all nodes, including itself, and since when.

Nodes that are gone stay visible for a while. Then only their digests stay, as tombstones, so that old gossip does not
bring them back. When there are too many tombstones, the oldest go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from weft.limits import MEMBERS_MAX
from weft.membership.state import Digest, Liveness, NodeState, join, unknown
from weft.model import NodeId

TOMBSTONES_MAX: Final = 10_000  # digests of forgotten nodes, about 2 MB; oldest go first


class Table:
    def __init__(self, own: NodeState, *, members_max: int = MEMBERS_MAX, tombstones_max: int = TOMBSTONES_MAX) -> None:
        self.states: dict[NodeId, NodeState] = {}
        self.tombstones: dict[NodeId, Digest] = {}
        self.order: list[NodeId] = []  # all nodes with a state; a window that moves over it reaches every node
        self.changes = 0  # the number of changes so far; see changed_since
        self.refused = 0  # states of nodes for which there was no room
        self._members_max = members_max
        self._tombstones_max = tombstones_max
        self._changed_at: dict[NodeId, int] = {}  # by node, the number of its latest change; the latest comes last
        self._suspect_since_s: dict[NodeId, float] = {}
        self._gone_since_s: dict[NodeId, float] = {}
        self.keep(own, 0.0)

    @property
    def live_count(self) -> int:
        """Members that are alive or suspected; this node counts even while it is leaving."""
        return max(1, len(self.states) - len(self._gone_since_s))

    def digest_of(self, node_id: NodeId) -> Digest:
        """The digest of what is known here. For a forgotten node it is the tombstone, and for an unknown one it says
        that nothing is known."""
        state = self.states.get(node_id)
        if state is not None:
            return state.digest
        return self.tombstones.get(node_id) or unknown(node_id)

    def changed_since(self, change: int) -> Iterator[NodeId]:
        """The nodes that changed after the change with this number, the latest first."""
        for node_id in reversed(self._changed_at):
            if self._changed_at[node_id] <= change:
                return
            yield node_id

    def merge(self, heard: NodeState, now_s: float) -> NodeState | None:
        """Take in what another node knows; return the new state if that changed anything.

        If another node says that a node is dead, this counts only as a suspicion, with the usual time to refute it.
        Otherwise a node that was cut off, and took everybody for dead, would take down the mesh when it comes back.
        """
        known = self.states.get(heard.node_id)
        if known is None:
            return self._admit(heard, now_s)
        if heard.liveness is Liveness.DEAD:
            heard = replace(heard, liveness=Liveness.SUSPECT)
        joined = join(known, heard)
        if joined is known:
            return None
        self.keep(joined, now_s)
        return joined

    def hear(self, digest: Digest, now_s: float) -> NodeState | None:
        """Take the liveness from a digest into the state that is here; return the new state if that changed it."""
        known = self.states.get(digest.node_id)
        if known is not None:
            if known.digest == digest or known.incarnation != digest.incarnation:
                return None
            return self.merge(known.found(digest.liveness), now_s)
        if digest.liveness.gone:
            self._bury(digest)
        return None

    def keep(self, state: NodeState, now_s: float) -> None:
        """Set a state. Also used for what this node itself says or finds out."""
        node_id = state.node_id
        before = self.states.get(node_id)
        if before is None:
            self.order.append(node_id)
            self.tombstones.pop(node_id, None)
        elif before.incarnation != state.incarnation:
            self._suspect_since_s.pop(node_id, None)  # that suspicion was of the other incarnation
        self.states[node_id] = state
        self.changes += 1
        self._changed_at.pop(node_id, None)
        self._changed_at[node_id] = self.changes
        _since(self._suspect_since_s, node_id, state.liveness is Liveness.SUSPECT, now_s)
        _since(self._gone_since_s, node_id, state.liveness.gone, now_s)

    def expired_suspects(self, timeout_s: float, now_s: float) -> list[NodeState]:
        return [self.states[node] for node, since_s in self._suspect_since_s.items() if now_s - since_s >= timeout_s]

    def forget(self, retention_s: float, now_s: float) -> list[NodeId]:
        """Forget the nodes that have been gone for ``retention_s``."""
        old = [node_id for node_id, since_s in self._gone_since_s.items() if now_s - since_s >= retention_s]
        for node_id in old:
            state = self.states.pop(node_id)
            del self._changed_at[node_id], self._gone_since_s[node_id]
            self._bury(state.digest)
        if old:
            self.order = list(self.states)
        return old

    def _admit(self, heard: NodeState, now_s: float) -> NodeState | None:
        node_id = heard.node_id
        if self.digest_of(node_id).covers(heard.digest):
            return None  # old news of a node that is forgotten
        if heard.liveness.gone:
            self._bury(heard.digest)
            return None
        if len(self.states) >= self._members_max:
            self.refused += 1
            return None
        self.keep(heard, now_s)
        return heard

    def _bury(self, digest: Digest) -> None:
        known = self.tombstones.get(digest.node_id)
        if known is not None and known.covers(digest):
            return
        self.tombstones.pop(digest.node_id, None)
        self.tombstones[digest.node_id] = digest
        if len(self.tombstones) > self._tombstones_max:
            del self.tombstones[next(iter(self.tombstones))]


def _since(times_s: dict[NodeId, float], node_id: NodeId, holds: bool, now_s: float) -> None:
    """Note since when something holds, and forget that when it no longer holds."""
    if holds:
        times_s.setdefault(node_id, now_s)
    else:
        times_s.pop(node_id, None)
