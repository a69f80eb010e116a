"""Mesh events as datagrams: what is in them, who signed them, and which never become one."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.gateway.emm.devices import KEY_ID, NOW
from weft.datagram_node import Instant
from weft.emm_compact import Settings
from weft.emm_compact.neighbours import CompactNeighbours
from weft.errors import UsageError
from weft.gateway.emm.identity import Identity
from weft.gateway.emm.packing import Packer, SealCompact, came_as_datagram, no_compact
from weft.gateway.emm.settings import Out
from weft.model import Event, parse_pattern, parse_topic
from weft.security import Secret, Trust
from weft.security.trust_file import DeviceKey, KeyKind
from weft.wire import emm, emm_compact
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm_compact import Format, Notification, Priority
from weft.wire.recent import NoMarks

ME = Identity(UUID(int=5), Secret(b"e" * 32))
TOPIC = parse_topic("alarms.fire")
ANY = parse_pattern(">")


def packer(trust: Trust = Trust()) -> Packer:  # noqa: B008 (frozen)
    made = Packer(ME.node_id, lambda bits: (1 << bits) - 1, sealer(trust))
    made.credentials = ME.credentials(trust)
    return made


def sealer(trust: Trust) -> SealCompact:
    signer, at = ME.signer(trust), Instant(0, NOW)
    if signer is None:
        return no_compact
    return CompactNeighbours(ME.node_id, signer, Settings(), at, lambda: 1, NoMarks()).seal_event


def event(payload: bytes = b"!", at_s: int = NOW) -> Event:
    return Event(payload, at_s * 1_000_000, None, None)


def test_an_emm_event_is_named_as_its_topic_and_signed() -> None:
    packed = packer().pack(TOPIC, event(at_s=NOW - 4000), Out(ANY, urgent=True), NOW)
    store = emm.TrustStore()
    store.add_public_key(ME.node_id, ME.key_id, ME.public_key)
    packet = emm.Judge(store).receive_datagram(packed.data, b"x", NOW).packet
    assert (packet.event_name, packet.values[1][1], packet.urgent, packed.urgent) == ("alarms.fire", b"!", True, True)
    assert (packet.timestamp_s, packet.signed_at_s) == (NOW - 4000, NOW)  # old, and fresh all the same
    assert packet.message_id == 0xFFFFFFFF


def test_an_event_from_the_future_is_dated_now() -> None:
    packet = emm.parse_untrusted(packer().pack(TOPIC, event(at_s=NOW + 4000), Out(ANY), NOW).data)
    assert (packet.timestamp_s, packet.signed_at_s) == (NOW, None)


def test_an_hmac_key_that_the_store_has_for_us_is_preferred() -> None:
    shared = DeviceKey(ME.node_id, KEY_ID, KeyKind.HMAC, Secret(b"h" * 32))
    packet = emm.parse_untrusted(packer(Trust((shared,))).pack(TOPIC, event(), Out(ANY), NOW).data)
    store = emm.TrustStore()
    store.add_hmac_key(ME.node_id, KEY_ID, b"h" * 32)
    assert emm.authenticate(packet, store) is emm.Verdict.VERIFIED
    assert emm.Field.SIGNATURE not in packet.fields


@pytest.mark.req("EMC-14")
def test_an_emm_c_event_is_a_notification_with_its_marks() -> None:
    out = Out(ANY, DatagramProtocol.EMM_COMPACT, priority=Priority.CRITICAL, urgent=True)
    trust = Trust(groups=(Secret(b"o" * 32), Secret(b"g" * 32)))
    packing = packer(trust)
    first, second = (packing.pack(TOPIC, event(), out, NOW) for _ in range(2))
    packet = emm_compact.decode_untrusted(first.data)
    emm_compact.verify_untrusted(packet, emm_compact.KeyRing((b"g" * 32,)))  # the newest group key
    assert packet.body == Notification(Priority.CRITICAL, Format.BINARY, b"!")
    assert first.tos == emm_compact.tos(0x38, emm_compact.Ecn.ECT_0)
    assert packet.header.triple != emm_compact.decode_untrusted(second.data).header.triple


@pytest.mark.parametrize("protocol", DatagramProtocol)
def test_what_does_not_fit_is_refused(protocol: DatagramProtocol) -> None:
    trust = Trust(groups=(Secret(b"g" * 32),))
    with pytest.raises(UsageError, match="too l"):
        packer(trust).pack(TOPIC, event(b"x" * 600), Out(ANY, protocol), NOW)


def test_emm_c_needs_a_group_key() -> None:
    with pytest.raises(UsageError, match="weft trust add --group"):
        packer().pack(TOPIC, event(), Out(ANY, DatagramProtocol.EMM_COMPACT), NOW)


@pytest.mark.parametrize(
    ("headers", "came"),
    [(None, False), ({}, False), ({"unit": "C"}, False), ({"emm-protocol": "emm-c", "unit": "C"}, True)],
)
def test_events_that_came_as_datagrams_are_known_by_a_header(headers: dict[str, str] | None, came: bool) -> None:
    assert came_as_datagram(Event(b"", 0, None, headers)) is came


@pytest.mark.req("EMM-22", "EMM-24")
def test_what_must_be_sealed_goes_out_sealed_or_not_at_all() -> None:
    rule = emm.SealRule(parse_pattern("alarms.>"), b"i" * 16)
    keys: dict[bytes, bytes] = {}
    trust = Trust(groups=(Secret(b"g" * 32),))
    made = Packer(ME.node_id, lambda bits: 1, sealer(trust), seal=(rule,), find_key=keys.get)
    made.credentials = ME.credentials(trust)
    with pytest.raises(UsageError, match="there is no key with that id"):
        made.pack(TOPIC, event(), Out(ANY), NOW)
    keys[b"i" * 16] = b"k" * 32
    packed = made.pack(TOPIC, event(b"!" * 900), Out(ANY, compress=True), NOW)
    packet = emm.unseal_untrusted(emm.parse_untrusted(packed.data), keys.get)
    assert (packet.encrypted, packet.compressed, packet.values[1][1]) == (True, True, b"!" * 900)
    with pytest.raises(UsageError, match="EMM-C has no encryption"):
        made.pack(TOPIC, event(), Out(ANY, DatagramProtocol.EMM_COMPACT), NOW)


@pytest.mark.req("EMM-04", "EMM-26")
def test_limits_and_profile_hold_for_what_goes_out() -> None:
    made = Packer(ME.node_id, lambda bits: 1, rules=emm.Rules(packet_bytes_max=1000, profile=emm.Profile.INTEROP_V1))
    with pytest.raises(UsageError, match="interop-v1 requires"):
        made.pack(TOPIC, event(), Out(ANY), NOW)  # nothing to sign with
    made.credentials = ME.credentials(Trust())
    assert len(made.pack(TOPIC, event(b"x" * 700), Out(ANY), NOW).data) > 548
    with pytest.raises(UsageError, match="limit 1000"):
        made.pack(TOPIC, event(b"x" * 1000), Out(ANY), NOW)
