"""Digest, rate signal, propagation map and topology hint as values."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.wire.emm_compact import Ecn, EventDigest, PropagationMap, RateSignal, TopologyHint, Triple

TRIPLES = st.builds(Triple, *[st.integers(0, 0xFFFF)] * 3)
PEER = bytes(range(16))


@given(st.lists(TRIPLES, max_size=20), TRIPLES)
@pytest.mark.req("EMC-08")
def test_a_digest_never_forgets(triples: list[Triple], another: Triple) -> None:
    digest = EventDigest.of(triples)
    assert all(triple in digest for triple in triples)
    assert another in digest.add(another)
    assert digest.add(another) == EventDigest.of([*triples, another])


@pytest.mark.req("EMC-08")
def test_the_bits_of_a_digest() -> None:
    places = {byte % 128 for byte in hashlib.sha256(bytes.fromhex("00010002ffff")).digest()[:4]}
    bits = f"{int.from_bytes(EventDigest.of([Triple(1, 2, 0xFFFF)]).bits):0128b}"
    assert {place for place, bit in enumerate(bits) if bit == "1"} == places


@pytest.mark.req("EMC-08")
def test_a_digest_of_sixteen_events_seldom_errs() -> None:
    digest = EventDigest.of(Triple(n, 1, n) for n in range(16))
    wrong = sum(Triple(n, 2, n) in digest for n in range(1000))
    assert wrong < 80  # 2.4 % expected


def test_an_empty_digest_has_seen_nothing() -> None:
    assert Triple(1, 1, 1) not in EventDigest()


@pytest.mark.parametrize(
    ("ecn", "sent", "received", "bits"),
    [
        (Ecn.NOT_ECT, 0, 0, "00_0000000_0000000"),
        (Ecn.CE, 0, 0, "11_0000000_0000000"),
        (Ecn.ECT_1, 31, 1, "01_0011111_0000001"),
        (Ecn.ECT_0, 32, 1000, "10_0011111_0011111"),  # clamped
    ],
)
@pytest.mark.req("EMC-08")
def test_rate_signals_as_measured(ecn: Ecn, sent: int, received: int, bits: str) -> None:
    encoded = RateSignal.measured(ecn, sent, received).encode()
    assert encoded == int(bits, 2).to_bytes(2) + bytes(4)


@pytest.mark.parametrize(
    ("hops", "ttl", "bits"),
    [(0, 0, "00000_00000_000000"), (1, 31, "00001_11111_000000"), (40, 64, "11111_11111_000000")],  # the last clamped
)
@pytest.mark.req("EMC-08")
def test_propagation_maps_as_measured(hops: int, ttl: int, bits: str) -> None:
    encoded = PropagationMap.measured(hops, ttl, b"orig").encode()
    assert encoded == int(bits, 2).to_bytes(2) + b"orig"


@given(st.sampled_from(Ecn), st.integers(0, 127), st.integers(0, 127))
@pytest.mark.req("EMC-08")
def test_a_reader_takes_all_seven_bits(ecn: Ecn, sent: int, received: int) -> None:
    rate = RateSignal(ecn, sent, received)
    assert RateSignal.decode_untrusted(rate.encode(), at=0) == rate


@pytest.mark.req("EMC-10")
def test_a_topology_hint() -> None:
    hint = TopologyHint(known_peers=(PEER, PEER), hop_distance=7, region="eu-central")
    encoded = hint.encode()
    assert encoded == bytes.fromhex("0120") + PEER + PEER + bytes.fromhex("020107030a") + b"eu-central"
    assert TopologyHint.decode_untrusted(encoded, 0, len(encoded), count_max=3) == hint


@pytest.mark.req("EMC-10")
def test_an_empty_topology_hint() -> None:
    assert TopologyHint().encode() == b""
    assert TopologyHint.decode_untrusted(b"", 0, 0, count_max=0) == TopologyHint()
    assert TopologyHint.decode_untrusted(b"\x01\x00", 0, 2, count_max=1) == TopologyHint(known_peers=())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: EventDigest(bytes(15)),
        lambda: RateSignal(Ecn.CE, 128, 0),
        lambda: RateSignal(Ecn.CE, 0, -1),
        lambda: RateSignal.measured(Ecn.CE, -1, 0),
        lambda: PropagationMap(32, 0, bytes(4)),
        lambda: PropagationMap(0, 32, bytes(4)),
        lambda: PropagationMap(0, 0, bytes(3)),
        lambda: TopologyHint(known_peers=(bytes(15),)).encode(),
        lambda: TopologyHint(known_peers=(PEER,) * 16).encode(),
        lambda: TopologyHint(hop_distance=256).encode(),
        lambda: TopologyHint(region="\ud800").encode(),
    ],
)
def test_values_that_cannot_be(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(UsageError):
        wrong()
