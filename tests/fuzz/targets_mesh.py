"""Fuzz targets of the mesh's own messages."""

from __future__ import annotations

from dataclasses import replace

from weft.membership import Gossip, NodeState, Signed
from weft.model import Epoch
from weft.model.stream import NodeId
from weft.transport.peers.member_messages import (
    member_message,
    read_gossip_untrusted,
    read_signed_untrusted,
    state_message,
)
from weft.wire.mesh.errors import BadMeshMessage
from weft.wire.mesh.features import Feature, Hello, read_hello_untrusted
from weft.wire.mesh.frames import read_peer_message_untrusted, write_peer_message
from weft.wire.mesh.lives import Heard, Life, OtherLife
from weft.wire.mesh.mesh_pb2 import StreamPosition, StreamRef
from weft.wire.mesh.peerlink_pb2 import Event, PeerAcks, PeerMessage
from weft.wire.mesh.signatures import Signature
from weft.wire.mesh.streams import read_position_untrusted

_POSITION = StreamPosition(stream=StreamRef(topic="a.b", origin="n1", epoch=1), next_offset=7)


def frame(data: bytes) -> None:
    try:
        message = read_peer_message_untrusted(data)
        if message.WhichOneof("msg") == "handshake":
            read_hello_untrusted(message.handshake, NodeId("us"), "prod")
        read_gossip_untrusted(message.gossip)
        for signed in message.gossip.signed:
            read_signed_untrusted(signed)
        for position in message.acks.synced:
            read_position_untrusted(position)
    except BadMeshMessage:
        return


_HEARD = Heard(b"h" * 16, Signature(b"s" * 70, b"c" * 100))
_TWIN = Hello(NodeId("n1"), life=Life(1, b"r" * 16), heard=_HEARD, other=OtherLife(Life(2, b"o" * 16), _HEARD))
_SAID = NodeState(NodeId("n1"), 1, 1, Epoch(1), addresses=("h:1",), neighbours=(NodeId("n2"),))
_STATE = replace(_SAID, signed=Signed(state_message(_SAID).SerializeToString(), _HEARD.signature))

TARGETS = {"mesh-frame": frame}
SEEDS = {
    "mesh-frame": [
        write_peer_message(PeerMessage(handshake=Hello(NodeId("n1"), frozenset(Feature), "prod").to_message())),
        write_peer_message(PeerMessage(handshake=_TWIN.to_message())),
        write_peer_message(PeerMessage(acks=PeerAcks(synced=[_POSITION]))),
        write_peer_message(member_message(Gossip((_STATE.digest,), (_STATE,)), frozenset(Feature))),
        write_peer_message(PeerMessage(event=Event(topic="t", offset=1, payload=b"p" * 600)), compressed=True),
    ]
}
