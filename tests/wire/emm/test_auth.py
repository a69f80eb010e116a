"""Who may say what: HMAC, signature, and the trust policies."""

from __future__ import annotations

import hmac
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.wire.emm import (
    Credentials,
    Packet,
    SigningKey,
    TrustPolicy,
    TrustStore,
    Verdict,
    authenticate,
    build,
    draft_event,
    parse_untrusted,
)
from weft.wire.reject import BadPacket, Reject

NODE, OTHER = UUID(int=7), UUID(int=8)
SECRET = b"s" * 32
KEY, STRANGER = SigningKey(bytes(32)), SigningKey(b"\1" * 32)


def signed(key: SigningKey = KEY, *, carry: bool = True, node: UUID = NODE, key_id: bytes | None = b"key1") -> Packet:
    return parse_untrusted(build(draft_event(1, 0, "n", node_id=node), Credentials(key_id, None, key, carry)))


def coded(secret: bytes = SECRET, node: UUID = NODE, key_id: bytes | None = b"key1") -> Packet:
    return parse_untrusted(build(draft_event(1, 0, "n", node_id=node), Credentials(key_id, hmac_key=secret)))


def store(policy: TrustPolicy = TrustPolicy.PINNED) -> TrustStore:
    trust = TrustStore(policy)
    trust.add_hmac_key(NODE, b"key1", SECRET)
    trust.add_public_key(NODE, b"key1", KEY.public_key)
    return trust


def refusal(packet: Packet, trust: TrustStore) -> Reject:
    with pytest.raises(BadPacket) as caught:
        authenticate(packet, trust)
    return caught.value.reason


@pytest.mark.req("EMM-14", "EMM-15", "EMM-17")
def test_known_keys_verify() -> None:
    trust = store()
    assert authenticate(coded(), trust) is Verdict.VERIFIED
    assert authenticate(signed(), trust) is Verdict.VERIFIED
    assert authenticate(signed(carry=False), trust) is Verdict.VERIFIED
    assert authenticate(parse_untrusted(build(draft_event(1, 0, "n"))), trust) is Verdict.UNSIGNED


@pytest.mark.req("EMM-14", "EMM-15", "EMM-18")
@given(st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    both = Credentials(b"key1", hmac_key=SECRET, signing_key=KEY)
    packet = bytearray(
        build(
            draft_event(1, 0, "name", 5, node_id=NODE),
            data.draw(
                st.sampled_from([both, Credentials(b"key1", hmac_key=SECRET), Credentials(b"key1", signing_key=KEY)])
            ),
        )
    )
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadPacket):
        authenticate(parse_untrusted(bytes(packet)), store())


