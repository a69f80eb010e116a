"""``[gateway.emm]``: devices that speak EMM and EMM-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from weft.configuration import Section
from weft.errors import UsageError
from weft.gateway.emm.settings import GatewaySettings, Out, Payload, Target
from weft.gateway.emm.topics import EVENT, PREFIX, TopicMap, TopicRule
from weft.limits import (
    DATAGRAM_HEARTBEAT_INTERVAL_S,
    DATAGRAM_RATE_PER_S_MAX,
    DATAGRAM_RATE_PER_S_MIN,
    DATAGRAM_SOUGHT_MAX,
    EMM_PACKET_BYTES_MAX,
    KIB,
    MIB,
    QUARANTINE_PER_S,
)
from weft.node.config.sections import Seconds, Selection, dialled_address, knob, parsed_by, split_list
from weft.transport.addresses import Address, parse_address_or_host
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import Algorithm, Profile, Rules, SealRule, TrustPolicy
from weft.wire.emm.encryption import KEY_ID_BYTES
from weft.wire.emm.fields import DEFAULT_RULES
from weft.wire.emm_compact import Priority
from weft.wire.emm_compact.codes import label

DEFAULT_PORT: Final = 4700  # the documents name none
TARGETS_MAX: Final = 256
RULES_MAX: Final = 256

PACKET_BYTES_LEAST: Final = 128  # a signed event with a name
PACKET_BYTES_MOST: Final = 9000  # a jumbo frame: larger ones would be fragmented everywhere
CIPHERS: Final = {"aes-256-gcm": Algorithm.AES_256_GCM, "chacha20-poly1305": Algorithm.CHACHA20_POLY1305}
PRIORITIES: Final = {label(priority): priority for priority in Priority}
QUIC: Final = "quic://"  # before an address


def parse_target(text: str) -> Target:
    """``10.0.0.7:4700`` for UDP, ``quic://node-b:4700`` for QUIC."""
    host, port = dialled_address(text.removeprefix(QUIC))
    return Target(host, port, text.startswith(QUIC))


def _shown(target: Target) -> str:
    return str(Address(target.host, target.port))


Listen = Annotated[InstanceOf[Address], parsed_by(lambda text: parse_address_or_host(text, DEFAULT_PORT))]
Targets = Annotated[tuple[Annotated[InstanceOf[Target], parsed_by(parse_target)], ...], BeforeValidator(split_list)]


class EmmRuleSection(Section):
    """The topic for events with certain names. The first table that matches counts."""

    event: Selection = Field(description="Names of events: plant.*.temp, or > for all.")
    topic: str = Field(description=f"The topic for them. {EVENT} stands for the event's name.")

    @model_validator(mode="after")
    def _accepted(self) -> Self:
        try:
            self.rule()
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    def rule(self) -> TopicRule:
        return TopicRule(self.event, self.topic)


class EmmOutSection(Section):
    """Topics whose events are sent as datagrams. Events that came as datagrams are never sent out again."""

    pattern: Selection = Field(description="Topics, for example alarms.>.")
    protocol: DatagramProtocol = Field(
        default=DatagramProtocol.EMM,
        description="The header format. EMM events get the name of their topic; EMM-C has no names.",
    )
    targets: Targets = Field(
        default=(),
        max_length=TARGETS_MAX,
        description="Where to send them, HOST:PORT each, or quic://HOST:PORT. None: to every device that said Hello "
        "or joined.",
    )
    urgent: bool = Field(default=False, description="Mark the datagrams as urgent.")
    priority: str = Field(
        default=label(Priority.INFO),
        pattern=f"^({'|'.join(PRIORITIES)})$",
        description=f"Priority of EMM-C notifications: {', '.join(PRIORITIES)}.",
    )

    compress: bool = Field(default=False, description="Compress EMM events if that makes them smaller.")
    quic: bool = Field(
        default=False,
        description="Send events on these topics only over QUIC, even if another table matches them, too.",
    )

    @model_validator(mode="after")
    def _secret(self) -> Self:
        plain = [target for target in self.targets if not target.quic]
        if self.quic and plain:
            raise ValueError(
                f"quic is true, so every target must be reached by QUIC: write {QUIC}{_shown(plain[0])} in targets"
            )
        return self

    def out(self) -> Out:
        priority = PRIORITIES[self.priority]
        return Out(self.pattern, self.protocol, self.targets, self.urgent, priority, self.compress, self.quic)


class EmmSealSection(Section):
    """Events that must be encrypted: refused when they arrive in the clear, encrypted when they are sent. EMM only."""

    pattern: Selection = Field(description="Names of events that arrive, and topics that are sent.")
    key_id: str = Field(
        pattern=f"^[0-9a-fA-F]{{{2 * KEY_ID_BYTES}}}$",
        description="The key that this node encrypts with: its id in the trust store, 32 hexadecimal digits.",
    )
    cipher: Literal["aes-256-gcm", "chacha20-poly1305"] = Field(
        default="aes-256-gcm", description="The cipher that this node encrypts with. It decrypts both."
    )

    def rule(self) -> SealRule:
        return SealRule(self.pattern, bytes.fromhex(self.key_id), CIPHERS[self.cipher])


