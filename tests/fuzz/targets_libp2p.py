"""Fuzz targets of the libp2p room: bytes into each decoder and state machine; only BadFrame may come out.

Seeds are what the reference sent, from ``tests/vectors/libp2p``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.wire.libp2p.support import cases
from weft.errors import UsageError
from weft.wire.libp2p import (
    dns,
    floodsub,
    identify,
    keys,
    mdns,
    multiaddr,
    multistream,
    peer_id,
    protobuf,
    secio,
    varint,
)
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.mplex import Mplex, StreamData
from weft.wire.libp2p.private_keys import PrivateKey
from weft.wire.libp2p.secio.suite import stretch

US, THEM = (PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in (1, 2))
SUITE = secio.Suite(secio.Exchange.P256, secio.CipherName.AES256, secio.HashName.SHA256)
FIRST, SECOND = stretch(SUITE, b"secret")
NAMESPACE = "weft"


def seeds(name: str, field: str = "bytes") -> list[bytes]:
    return [bytes.fromhex(case[field]) for case in cases(name)]


def fixed(size: int) -> bytes:
    return b"\x5a" * size


# --- formats ----------------------------------------------------------------------------------------------------------


def varint_number(data: bytes) -> None:
    with suppress(BadFrame):
        value, end = varint.read_untrusted(data, 0, len(data))
        shortest = varint.encode(value)
        assert len(shortest) <= end <= 10
        assert varint.read_untrusted(shortest, 0, len(shortest)) == (value, len(shortest))


def protobuf_message(data: bytes) -> None:
    with suppress(BadFrame):
        message = protobuf.read_untrusted("fuzz", data, range(1, 9))
        for number in range(1, 9):
            blobs = message.blobs(number, len(data), len(data))
            assert sum(map(len, blobs)) <= len(data)
            message.texts(number, len(data), len(data))


def base58_text(data: bytes) -> None:
    with suppress(BadFrame):
        text = data.decode("latin-1")
        assert peer_id.encode_base58(peer_id.decode_base58_untrusted(text)) == text


def peer(data: bytes) -> None:
    with suppress(BadFrame):
        found = peer_id.from_bytes_untrusted(data)
        assert peer_id.from_text_untrusted(str(found)) == found


def address(data: bytes) -> None:
    with suppress(BadFrame):
        found = multiaddr.decode_untrusted(data)
        assert multiaddr.decode_untrusted(found.encode()) == found
        assert multiaddr.parse(str(found)) == found
        assert found.tcp_endpoint is None or found.tcp_endpoint[0]


def public_key(data: bytes) -> None:
    with suppress(BadFrame):
        key = keys.decode_untrusted(data)
        assert key.serialised == data
        assert not key.verifies(b"message", data[-256:])  # as long as the signature of an RSA key of 2048 bits


def signature(data: bytes) -> None:
    for key in PUBLIC_KEYS:
        assert not key.verifies(b"never signed", data)


def dns_packet(data: bytes) -> None:
    with suppress(BadFrame):
        packet = dns.decode_untrusted(data)
        mdns.asks_for(packet, NAMESPACE)
        with suppress(UsageError):  # names that were compressed may make it too long when they are not
            assert dns.decode_untrusted(dns.encode(packet)) == packet
        for found in mdns.found_untrusted(packet, NAMESPACE):
            assert all(place.tcp_endpoint for place in found.addresses)


def identify_message(data: bytes) -> None:
    with suppress(BadFrame):
        message = identify.decode_untrusted(data)
        assert identify.decode_untrusted(message.encode()) == message


def floodsub_rpc(data: bytes) -> None:
    with suppress(BadFrame):
        rpc = floodsub.decode_untrusted(data)
        assert floodsub.decode_untrusted(rpc.encode()) == rpc


# --- state machines ---------------------------------------------------------------------------------------------------


def negotiation(data: bytes) -> None:
    for side in (multistream.Listener(["/a", "/b"]), multistream.Dialler(["/a", "/b"])):
        with suppress(BadFrame):
            outcome = side.receive_data(data)
            assert not isinstance(outcome, multistream.Selected) or outcome.protocol in ("/a", "/b")


def secio_handshake(data: bytes) -> None:
    with suppress(BadFrame):
        assert secio.Handshake(US, None, fixed).receive_data(data) is None


def _exchanging() -> secio.Handshake:
    handshake = secio.Handshake(US, THEM.peer, fixed)
    handshake.receive_data(secio.Handshake(THEM, None, lambda size: b"\xa5" * size).data_to_send())
    return handshake


def secio_exchange(data: bytes) -> None:
    # The step that checks the signature leaves no trace when it fails: one prepared handshake serves every input.
    with suppress(BadFrame):
        EXCHANGING._on_exchange_untrusted(data)
        raise AssertionError("a signature was forged")


def secio_channel(data: bytes) -> None:
    channel = secio.SecureChannel(SUITE.hash, FIRST, SECOND)
    with suppress(BadFrame):
        # SECIO's MAC covers no counter: a moved or repeated frame comes out as noise, but as long as a real one.
        for plaintext in channel.receive_data(data):
            assert len(plaintext) in map(len, CHANNEL_PLAINTEXTS), "a MAC was forged"


def mplex(data: bytes) -> None:
    whole, split = Mplex(), Mplex()
    for mux in (whole, split):
        mux.open_stream()
        mux.open_stream()
    with suppress(BadFrame):
        events = whole.receive_data(data)
        middle = len(data) // 2
        assert split.receive_data(data[:middle]) + split.receive_data(data[middle:]) == events
        assert sum(len(event.data) for event in events if isinstance(event, StreamData)) <= len(data)


def router(data: bytes) -> None:
    node = floodsub.Router(US)
    node.subscribe("weft/capture")
    node.peer_joined(THEM.peer)
    with suppress(BadFrame):
        for effect in node.receive_rpc(THEM.peer, data, now_s=0.0):
            if isinstance(effect, floodsub.Deliver):
                assert floodsub.distrust(effect.message) is None
            assert not isinstance(effect, floodsub.Send), "nobody else is there"


KEYS = cases("keys")
PUBLIC_KEYS = [keys.decode_untrusted(bytes.fromhex(case["public_key"])) for case in KEYS]
EXCHANGING = _exchanging()
CHANNEL_PLAINTEXTS = (b"hello", b"there!")
_OTHER_END = secio.SecureChannel(SUITE.hash, SECOND, FIRST)
LINES = b"".join(map(multistream.encode_line, (multistream.HEADER, "ls", "/x", "/b")))

TARGETS: dict[str, Callable[[bytes], None]] = {
    "libp2p-varint": varint_number,
    "libp2p-protobuf": protobuf_message,
    "libp2p-base58": base58_text,
    "libp2p-peer-id": peer,
    "libp2p-multiaddr": address,
    "libp2p-public-key": public_key,
    "libp2p-signature": signature,
    "libp2p-dns": dns_packet,
    "libp2p-identify": identify_message,
    "libp2p-floodsub-rpc": floodsub_rpc,
    "libp2p-multistream": negotiation,
    "libp2p-secio-handshake": secio_handshake,
    "libp2p-secio-exchange": secio_exchange,
    "libp2p-secio-channel": secio_channel,
    "libp2p-mplex": mplex,
    "libp2p-floodsub-router": router,
}

SEEDS: dict[str, list[bytes]] = {
    "libp2p-varint": seeds("varints"),
    "libp2p-protobuf": seeds("floodsub") + seeds("identify"),
    "libp2p-base58": [case["peer_id"].encode() for case in KEYS],
    "libp2p-peer-id": seeds("keys", "multihash"),
    "libp2p-multiaddr": seeds("multiaddrs"),
    "libp2p-public-key": seeds("keys", "public_key"),
    "libp2p-signature": seeds("keys", "signature"),
    "libp2p-dns": seeds("mdns", "packet"),
    "libp2p-identify": seeds("identify"),
    "libp2p-floodsub-rpc": seeds("floodsub"),
    "libp2p-multistream": [LINES, b"".join(map(multistream.encode_line, (multistream.HEADER, "na", "/b")))],
    "libp2p-secio-handshake": [secio.Handshake(THEM, None, fixed).data_to_send()],
    "libp2p-secio-exchange": [protobuf.encode([(1, b"\x04" + bytes(64)), (2, bytes(64))])],
    "libp2p-secio-channel": [b"".join(map(_OTHER_END.send, CHANNEL_PLAINTEXTS))],
    "libp2p-mplex": seeds("mplex"),
    "libp2p-floodsub-router": seeds("floodsub"),
}
