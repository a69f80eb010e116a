"""Routing: who wants a topic, and which way its events go. Pure; gossip brings the facts, ``core`` acts on the answers.

Read in this order:

- ``trie``: from patterns to whoever gave them, for subscribers of this node and for interest of others.
- ``interest``: a node's many patterns told as few, and the table of which node is interested in what.
- ``summary``: patterns beyond number told as a filter, which never leaves one out and rarely adds one.
- ``pieces``: how all of that pauses while it goes through very many patterns.
- ``tree``: the shortest-path tree of an origin, from the links that nodes told.

An event of ``origin`` on ``topic`` goes from ``me`` to ``topology.next_hops(origin, me, interest.who(topic))``.
Every answer is the same wherever the same facts are known, in whatever order they arrived; sets excepted, whose order
is Python's, answers come in order.
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
