"""The builder makes only packets that a receiver takes."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import assume, given

from tests.wire.emm.strategies import credentials, drafts
from weft.errors import UsageError
from weft.wire.emm import Credentials, Draft, EventType, Profile, Rules, SigningKey, build, draft_event, parse_untrusted
from weft.wire.emm.fields import Field

NODE = UUID(int=7)
SECRET = b"s" * 32


@pytest.mark.req("EMM-01", "EMM-03", "EMM-11", "EMM-13")
@given(drafts(), credentials)
def test_what_is_built_parses_to_the_same(draft: Draft, signer: Credentials) -> None:
    try:
        data = build(draft, signer)
    except UsageError as error:
        assume(error.what != "EMM packet is too large")
        raise
    packet = parse_untrusted(data)
    assert (packet.message_id, packet.timestamp_s, packet.urgent) == (draft.message_id, draft.timestamp_s, draft.urgent)
    assert packet.node_id == draft.node_id
    assert (Field.HMAC in packet.fields) == (signer.hmac_key is not None)
    assert (Field.SIGNATURE in packet.fields) == (signer.signing_key is not None)
    assert packet.fields.get(Field.AUTH_KEY_ID) == signer.auth_key_id


@pytest.mark.req("EMM-04")
def test_the_builder_refuses_549_bytes() -> None:
    # 17 header, 3 name, 255 + 2, 255 + 2, then an empty TLV would follow 510 bytes: 509 need 2 * 2 + 509
    fits = build(draft_event(1, 0, "n" * 12, b"x" * 501))
    assert len(fits) <= 548
    with pytest.raises(UsageError, match="limit 548"):
        build(draft_event(1, 0, "n" * 28, b"x" * 501))
    assert len(build(draft_event(1, 0, "n" * 28, b"x" * 501), rules=Rules(packet_bytes_max=1200))) > 548


@pytest.mark.req("EMM-04")
@pytest.mark.parametrize("size", range(480, 500))
def test_the_limit_is_exact(size: int) -> None:
    """17 + (2 + 1) + (2 + 255) + (2 + size - 255) bytes, and the builder agrees to the byte."""
    total = 17 + 3 + 257 + 2 + size - 255
    draft = draft_event(1, 0, "n", b"x" * size)
    assert len(build(draft, rules=Rules(packet_bytes_max=total))) == total
    with pytest.raises(UsageError, match=f"size {total}, limit {total - 1}"):
        build(draft, rules=Rules(packet_bytes_max=total - 1))


@pytest.mark.req("EMM-16")
def test_signing_needs_a_node_id() -> None:
    with pytest.raises(UsageError, match="requires a node id"):
        build(draft_event(1, 0, "n"), Credentials(hmac_key=SECRET))


@pytest.mark.req("EMM-21")
def test_signing_later_is_said() -> None:
    draft = draft_event(1, 1000, "n", node_id=NODE)
    signer = Credentials(signing_key=SigningKey(SECRET))
    assert parse_untrusted(build(draft, signer, signed_at_s=1000)).signed_at_s is None
    later = parse_untrusted(build(draft, signer, signed_at_s=1060))
    assert (later.timestamp_s, later.signed_at_s, later.fresh_at_s) == (1000, 1060, 1060)


@pytest.mark.req("EMM-26")
def test_the_builder_keeps_the_profile() -> None:
    rules = Rules(profile=Profile.INTEROP_V1)
    draft = draft_event(1, 0, "n", node_id=NODE)
    build(draft, Credentials(b"key1", hmac_key=SECRET), rules=rules)
    for signer in (Credentials(b"key1"), Credentials(hmac_key=SECRET)):
        with pytest.raises(UsageError, match="interop-v1 requires"):
            build(draft, signer, rules=rules)


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (lambda: Draft(EventType.EVENT, 2**32, 0, ("n",)), "message id does not fit 32 bits"),
        (lambda: Draft(EventType.EVENT, 0, -1, ("n",)), "timestamp does not fit 64 bits"),
        (lambda: Draft(EventType.EVENT, 0, 0), "an Event needs a name"),
        (lambda: Draft(EventType.EVENT, 0, 0, ("n",), extra=((Field.HMAC, b""),)), "cannot be given as an extra field"),
        (lambda: Draft(EventType.EVENT, 0, 0, ("n",), extra=((0x40, b"x" * 256),)), "limit 255"),
        (lambda: Draft(EventType.EVENT, 0, 0, ("n",), extra=((Field.NONCE, b"x"),)), "wrong size"),
    ],
)
def test_drafts_that_make_no_packet(draft: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(draft())  # type: ignore[operator]


def test_credentials_are_checked() -> None:
    with pytest.raises(UsageError, match="need 4, have 3"):
        Credentials(b"abc")
    with pytest.raises(UsageError, match="no signing key"):
        Credentials(carry_public_key=True)
    with pytest.raises(UsageError, match="need 32, have 5"):
        SigningKey(b"short")
