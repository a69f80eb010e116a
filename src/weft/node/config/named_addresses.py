"""Every address that a node listens on or sends to, by the setting that names it.

Rules about addresses hold for all of them: ``--insecure`` stays on this machine, and `weft doctor` tries the ports. A
test looks through the settings and fails if one with an address is missing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from weft.node.config.coaty import CoatySection
from weft.node.config.emm import EmmSection
from weft.node.config.gateways import GatewaySection
from weft.node.config.sections import ListenSection, Peer
from weft.transport.addresses import Address
from weft.wire.libp2p import multiaddr


class Way(Enum):
    """What happens at an address."""

    TCP = "listens with TCP"
    UDP = "listens with UDP"
    OUT = "sends there"


class NamedAddress(NamedTuple):
    """One address of the configuration."""

    setting: str
    address: Address
    way: Way

    def __str__(self) -> str:
        return f"{self.setting} {self.address}"


def named_addresses(listen: ListenSection, peers: Sequence[Peer], gateway: GatewaySection) -> Iterator[NamedAddress]:
    """All that are open with these settings."""
    yield NamedAddress("listen.grpc", listen.grpc, Way.TCP)
    yield NamedAddress("listen.admin", listen.admin, Way.TCP)
    if listen.ca is not None:
        yield NamedAddress("listen.ca", listen.ca, Way.TCP)
    for peer in peers:
        yield NamedAddress("peer", peer.address, Way.OUT)
    if gateway.exmp.tcp is not None:
        yield NamedAddress("gateway.exmp.tcp", gateway.exmp.tcp, Way.TCP)
    if gateway.exmp.tls is not None:
        yield NamedAddress("gateway.exmp.tls", gateway.exmp.tls, Way.TCP)
    yield from _of_emm(gateway.emm)
    if gateway.coaty.namespace is not None:
        yield from _of_coaty(gateway.coaty)


def _of_emm(emm: EmmSection) -> Iterator[NamedAddress]:
    if emm.udp is not None:
        yield NamedAddress("gateway.emm.udp", emm.udp, Way.UDP)
    if emm.quic is not None:
        yield NamedAddress("gateway.emm.quic", emm.quic, Way.UDP)
    for setting, targets in (("join", emm.join), ("compact_join", emm.compact_join)):
        for target in targets:
            yield NamedAddress(f"gateway.emm.{setting}", Address(target.host, target.port), Way.OUT)
    for out in emm.out:
        for target in out.targets:
            yield NamedAddress("gateway.emm.out.targets", Address(target.host, target.port), Way.OUT)


def _of_coaty(coaty: CoatySection) -> Iterator[NamedAddress]:
    yield NamedAddress("gateway.coaty.listen", coaty.listen, Way.TCP)
    for interface in coaty.mdns:
        yield NamedAddress("gateway.coaty.mdns", Address(interface, 0), Way.OUT)
    for text in coaty.bootstrap:
        endpoint = multiaddr.parse(text).tcp_endpoint
        yield NamedAddress("gateway.coaty.bootstrap", Address(*(endpoint or (text, 0))), Way.OUT)
