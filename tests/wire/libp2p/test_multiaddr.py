from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases, identity
from weft.errors import UsageError
from weft.wire.libp2p import multiaddr
from weft.wire.libp2p.errors import BadFrame

PEER = identity("Ed25519").peer


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("multiaddrs"))
def test_reference_addresses_both_ways(case: dict[str, str]) -> None:
    address = multiaddr.parse(case["text"])
    assert str(address) == case["text"]
    assert address.encode().hex() == case["bytes"]
    assert multiaddr.decode_untrusted(bytes.fromhex(case["bytes"])) == address


@pytest.mark.parametrize(
    ("text", "endpoint", "peer"),
    [
        ("/ip4/192.0.2.7/tcp/80", ("192.0.2.7", 80), None),
        (f"/ip6/::1/tcp/80/p2p/{PEER}", ("::1", 80), PEER),
        (f"/dns4/example.org/tcp/443/ipfs/{PEER}", ("example.org", 443), PEER),
        ("/ip4/192.0.2.7", None, None),
        (f"/p2p/{PEER}", None, PEER),
        ("/tcp/80/ip4/192.0.2.7", None, None),
        ("/ip4/192.0.2.7/tcp/80/tcp/81", None, None),
    ],
)
def test_what_an_address_is_good_for(text: str, endpoint: tuple[str, int] | None, peer: object) -> None:
    address = multiaddr.parse(text)
    assert address.tcp_endpoint == endpoint
    assert address.peer == peer


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "/ip4/127.0.0.1/tcp/4001"),
        ("2001:DB8:0::1", "/ip6/2001:db8::1/tcp/4001"),
        ("host.example", "/dns/host.example/tcp/4001"),
    ],
)
def test_made_from_host_and_port(host: str, text: str) -> None:
    assert str(multiaddr.tcp(host, 4001)) == text
    assert multiaddr.tcp(host, 4001, PEER) == multiaddr.parse(f"{text}/p2p/{PEER}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "ip4/127.0.0.1",
        "/ip4",
        "/ip4/127.0.0.1/",
        "/ip4/127.0.0.256",
        "/ip4/::1",
        "/ip6/fe80::1%eth0",
        "/ip4/127.0.0.1/tcp/65536",
        "/ip4/127.0.0.1/tcp/-1",
        "/ip4/127.0.0.1/tcp/+1",
        "/ip4/127.0.0.1/tcp/x",
        "/ip4/127.0.0.1/udp/1",
        "/dns/",
        "/dns/a b",
        "/dns/ä.example",
        "/dns/" + "a" * 254,
        "/p2p/0",
        "/p2p/2",
        "/ip4/1.1.1.1" * 9,
    ],
)
def test_bad_text_is_the_callers_mistake(text: str) -> None:
    with pytest.raises(UsageError):
        multiaddr.parse(text)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "impossible size"),
        (bytes(513), "impossible size"),
        (b"\x04\x7f\x00\x00", "cut off"),
        (b"\x06\x00", "cut off"),
        (b"\x35\x05abcd", "cut off"),
        (b"\x35", "varint is cut off"),
        (b"\x35\x00", "DNS name"),
        (b"\x35\x03a/b", "no host name has"),
        (b"\x35\x03a\x00b", "no host name has"),
        (b"\x35\x02\xc3\xa4", "no host name has"),
        (b"\xa5\x03\x00", "peer id is cut off"),
        (b"\x11\x00\x50", "unknown protocol"),  # udp
        (b"\x04\x01\x01\x01\x01" * 9, "too many parts"),
    ],
)
def test_bad_bytes_are_the_peers_fault(data: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        multiaddr.decode_untrusted(data)


hosts = st.one_of(
    st.ip_addresses().map(str),
    st.text("abcdefghijklmnopqrstuvwxyz-.", min_size=1, max_size=40).filter(lambda text: not text.isdigit()),
)


@given(hosts, st.integers(0, 65535), st.booleans())
def test_round_trip(host: str, port: int, named: bool) -> None:
    address = multiaddr.tcp(host, port, PEER if named else None)
    assert multiaddr.parse(str(address)) == address
    assert multiaddr.decode_untrusted(address.encode()) == address
    found, found_port = address.tcp_endpoint or ("", 0)
    assert found_port == port
    assert found == host or ipaddress.ip_address(found) == ipaddress.ip_address(host)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_address_or_refused(data: bytes) -> None:
    try:
        address = multiaddr.decode_untrusted(data)
    except BadFrame:
        return
    assert multiaddr.decode_untrusted(address.encode()) == address
    assert multiaddr.parse(str(address)) == address
