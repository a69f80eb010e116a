"""Routing: which nodes want a topic, and which way its events go. It is pure: gossip brings the facts, and ``core``
acts on the answers.

Read in this order:

- ``trie``: finds the subscribers of this node, or the other nodes, that want a topic.
- ``interest``: how a node announces many patterns as a few, and the table of which node wants what.
- ``summary``: very many patterns as a filter, which never misses a topic that they select, and rarely adds another.
- ``pieces``: lets long work over very many patterns pause in between.
- ``tree``: the shortest-path tree of an origin, from the links that nodes announce.

An event of ``origin`` on ``topic`` goes from ``me`` to ``topology.next_hops(origin, me, interest.who(topic))``. Nodes
with the same facts get the same answers, in whatever order the facts arrived. All answers are in a fixed order, except
those that are sets.
"""

from weft.routing.interest import (
    SINCE_EVER_US,
    Interest,
    InterestTable,
    Version,
    Wishes,
    aggregate,
    begin_alike,
    since_of,
    without_covered,
)
from weft.routing.pieces import Pieces, finished, in_pieces
from weft.routing.summary import Summary, summarize
from weft.routing.tree import Topology
from weft.routing.trie import Trie

__all__ = [
    "SINCE_EVER_US",
    "Interest",
    "InterestTable",
    "Pieces",
    "Summary",
    "Topology",
    "Trie",
    "Version",
    "Wishes",
    "aggregate",
    "begin_alike",
    "finished",
    "in_pieces",
    "since_of",
    "summarize",
    "without_covered",
]
