"""What can be set about an EMM node, each setting with a default and checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from weft.errors import UsageError
from weft.limits import (
    DATAGRAM_EVENTS_MAX,
    DATAGRAM_HEARTBEAT_INTERVAL_S,
    DATAGRAM_RATE_PER_S_MAX,
    DATAGRAM_RATE_PER_S_MIN,
    DATAGRAM_RELATIONSHIPS_MIN,
)
from weft.model import parse_pattern
from weft.wire.emm import Rules, SealRule
from weft.wire.emm.fields import DEFAULT_RULES
from weft.wire.udp import TTL_DEFAULT, TTL_MAX

EMM_PEERS_MAX: Final = 1024  # nodes that one EMM node talks to: each costs a heartbeat per interval
EMM_CAPABILITIES_BYTES_MAX: Final = 255  # kept of a peer's Hello: one field
EMM_FORWARD_RULES_MAX: Final = 64  # looked through for every event
CAPABILITIES: Final = b"weft"


@dataclass(frozen=True, slots=True)
class Forward:
    """Events whose name matches ``pattern`` are sent on, to every neighbour or only to these (EMM-27)."""

    pattern: str
    to: tuple[UUID, ...] | None = None

    def __post_init__(self) -> None:
        parse_pattern(self.pattern)


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults are for a node that sends and receives, and passes nothing on for others."""

    forward: tuple[Forward, ...] = ()  # the first rule that matches counts; without one nothing is sent on
    capabilities: bytes = CAPABILITIES  # what a Hello says of us
    heartbeat_interval_s: float = DATAGRAM_HEARTBEAT_INTERVAL_S
    peers_max: int = EMM_PEERS_MAX
    ttl: int = TTL_DEFAULT  # of the node's own packets
    unsigned_allowed: bool = False  # whether packets without HMAC and signature are taken
    rate_per_s_max: float = DATAGRAM_RATE_PER_S_MAX  # packets sent, forwarded ones too
    rate_per_s_min: float = DATAGRAM_RATE_PER_S_MIN
    outbox_max: int = 4096  # packets waiting for their turn, urgent ones apart: 2 MiB of each
    events_max: int = DATAGRAM_EVENTS_MAX
    rules: Rules = DEFAULT_RULES  # limits of size (EMM-04) and the profile (EMM-26), for what is sent and received
    seal: tuple[SealRule, ...] = ()  # events that are encrypted when sent, and refused when they come in the clear
    compress: bool = False  # events, where that makes them smaller (EMM-24)

    def __post_init__(self) -> None:
        for name, least, most in (
            ("heartbeat_interval_s", 0.1, 3600),
            ("peers_max", DATAGRAM_RELATIONSHIPS_MIN, EMM_PEERS_MAX),
            ("ttl", 1, TTL_MAX),
            ("outbox_max", 1, None),
            ("events_max", 1, None),
        ):
            value: float = getattr(self, name)
            if value < least or (most is not None and value > most):
                raise UsageError(f"{name} is out of range", value=value, least=least, limit=most)
        if len(self.capabilities) > EMM_CAPABILITIES_BYTES_MAX:
            raise UsageError("capabilities are too long", have=len(self.capabilities), limit=EMM_CAPABILITIES_BYTES_MAX)
        if len(self.forward) > EMM_FORWARD_RULES_MAX:
            raise UsageError("too many forwarding rules", have=len(self.forward), limit=EMM_FORWARD_RULES_MAX)
