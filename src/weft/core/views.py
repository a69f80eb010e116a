"""What people get to see of a node's core: which nodes would get a topic and why, and how far each peer lags behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.core.broker import Broker
from weft.core.calls import serving
from weft.core.topics import is_own, selects
from weft.model import NodeId, Pattern, Topic
from weft.routing import Pieces, in_pieces


@dataclass(frozen=True, slots=True)
class Recipient:
    """A node that an event would reach or miss. ``path``: the nodes from the origin to it."""

    node_id: NodeId
    pattern: Pattern
    path: tuple[NodeId, ...]
    reason: str


def explain(broker: Broker, topic: Topic, origin: NodeId | None = None, after: str = "") -> Iterator[Recipient]:
    """Yield every node that is interested in a topic, and whether and how its events get there from ``origin``. The
    nodes are ordered by name, and those up to ``after`` are left out. They come one by one, so that the caller can
    pause in between."""
    source = origin or broker.me
    for node in sorted(each for each in broker.routes.interested(topic) if each > after):
        state = broker.routes.states.get(node)
        pattern = None if state is None else next((each for each in state.interest if selects(each, topic)), None)
        if pattern is None:
            continue  # it has gone meanwhile, or no longer wants the topic
        path = broker.routes.topology.path(source, node) or ()
        yield Recipient(node, pattern, path, _reason(broker, topic, source, node, path))


def explain_servers(broker: Broker, topic: Topic, origin: NodeId | None = None) -> list[Recipient]:
    """The nodes that serve requests to a topic, and how requests get there from ``origin``, ordered by name."""
    source, asked = origin or broker.me, Topic(serving(topic))
    found = []
    for node in broker.calls.who(topic):
        state = broker.routes.states.get(node)
        told = () if state is None else state.interest
        pattern = next((each for each in told if selects(each, asked)), serving(Pattern(topic)))
        path = broker.routes.topology.path(source, node) or ((node,) if node == source else ())
        if node == broker.me:
            count = broker.calls.count(topic)
            reason = f"{count} {'server' if count == 1 else 'servers'} here"
        else:
            reason = "serves it" if path else f"serves it, but there is no path from {source}"
        found.append(Recipient(node, pattern, path, reason))
    return found


def _reason(broker: Broker, topic: Topic, source: NodeId, node: NodeId, path: tuple[NodeId, ...]) -> str:
    if node == broker.me:
        here = [each for each in broker.subscriptions if selects(each.pattern, topic)]
        groups = sorted({each.group for each in here if each.group})
        who = f"{len(here)} subscriptions here" + (f", groups {', '.join(groups)}" if groups else "")
        return who if here else "the mesh's own" if is_own(topic) else "a subscription that has just gone"
    if not path:
        return f"interested, but there is no path from {source}: it gets the events once there is one"
    state = broker.routes.states[node]
    if state.interest_summary is not None:
        return "interested, as far as the summary of its many patterns can tell"
    if state.interest_capped:
        return "interested; its patterns were widened, so it may get more than it asked for"
    return "interested"


def link_lag(broker: Broker, peer: NodeId) -> Pieces[int]:
    """Count the events that a peer wants and has not acknowledged. The count pauses now and then, because there may be
    a hundred thousand streams."""
    link = broker.replication.links.get(peer)
    lag = 0
    for piece in in_pieces([] if link is None else list(link.outgoing.cursors.items())):
        states = ((broker.log.state(*key), cursor) for key, cursor in piece if cursor.wanted)
        lag += sum(max(state.durable - cursor.acked, 0) for state, cursor in states)
        yield
    return lag
