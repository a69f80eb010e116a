"""Signing and verifying: which keys are used, and what a failure is called."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.emm_compact.packets import DATAGRAMS, VECTORS
from weft.errors import UsageError
from weft.wire.emm_compact import (
    Command,
    EventType,
    Field,
    Format,
    Header,
    KeyRing,
    Notification,
    Packet,
    Priority,
    Proof,
    Signer,
    decode_untrusted,
    fingerprint,
    seal,
    verify_untrusted,
)
from weft.wire.emm_compact.auth import EMC_GROUP_KEYS_MAX, EMC_SENDER_KEYS_MAX
from weft.wire.emm_compact.codes import FieldType
from weft.wire.reject import BadPacket, Reject

OLD, NEW, FOREIGN = bytes(20), bytes([1]) * 20, bytes([2]) * 20
ALICE, MALLORY = Signer(OLD, bytes(32)), Signer(OLD, bytes([7]) * 32)
ALICE_ID, MALLORY_ID = bytes(16), bytes([7]) * 16
NOTE = Notification(Priority.INFO, Format.PLAIN_TEXT, b"hello")


def refusal(packet: Packet, ring: KeyRing) -> Reject:
    with pytest.raises(BadPacket) as caught:
        verify_untrusted(packet, ring)
    return caught.value.reason


def note(group_key: bytes) -> Packet:
    return seal(Header(EventType.NOTIFICATION, 1, 2, 3), NOTE, Signer(group_key, bytes(32)))


def command(signer: Signer, *more: Field) -> Packet:
    return seal(Header(EventType.COMMAND, 1, 2, 3), Command("stop", b"", more), signer)


def by_id(node_id: bytes) -> Field:
    return Field(FieldType.NODE_ID, node_id)


def by_print(public_key: bytes) -> Field:
    return Field(FieldType.NODE_FINGERPRINT, fingerprint(public_key))


@pytest.mark.req("EMC-05")
def test_old_and_new_group_keys_hold_while_rotating() -> None:
    before, during, after = KeyRing((OLD,)), KeyRing((NEW, OLD)), KeyRing((NEW,))
    assert verify_untrusted(note(OLD), before) is Proof.GROUP
    assert verify_untrusted(note(OLD), during) is Proof.GROUP
    assert verify_untrusted(note(NEW), during) is Proof.GROUP
    assert verify_untrusted(note(NEW), after) is Proof.GROUP
    assert refusal(note(OLD), after) is Reject.BAD_HMAC
    assert refusal(note(FOREIGN), during) is Reject.BAD_HMAC
    assert refusal(note(OLD), KeyRing()) is Reject.UNKNOWN_KEY


@pytest.mark.req("EMC-05")
def test_a_heartbeat_has_half_a_tag() -> None:
    # A tag that is right in its first 16 bytes is all a heartbeat needs, and a notification needs more.
    beat = decode_untrusted(DATAGRAMS["heartbeat"])
    ring = KeyRing((bytes.fromhex(VECTORS["group_keys"]["rfc4231-1"]),))
    assert verify_untrusted(beat, ring) is Proof.GROUP
    text = bytearray(DATAGRAMS["notification-text"])
    text[10 + 16] ^= 1
    assert refusal(decode_untrusted(bytes(text)), ring) is Reject.BAD_HMAC


@given(st.sampled_from(sorted(DATAGRAMS)), st.data())
@pytest.mark.req("EMC-05")
def test_no_byte_can_be_changed(name: str, data: st.DataObject) -> None:
    node = bytes.fromhex(VECTORS["node_id"])
    keys = {name: bytes.fromhex(key) for name, key in VECTORS["public_keys"].items()}
    ring = KeyRing(
        tuple(bytes.fromhex(key) for key in VECTORS["group_keys"].values()),
        {node: tuple(keys.values())},
        {fingerprint(key): (key,) for key in keys.values()},
    )
    datagram = bytearray(DATAGRAMS[name])
    at = data.draw(st.integers(0, len(datagram) - 1))
    datagram[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadPacket):
        verify_untrusted(decode_untrusted(bytes(datagram)), ring)


@pytest.mark.req("EMC-05")
def test_the_sender_is_found_by_node_id_or_fingerprint() -> None:
    ids = KeyRing(by_node_id={ALICE_ID: (ALICE.public_key,)})
    prints = KeyRing(by_fingerprint={fingerprint(ALICE.public_key): (ALICE.public_key,)})
    assert verify_untrusted(command(ALICE, by_id(ALICE_ID)), ids) is Proof.SENDER
    assert verify_untrusted(command(ALICE, by_print(ALICE.public_key)), prints) is Proof.SENDER
    assert refusal(command(ALICE), ids) is Reject.ANONYMOUS
    assert refusal(command(ALICE, by_id(MALLORY_ID)), ids) is Reject.UNKNOWN_KEY
    assert refusal(command(ALICE, by_print(ALICE.public_key)), ids) is Reject.UNKNOWN_KEY
    assert refusal(command(MALLORY, by_id(ALICE_ID)), ids) is Reject.BAD_SIGNATURE
    assert refusal(command(MALLORY, by_print(ALICE.public_key)), prints) is Reject.BAD_SIGNATURE


@pytest.mark.req("EMC-05")
def test_a_fingerprint_does_not_vouch_for_a_foreign_node_id() -> None:
    prints = KeyRing(by_fingerprint={fingerprint(MALLORY.public_key): (MALLORY.public_key,)})
    forged = command(MALLORY, by_id(ALICE_ID), by_print(MALLORY.public_key))
    assert refusal(forged, prints) is Reject.UNKNOWN_KEY


@pytest.mark.req("EMC-05")
def test_a_sender_may_have_two_keys_while_rotating() -> None:
    ring = KeyRing(by_node_id={ALICE_ID: (MALLORY.public_key, ALICE.public_key)})
    assert verify_untrusted(command(ALICE, by_id(ALICE_ID)), ring) is Proof.SENDER


@pytest.mark.req("EMC-05")
def test_a_group_key_does_not_make_a_command() -> None:
    ring = KeyRing((OLD,))
    assert refusal(command(ALICE, by_id(ALICE_ID)), ring) is Reject.UNKNOWN_KEY


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: KeyRing((bytes(15),)),
        lambda: KeyRing((bytes(16),) * (EMC_GROUP_KEYS_MAX + 1)),
        lambda: KeyRing(by_node_id={bytes(15): ()}),
        lambda: KeyRing(by_node_id={bytes(16): (bytes(31),)}),
        lambda: KeyRing(by_node_id={bytes(16): (bytes(32),) * (EMC_SENDER_KEYS_MAX + 1)}),
        lambda: KeyRing(by_fingerprint={bytes(5): ()}),
        lambda: Signer(bytes(15), bytes(32)),
        lambda: Signer(bytes(16), bytes(64)),
    ],
)
def test_keys_that_cannot_be(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        wrong()


def test_keys_do_not_show_in_logs() -> None:
    assert "9d61b19d" not in repr(Signer(bytes(16), bytes.fromhex(VECTORS["seeds"]["rfc8032-1"])))
    assert repr(bytes(16)) not in repr(KeyRing((bytes(16),))) + repr(Signer(bytes(16), bytes(32)))
