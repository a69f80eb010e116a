"""Multiaddrs: where a peer listens, such as ``/ip4/127.0.0.1/tcp/4001/p2p/12D3KooW…``, as text and as bytes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, assert_never

from weft.errors import UsageError
from weft.wire.libp2p import peer_id, varint
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.peer_id import PeerId

MULTIADDR_BYTES_MAX: Final = 512  # a DNS name (253) and a peer id (42), with room
MULTIADDR_PARTS_MAX: Final = 8  # address, port, peer id; relays would need twice that
DNS_TEXT_BYTES_MAX = 253  # what a DNS name of 255 bytes is in dotted form


class Protocol(IntEnum):
    """The parts we understand; the values are multicodec's."""

    IP4 = 0x04
    TCP = 0x06
    IP6 = 0x29
    DNS = 0x35
    DNS4 = 0x36
    DNS6 = 0x37
    P2P = 0x01A5


FIXED_BYTES = {Protocol.IP4: 4, Protocol.TCP: 2, Protocol.IP6: 16}  # the others' values stand behind their length
PROTOCOLS = {protocol.name.lower(): protocol for protocol in Protocol} | {"ipfs": Protocol.P2P}  # an older name of p2p
CODES = {protocol.value: protocol for protocol in Protocol}
HOSTS = frozenset({Protocol.IP4, Protocol.IP6, Protocol.DNS, Protocol.DNS4, Protocol.DNS6})


class Part(NamedTuple):
    """One ``/protocol/value``; the value in its canonical text form."""

    protocol: Protocol
    value: str


@dataclass(frozen=True, slots=True)
class Multiaddr:
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "".join(f"/{part.protocol.name.lower()}/{part.value}" for part in self.parts)

    @property
    def tcp_endpoint(self) -> tuple[str, int] | None:
        """Host and port to connect to, if this is an address and a TCP port (and at most a peer id behind them)."""
        protocols = [part.protocol for part in self.parts]
        if len(protocols) < 2 or protocols[0] not in HOSTS or protocols[1] != Protocol.TCP:
            return None
        return (self.parts[0].value, int(self.parts[1].value)) if protocols[2:] in ([], [Protocol.P2P]) else None

    @property
    def peer(self) -> PeerId | None:
        """The peer that is named at the end."""
        last = self.parts[-1]
        return peer_id.from_text_untrusted(last.value) if last.protocol == Protocol.P2P else None

    def encode(self) -> bytes:
        out = bytearray()
        for protocol, value in self.parts:
            packed = _pack(protocol, value)
            out += varint.encode(protocol) + (packed if protocol in FIXED_BYTES else varint.prefixed(packed))
        return bytes(out)


def tcp(host: str, port: int, peer: PeerId | None = None) -> Multiaddr:
    """The address of a TCP port on ``host``, an IP address or a DNS name."""
    try:
        kind = Protocol.IP4 if ipaddress.ip_address(host).version == 4 else Protocol.IP6
    except ValueError:
        kind = Protocol.DNS
    return parse(f"/{kind.name.lower()}/{host}/tcp/{port}" + (f"/p2p/{peer}" if peer else ""))


def parse(text: str) -> Multiaddr:
    """The address a person wrote; raise UsageError that says what is wrong with it."""
    empty, *words = text.split("/")
    if empty or not words or len(words) % 2:
        raise UsageError("a multiaddr looks like /ip4/127.0.0.1/tcp/4001", have=repr(text))
    if len(words) > 2 * MULTIADDR_PARTS_MAX:
        raise UsageError("multiaddr has too many parts", have=len(words) // 2, limit=MULTIADDR_PARTS_MAX)
    parts = []
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name not in PROTOCOLS:
            raise UsageError("unknown protocol in multiaddr", protocol=repr(name), known=", ".join(PROTOCOLS))
        protocol = PROTOCOLS[name]
        try:
            parts.append(Part(protocol, _unpack_untrusted(protocol, _pack(protocol, value))))
        except (ValueError, OverflowError, BadFrame) as error:
            raise UsageError(f"bad {name} value in multiaddr: {error}", have=repr(value)) from None
    return Multiaddr(tuple(parts))


def decode_untrusted(data: bytes) -> Multiaddr:
    """The address in ``data``; raise only BadFrame, also for protocols that are not in Protocol."""
    end = len(data)
    if not 0 < end <= MULTIADDR_BYTES_MAX:
        raise BadFrame("multiaddr has an impossible size", have=end, limit=MULTIADDR_BYTES_MAX)
    parts: list[Part] = []
    at = 0
    while at < end:
        if len(parts) == MULTIADDR_PARTS_MAX:
            raise BadFrame("multiaddr has too many parts", at=at, limit=MULTIADDR_PARTS_MAX)
        part_at = at
        code, at = varint.read_untrusted(data, at, end)
        protocol = CODES.get(code)
        if protocol is None:
            raise BadFrame("unknown protocol in multiaddr", at=part_at, code=hex(code))
        if protocol in FIXED_BYTES:
            length = FIXED_BYTES[protocol]
        else:
            length, at = varint.read_untrusted(data, at, end)
        if length > end - at:
            raise BadFrame("multiaddr is cut off", at=part_at, need=length, have=end - at)
        parts.append(Part(protocol, _unpack_untrusted(protocol, data[at : at + length])))
        at += length
    return Multiaddr(tuple(parts))


def _pack(protocol: Protocol, value: str) -> bytes:
    """The value's bytes; raise ValueError, OverflowError or BadFrame if it is not one of this protocol's."""
    match protocol:
        case Protocol.IP4:
            return ipaddress.IPv4Address(value).packed
        case Protocol.IP6:
            if "%" in value:
                raise ValueError("a zone has no place in it")
            return ipaddress.IPv6Address(value).packed
        case Protocol.TCP:
            if not (value.isascii() and value.isdigit()):
                raise ValueError("not a port number")
            return int(value).to_bytes(2, "big")
        case Protocol.DNS | Protocol.DNS4 | Protocol.DNS6:
            return value.encode()
        case Protocol.P2P:
            return peer_id.from_text_untrusted(value).multihash
        case _:
            assert_never(protocol)


def _unpack_untrusted(protocol: Protocol, value: bytes) -> str:
    """The text of a value that has the right length if its protocol has a fixed one; raise only BadFrame."""
    match protocol:
        case Protocol.IP4:
            return str(ipaddress.IPv4Address(value))
        case Protocol.IP6:
            return str(ipaddress.IPv6Address(value))
        case Protocol.TCP:
            return str(int.from_bytes(value, "big"))
        case Protocol.DNS | Protocol.DNS4 | Protocol.DNS6:
            return _dns_untrusted(value)
        case Protocol.P2P:
            return str(peer_id.from_bytes_untrusted(value))
        case _:
            assert_never(protocol)


def _dns_untrusted(value: bytes) -> str:
    if not 0 < len(value) <= DNS_TEXT_BYTES_MAX:
        raise BadFrame("DNS name has an impossible size", have=len(value), limit=DNS_TEXT_BYTES_MAX)
    # A slash would change what the text form means; names outside ASCII travel as punycode.
    if any(byte <= 0x20 or byte >= 0x7F or byte == ord("/") for byte in value):
        raise BadFrame("DNS name has a character that no host name has", have=repr(value))
    return value.decode("ascii")
