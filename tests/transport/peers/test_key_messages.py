"""What peers say of API keys, on the wire and back; and what is refused before anybody looks at a signature."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.peers.nodes import TestNode, running
from tests.transport.peers.test_messages import take
from weft.membership import Ping
from weft.model import NodeId
from weft.security.key_exchange import KeyTalk
from weft.security.key_statements import SIGNATURE_BYTES_MAX, STATEMENT_BYTES_MAX, STATEMENT_CHAIN_BYTES_MAX, SignedText
from weft.security.mesh_keys import BUCKETS
from weft.transport.peers.key_messages import STATEMENTS_MAX, key_message
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.features import Feature
from weft.wire.mesh.peerlink_pb2 import KeyStatement, PeerKeys, PeerMessage

texts = st.builds(
    SignedText, st.binary(max_size=50), st.binary(max_size=SIGNATURE_BYTES_MAX), st.sampled_from([b"x", b"y", b"zz"])
)
talks = st.builds(
    KeyTalk,
    st.sampled_from([b"", b"8 bytes."]),
    st.sampled_from([(), (b"8 bytes.",) * BUCKETS]),
    st.lists(texts, max_size=5).map(tuple),
    st.lists(st.integers(0, BUCKETS - 1), unique=True, max_size=5).map(tuple),
    st.booleans(),
)


@given(talks)
def test_talk_of_keys_arrives_as_it_was_sent(talk: KeyTalk) -> None:
    frame = key_message(talk).SerializeToString()
    ((_, received),) = take(frame, on_control=True, keys=True).talks
    assert received == talk
    assert len(frame) <= talk.size_bytes


def test_it_is_refused_unless_it_was_agreed_on() -> None:
    frame = key_message(KeyTalk(summary=bytes(8))).SerializeToString()
    with pytest.raises(BadMeshMessage, match="does not belong on the control stream"):
        take(frame, on_control=True)


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize(
    ("message", "words"),
    [
        (PeerKeys(summary=b"7 bytes"), "the digest of all keys has a wrong size"),
        (PeerKeys(buckets=bytes(8)), "the list of digests of keys has a wrong size"),
        (PeerKeys(asked=bytes(BUCKETS + 1)), "too many buckets that are asked for"),
        (PeerKeys(statements=[KeyStatement()] * (STATEMENTS_MAX + 1)), "too many statements on keys"),
        (PeerKeys(chains=[b""] * (STATEMENTS_MAX + 1)), "too many certificates of signers"),
        (PeerKeys(chains=[bytes(STATEMENT_CHAIN_BYTES_MAX + 1)]), "certificates of a signer is too large"),
        (PeerKeys(statements=[KeyStatement()]), "without the certificates of its signer"),
        (PeerKeys(statements=[KeyStatement(text=bytes(STATEMENT_BYTES_MAX + 1))], chains=[b""]), "a key is too large"),
        (PeerKeys(statements=[KeyStatement(signature=bytes(100))], chains=[b""]), "a signature is too large"),
    ],
)
def test_what_is_too_much_is_refused(message: PeerKeys, words: str) -> None:
    with pytest.raises(BadMeshMessage, match=words):
        take(PeerMessage(keys=message).SerializeToString(), on_control=True, keys=True)


async def test_keys_are_told_to_peers_that_share_them_and_to_nobody_else() -> None:
    """Nodes of earlier versions, and without certificates, do not know what it is."""

    new, also_new = TestNode("new"), TestNode("also-new")
    old = TestNode("old", features=frozenset(Feature) - {Feature.KEYS})
    async with running(new, also_new, old):
        for other in (also_new, old):
            new.links.dial(other.address)
        await new.linked(also_new, old)
        talk = KeyTalk(summary=b"8 bytes.", statements=(SignedText(b"text", b"signature", b"chain"),))
        for other in (also_new, old):
            new.links.send_keys(other.id, talk)
            new.links.send_member(other.id, Ping(7))  # on the same stream, after it
        new.links.send_keys(NodeId("nobody"), talk)
        for other in (also_new, old):
            members = other.record.members
            await other.record.until(partial(members.__contains__, (NodeId("new"), Ping(7))))
        assert also_new.record.talks == [("new", talk)]
        assert old.record.talks == []
        assert new.view(old.id).connected
