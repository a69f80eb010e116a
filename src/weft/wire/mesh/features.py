"""Handshakes of peer links: versions, identities, and what both sides can do beyond the four original messages (PL-05).

A peer that names no feature gets handshakes, events, acks and heartbeats, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from weft.errors import UsageError
from weft.limits import ORIGIN_BYTES_MAX, PEER_ADDRESSES_MAX, PEER_FEATURES_MAX, PEER_NAME_CHARS_MAX
from weft.model.stream import Epoch, NodeId, parse_node_id
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.lives import (
    Heard,
    Life,
    OtherLife,
    read_heard_untrusted,
    read_life_untrusted,
    read_other_untrusted,
)
from weft.wire.mesh.peerlink_pb2 import Handshake

PROTOCOL_VERSION: Final = 1  # the major version; what a minor version would add is a feature


class Feature(StrEnum):
    """What two peers may agree on. Names on the wire: append, never rename."""

    BATCHES = "batches"  # Arrow batches with identity, instead of single events
    POSITIONS = "positions"  # resuming by position, per stream
    GOSSIP = "gossip"  # membership and interest, and the control stream
    ZSTD = "zstd"  # compressed frames
    CLOSING = "closing"  # saying goodbye
    KEYS = "keys"  # API keys of the mesh; not for nodes without certificates
    SIGNED = "signed"  # states of nodes with their signatures
    CALLS = "calls"  # requests and replies in memory
    PAST = "past"  # copies that begin in the middle, and get their past when somebody wants it


@dataclass(frozen=True, slots=True)
class Hello:
    """One side's handshake. All but ``node_id`` is empty for a peer of the four messages."""

    node_id: NodeId
    features: frozenset[str] = frozenset()
    mesh: str = ""
    epoch: Epoch | None = None
    incarnation: int = 0
    addresses: tuple[str, ...] = ()
    life: Life | None = None
    heard: Heard | None = None  # of another life with its own id
    other: OtherLife | None = None  # to the receiver, of another life with the receiver's id

    def to_message(self) -> Handshake:
        return Handshake(
            node_id=self.node_id,
            protocol_version=PROTOCOL_VERSION,
            features=sorted(self.features),
            mesh=self.mesh,
            epoch=self.epoch or 0,
            incarnation=self.incarnation,
            addresses=self.addresses,
            run=b"" if self.life is None else self.life.run,
            started_ms=0 if self.life is None else self.life.started_ms,
            heard=None if self.heard is None else self.heard.to_message(),
            other=None if self.other is None else self.other.to_message(),
        )


class OwnId(BadMeshMessage):
    """The other side has our own node id: it is ourselves, or another life with our id."""

    def __init__(self, hello: Hello) -> None:
        super().__init__(
            "the peer has our own node id: a link to ourselves, or two nodes with one id", id=hello.node_id
        )
        self.hello = hello


def read_hello_untrusted(message: Handshake, own_id: NodeId, own_mesh: str) -> Hello:
    """What a peer says of itself, if we can work with it; raise only BadMeshMessage, OwnId among them."""
    if message.protocol_version != PROTOCOL_VERSION:
        raise BadMeshMessage("incompatible protocol version", theirs=message.protocol_version, ours=PROTOCOL_VERSION)
    try:
        node_id = parse_node_id(message.node_id)
    except UsageError as error:
        raise BadMeshMessage(f"bad node id in the handshake: {error}") from None
    if message.mesh and message.mesh != own_mesh:
        theirs = message.mesh[:ORIGIN_BYTES_MAX]
        raise BadMeshMessage("the peer belongs to another mesh", theirs=theirs, ours=own_mesh)
    _check_list("features", message.features, PEER_FEATURES_MAX)
    _check_list("addresses", message.addresses, PEER_ADDRESSES_MAX)
    hello = Hello(
        node_id,
        frozenset(message.features),
        message.mesh,
        Epoch(message.epoch) if message.epoch else None,
        message.incarnation,
        tuple(message.addresses),
        read_life_untrusted(message.started_ms, message.run),
        read_heard_untrusted(message.heard) if message.HasField("heard") else None,
        read_other_untrusted(message.other) if message.HasField("other") else None,
    )
    if node_id == own_id:
        raise OwnId(hello)
    return hello


def agreed_features(ours: Iterable[str], theirs: Iterable[str]) -> frozenset[Feature]:
    """What both sides named. Features that we do not know are theirs to do without."""
    both = set(ours) & set(theirs)
    return frozenset(feature for feature in Feature if feature in both)


def _check_list(name: str, values: Collection[str], count_max: int) -> None:
    if len(values) > count_max:
        raise BadMeshMessage(f"too many {name} in the handshake", have=len(values), limit=count_max)
    longest = max(map(len, values), default=0)
    if longest > PEER_NAME_CHARS_MAX:
        raise BadMeshMessage(f"one of the {name} in the handshake is too long", size=longest, limit=PEER_NAME_CHARS_MAX)
