from __future__ import annotations

import contextlib
import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases, identity
from weft.errors import UsageError
from weft.wire.libp2p import dns, mdns, multiaddr, peer_id
from weft.wire.libp2p.dns import Address, Packet, Ptr, Question, Record, Srv, Txt
from weft.wire.libp2p.errors import BadFrame

PEER = identity("Ed25519").peer
QUERIES = [case for case in cases("mdns") if case["kind"] == "query"]
ANSWERS = [case for case in cases("mdns") if case["kind"] == "answer"]
IPS = [ipaddress.ip_address(text) for text in ("192.0.2.7", "192.0.2.8", "2001:db8::7")]


@pytest.mark.req("COA-01", "COA-02")
@pytest.mark.parametrize("case", QUERIES)
def test_reference_queries_both_ways(case: dict[str, Any]) -> None:
    assert mdns.query(case["namespace"]).hex() == case["packet"]
    packet = dns.decode_untrusted(bytes.fromhex(case["packet"]))
    assert mdns.asks_for(packet, case["namespace"])
    assert not mdns.asks_for(packet, "other")
    assert mdns.found_untrusted(packet, case["namespace"]) == []


@pytest.mark.req("COA-01", "COA-02")
@pytest.mark.parametrize("case", ANSWERS)
def test_reference_answers_both_ways(case: dict[str, Any]) -> None:
    packet = dns.decode_untrusted(bytes.fromhex(case["packet"]))
    (found,) = mdns.found_untrusted(packet, case["namespace"])
    assert str(found.peer) == case["peer"]
    assert [str(address) for address in found.addresses] == case["addresses"]
    assert mdns.found_untrusted(packet, "other") == []
    assert not mdns.asks_for(packet, case["namespace"])
    peer = peer_id.from_text_untrusted(case["peer"])
    assert mdns.answer(case["namespace"], peer, 4001, IPS, case["hostname"]).hex() == case["packet"]


@pytest.mark.req("COA-02")
def test_the_service_name() -> None:
    assert mdns.service_name("plant") == (b"coaty-libp2p-plant", b"local")
    assert mdns.service_name("com.example") == (b"coaty-libp2p-com", b"example", b"local")


@pytest.mark.req("COA-02")
def test_a_namespace_of_50_characters_fits_one_label() -> None:
    assert len(mdns.service_name("n" * 50)[0]) == 63


@pytest.mark.req("COA-02")
@pytest.mark.parametrize(
    ("namespace", "reason"),
    [
        ("n" * 51, r"mDNS cannot announce namespace 'n+', since .*: not a DNS label \(.*bytes 64, limit 63\)"),
        ("ü" * 26, "not a DNS label"),
        ("two..dots", "not a DNS label"),
        ("\ud800", "UTF-8"),
        ("dot.", "not a DNS label"),
        (".".join(["n" * 50] * 5), "name is too long"),
    ],
)
def test_a_namespace_that_mdns_cannot_announce(namespace: str, reason: str) -> None:
    for make in (mdns.service_name, mdns.query, lambda text: mdns.answer(text, PEER, 1, IPS, "host")):
        with pytest.raises(UsageError, match=reason):
            make(namespace)


def test_a_namespace_whose_instance_name_is_too_long() -> None:
    namespace = ".".join(["n" * 45] * 4)
    mdns.query(namespace)
    with pytest.raises(UsageError, match=r"cannot announce namespace .*too long"):
        mdns.answer(namespace, PEER, 1, IPS, "host")


@pytest.mark.parametrize(
    ("port", "addresses", "hostname"),
    [(0, IPS, "host"), (65536, IPS, "host"), (1, [], "host"), (1, IPS * 11, "host"), (1, IPS, ""), (1, IPS, "h" * 64)],
)
def test_what_cannot_be_announced(port: int, addresses: list[dns.IpAddress], hostname: str) -> None:
    with pytest.raises(UsageError):
        mdns.answer("ns", PEER, port, addresses, hostname)


# --- answers put together by others -----------------------------------------------------------------------------------

SERVICE = mdns.service_name("ns")
INSTANCE, HOST = (b"instance", *SERVICE), (b"host",)
POINTER = Record(SERVICE, Ptr(INSTANCE))
LOCATION = Record(INSTANCE, Srv(0, 0, 80, HOST))
TEXT = Record(INSTANCE, Txt((str(PEER).encode(), b"more")))
PLACES = tuple(Record(HOST, Address(ip)) for ip in IPS)


def found(*answers: Record) -> list[mdns.Found]:
    return mdns.found_untrusted(Packet(is_response=True, answers=answers), "ns")


def test_order_does_not_matter_and_other_hosts_addresses_are_not_taken() -> None:
    elsewhere = Record((b"elsewhere",), Address(IPS[0]))
    addresses = tuple(multiaddr.tcp(str(ip), 80) for ip in IPS)
    assert found(elsewhere, *PLACES, TEXT, LOCATION, POINTER, PLACES[0]) == [mdns.Found(PEER, addresses)]


def test_several_peers_in_one_packet() -> None:
    other, peer = (b"other", *SERVICE), identity("RSA").peer
    text = Txt((str(peer).encode(),))
    answers = [Record(SERVICE, Ptr(other)), Record(other, LOCATION.data), Record(other, text)]
    assert [item.peer for item in found(POINTER, LOCATION, TEXT, *answers)] == [PEER, peer]


@pytest.mark.req("COA-02")
@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((POINTER, TEXT), "without a peer id or a port"),
        ((POINTER, LOCATION), "without a peer id or a port"),
        ((POINTER, LOCATION, Record(INSTANCE, Txt(()))), "without a peer id or a port"),
        ((POINTER, LOCATION, Record(INSTANCE, Txt((b"not an id!",)))), "base58"),
        ((POINTER, LOCATION, Record(INSTANCE, Txt((b"\xff",)))), "not text"),
        ((POINTER,) * 9, "too many peers"),
        (
            (POINTER, LOCATION, TEXT, *(Record(HOST, Address(ipaddress.IPv4Address(n))) for n in range(33))),
            "too many addresses",
        ),
    ],
)
def test_refused_announcements(answers: tuple[Record, ...], reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        found(*answers)


@pytest.mark.parametrize(("kind", "answered"), [(12, True), (255, True), (1, False)])
def test_only_questions_for_pointers_are_answered(kind: int, answered: bool) -> None:
    packet = Packet(is_response=False, questions=(Question((b"x",), 12), Question(SERVICE, kind)))
    assert mdns.asks_for(packet, "ns") == answered


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_any_damage_is_noticed_or_harmless(tail: bytes, at: int, value: int) -> None:
    packet = bytearray(bytes.fromhex(ANSWERS[0]["packet"]))
    packet[at % len(packet)] = value
    with contextlib.suppress(BadFrame):
        mdns.found_untrusted(dns.decode_untrusted(bytes(packet) + tail), "weft")
