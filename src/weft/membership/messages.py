"""Inputs and effects of membership, and the messages between nodes.

The messages are those of ``peerlink.proto`` as plain values; the transport converts them. ``size_of`` estimates how
many bytes a message takes on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, assert_never

from weft.membership.state import Digest, NodeState
from weft.model import NodeId, Pattern
from weft.routing import Summary

# --- messages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gossip:
    """Digests say what the sender has. States are what the receiver seems to lack.

    A digest that is older than what the receiver has is also a request. A ``reply`` is answered only if one side lacks
    something. Any other gossip begins an exchange, and is also answered with what changed at the receiver.
    """

    digests: tuple[Digest, ...] = ()
    states: tuple[NodeState, ...] = ()
    reply: bool = False


@dataclass(frozen=True, slots=True)
class Ping:
    sequence: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer that ``node_id`` is alive. ``sequence`` is that of the ping, or of the request to ping the node."""

    sequence: int
    node_id: NodeId
    incarnation: int


@dataclass(frozen=True, slots=True)
class PingFor:
    """Ping the target for me."""

    sequence: int
    target: NodeId


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """``echo`` is the timestamp of the heartbeat that this one answers; 0: it is not an answer. Only the sender of a
    timestamp can interpret it."""

    timestamp: int
    echo: int = 0


Message: TypeAlias = Gossip | Ping | Pong | PingFor | Heartbeat

# --- inputs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Begin, and dial the addresses that this node was given."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The time of ``get_timer`` has come."""


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link stands, and the handshake is done. ``gossips``: the peer knows more than the four messages of the design
    document."""

    peer: NodeId
    gossips: bool = True


@dataclass(frozen=True, slots=True)
class LinkDown:
    peer: NodeId


@dataclass(frozen=True, slots=True)
class MessageReceived:
    peer: NodeId
    message: Message


@dataclass(frozen=True, slots=True)
class PeerLeaves:
    """The peer said goodbye on its link, whose handshake named this incarnation."""

    peer: NodeId
    incarnation: int


@dataclass(frozen=True, slots=True)
class SignAgain:
    """The node has a new certificate."""


@dataclass(frozen=True, slots=True)
class SetAddresses:
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetInterest:
    """``since_us``: since when each pattern is wanted; empty: all of them since ever."""

    patterns: tuple[Pattern, ...]
    capped: bool = False
    summary: Summary | None = None
    since_us: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Leave:
    """Say goodbye to the mesh; ``Stopped`` follows. When the node comes back, its incarnation is higher, so it counts
    as alive at once."""


Input: TypeAlias = (
    Start | Tick | LinkUp | LinkDown | MessageReceived | PeerLeaves | SignAgain | SetAddresses | SetInterest | Leave
)

# --- effects ---------------------------------------------------------------------------------------------------------


class Health(Enum):
    """The health of a direct link (PL-03)."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DISCONNECTED = "disconnected"


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a peer with a link: heartbeats beside the data, everything else on the control stream."""

    peer: NodeId
    message: Message


@dataclass(frozen=True, slots=True)
class Dial:
    address: str


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """Something about a member is new; the member may be this node. A higher epoch means that the member has a new
    log."""

    before: NodeState | None
    after: NodeState


@dataclass(frozen=True, slots=True)
class MemberForgotten:
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class HealthChanged:
    peer: NodeId
    before: Health
    after: Health


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A heartbeat was answered after this time."""

    peer: NodeId
    rtt_s: float


@dataclass(frozen=True, slots=True)
class GossipRefused:
    """A peer said something about a node that this node does not believe. ``what`` is for people, ``fault`` for
    counting."""

    peer: NodeId
    fault: str
    what: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The goodbye was said, or took too long. Nothing comes after this."""


Effect: TypeAlias = Send | Dial | MemberChanged | MemberForgotten | HealthChanged | RoundTrip | GossipRefused | Stopped

# --- sizes -----------------------------------------------------------------------------------------------------------


# Tags, lengths, incarnation (6, as ms since 1970), version (2), liveness; and the id.
DIGEST_BYTES: Final = 16


def size_of(message: Message) -> int:
    """Estimate how many bytes a message takes on the wire: protobuf's fields, and 8 for the frame around them."""
    match message:
        case Gossip(digests, states):
            return 10 + sum(DIGEST_BYTES + len(d.node_id) for d in digests) + sum(s.size_bytes for s in states)
        case Ping():
            return 14
        case Pong(_, node_id):
            return 24 + len(node_id)
        case PingFor(_, target):
            return 16 + len(target)
        case Heartbeat(_, echo):
            return 26 if echo else 17  # 8 bytes of microseconds each
        case _:
            assert_never(message)
