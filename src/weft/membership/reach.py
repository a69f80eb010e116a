"""Which nodes can be reached over the links that nodes announce, and which were out of reach for too long.

When a node dies, its neighbours notice. If they die with it, nobody probes it, and it is only out of reach. But a node
that is out of reach may just be cut off, and every node that is wrongly called dead has to refute that. So this module
waits for a long time.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.membership.state import NodeState
from weft.membership.table import Table
from weft.model import NodeId


class Reach:
    def __init__(self, own: NodeId) -> None:
        self._own = own
        self._seen = -1  # the last change of the table that was processed
        self._lost_since_s: dict[NodeId, float] = {}

    def lost(self, table: Table, timeout_s: float, now_s: float) -> list[NodeId]:
        """The live members to which there has been no path for ``timeout_s``."""
        if self._seen != table.changes:
            self._seen = table.changes
            found = reachable(self._own, table.states)
            lost = [node for node, state in table.states.items() if node not in found and not state.liveness.gone]
            self._lost_since_s = {node: self._lost_since_s.get(node, now_s) for node in lost}
        return [node for node, since_s in self._lost_since_s.items() if now_s - since_s >= timeout_s]


def reachable(own: NodeId, states: Mapping[NodeId, NodeState]) -> set[NodeId]:
    """All nodes with a path from ``own`` over live nodes. A link counts if both ends announce it, as in routing."""
    named = {
        (node_id, other) for node_id, state in states.items() if not state.liveness.gone for other in state.neighbours
    }
    found = {own}
    edge = [own]
    while edge:
        node_id = edge.pop()
        for other in states[node_id].neighbours:
            if other not in found and (other, node_id) in named:
                found.add(other)
                edge.append(other)
    return found
