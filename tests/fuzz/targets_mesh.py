"""Fuzz targets of the mesh's own messages."""

from __future__ import annotations

from weft.model.stream import NodeId
from weft.wire.mesh.errors import BadMeshMessage
from weft.wire.mesh.features import Feature, Hello, read_hello_untrusted
from weft.wire.mesh.frames import read_peer_message_untrusted, write_peer_message
from weft.wire.mesh.mesh_pb2 import StreamPosition, StreamRef
from weft.wire.mesh.peerlink_pb2 import Event, PeerAcks, PeerMessage
from weft.wire.mesh.streams import read_position_untrusted

_POSITION = StreamPosition(stream=StreamRef(topic="a.b", origin="n1", epoch=1), next_offset=7)


def frame(data: bytes) -> None:
    try:
        message = read_peer_message_untrusted(data)
        if message.WhichOneof("msg") == "handshake":
            read_hello_untrusted(message.handshake, NodeId("us"), "prod")
        for position in message.acks.synced:
            read_position_untrusted(position)
    except BadMeshMessage:
        return


TARGETS = {"mesh-frame": frame}
SEEDS = {
    "mesh-frame": [
        write_peer_message(PeerMessage(handshake=Hello(NodeId("n1"), frozenset(Feature), "prod").to_message())),
        write_peer_message(PeerMessage(acks=PeerAcks(synced=[_POSITION]))),
        write_peer_message(PeerMessage(event=Event(topic="t", offset=1, payload=b"p" * 600)), compressed=True),
    ]
}
