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
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.checks import BadMeshMessage, Signature
from weft.wire.mesh.deliveries import read_delivery_untrusted, read_fetched_untrusted
from weft.wire.mesh.features import Feature, Hello, read_hello_untrusted
from weft.wire.mesh.frames import read_peer_message_untrusted, write_peer_message
from weft.wire.mesh.lives import Heard, Life, OtherLife
from weft.wire.mesh.mesh_pb2 import StreamPosition, StreamRef
from weft.wire.mesh.peerlink_pb2 import Event, PeerAcks, PeerMessage
from weft.wire.mesh.streams import read_position_untrusted, read_stream_untrusted

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


def delivery(data: bytes) -> None:
    """What is read by hand is what protobuf reads."""
    found = read_delivery_untrusted(data)
    if found is None:
        return
    reply = pb.SubscribeReply.FromString(data)
    assert reply.WhichOneof("msg") == "delivery"
    assert found == [
        (*read_stream_untrusted(each.stream), each.batch, each.first_offset, each.tries)
        for each in reply.delivery.batches
    ]


_REF = StreamRef(topic="a.b", origin="n1", epoch=300, partition=3)
_DELIVERED = [
    pb.StreamBatch(stream=_REF, first_offset=1 << 40, tries=2, batch=b"b" * 200),
    pb.StreamBatch(stream=_REF, first_offset=3, batch=b"c"),
]


def fetched(data: bytes) -> None:
    """Likewise, of a fetch."""
    found = read_fetched_untrusted(data)
    if found is not None:
        reply = pb.FetchReply.FromString(data)
        wanted = reply.fetched
        assert not reply.range and reply.WhichOneof("msg") == "fetched"
        assert found == (list(wanted.batches), list(wanted.ranges), wanted.ranges_done, tuple(wanted.first_offsets))


def _in_the_order_of_nodes(delivered: list[pb.StreamBatch]) -> bytes:
    """Protobuf writes the batch before the offset; nodes write it last."""
    parts = []
    for each in delivered:
        place = pb.StreamBatch(stream=each.stream, first_offset=each.first_offset, tries=each.tries)
        parts.append(place.SerializeToString() + pb.StreamBatch(batch=each.batch).SerializeToString())
    body = b"".join(b"\x0a" + _length(part) + part for part in parts)
    return b"\x12" + _length(body) + body


def _length(data: bytes) -> bytes:
    size = len(data)
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


_HEARD = Heard(b"h" * 16, Signature(b"s" * 70, b"c" * 100))
_TWIN = Hello(NodeId("n1"), life=Life(1, b"r" * 16), heard=_HEARD, other=OtherLife(Life(2, b"o" * 16), _HEARD))
_SAID = NodeState(NodeId("n1"), 1, 1, Epoch(1), addresses=("h:1",), neighbours=(NodeId("n2"),))
_STATE = replace(_SAID, signed=Signed(state_message(_SAID).SerializeToString(), _HEARD.signature))

TARGETS = {"mesh-frame": frame, "mesh-delivery": delivery, "mesh-fetched": fetched}
SEEDS = {
    "mesh-frame": [
        write_peer_message(PeerMessage(handshake=Hello(NodeId("n1"), frozenset(Feature), "prod").to_message())),
        write_peer_message(PeerMessage(handshake=_TWIN.to_message())),
        write_peer_message(PeerMessage(acks=PeerAcks(synced=[_POSITION]))),
        write_peer_message(member_message(Gossip((_STATE.digest,), (_STATE,)), frozenset(Feature))),
        write_peer_message(PeerMessage(event=Event(topic="t", offset=1, payload=b"p" * 600)), compressed=True),
    ],
    "mesh-delivery": [
        _in_the_order_of_nodes(_DELIVERED),
        _in_the_order_of_nodes(_DELIVERED[1:]),
        pb.SubscribeReply(delivery=pb.Delivery(batches=_DELIVERED)).SerializeToString(),
    ],
    "mesh-fetched": [
        pb.FetchReply(
            fetched=pb.FetchedBatches(batches=[b"b" * 200, b"c"], ranges=[0, 300], ranges_done=301)
        ).SerializeToString(),
        pb.FetchReply(fetched=pb.FetchedBatches(batches=[b"b"], first_offsets=[1])).SerializeToString(),
    ],
}
