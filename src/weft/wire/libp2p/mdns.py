"""Finding peers on the local network: libp2p's older mDNS discovery under the service name that Coaty uses (COA-02).

A peer asks for PTR records of its namespace's service name; every other peer answers with one packet: PTR to its own
instance name, SRV with its port, TXT with its peer id, and its addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError
from weft.wire.libp2p import dns, multiaddr, peer_id
from weft.wire.libp2p.dns import Address, IpAddress, Name, Packet, Ptr, Question, Record, Srv, Txt, Type
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.multiaddr import Multiaddr
from weft.wire.libp2p.peer_id import PeerId

MDNS_PEERS_MAX: Final = 8  # announced by one packet; the reference announces itself
MDNS_ADDRESSES_MAX: Final = 32  # of one peer: a host with many interfaces
GROUP = "224.0.0.251"
PORT = 5353
SRV_PRIORITY, SRV_WEIGHT = 10, 1  # what the reference sends; nobody chooses by them


@dataclass(frozen=True, slots=True)
class Found:
    """A peer said where it can be reached. Nothing proves it until the peer is dialled."""

    peer: PeerId
    addresses: tuple[Multiaddr, ...]


def service_name(namespace: str) -> Name:
    """``coaty-libp2p-<namespace>.local``; raise UsageError if that is no DNS name (the reference just fails)."""
    return _name_for(namespace, _service_text(namespace))


def _service_text(namespace: str) -> str:
    return f"coaty-libp2p-{namespace}.local"


def _name_for(namespace: str, text: str) -> Name:
    try:
        return dns.name(text)
    except UsageError as error:
        reason = f"mDNS cannot announce namespace {namespace!r}, since {text!r} is not a DNS name: {error.what}"
        raise UsageError(reason, **error.facts) from None


def query(namespace: str) -> bytes:
    """The packet that asks who is there."""
    return dns.encode(Packet(is_response=False, questions=(Question(service_name(namespace), Type.PTR),)))


def answer(namespace: str, peer: PeerId, port: int, addresses: Sequence[IpAddress], hostname: str) -> bytes:
    """The packet that says that ``peer`` listens on ``port`` of each of ``addresses``."""
    if not 0 < port < 1 << 16:
        raise UsageError("not a port number", have=port)
    if not 0 < len(addresses) <= MDNS_ADDRESSES_MAX:
        raise UsageError("not a sensible number of addresses", have=len(addresses), limit=MDNS_ADDRESSES_MAX)
    service, host = service_name(namespace), dns.name(hostname)
    instance = _name_for(namespace, f"{peer}.{_service_text(namespace)}")
    records = (
        Record(service, Ptr(instance)),
        Record(instance, Srv(SRV_PRIORITY, SRV_WEIGHT, port, host)),
        Record(instance, Txt((str(peer).encode(),))),
        *(Record(host, Address(address)) for address in addresses),
    )
    return dns.encode(Packet(is_response=True, answers=records))


def asks_for(packet: Packet, namespace: str) -> bool:
    """Whether to answer ``packet``."""
    service = service_name(namespace)
    return not packet.is_response and any(
        question.name == service and question.type in (Type.PTR, Type.ANY) for question in packet.questions
    )


def found_untrusted(packet: Packet, namespace: str) -> list[Found]:
    """The peers of ``namespace`` that ``packet`` (as decoded) announces; raise only BadFrame."""
    if not packet.is_response:
        return []
    service = service_name(namespace)
    pointers = [record.data for record in packet.answers if record.name == service and isinstance(record.data, Ptr)]
    if len(pointers) > MDNS_PEERS_MAX:
        raise BadFrame("packet announces too many peers", have=len(pointers), limit=MDNS_PEERS_MAX)
    found = []
    for instance in dict.fromkeys(pointer.target for pointer in pointers):
        own = [record.data for record in packet.answers if record.name == instance]
        text = next((data for data in own if isinstance(data, Txt)), None)
        location = next((data for data in own if isinstance(data, Srv)), None)
        if text is None or not text.strings or location is None:
            raise BadFrame("announcement without a peer id or a port", instance=instance)
        ips = dict.fromkeys(
            record.data.ip
            for record in packet.answers
            if record.name == location.target and isinstance(record.data, Address)
        )
        if len(ips) > MDNS_ADDRESSES_MAX:
            raise BadFrame("peer announces too many addresses", have=len(ips), limit=MDNS_ADDRESSES_MAX)
        addresses = tuple(multiaddr.tcp(str(ip), location.port) for ip in ips)
        found.append(Found(_peer_untrusted(text.strings[0]), addresses))
    return found


def _peer_untrusted(text: bytes) -> PeerId:
    try:
        return peer_id.from_text_untrusted(text.decode("ascii"))
    except UnicodeDecodeError:
        raise BadFrame("peer id is not text", have=repr(text)) from None
