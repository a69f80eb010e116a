"""Weft's libp2p pieces against the reference: a real Coaty agent in node, on a loopback port, without mDNS."""

from __future__ import annotations

import ipaddress
import itertools
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tests.interop.coaty.js_agent import (
    KEY_TYPES,
    OUR_KEY_TYPES,
    JsAgent,
    own_identity,
    peer_id_file,
    reference,
    unavailable,
)
from tests.interop.coaty.wire_peer import (
    LIVELINESS,
    PROTOCOLS,
    WAIT_S_MAX,
    WireListener,
    WirePeer,
    fixed_entropy,
)
from tests.wire.libp2p.curve import SECP256K1_ORDER
from weft.limits import FLOODSUB_DATA_BYTES_MAX
from weft.wire.libp2p import floodsub, identify, mdns, multiaddr, secio
from weft.wire.libp2p.errors import BadFrame

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=unavailable() or "")

CONVERSATIONS = itertools.count()


@pytest.fixture(scope="module", params=KEY_TYPES)
def js(request: pytest.FixtureRequest) -> Iterator[JsAgent]:
    with JsAgent.start(request.param, "--settle", "0") as agent:
        agent.wait("ready")
        yield agent


def speak_both_ways(js: JsAgent, peer: WirePeer) -> None:
    """A message each way over Floodsub. Topics are used once: the agent outlives the test."""
    number = next(CONVERSATIONS)
    to_us, to_them = f"to-us/{number}", f"to-them/{number}"
    peer.join_floodsub()
    peer.subscribe(to_us)
    js.command("observe", what="Raw", topic=to_them)
    js.wait("subs", id=str(peer.identity.peer), subs=[[True, to_us]])
    peer.wait(lambda: bool(peer.router.peers_of(to_them)))

    js.command("raw", topic=to_us, text="von JS: ✓")
    peer.wait(lambda: bool(peer.messages(to_us)))
    (message,) = peer.messages(to_us)
    assert message.data.decode() == "von JS: ✓"
    assert message.origin == peer.remote.peer

    peer.publish(to_them, "an JS: ✓".encode())
    assert js.wait("Raw", topic=to_them)["hex"] == "an JS: ✓".encode().hex()


@pytest.mark.req("COA-01")
def test_we_dial(js: JsAgent) -> None:
    us = own_identity(OUR_KEY_TYPES[js.key_type])
    with closing(WirePeer.dial(js.address, us, fixed_entropy("dial"))) as peer:
        assert str(peer.remote.peer) == peer_id_of(js.key_type)
        theirs = identify.decode_untrusted(peer.ask_identity())
        assert theirs.public_key == peer.remote
        assert {floodsub.PROTOCOL, LIVELINESS} <= set(theirs.protocols)
        assert multiaddr.parse(js.address).tcp_endpoint in [address.tcp_endpoint for address in theirs.listen_addrs]
        # The reference has read our identify message, too: it knows what we speak.
        assert set(js.wait("protocols", id=str(us.peer))["protocols"]) == set(PROTOCOLS)
        speak_both_ways(js, peer)


@pytest.mark.req("COA-01")
def test_the_reference_dials_us(js: JsAgent) -> None:
    us = own_identity(next(kind for kind in KEY_TYPES if kind not in (js.key_type, OUR_KEY_TYPES[js.key_type])))
    with closing(WireListener(us, fixed_entropy("accept"))) as listener:
        js.tell("dial", addr=str(listener.address))
        with closing(listener.accept()) as peer:
            assert str(peer.remote.peer) == peer_id_of(js.key_type)
            # Its last will comes as one JSON object in one MPLEX message.
            peer.wait(lambda: any(stream.messages for stream in peer.inbound(LIVELINESS)))
            (will,) = peer.inbound(LIVELINESS)[0].messages
            assert json.loads(will)["lastWills"][0][0] == peer_id_of(js.key_type)
            speak_both_ways(js, peer)


def peer_id_of(key_type: str) -> str:
    return str(json.loads(peer_id_file(key_type).read_text())["id"])


# --- one agent is enough for what does not depend on its key ----------------------------------------------------------


@pytest.fixture(scope="module")
def fast_js() -> Iterator[JsAgent]:
    with JsAgent.start("secp256k1", "--settle", "0") as agent:
        agent.wait("ready")
        yield agent


