"""Lives in handshakes: what survives the wire, what is refused, and that a signature is for one thing only."""

from __future__ import annotations

import pytest

from weft.model import NodeId
from weft.wire.mesh.checks import BadMeshMessage, Signature
from weft.wire.mesh.features import Hello, OwnId, read_hello_untrusted
from weft.wire.mesh.lives import Heard, Life, OtherLife, statement
from weft.wire.mesh.peerlink_pb2 import Handshake, HeardLife, NodeLife

RUN, OTHER = b"r" * 16, b"o" * 16
LIFE = Life(1000, RUN)
HEARD = Heard(RUN, Signature(b"signature", b"chain"))


def read(message: Handshake) -> Hello:
    return read_hello_untrusted(message, NodeId("us"), own_mesh="prod")


@pytest.mark.req("SEC-07")
@pytest.mark.parametrize("heard", [None, HEARD])
def test_they_survive_the_wire(heard: Heard | None) -> None:
    hello = Hello(NodeId("b"), life=LIFE, heard=heard, other=OtherLife(Life(2000, OTHER), heard))
    assert read(Handshake.FromString(hello.to_message().SerializeToString())) == hello


@pytest.mark.req("SEC-07")
def test_a_hello_with_our_own_id_tells_whose_life_it_is() -> None:
    with pytest.raises(OwnId, match="two nodes with one id") as raised:
        read(Hello(NodeId("us"), life=LIFE).to_message())
    assert raised.value.hello.life == LIFE


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"run": b"short"}, "another length"),
        ({"run": RUN, "started_ms": 1 << 63}, "out of range"),
        ({"heard": HeardLife(run=b"")}, "another length"),
        ({"heard": HeardLife(run=RUN, signature=bytes(257))}, "signature of a node is too long"),
        ({"heard": HeardLife(run=RUN, chain=bytes(16 * 1024 + 1))}, "certificate of a node is too long"),
        ({"other": NodeLife(run=RUN, heard=HeardLife(run=b"x"))}, "another length"),
    ],
)
def test_what_is_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(BadMeshMessage, match=message):
        read(Handshake(node_id="b", protocol_version=1, **parts))  # type: ignore[arg-type]


@pytest.mark.req("SEC-07")
def test_every_part_of_a_statement_counts() -> None:
    said = [
        statement("prod", "b", LIFE, OTHER),
        statement("pro", "b", LIFE, OTHER),
        statement("prod", "c", LIFE, OTHER),
        statement("prodb", "", LIFE, OTHER),  # nothing moves from one name into the next
        statement("prod", "b", Life(1001, RUN), OTHER),
        statement("prod", "b", Life(1000, OTHER), OTHER),
        statement("prod", "b", LIFE, RUN),
    ]
    assert len(set(said)) == len(said)
