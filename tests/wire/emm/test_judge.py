"""The judge as a story: what is taken, what is dropped and why, in which order."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given

from tests.wire.emm.strategies import mangled_packets
from weft.wire.emm import (
    Credentials,
    Draft,
    EventType,
    Judge,
    SigningKey,
    Terms,
    TrustPolicy,
    TrustStore,
    Verdict,
    build,
    draft_event,
)
from weft.wire.recent import Recent
from weft.wire.reject import BadPacket, Reject

NODE = UUID(int=7)
SECRET = b"s" * 32
SIGNER = Credentials(b"key1", hmac_key=SECRET)
NOW = 1_700_000_000.0
HERE = b"127.0.0.1:5000"


def judge(*, unsigned_allowed: bool = False) -> Judge:
    trust = TrustStore()
    trust.add_hmac_key(NODE, b"key1", SECRET)
    return Judge(trust, Terms(unsigned_allowed=unsigned_allowed))


def event(message_id: int = 1, sent_s: float = NOW, signer: Credentials | None = SIGNER, **more: object) -> bytes:
    return build(draft_event(message_id, int(sent_s), "n", node_id=NODE), signer, **more)  # type: ignore[arg-type]


def refusal(to: Judge, data: bytes, now_s: float = NOW, source: bytes = HERE) -> Reject:
    with pytest.raises(BadPacket) as caught:
        to.receive_datagram(data, source, now_s)
    return caught.value.reason


@pytest.mark.req("EMM-14", "EMM-18", "EMM-19", "EMM-20")
def test_a_day_of_the_judge() -> None:
    node = judge()
    taken = node.receive_datagram(event(), HERE, NOW)
    assert (taken.packet.event_name, taken.verdict) == ("n", Verdict.VERIFIED)
    assert refusal(node, event()) is Reject.REPLAY
    assert refusal(node, event(), now_s=NOW + 300) is Reject.REPLAY
    assert refusal(node, event(), now_s=NOW + 301) is Reject.STALE
    assert refusal(node, event(2, NOW - 301)) is Reject.STALE
    assert refusal(node, event(3, NOW + 121)) is Reject.FUTURE
    assert refusal(node, event(4, signer=None)) is Reject.UNSIGNED
    assert refusal(node, event(5, signer=Credentials(b"key1", hmac_key=b"x" * 32))) is Reject.BAD_HMAC
    assert refusal(node, b"\x02") is Reject.TRUNCATED
    assert len(node.marks) == 1  # type: ignore[arg-type]


@pytest.mark.req("EMM-19")
def test_a_forgery_does_not_poison_the_cache() -> None:
    node = judge()
    forged = bytearray(event(9))
    forged[-1] ^= 1
    assert refusal(node, bytes(forged)) is Reject.BAD_HMAC
    node.receive_datagram(event(9), HERE, NOW)


@pytest.mark.req("EMM-19")
def test_a_forged_signature_does_not_poison_the_cache() -> None:
    key = SigningKey(b"k" * 32)
    trust = TrustStore()
    trust.add_public_key(NODE, b"key1", key.public_key)
    node, signer = Judge(trust), Credentials(b"key1", signing_key=key)
    forged = bytearray(event(9, signer=signer))
    forged[-1] ^= 1
    assert refusal(node, bytes(forged)) is Reject.BAD_SIGNATURE
    node.receive_datagram(event(9, signer=signer), HERE, NOW)


@pytest.mark.req("EMM-19", "EMM-20")
def test_a_packet_that_is_dated_ahead_is_remembered_for_as_long_as_it_counts_as_fresh() -> None:
    node = judge()
    node.receive_datagram(event(1, NOW + 100), HERE, NOW)
    assert refusal(node, event(1, NOW + 100), now_s=NOW + 301) is Reject.REPLAY
    assert refusal(node, event(1, NOW + 100), now_s=NOW + 400) is Reject.REPLAY
    assert refusal(node, event(1, NOW + 100), now_s=NOW + 401) is Reject.STALE


@pytest.mark.req("EMM-19")
def test_without_a_node_id_the_source_stands_in() -> None:
    node = judge(unsigned_allowed=True)
    anonymous = build(draft_event(1, int(NOW), "n"))
    assert node.receive_datagram(anonymous, HERE, NOW).verdict is Verdict.UNSIGNED
    assert refusal(node, anonymous) is Reject.REPLAY
    node.receive_datagram(anonymous, b"127.0.0.1:5001", NOW)


@pytest.mark.req("EMM-20", "EMM-21")
def test_the_signing_time_counts_when_it_is_there() -> None:
    """An old event signed just now is fresh; a packet cannot make itself fresh again without its key."""
    node = judge()
    node.receive_datagram(event(1, NOW - 1000, signed_at_s=int(NOW)), HERE, NOW)
    assert refusal(node, event(2, NOW, signed_at_s=int(NOW) - 400)) is Reject.STALE


@pytest.mark.req("EMM-25")
def test_a_sealed_packet_is_opened_last() -> None:
    node = judge()
    draft = Draft(EventType.EVENT, 1, int(NOW), ("n", 5), NODE, compressed=True)
    assert [value for _, value in node.receive_datagram(build(draft, SIGNER), HERE, NOW).packet.values] == ["n", 5]


@given(mangled_packets())
def test_hostile_datagrams_raise_only_bad_packet(data: bytes) -> None:
    trust = TrustStore()
    trust.add_hmac_key(NODE, b"key1", SECRET)
    trust.add_public_key(NODE, b"key1", SigningKey(bytes(32)).public_key)
    try:
        Judge(trust, Terms(unsigned_allowed=True), marks=Recent(4)).receive_datagram(data, HERE, NOW)
    except BadPacket as error:
        assert error.reason in Reject


@pytest.mark.req("EMM-19")
def test_an_unsigned_packet_with_somebodys_id_does_not_keep_out_theirs() -> None:
    node = judge(unsigned_allowed=True)
    assert node.receive_datagram(event(signer=None), HERE, NOW).verdict is Verdict.UNSIGNED
    assert node.receive_datagram(event(), HERE, NOW).verdict is Verdict.VERIFIED


@pytest.mark.req("EMM-19")
def test_a_strangers_signature_with_somebodys_id_does_not_keep_out_theirs() -> None:
    """Under `any` a carried key proves that the sender holds it, and nothing about the node id."""
    trust = TrustStore(TrustPolicy.ANY)
    trust.add_hmac_key(NODE, b"key1", SECRET)
    node = Judge(trust)
    strangers = [Credentials(signing_key=SigningKey(bytes([seed]) * 32), carry_public_key=True) for seed in (5, 6)]
    for stranger in strangers:
        assert node.receive_datagram(event(signer=stranger), HERE, NOW).verdict is Verdict.UNVERIFIED_IDENTITY
    assert node.receive_datagram(event(), HERE, NOW).verdict is Verdict.VERIFIED
    assert refusal(node, event(signer=strangers[0]), source=b"127.0.0.1:5001") is Reject.REPLAY
