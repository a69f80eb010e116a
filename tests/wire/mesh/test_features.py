"""Handshakes: who is refused, and what is agreed."""

from __future__ import annotations

import pytest

from weft.model.stream import Epoch, NodeId
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.features import Feature, Hello, agreed_features, read_hello_untrusted
from weft.wire.mesh.peerlink_pb2 import Handshake

US = NodeId("node-b")


def read(message: Handshake) -> Hello:
    return read_hello_untrusted(message, US, own_mesh="prod")


@pytest.mark.req("PL-05")
def test_a_hello_survives_the_wire() -> None:
    hello = Hello(NodeId("node-a"), frozenset(Feature), "prod", Epoch(9), 3, ("127.0.0.1:7400",))
    assert read(Handshake.FromString(hello.to_message().SerializeToString())) == hello


@pytest.mark.req("PL-05")
def test_a_peer_of_the_four_messages_is_welcome() -> None:
    hello = read(Handshake(node_id="go-node", protocol_version=1))
    assert hello == Hello(NodeId("go-node"))
    assert agreed_features(Feature, hello.features) == frozenset()


@pytest.mark.req("PL-05")
@pytest.mark.parametrize(
    ("handshake", "message"),
    [
        (Handshake(node_id="node-a", protocol_version=2), "incompatible protocol version"),
        (Handshake(node_id="node-a"), "incompatible protocol version"),
        (Handshake(node_id="node-b", protocol_version=1), "our own node id"),
        (Handshake(node_id="", protocol_version=1), "bad node id"),
        (Handshake(node_id="a b", protocol_version=1), "bad node id"),
        (Handshake(node_id="node-a", protocol_version=1, mesh="test"), "another mesh"),
        (Handshake(node_id="node-a", protocol_version=1, features=["x"] * 65), "too many features"),
        (Handshake(node_id="node-a", protocol_version=1, addresses=["x" * 301]), "too long"),
    ],
)
def test_who_is_refused(handshake: Handshake, message: str) -> None:
    with pytest.raises(BadMeshMessage, match=message):
        read(handshake)


@pytest.mark.req("PL-05")
def test_features_are_what_both_know() -> None:
    assert agreed_features({Feature.BATCHES, Feature.ZSTD}, ["zstd", "telepathy"]) == {Feature.ZSTD}