@pytest.mark.req("EMM-14")
def test_hmacs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole codes, by the function that is made for it, whether they fit or not."""
    compare, compared = hmac.compare_digest, list[tuple[int, int, bool]]()

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other), compare(one, other)))
        return compared[-1][2]

    monkeypatch.setattr(hmac, "compare_digest", noted)
    authenticate(coded(), store())
    assert refusal(coded(secret=b"x" * 32), store()) is Reject.BAD_HMAC
    assert compared == [(32, 32, True), (32, 32, False)]


@pytest.mark.req("EMM-15")
def test_the_hmac_is_checked_before_the_signature() -> None:
    both_wrong = Credentials(b"key1", hmac_key=b"x" * 32, signing_key=STRANGER)
    packet = parse_untrusted(build(draft_event(1, 0, "n", node_id=NODE), both_wrong))
    assert refusal(packet, store()) is Reject.BAD_HMAC
    signature_wrong = Credentials(b"key1", hmac_key=SECRET, signing_key=STRANGER)
    packet = parse_untrusted(build(draft_event(1, 0, "n", node_id=NODE), signature_wrong))
    assert refusal(packet, store()) is Reject.BAD_SIGNATURE


@pytest.mark.req("EMM-17", "EMM-18")
def test_unknown_keys() -> None:
    trust = store()
    assert refusal(coded(node=OTHER), trust) is Reject.UNKNOWN_KEY
    assert refusal(coded(key_id=b"key2"), trust) is Reject.UNKNOWN_KEY
    assert refusal(signed(carry=False, node=OTHER), trust) is Reject.UNKNOWN_KEY
    assert refusal(signed(carry=False, key_id=b"key2"), trust) is Reject.UNKNOWN_KEY


@pytest.mark.req("EMM-17")
def test_without_a_key_id_the_only_key_is_used() -> None:
    trust = store()
    assert authenticate(coded(key_id=None), trust) is Verdict.VERIFIED
    assert authenticate(signed(carry=False, key_id=None), trust) is Verdict.VERIFIED
    trust.add_hmac_key(NODE, b"key2", b"t" * 32)
    assert refusal(coded(key_id=None), trust) is Reject.UNKNOWN_KEY


@pytest.mark.req("EMM-17")
def test_pinned_refuses_keys_it_does_not_know() -> None:
    assert refusal(signed(STRANGER), store()) is Reject.UNTRUSTED_KEY
    assert refusal(signed(KEY, node=OTHER), store()) is Reject.UNTRUSTED_KEY


@pytest.mark.req("EMM-17")
def test_a_carried_key_takes_precedence_for_that_packet_only() -> None:
    trust = store()
    trust.add_public_key(NODE, b"key2", STRANGER.public_key)
    assert authenticate(signed(STRANGER, key_id=b"key1"), trust) is Verdict.VERIFIED  # key1 is KEY's id
    assert refusal(signed(STRANGER, carry=False, key_id=b"key1"), trust) is Reject.BAD_SIGNATURE


@pytest.mark.req("EMM-17")
def test_first_use_pins_the_first_key() -> None:
    trust = TrustStore(TrustPolicy.FIRST_USE)
    assert refusal(signed(carry=False), trust) is Reject.UNKNOWN_KEY
    assert authenticate(signed(), trust) is Verdict.VERIFIED
    assert authenticate(signed(carry=False), trust) is Verdict.VERIFIED  # remembered, so it need not be carried again
    assert refusal(signed(STRANGER), trust) is Reject.UNTRUSTED_KEY
    assert authenticate(signed(STRANGER, node=OTHER), trust) is Verdict.VERIFIED
    trust.remove(NODE)
    assert authenticate(signed(STRANGER), trust) is Verdict.VERIFIED


@pytest.mark.req("EMM-17")
def test_first_use_pins_nothing_by_a_bad_signature() -> None:
    trust = TrustStore(TrustPolicy.FIRST_USE)
    forged = signed(STRANGER)._replace(timestamp_s=0)
    raw = bytearray(forged.raw)
    raw[-1] ^= 1
    assert refusal(parse_untrusted(bytes(raw)), trust) is Reject.BAD_SIGNATURE
    assert authenticate(signed(KEY), trust) is Verdict.VERIFIED


@pytest.mark.req("EMM-17")
def test_first_use_is_bounded() -> None:
    trust = TrustStore(TrustPolicy.FIRST_USE, first_use_keys_max=1)
    authenticate(signed(), trust)
    assert refusal(signed(node=OTHER), trust) is Reject.UNTRUSTED_KEY


@pytest.mark.req("EMM-17")
def test_any_accepts_and_marks() -> None:
    trust = store(TrustPolicy.ANY)
    assert authenticate(signed(STRANGER), trust) is Verdict.UNVERIFIED_IDENTITY
    assert authenticate(signed(KEY), trust) is Verdict.VERIFIED


@pytest.mark.req("EMM-17")
def test_removed_keys_are_gone() -> None:
    trust = store()
    trust.remove(NODE, b"key1")
    assert refusal(coded(), trust) is Reject.UNKNOWN_KEY
    assert refusal(signed(carry=False), trust) is Reject.UNKNOWN_KEY


@pytest.mark.parametrize(
    "add",
    [
        lambda trust: trust.add_hmac_key(NODE, b"key1", b"short"),
        lambda trust: trust.add_hmac_key(NODE, b"key", SECRET),
        lambda trust: trust.add_public_key(NODE, b"key1", b"short"),
    ],
)
def test_bad_keys_are_refused(add: Any) -> None:
    with pytest.raises(UsageError, match="need"):
        add(TrustStore())
