"""Which peer is told what: every link has an outbox for changes, digests and answers to the peer's requests.

- A change is put into the outboxes of about log n peers, and goes out after a short delay together with others.
- Every interval, a few peers get the digests of what changed since their last ones, and of a window over all nodes.
  They answer with what differs. This makes up for lost messages, and for changes that by chance went to other peers.
- Over a new link, the peer gets the digests of everything.

An outbox names nodes, not states: it sends what is known at that moment, and a node that changes twice is sent once. A
message takes as much of an outbox as it can hold; the rest goes with the next one.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from weft.chance import Chance, some
from weft.limits import GOSSIP_BYTES_MAX, GOSSIP_DIGESTS_MAX, GOSSIP_STATES_MAX, KIB, ORIGIN_BYTES_MAX
from weft.membership.messages import DIGEST_BYTES, Gossip, Send
from weft.membership.settings import Settings, spread_times
from weft.membership.state import Digest, NodeState
from weft.membership.table import Table
from weft.model import NodeId

GOSSIP_WINDOW: Final = 32  # digests of the window in one exchange: n / 32 exchanges compare all nodes


# Of one message that has as many digests as it may have.
STATES_BYTES_MAX: Final = GOSSIP_BYTES_MAX - GOSSIP_DIGESTS_MAX * (DIGEST_BYTES + ORIGIN_BYTES_MAX) - KIB


class GossipOutbox:
    """What one peer still has to be told."""

    __slots__ = ("nodes", "told", "window")

    def __init__(self, told: int) -> None:
        self.nodes: dict[NodeId, bool] = {}  # True: the whole state; False: the digest
        self.told = told  # the last change that was put in here
        self.window = 0  # where the next window over the table begins

    def add(self, node_id: NodeId, whole: bool = False) -> None:
        self.nodes[node_id] = whole or self.nodes.get(node_id, False)


class Exchange:
    def __init__(self, table: Table, settings: Settings, chance: Chance) -> None:
        self._table = table
        self._settings = settings
        self._chance = chance
        self._outboxes: dict[NodeId, GossipOutbox] = {}
        self._waiting: dict[NodeId, None] = {}  # peers whose outboxes are not empty, in turn
        self._asked: set[NodeId] = set()  # nodes that a peer was asked about in this interval: one answer is enough
        self._insisted: set[tuple[NodeId, NodeId]] = (
            set()
        )  # peers and nodes: peers that were told in this interval that these nodes are in a worse state

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def is_told(self, node_id: NodeId) -> bool:
        """Whether a node is in no outbox, so all peers have been told of it."""
        return not any(node_id in outbox.nodes for outbox in self._outboxes.values())

    def open(self, peer: NodeId, own: NodeId) -> list[Send]:
        """Open a link: send digests of everything, and the complete state of this node."""
        outbox = self._outboxes[peer] = GossipOutbox(self._table.changes)
        outbox.add(own, whole=True)
        for node_id in self._table.order:
            outbox.add(node_id)
        return self._post(peer, reply=False)

    def close(self, peer: NodeId) -> None:
        self._outboxes.pop(peer, None)
        self._waiting.pop(peer, None)

    def spread(self, before: NodeState | None, after: NodeState, source: NodeId | None) -> None:
        """Pass a change on to some peers: the state if the node said something new, only its digest if just its
        liveness is new.

        If only the liveness is new, the node itself is told first: if it is suspected, it has to know that.
        """
        node_id = after.node_id
        whole = before is None or not before.digest.has_content_of(after.digest)
        others = [peer for peer in self._outboxes if peer not in (source, node_id)]
        times = spread_times(self._table.live_count, self._settings.spread_multiplier)
        peers = some(self._chance, others, times)
        if node_id in self._outboxes and not whole:
            peers.insert(0, node_id)
        for peer in peers:
            self._outboxes[peer].add(node_id, whole)
            self._waiting[peer] = None

    def tell_everybody(self, node_id: NodeId) -> None:
        """Tell all peers about a node at once. This is for a goodbye: nodes that hear of it too late would notice that
        the node is gone, and take it for dead."""
        for peer, outbox in self._outboxes.items():
            outbox.add(node_id, whole=True)
            self._waiting[peer] = None

    def flush(self) -> list[Send]:
        """Make one message for each of the next few peers that have something in their outboxes."""
        peers = list(islice(self._waiting, self._settings.gossip_fan_out))
        return [send for peer in peers for send in self._post(peer, reply=True)]

    def begin_round(self) -> list[Send]:
        """Compare our knowledge with that of a few peers."""
        self._asked.clear()
        self._insisted.clear()
        sends: list[Send] = []
        for peer in some(self._chance, list(self._outboxes), self._settings.gossip_fan_out):
            self._add_changes(self._outboxes[peer])
            self._add_window(self._outboxes[peer])
            sends += self._post(peer, reply=False)
        return sends

    def answer(self, peer: NodeId, gossip: Gossip) -> list[Send]:
        """Send what the peer lacks, and digests of what we lack. Answer a reply only if one of us lacks something.

        The caller has already taken in what the gossip says.
        """
        outbox = self._outboxes.get(peer)
        if outbox is None:
            return []  # the link is gone, or the peer takes no part in gossip
        told = (*gossip.digests, *(state.digest for state in gossip.states))
        differs = [self._compare(peer, outbox, digest) for digest in told]
        if not gossip.reply:
            self._add_changes(outbox)
        return self._post(peer, reply=True) if any(differs) or not gossip.reply else []

    def _compare(self, peer: NodeId, outbox: GossipOutbox, theirs: Digest) -> bool:
        """Compare what a peer has with what we have, and note what to send, if anything."""
        node_id = theirs.node_id
        ours = self._table.digest_of(node_id)
        if theirs == ours or theirs.covers(ours):
            outbox.nodes.pop(node_id, None)
            # Ask once per interval: a state may never come, or not be accepted, and asking must not go in circles.
            if ours.has_content_of(theirs) or node_id in self._asked:
                return False
            self._asked.add(node_id)
        elif theirs.has_content_of(ours):
            # The peer thinks better of the node. Tell it only once: it may refuse the news, as an unsigned goodbye.
            if (peer, node_id) in self._insisted:
                return False
            self._insisted.add((peer, node_id))
        outbox.add(node_id, whole=not theirs.has_content_of(ours))
        return True

    def _add_changes(self, outbox: GossipOutbox) -> None:
        room = GOSSIP_DIGESTS_MAX - len(outbox.nodes)  # what does not fit comes in a later window
        for node_id in islice(self._table.changed_since(outbox.told), max(0, room)):
            outbox.add(node_id)
        outbox.told = self._table.changes

    def _add_window(self, outbox: GossipOutbox) -> None:
        order = self._table.order
        begin = outbox.window % len(order)
        window = order[begin : begin + GOSSIP_WINDOW]
        outbox.window = begin + len(window)
        for node_id in window:
            outbox.add(node_id)

    def _post(self, peer: NodeId, *, reply: bool) -> list[Send]:
        """Take one message out of an outbox."""
        outbox = self._outboxes[peer]
        digests: list[Digest] = []
        states: list[NodeState] = []
        states_bytes = 0
        for node_id, whole in outbox.nodes.items():
            state = self._table.states.get(node_id) if whole else None  # of a forgotten node, only the digest is left
            if state is None:
                if len(digests) == GOSSIP_DIGESTS_MAX:
                    break
                digests.append(self._table.digest_of(node_id))
            else:
                states_bytes += state.size_bytes
                if len(states) == GOSSIP_STATES_MAX or states_bytes > STATES_BYTES_MAX:
                    break
                states.append(state)
        for node_id in [*(digest.node_id for digest in digests), *(state.node_id for state in states)]:
            del outbox.nodes[node_id]
        self._waiting.pop(peer, None)
        if outbox.nodes:
            self._waiting[peer] = None  # at the end of the queue
        if not digests and not states and reply:
            return []
        return [Send(peer, Gossip(tuple(digests), tuple(states), reply))]
