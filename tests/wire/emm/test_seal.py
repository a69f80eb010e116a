"""Compressed and encrypted packets: opened, refused, and not inflated without end."""

from __future__ import annotations

import tracemalloc
import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.emm.strategies import values
from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm import (
    Algorithm,
    Draft,
    Encryption,
    EventType,
    Rules,
    Seal,
    build,
    draft_event,
    parse_untrusted,
    unseal_untrusted,
)
from weft.wire.emm.fields import HEADER, Field, Flags, Value
from weft.wire.emm.values import encode_values, value_type
from weft.wire.reject import BadPacket, Reject

NODE = UUID(int=7)
KEY, IV = b"k" * 32, b"i" * 12
ROOMY = Rules(packet_bytes_max=4000)


def compressed(plain: bytes, kind: EventType = EventType.EVENT) -> bytes:
    """A packet with ``plain`` as what it inflates to, well-formed or not."""
    payload = encode_values([zlib.compress(plain)])
    return HEADER.pack(1, 1, Flags.COMPRESSED, kind, 0, len(payload)) + payload


def refusal(packet: bytes, key: bytes | None = KEY) -> Reject:
    with pytest.raises(BadPacket) as caught:
        unseal_untrusted(parse_untrusted(packet), lambda _: key)
    return caught.value.reason


@pytest.mark.req("EMM-23", "EMM-24")
@given(st.lists(values, max_size=3), st.booleans(), st.sampled_from([None, *Algorithm]), st.none() | st.uuids())
def test_sealed_values_come_back(
    content: list[Value], squeeze: bool, algorithm: Algorithm | None, node_id: UUID | None
) -> None:
    draft = Draft(EventType.EVENT, 1, 0, ("n", *content), node_id, compressed=squeeze)
    seal = Seal(Encryption(algorithm, IV), KEY) if algorithm else None
    packet = parse_untrusted(build(draft, seal=seal, rules=ROOMY), ROOMY)
    assert (packet.compressed, packet.encrypted) == (squeeze, seal is not None)
    opened = unseal_untrusted(packet, lambda _: KEY, ROOMY)
    assert [value for _, value in opened.values] == sorted(["n", *content], key=value_type)


@pytest.mark.req("EMM-23")
@pytest.mark.parametrize("at", [1, 5, 7, 20, -1], ids=["message id", "flags", "timestamp", "ciphertext", "node id"])
def test_header_and_node_id_are_authenticated(at: int) -> None:
    seal = Seal(Encryption(Algorithm.AES_256_GCM, IV), KEY)
    packet = bytearray(build(draft_event(1, 0, "n", node_id=NODE), seal=seal))
    packet[at] ^= 1
    assert refusal(bytes(packet)) is Reject.UNDECRYPTABLE


@pytest.mark.req("EMM-23")
def test_which_key_is_asked_for() -> None:
    def asked(seal: Seal, *extra: tuple[int, bytes], node_id: UUID | None = NODE) -> list[bytes]:
        ids: list[bytes] = []
        draft = Draft(EventType.EVENT, 1, 0, ("n",), node_id, extra=extra)
        with pytest.raises(BadPacket) as caught:
            unseal_untrusted(parse_untrusted(build(draft, seal=seal)), ids.append)
        assert caught.value.reason is Reject.UNDECRYPTABLE
        return ids

    plain = Seal(Encryption(Algorithm.CHACHA20_POLY1305, IV), KEY)
    named = Seal(Encryption(Algorithm.CHACHA20_POLY1305, IV, b"subfield-key-id."), KEY)
    assert asked(named, (Field.KEY_ID, b"top-level-key-id")) == [b"subfield-key-id."]
    assert asked(plain, (Field.KEY_ID, b"top-level-key-id")) == [b"top-level-key-id"]
    assert asked(plain) == [NODE.bytes]
    assert asked(plain, node_id=None) == [b""]