@pytest.mark.req("COA-01")
def test_every_suite_works_with_the_reference(fast_js: JsAgent) -> None:
    for exchange, cipher, hash_name in itertools.product(secio.Exchange, secio.CipherName, secio.HashName):
        offer = secio.Offer((exchange,), (cipher,), (hash_name,))
        entropy = fixed_entropy(f"{exchange} {cipher} {hash_name}")
        with closing(WirePeer.dial(fast_js.address, own_identity("Ed25519"), entropy, offer=offer)) as peer:
            assert peer.suite == secio.Suite(exchange, cipher, hash_name)
            assert identify.decode_untrusted(peer.ask_identity()).public_key == peer.remote


@pytest.mark.req("COA-01")
def test_the_largest_message_we_send_arrives(fast_js: JsAgent) -> None:
    fast_js.command("observe", what="Raw", topic="large")
    with closing(WirePeer.dial(fast_js.address, own_identity("RSA"), fixed_entropy("large"))) as peer:
        peer.join_floodsub()
        peer.wait(lambda: bool(peer.router.peers_of("large")))
        peer.publish("large", bytes(FLOODSUB_DATA_BYTES_MAX))
        assert len(fast_js.wait("Raw", topic="large")["hex"]) == 2 * FLOODSUB_DATA_BYTES_MAX


@pytest.mark.req("COA-01")
def test_another_peer_than_the_one_dialled(fast_js: JsAgent) -> None:
    wrong = fast_js.address.replace(peer_id_of("secp256k1"), peer_id_of("RSA"))
    with pytest.raises(BadFrame, match="another peer answers"):
        WirePeer.dial(wrong, own_identity("Ed25519"), fixed_entropy("wrong"))


@pytest.mark.req("COA-01")
def test_a_forged_exchange_is_refused_by_the_reference(fast_js: JsAgent) -> None:
    """So our own tests of forgeries forge the right thing: what we send unforged is accepted, this is not."""
    forger = own_identity("Ed25519")
    forger.sign = lambda message: bytes(64)  # type: ignore[method-assign]
    endpoint = multiaddr.parse(fast_js.address).tcp_endpoint
    assert endpoint is not None
    with (
        closing(socket.create_connection(endpoint, WAIT_S_MAX)) as connection,
        pytest.raises((AssertionError, ConnectionError), match=r"closed the connection|reset"),
    ):
        WirePeer(connection, forger, multiaddr.parse(fast_js.address).peer, fixed_entropy("forger"))


# --- the reference's codecs, without an agent -------------------------------------------------------------------------


@pytest.mark.req("COA-01", "COA-02")
def test_the_reference_understands_what_we_write() -> None:
    ed25519, secp256k1 = own_identity("Ed25519"), own_identity("secp256k1")
    signed = [floodsub.sign(own_identity(key_type), "topic", b"data", b"12345678") for key_type in KEY_TYPES]
    r, s = decode_dss_signature(signed[2].signature or b"")
    high_s = replace(signed[2], signature=encode_dss_signature(r, SECP256K1_ORDER - s))
    stranger = replace(signed[1], origin=secp256k1.peer)
    mine = identify.Identify(
        ed25519.public,
        (multiaddr.tcp("127.0.0.1", 1), multiaddr.tcp("::1", 2, ed25519.peer)),
        PROTOCOLS,
        multiaddr.tcp("192.0.2.7", 3),
        "ipfs/0.1.0",
        "weft",
    )
    announced = mdns.answer("a.b", ed25519.peer, 4001, [ipaddress.ip_address("192.0.2.7")], "host")
    asked = [
        *({"kind": "signature", "hex": rpc_of(message)} for message in [*signed, high_s, stranger]),
        {"kind": "identify", "hex": mine.encode().hex()},
        {"kind": "mdns", "hex": announced.hex(), "service": "coaty-libp2p-a.b.local"},
    ]
    *valid, high, strange, identified, found = reference("explain", asked)
    assert valid == [True] * 3
    assert high is False
    assert strange == "Error: Public Key does not match the originator"
    assert identified == {
        "public_key": ed25519.public.serialised.hex(),
        "listen_addrs": [str(address) for address in mine.listen_addrs],
        "protocols": list(PROTOCOLS),
        "observed_addr": "/ip4/192.0.2.7/tcp/3",
        "protocol_version": "ipfs/0.1.0",
        "agent_version": "weft",
    }
    assert found == {"peer": str(ed25519.peer), "addresses": ["/ip4/192.0.2.7/tcp/4001"]}


def rpc_of(message: floodsub.Message) -> str:
    return floodsub.Rpc(messages=(message,)).encode().hex()
