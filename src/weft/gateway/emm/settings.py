"""The gateway's settings; ``weft.node.config.emm`` documents each for users."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from weft.gateway.emm.topics import PREFIX, TopicRule
from weft.limits import DATAGRAM_HEARTBEAT_INTERVAL_S, DATAGRAM_RATE_PER_S_MAX, QUARANTINE_PER_S
from weft.model import Pattern
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import Rules, SealRule, TrustPolicy
from weft.wire.emm.fields import DEFAULT_RULES
from weft.wire.emm_compact import Priority

HostAndPort = tuple[str, int]


class Target(NamedTuple):
    """Where to send to: by UDP, or over a QUIC connection that the gateway makes and keeps."""

    host: str
    port: int
    quic: bool = False


class Payload(StrEnum):
    """What the payload of a mesh event is."""

    VALUE = "value"  # the event's value: see ``values``
    DATAGRAM = "datagram"  # the packet as it came, with its signature


@dataclass(frozen=True, slots=True)
class Out:
    """Mesh events that match ``pattern`` go out as datagrams: to ``targets``, or to all neighbours if there are none.

    ``priority`` is only for EMM-C, ``compress`` (used if it helps) only for EMM. With ``quic``, events on these topics
    leave over QUIC or not at all, whichever rule sends them (EMM-28).
    """

    pattern: Pattern
    protocol: DatagramProtocol = DatagramProtocol.EMM
    targets: tuple[Target, ...] = ()
    urgent: bool = False
    priority: Priority = Priority.INFO
    compress: bool = False
    quic: bool = False


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Listens if an address is given. ``quic_root`` has the certificates against which others are checked over QUIC;
    None: the root of the node's own mesh."""

    udp: HostAndPort | None = None
    quic: HostAndPort | None = None
    quic_root: Path | None = None
    join: tuple[Target, ...] = ()
    compact_join: tuple[Target, ...] = ()
    prefix: str = PREFIX
    rules: tuple[TopicRule, ...] = ()
    payload: Payload = Payload.VALUE
    policy: TrustPolicy = TrustPolicy.PINNED
    unsigned_allowed: bool = False
    packet_rules: Rules = DEFAULT_RULES
    seal: tuple[SealRule, ...] = ()
    out: tuple[Out, ...] = ()
    rate_per_s_max: float = DATAGRAM_RATE_PER_S_MAX
    quarantine_per_s: float = QUARANTINE_PER_S
    heartbeat_interval_s: float = DATAGRAM_HEARTBEAT_INTERVAL_S

    def dialled(self) -> frozenset[Target]:
        """The targets to which the gateway connects by QUIC."""
        wanted = (*self.join, *self.compact_join, *(target for out in self.out for target in out.targets))
        return frozenset(each for each in wanted if each.quic)