@pytest.mark.req("EMM-24")
def test_bombs_and_broken_streams() -> None:
    name = encode_values(["n"])
    filler = tlv.encode(4, b"\0" * 255)
    assert refusal(compressed(name + filler * 260)) is Reject.BOMB  # 66,823 bytes
    good = compressed(name)
    cut = bytearray(good[:-1])
    cut[15:17] = (len(cut) - 17).to_bytes(2, "big")
    cut[18] -= 1
    assert refusal(bytes(cut)) is Reject.COMPRESSION
    garbled = bytearray(good)
    garbled[19] ^= 0xFF
    assert refusal(bytes(garbled)) is Reject.COMPRESSION


@pytest.mark.req("EMM-24")
def test_a_bomb_takes_no_more_memory_than_the_limit() -> None:
    """Where larger packets are allowed, one could inflate to 16 MB."""
    rules = Rules(packet_bytes_max=20_000)
    packet = parse_untrusted(compressed(b"\0" * 16_000_000), rules)
    tracemalloc.start()
    try:
        with pytest.raises(BadPacket) as caught:
            unseal_untrusted(packet, rules=rules)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.reason is Reject.BOMB
    assert peak_bytes < 4 * rules.inflated_bytes_max


@pytest.mark.req("EMM-24")
@pytest.mark.parametrize(("limit", "fits"), [(1000, True), (999, False)])
def test_the_expansion_limit_is_exact(limit: int, fits: bool) -> None:
    plain = encode_values(["n", b"x" * 989])  # 3 + 4 * 2 + 989
    assert len(plain) == 1000
    packet = parse_untrusted(compressed(plain))
    if fits:
        unseal_untrusted(packet, rules=Rules(inflated_bytes_max=limit))
    else:
        with pytest.raises(BadPacket, match="limit 999"):
            unseal_untrusted(packet, rules=Rules(inflated_bytes_max=limit))


@pytest.mark.req("EMM-24")
def test_a_long_compressed_value_is_one_value() -> None:
    """The TLV limit counts values inside a seal, or 64 KiB could never be reached."""
    packet = parse_untrusted(build(Draft(EventType.EVENT, 1, 0, ("n", b"x" * 60_000), compressed=True)))
    assert unseal_untrusted(packet).values[1] == (Field.BINARY, b"x" * 60_000)


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        (encode_values(["n"]) + b"\x14\x10" + bytes(16), Reject.TLV_VALUE),
        (b"\x02\x04\0\0\0\1" + encode_values(["n"]), Reject.TLV_ORDER),
        (encode_values(["n"]) + b"\x02\x03\0\0\1", Reject.TLV_SIZE),
        (encode_values(["n"]) + b"\x04\x05\0", Reject.TLV_OVERRUN),
        (b"\x01\x01\xff", Reject.TLV_VALUE),
        (encode_values(["n"] * 65), Reject.TLV_COUNT),
        (encode_values([5]), Reject.MISSING_FIELD),
        (b"", Reject.MISSING_FIELD),
    ],
    ids=["security field", "order", "size", "overrun", "UTF-8", "65 values", "no name", "nothing"],
)
@pytest.mark.req("EMM-24")
def test_what_is_inside_is_checked_too(plain: bytes, reason: Reject) -> None:
    assert refusal(compressed(plain)) is reason


def test_keys_and_ivs_are_checked() -> None:
    with pytest.raises(UsageError, match="need 32, have 16"):
        Seal(Encryption(Algorithm.AES_256_GCM, IV), b"k" * 16)
    with pytest.raises(UsageError, match="need 12, have 8"):
        Encryption(Algorithm.AES_256_GCM, b"i" * 8)
    with pytest.raises(UsageError, match="need 16, have 3"):
        Encryption(Algorithm.AES_256_GCM, IV, b"abc")
    assert "kkkk" not in repr(Seal(Encryption(Algorithm.AES_256_GCM, IV), KEY))
