"""Which way events go: for every origin one tree of shortest paths, the same at every node that knows the same links.

Among the shortest paths, take the one whose node ids, read from the origin, come first in order. Only the links decide,
so nodes need not agree on anything else. While their views differ, an event may be late or come twice; positions and
identities handle that, not routing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import lru_cache, partial
from typing import Final, TypeAlias

from weft.model import NodeId

TREES_KEPT_MAX: Final = 16  # per view: 40 KiB each in a mesh of 1,000 nodes, half a millisecond to compute again
BRANCHES_KEPT_MAX: Final = 4096  # per view, one per origin and node: 1 KiB on average, 80 KiB in a node's own tree
SOURCES_KEPT_MAX: Final = 16  # per view, one for each node that is asked about: a node mostly asks about itself


Neighbours: TypeAlias = Mapping[NodeId, tuple[NodeId, ...]]
Parents: TypeAlias = Mapping[NodeId, NodeId | None]  # from the origin, whose parent is None, outwards
Sources: TypeAlias = Mapping[NodeId, NodeId]  # by origin that reaches one node: its parent in that tree


Branches: TypeAlias = Mapping[NodeId, frozenset[NodeId]]  # a node's children in order, each with all nodes behind it


class Topology:
    """The links of one view of the mesh, and the trees that follow from them; each is computed when it is first needed.

    A view does not change; ``updated`` returns the next one. A node that is not part of the view, or that the origin
    does not reach, has no parent, no children and no path.
    """

    def __init__(self, links: Mapping[NodeId, Iterable[NodeId]]) -> None:
        """``links``: the neighbours that each node announces. A link counts only if both ends announce it."""
        self._neighbours = _mutual(links)
        # Bound to the links and not to self: a view that is replaced is freed at once, with everything it has computed.
        self._parents: Callable[[NodeId], Parents] = lru_cache(TREES_KEPT_MAX)(partial(_parents, self._neighbours))
        self._branches: Callable[[NodeId, NodeId], Branches] = lru_cache(BRANCHES_KEPT_MAX)(
            partial(_branches, self._parents)
        )
        self._sources: Callable[[NodeId], Sources] = lru_cache(SOURCES_KEPT_MAX)(partial(_sources, self._neighbours))

    def updated(self, links: Mapping[NodeId, Iterable[NodeId]]) -> Topology:
        """The view with these links. If they make no difference, return this same view, with its trees."""
        return self if _mutual(links) == self._neighbours else Topology(links)

    def parent(self, origin: NodeId, me: NodeId) -> NodeId | None:
        """The node from which ``me`` gets the events of ``origin``; None at the origin itself."""
        return self._sources(me).get(origin)

    def children(self, origin: NodeId, me: NodeId) -> tuple[NodeId, ...]:
        """The nodes to which ``me`` may pass on the events of ``origin``, in order."""
        return tuple(self._branches(origin, me))

    def path(self, origin: NodeId, target: NodeId) -> tuple[NodeId, ...] | None:
        """The nodes from ``origin`` to ``target``, both included; None if there is no way."""
        parents = self._parents(origin)
        if target not in parents:
            return None
        path = []
        node: NodeId | None = target
        while node is not None:
            path.append(node)
            node = parents[node]
        return tuple(reversed(path))

    def next_hops(self, origin: NodeId, me: NodeId, interested: Set[NodeId]) -> tuple[NodeId, ...]:
        """The children, in order, that are interested or lead to an interested node."""
        branches = self._branches(origin, me)
        return tuple(child for child, nodes in branches.items() if not nodes.isdisjoint(interested))


def _mutual(links: Mapping[NodeId, Iterable[NodeId]]) -> Neighbours:
    named = {node: frozenset(neighbours) for node, neighbours in links.items()}
    return {
        node: tuple(sorted(other for other in others if node in named.get(other, ()))) for node, others in named.items()
    }


def _parents(neighbours: Neighbours, origin: NodeId) -> Parents:
    """Search breadth first. Each level is visited in the order of its nodes' paths, so the first node that has a link
    to a new node is the new node's parent."""
    if origin not in neighbours:
        return {}
    parents: dict[NodeId, NodeId | None] = {origin: None}
    level = [origin]
    while level:
        following = []
        for node in level:
            for neighbour in neighbours[node]:
                if neighbour not in parents:
                    parents[neighbour] = node
                    following.append(neighbour)
        level = following
    return parents


def _sources(neighbours: Neighbours, me: NodeId) -> Sources:
    """Search breadth first from ``me``, for all origins at once. On a shortest path towards us, the next node is always
    the first in order among those that are one hop nearer to us, whatever the origin is. So from any node on, the rest
    of the path is the same for all origins."""
    sources: dict[NodeId, NodeId] = {}
    seen, level = {me}, {me}
    while level:
        following = {other for node in level for other in neighbours.get(node, ()) if other not in seen}
        for node in following:
            nearer = next(other for other in neighbours[node] if other in level)
            sources[node] = node if nearer == me else sources[nearer]
        seen |= following
        level = following
    return sources


def _branches(parents_of: Callable[[NodeId], Parents], origin: NodeId, me: NodeId) -> Branches:
    parents = parents_of(origin)
    branches: dict[NodeId, list[NodeId]] = {}
    branch_of: dict[NodeId | None, list[NodeId]] = {}  # for each node, the branch that it is in; filled from the top
    for node, parent in parents.items() if me in parents else ():
        if parent == me:
            branches[node] = branch_of[node] = [node]
        elif parent in branch_of:
            branch_of[node] = branch_of[parent]
            branch_of[node].append(node)
    return {child: frozenset(nodes) for child, nodes in branches.items()}
