"""Who is in the mesh, who is alive, and which links exist: SWIM-style membership with versioned full state per node.

Every node describes itself completely in one numbered state: addresses, links, interest, the epoch of its log. States
travel over the existing links, whatever shape the mesh has. Nothing here reads a clock, uses chance or sends:

>>> from random import Random
>>> from weft.model import Epoch, NodeId
>>> own = NodeState(NodeId("a"), incarnation=1, version=1, epoch=Epoch(1))
>>> members = Members(own, Settings(), Random(1), seeds=["10.0.0.1:7400"])
>>> members.step(Start(), now_s=0.0)[1:]
[Dial(address='10.0.0.1:7400')]

The runtime performs the effects, and comes back with ``Tick`` when ``get_timer`` says so.

- ``state``       what is known about a node, and which of two pieces of knowledge counts
- ``table``       all that one node knows, including dead nodes and the tombstones of forgotten ones
- ``exchange``    which peer is told what: spreading changes, comparing digests, filling in a new link
- ``prober``      pings, directly and through others
- ``heartbeats``  the health of direct links
- ``rumours``     what to believe when one node says something about another
- ``reach``       which nodes can be reached over the links that nodes announce
- ``members``     all of that together
- ``messages``, ``settings``, ``chance``: what goes in and out, the knobs, randomness as an argument
"""

from __future__ import annotations

from weft.chance import Chance
from weft.membership.members import Members
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
    RoundTrip,
    Send,
    SetAddresses,
    SetInterest,
    SignAgain,
    Start,
    Stopped,
    Tick,
    size_of,
)
from weft.membership.settings import Settings, spread_times, suspicion_timeout_s
from weft.membership.state import Digest, Liveness, NodeState, Signed, join

__all__ = [
    "Chance",
    "Dial",
    "Digest",
    "Effect",
    "Gossip",
    "GossipRefused",
    "Health",
    "HealthChanged",
    "Heartbeat",
    "Input",
    "Leave",
    "LinkDown",
    "LinkUp",
    "Liveness",
    "MemberChanged",
    "MemberForgotten",
    "Members",
    "Message",
    "MessageReceived",
    "NodeState",
    "PeerLeaves",
    "Ping",
    "PingFor",
    "Pong",
    "RoundTrip",
    "Send",
    "SetAddresses",
    "SetInterest",
    "Settings",
    "SignAgain",
    "Signed",
    "Start",
    "Stopped",
    "Tick",
    "join",
    "size_of",
    "spread_times",
    "suspicion_timeout_s",
]
