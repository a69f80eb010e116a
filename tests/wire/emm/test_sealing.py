"""Which events travel encrypted, which are compressed, and what limits may be set."""

from __future__ import annotations

from uuid import UUID

import pytest

from weft.errors import UsageError
from weft.model import parse_pattern
from weft.wire.emm import (
    Algorithm,
    Credentials,
    Judge,
    Rules,
    SealRule,
    Terms,
    TrustStore,
    build,
    compressed_if_smaller,
    draft_event,
    parse_untrusted,
    seal_for,
)
from weft.wire.emm.seal import no_keys
from weft.wire.reject import BadPacket, Reject

NODE, SECRET, NOW = UUID(int=7), b"s" * 32, 1_700_000_000
SIGNER = Credentials(b"key1", hmac_key=SECRET)
KEY_ID, KEY = b"i" * 16, b"k" * 32
RULES = (
    SealRule(parse_pattern("secret.>"), KEY_ID),
    SealRule(parse_pattern("private.*"), b"j" * 16, Algorithm.CHACHA20_POLY1305),
)
KEYS = {KEY_ID: KEY, b"j" * 16: b"l" * 32}


def judge(**terms: object) -> Judge:
    trust = TrustStore()
    trust.add_hmac_key(NODE, b"key1", SECRET)
    return Judge(trust, Terms(sealed=RULES, **terms), find_key=KEYS.get)  # type: ignore[arg-type]


def packet(name: str, number: int = 1, sealed_as: str | None = None, **draft: object) -> bytes:
    made = draft_event(number, NOW, name, "value", node_id=NODE)
    if draft.get("compressed"):
        made = compressed_if_smaller(draft_event(number, NOW, name, "value " * 20, node_id=NODE))
        assert made.compressed
    seal = None if sealed_as is None else seal_for(RULES, sealed_as, KEYS.get, lambda bits: 1 << bits - 1)
    return build(made, SIGNER, seal=seal)


@pytest.mark.req("EMM-22", "EMM-23")
@pytest.mark.parametrize("name", ["secret.plant.temp", "private.door"])
def test_what_a_rule_names_is_sealed_with_its_key_and_opened_again(name: str) -> None:
    data = packet(name, sealed_as=name)
    assert name.encode() not in data
    assert judge().receive_datagram(data, b"here", NOW).packet.event_name == name


@pytest.mark.req("EMM-22")
def test_what_must_be_sealed_is_refused_in_the_clear_compressed_or_not() -> None:
    for number, compressed in enumerate((False, True)):
        with pytest.raises(BadPacket, match="must be encrypted") as caught:
            judge().receive_datagram(packet("secret.x", number, compressed=compressed), b"here", NOW)
        assert caught.value.reason is Reject.UNSEALED
    assert judge().receive_datagram(packet("public.x"), b"here", NOW).packet.event_name == "public.x"


def test_rules_name_keys_that_have_to_be_there() -> None:
    assert seal_for(RULES, "public.x", KEYS.get, lambda bits: 0) is None
    with pytest.raises(UsageError, match="there is no key with that id"):
        seal_for(RULES, "secret.x", no_keys, lambda bits: 0)
    with pytest.raises(UsageError, match="wrong size"):
        SealRule(parse_pattern(">"), b"short")


def test_every_packet_has_an_iv_of_its_own() -> None:
    drawn = iter(range(1, 10))
    seals = [seal_for(RULES, "secret.x", KEYS.get, lambda bits: next(drawn)) for _ in range(3)]
    assert len({seal.encryption.iv for seal in seals if seal is not None}) == 3


@pytest.mark.req("EMM-24")
def test_events_are_compressed_only_where_that_helps() -> None:
    small, large = draft_event(1, NOW, "n", 5, node_id=NODE), draft_event(1, NOW, "n", "ab" * 400, node_id=NODE)
    assert not compressed_if_smaller(small).compressed
    assert compressed_if_smaller(large).compressed
    with pytest.raises(UsageError, match="too large"):
        build(large, SIGNER)
    assert len(build(compressed_if_smaller(large), SIGNER)) < 200


@pytest.mark.req("EMM-04")
@pytest.mark.parametrize("limits", [(16, 64, 1024), (65_508, 64, 1024), (548, 0, 1024), (548, 64, 0)])
def test_limits_have_a_range(limits: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="out of range"):
        Rules(*limits)


@pytest.mark.req("EMM-04")
def test_a_judge_keeps_to_its_limits() -> None:
    data = build(draft_event(1, NOW, "n", b"x" * 700, node_id=NODE), SIGNER, rules=Rules(packet_bytes_max=1000))
    assert len(judge(rules=Rules(packet_bytes_max=1000)).receive_datagram(data, b"here", NOW).packet.raw) > 548
    with pytest.raises(BadPacket, match=f"size {len(data)}, limit 548"):
        parse_untrusted(data)