class EmmSection(Section):
    """EMM and EMM-C datagrams of devices, on one port ([more](emm.md))."""

    udp: Listen | None = Field(
        default=None,
        description=f"Listen for datagrams. The port is {DEFAULT_PORT} if none is given. Unset: no UDP.",
    )
    quic: Listen | None = Field(
        default=None,
        description=f"Listen for the same packets over QUIC, with this node's certificate. The port is {DEFAULT_PORT} "
        "if none is given. Unset: no QUIC.",
    )
    quic_root: Path | None = Field(
        default=None,
        description="A PEM file with the root certificates of the nodes that this node connects to over QUIC. Unset: "
        "the root of its own mesh.",
    )
    join: Targets = Field(
        default=(),
        max_length=DATAGRAM_SOUGHT_MAX,
        description="EMM nodes to say Hello to, HOST:PORT each, or quic://HOST:PORT over QUIC.",
    )
    compact_join: Targets = Field(
        default=(),
        max_length=DATAGRAM_SOUGHT_MAX,
        description="EMM-C nodes to join, HOST:PORT each, or quic://HOST:PORT over QUIC.",
    )
    prefix: str = Field(default=PREFIX, description="What stands before an event's name in its topic.")
    rules: tuple[EmmRuleSection, ...] = Field(
        default=(), max_length=RULES_MAX, description="Tables that give some names another topic, see below."
    )
    payload: Payload = Field(
        default=Payload.VALUE, description="What an event's payload is: the value in the packet, or the whole datagram."
    )
    policy: TrustPolicy = Field(
        default=TrustPolicy.PINNED,
        description="When to accept a public key inside a packet: only if it is in the trust store; also if it is the "
        "first one of its node, which is kept; or always, with the event marked as of unverified identity.",
    )
    unsigned: bool = Field(
        default=False, description="Accept EMM packets without a signature, and mark their events as unsigned."
    )
    profile: Profile | None = Field(
        default=None,
        description="Stricter rules for EMM packets, received and sent: `interop-v1`. Unset: the rules of the "
        "protocol.",
    )
    packet_bytes_max: int = knob(
        EMM_PACKET_BYTES_MAX, PACKET_BYTES_LEAST, PACKET_BYTES_MOST, "The largest EMM packet, received or sent."
    )
    inflated_bytes_max: int = knob(
        DEFAULT_RULES.inflated_bytes_max,
        KIB,
        16 * MIB,
        "The largest size of a compressed EMM packet after decompression.",
    )
    seal: tuple[EmmSealSection, ...] = Field(
        default=(), max_length=RULES_MAX, description="Tables of events that must be encrypted, see below."
    )
    out: tuple[EmmOutSection, ...] = Field(
        default=(), max_length=RULES_MAX, description="Tables of topics that are sent as datagrams, see below."
    )
    rate_per_s_max: Seconds = knob(
        DATAGRAM_RATE_PER_S_MAX, DATAGRAM_RATE_PER_S_MIN, 1_000_000, "Datagrams that may be sent in a second."
    )
    quarantine_per_s: Seconds = knob(
        QUARANTINE_PER_S,
        0.0,
        100_000,
        "Refused datagrams that are kept in `weft.quarantine.emm`, per second on average.",
    )
    heartbeat_interval_s: Seconds = knob(
        DATAGRAM_HEARTBEAT_INTERVAL_S,
        1.0,
        255.0,
        "Time between heartbeats to devices. A device that misses three is no longer a neighbour.",
    )

    @model_validator(mode="after")
    def _accepted(self) -> Self:
        try:
            TopicMap(prefix=self.prefix)
        except UsageError as error:
            raise ValueError(f"prefix: {error}") from None
        targets = (*self.join, *self.compact_join, *(target for out in self.out for target in out.targets))
        plain = next((each for each in targets if not each.quic), None)
        if self.udp is None and plain is not None:
            raise ValueError(f"{_shown(plain)} is reached by UDP: set udp, or write {QUIC}{_shown(plain)}")
        if self.out and self.udp is None and self.quic is None and not targets:
            raise ValueError(f"out has no way to send: set udp or quic, or join a node with {QUIC}HOST:PORT")
        return self

    def settings(self) -> GatewaySettings | None:
        """None if it neither listens nor connects to anybody."""
        made = self._settings()
        return None if self.udp is None and self.quic is None and not made.dialled() else made

    def _settings(self) -> GatewaySettings:
        return GatewaySettings(
            udp=self.udp,
            quic=self.quic,
            quic_root=self.quic_root,
            join=self.join,
            compact_join=self.compact_join,
            prefix=self.prefix,
            rules=tuple(each.rule() for each in self.rules),
            payload=self.payload,
            policy=self.policy,
            unsigned_allowed=self.unsigned,
            packet_rules=Rules(self.packet_bytes_max, DEFAULT_RULES.tlvs_max, self.inflated_bytes_max, self.profile),
            seal=tuple(each.rule() for each in self.seal),
            out=tuple(each.out() for each in self.out),
            rate_per_s_max=self.rate_per_s_max,
            quarantine_per_s=self.quarantine_per_s,
            heartbeat_interval_s=self.heartbeat_interval_s,
        )
