"""The sections of a node's configuration: every knob with its default, its range, and what it is for.

The models are frozen and refuse names they do not know. ``docs/configuration.md`` is written from them by
``python -m weft.node.config.page``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from weft.configuration import Section
from weft.core.groups import GroupSettings
from weft.core.groups.settings import RANGES as GROUP_RANGES
from weft.core.kv import KvSettings
from weft.core.settings import InterestSettings
from weft.errors import UsageError
from weft.limits import (
    BATCH_BYTES_MAX,
    CERTIFICATE_LIFETIME_S,
    CERTIFICATE_LIFETIME_S_MAX,
    CERTIFICATE_LIFETIME_S_MIN,
    CERTIFICATE_NAMES_MAX,
    COPIES_MAX,
    DISK_RESERVE_BYTES,
    INTEREST_FILTER_BYTES_MAX,
    KIB,
    LINK_ACK_TIMEOUT_S,
    LINK_WINDOW_BYTES,
    MIB,
    OFFSET_MAX,
    PREPARED_BYTES,
    READ_BYTES_MAX,
    SEGMENT_BYTES,
)
from weft.log.retention import RetentionRule
from weft.membership import Settings
from weft.membership.settings import RANGES as MEMBERSHIP_RANGES
from weft.model import NodeId, Pattern, parse_node_id, parse_pattern
from weft.model.later import AHEAD_S_MAX
from weft.port.later import LaterSettings
from weft.security.secret import Secret
from weft.security.urls import parse_url
from weft.telemetry import parse_endpoint
from weft.transport.addresses import Address, parse_address
from weft.transport.peers.settings import RANGES as LINK_RANGES
from weft.transport.peers.settings import DropPolicy, LinkSettings

GIB: Final = 1024 * MIB
HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
YEAR_S: Final = 365.25 * 24 * HOUR_S
US_PER_S: Final = 1_000_000

T = TypeVar("T")


# --- how text becomes values -------------------------------------------------------------------------------------


def parsed_by(parse: Callable[[str], T]) -> BeforeValidator:
    """Text goes through ``parse``; values that code hands over are taken as they are."""

    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except UsageError as error:
            raise ValueError(str(error)) from None  # what pydantic collects

    return BeforeValidator(convert)


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("has to be a number, not true or false")
    return value


def split_list(value: Any) -> Any:
    """Lists in the environment are separated by commas."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def dialled_address(text: str) -> Address:
    address = parse_address(text)
    if address.port == 0:
        raise UsageError("a peer needs the port it listens on, not 0")
    return address


def _peer_table(value: Any) -> Any:
    """A peer without a node id is just its address."""
    return {"address": value} if isinstance(value, str) else value


Int = Annotated[int, BeforeValidator(_not_bool)]
Seconds = Annotated[float, BeforeValidator(_not_bool)]
Listen = Annotated[InstanceOf[Address], parsed_by(parse_address)]
Dialled = Annotated[InstanceOf[Address], parsed_by(dialled_address)]
Name = Annotated[NodeId, parsed_by(parse_node_id)]
CaAddress = Annotated[str, parsed_by(lambda text: str(parse_url(text)))]
Token = Annotated[InstanceOf[Secret[str]], parsed_by(Secret)]
OtlpEndpoint = Annotated[str, parsed_by(parse_endpoint)]
Selection = Annotated[Pattern, parsed_by(parse_pattern)]


def knob(default: float, least: float, most: float, description: str) -> Any:
    """A number within a range."""
    return Field(default=default, ge=least, le=most, allow_inf_nan=False, description=description)


# --- sections ----------------------------------------------------------------------------------------------------


class NodeSection(Section):
    """Who this node is."""

    id: Name | None = Field(
        default=None,
        description="Its name in the mesh. Unset: made once from the host's name and kept in the data directory.",
    )
    data: Path = Field(
        default=Path("weft-data"),
        description="The directory of the log, made if absent. A relative one is taken from the working directory.",
    )
    mesh: Name = Field(
        default=NodeId("weft"), description="The mesh's name. Nodes of another mesh are refused, so that two never mix."
    )


class ListenSection(Section):
    """Where this node can be reached. Port 0 takes a free one."""

    grpc: Listen = Field(default=Address("127.0.0.1", 7400), description="Clients and peers, over gRPC.")
    advertise: Listen | None = Field(
        default=None,
        description="Where others are told to find this node, if not where it listens. Port 0: the same port.",
    )
    admin: Listen = Field(
        default=Address("127.0.0.1", 7480), description="Console, metrics, health and readiness, over HTTP."
    )
    ca: Listen | None = Field(
        default=None, description="This node's CA, over HTTPS, for nodes and clients that enrol or renew. Unset: not."
    )


class AdminSection(Section):
    """What is served at `listen.admin` beside health and readiness ([console.md](console.md))."""

    console: bool = Field(default=True, description="The console: the mesh in a browser, for whoever has an API key.")
    metrics: Literal["key", "open"] = Field(
        default="key",
        description="Whether `/metrics` wants an API key with the admin right (`Authorization: Bearer`), or none. "
        "An insecure node wants none.",
    )
    metrics_topics_max: Int = knob(
        20, 0, 1000, "Topics that have metrics of their own, the largest first; the rest is counted as `other`."
    )
    tls: Literal["auto", "always"] = Field(
        default="auto",
        description="TLS with this node's certificate: at every address but a loopback one, or always. "
        "An insecure node has none.",
    )
    session_s: Seconds = knob(8 * HOUR_S, 60.0, 7 * DAY_S, "How long somebody stays signed in to the console, at most.")
    idle_s: Seconds = knob(HOUR_S / 2, 60.0, 7 * DAY_S, "The same without a page open.")
    ask_others: bool = Field(
        default=True,
        description="The console asks other nodes, too, with the key that signed in. Otherwise it shows of them what "
        "gossip tells.",
    )


class SecuritySection(Section):
    """Certificates. A node that is told nothing makes a CA of its own in its data directory ([more](security.md))."""

    ca_url: CaAddress | None = Field(
        default=None, description="The CA that this node enrols with and renews at: https://HOST:PORT."
    )
    ca_fingerprint: str | None = Field(
        default=None,
        pattern=r"^[0-9A-Fa-f:]{64,95}$",
        description="SHA-256 of that CA's root. Unset: as the token says.",
    )
    token: Token | None = Field(
        default=None, description="The enrolment token (`weft ca token`); of no use once there is a certificate."
    )
    token_file: Path | None = Field(default=None, description="A file with the token, for its owner's eyes only.")
    hosts: Annotated[tuple[str, ...], BeforeValidator(split_list)] = Field(
        default=(),
        max_length=CERTIFICATE_NAMES_MAX - 4,
        description="Names and addresses clients know this node by, beside the one it listens on. For a CA of its own.",
    )
    client_certificates: Literal["optional", "required"] = Field(
        default="optional",
        description="Whether clients have to show a certificate of the mesh beside their key. Peers always have to.",
    )
    certificate_lifetime_s: Seconds = knob(
        CERTIFICATE_LIFETIME_S,
        CERTIFICATE_LIFETIME_S_MIN,
        CERTIFICATE_LIFETIME_S_MAX,
        "Of certificates of a CA that this node makes. They are renewed at two thirds of it.",
    )


class Peer(Section):
    """A node to dial. With a node id, whoever else answers there is refused."""

    address: Dialled = Field(description="HOST:PORT of the peer's gRPC listener.")
    node_id: Name | None = Field(default=None, description="Who is expected to answer. Unset: anybody of this mesh.")


PeerItem = Annotated[Peer, BeforeValidator(_peer_table)]


def _link_knob(name: str, description: str) -> Any:
    """Default and range are those of the links themselves."""
    return knob(getattr(LinkSettings(), name), *LINK_RANGES[name], description)


class LinkSection(Section):
    """How this node talks to its peers (PL-01, PL-02, PL-07)."""

    queue_frames_max: Int = _link_knob("queue_frames_max", "Frames waiting to be sent to one peer.")
    queue_bytes_max: Int = _link_knob("queue_bytes_max", "Bytes waiting to be sent to one peer.")
    send_timeout_s: Seconds = _link_knob(
        "send_timeout_s", "How long a full queue is waited for before a frame is dropped."
    )
    drop_policy: DropPolicy = Field(
        default=LinkSettings().drop_policy,
        description="Which frame is dropped then. Nothing is lost: the peer gets it again from the log.",
    )
    message_bytes_max: Int = _link_knob("max_message_bytes", "The largest message that is taken from a peer.")
    backoff_s_min: Seconds = _link_knob("backoff_s_min", "The pause after the first failed dial. It doubles each time.")
    backoff_s_max: Seconds = _link_knob("backoff_s_max", "The longest pause between dials.")
    backoff_jitter: Seconds = _link_knob(
        "backoff_jitter", "Which part of a pause is left to chance: nodes do not dial in step."
    )
    dial_timeout_s: Seconds = _link_knob("dial_timeout_s", "How long a connection may take to come up.")
    handshake_timeout_s: Seconds = _link_knob(
        "handshake_timeout_s", "How long a connected peer may take to say who it is."
    )
    window_bytes: Int = knob(
        LINK_WINDOW_BYTES,
        64 * KIB,
        1 * GIB,
        "Bytes sent to one peer and not yet acknowledged; at least one batch goes anyway.",
    )
    ack_timeout_s: Seconds = knob(
        LINK_ACK_TIMEOUT_S,
        1.0,
        600.0,
        "A peer that owes acknowledgements and sends none for so long gets it all again.",
    )
    late_copies: bool = Field(
        default=True,
        description="Copy a topic to this node from when it is wanted, and the past only once somebody asks for it. "
        "Without it, whoever wants a topic here brings its whole history to this node.",
    )
    interest_filter_bytes_max: Int = knob(
        InterestSettings().filter_bytes_max,
        0,
        INTEREST_FILTER_BYTES_MAX,
        "Of the filter by which a node with more than 224 patterns tells what it wants; 14 bits for each "
        "keep mistakes at 0.3 %. 0: it tells wider patterns only, and gets more than it wants.",
    )
    compression: bool = Field(
        default=False, description="Compress batches for peers that can take it: less network, more CPU."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.backoff_s_min > self.backoff_s_max:
            raise ValueError(f"backoff_s_min ({self.backoff_s_min}) is above backoff_s_max ({self.backoff_s_max})")
        return self


def _membership_knob(name: str, description: str) -> Any:
    """Default and range are the membership room's own."""
    return knob(getattr(Settings(), name), *MEMBERSHIP_RANGES[name], description)


class MembershipSection(Section):
    """How eagerly nodes talk about each other. Choose the same for all nodes of a mesh."""

    gossip_interval_s: Seconds = _membership_knob("gossip_interval_s", "Between two rounds of comparing what is known.")
    gossip_fan_out: Int = _membership_knob("gossip_fan_out", "Links that are served in one round.")
    spread_delay_s: Seconds = _membership_knob("spread_delay_s", "How long a change waits for others to go with it.")
    spread_multiplier: Int = _membership_knob("spread_multiplier", "A change goes to this times log2(nodes) peers.")
    probe_interval_s: Seconds = _membership_knob("probe_interval_s", "Between two probes of whether others are alive.")
    probe_timeout_s: Seconds = _membership_knob("probe_timeout_s", "How long a probe waits before others have to help.")
    probe_helpers: Int = _membership_knob("probe_helpers", "How many others are asked to probe a silent node.")
    suspicion_multiplier: Int = _membership_knob(
        "suspicion_multiplier", "A suspect has this times log2(nodes) probe intervals to show that it is alive."
    )
    heartbeat_interval_s: Seconds = _membership_knob(
        "heartbeat_interval_s", "Between heartbeats on a link; three that are missed make it unhealthy (PL-03)."
    )
    unreachable_s: Seconds = _membership_knob("unreachable_s", "How long a node behind a cut is not called dead.")
    dead_retention_s: Seconds = _membership_knob("dead_retention_s", "How long a dead node is still shown.")
    rejoin_interval_s: Seconds = _membership_knob("rejoin_interval_s", "Between dials of a node without any links.")
    leave_timeout_s: Seconds = _membership_knob("leave_timeout_s", "How long a shutdown waits for its goodbye to go.")

    @model_validator(mode="after")
    def _accepted(self) -> Self:
        try:
            self.settings()
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    def settings(self) -> Settings:
        return Settings(**self.model_dump())


class StorageSection(Section):
    """The log on disk."""

    segment_bytes: Int = knob(
        SEGMENT_BYTES, 1 * MIB, 1 * GIB, "Size of a segment. Space is given back by whole segments."
    )
    disk_reserve_bytes: Int = knob(
        DISK_RESERVE_BYTES, 16 * MIB, 1024 * GIB, "Kept free on the disk: below it, publishes are refused, reads go on."
    )
    prepared_bytes: Int = knob(
        PREPARED_BYTES,
        0,
        1 * GIB,
        "Written ahead at start, so that a sync need not make a file longer: it takes half the time."
        " A little more than a segment lasts for ever; less, or a disk without so much room, is slower at first.",
    )
    maintenance_interval_s: Seconds = knob(60.0, 1.0, 24 * HOUR_S, "Between rounds of retention and compaction.")


class LimitsSection(Section):
    """What clients may ask of this node."""

    connections_max: Int = knob(
        10_000,
        16,
        1_000_000,
        "gRPC connections of clients and peers, at a time. All ports together are bounded by the files that the "
        "process may have open, too; the log line `files_shared_out` says how many connections that leaves.",
    )
    connections_of_host_max: Int = knob(
        4096,
        16,
        1_000_000,
        "Connections to one port (gRPC, EXMP, Coaty, QUIC) from one address, or /64 network of IPv6: more for clients "
        "that come through a proxy.",
    )
    strangers_max: Int = knob(
        1024, 4, 100_000, "Connections to one of these ports that have not yet shown who they are."
    )
    strangers_of_host_max: Int = knob(512, 4, 100_000, "The same from one address.")
    stranger_grace_s: Seconds = knob(
        1.0, 0.1, 300.0, "How long such a connection is safe from being closed to make room for a newer one."
    )
    handshake_timeout_s: Seconds = knob(10.0, 0.5, 300.0, "For the handshake of a new gRPC or QUIC connection.")
    first_request_timeout_s: Seconds = knob(
        20.0,
        0.5,
        300.0,
        "For the first request on a new gRPC connection; it is closed without one, and if after both times no key or "
        "certificate of a peer was found good.",
    )
    clients_max: Int = knob(10_000, 1, 1_000_000, "Client streams (publish or subscribe) that are open at a time.")
    subscriptions_max: Int = knob(10_000, 1, 1_000_000, "Subscriptions that are open at a time, of all clients.")
    batch_bytes_max: Int = knob(BATCH_BYTES_MAX, 64 * KIB, BATCH_BYTES_MAX, "The largest batch a client may publish.")
    held_bytes_max: Int = knob(
        512 * MIB,
        64 * MIB,
        64 * GIB,
        "Memory held for all callers: batches not yet synced, deliveries and replies not yet taken. More has to wait.",
    )
    caller_bytes_max: Int = knob(
        128 * MIB,
        16 * MIB,
        16 * GIB,
        "The same for one caller (key): a quarter each for publishing, subscriptions, fetches and other replies.",
    )
    credit_bytes_max: Int = knob(
        64 * MIB, 64 * KIB, 1 * GIB, "The most that may be under way to one subscriber, whatever it asks for."
    )
    reply_bytes_max: Int = knob(
        READ_BYTES_MAX, 64 * KIB, BATCH_BYTES_MAX, "Bytes in one reply to a fetch; at least one batch goes anyway."
    )
    key_topics_max: Int = knob(
        100_000, 1, OFFSET_MAX, "Topics that a key may make at this node, unless it has a quota of its own."
    )
    key_groups_max: Int = knob(1024, 1, OFFSET_MAX, "Groups that a key may make, likewise.")
    key_subscriptions_max: Int = knob(5000, 1, OFFSET_MAX, "Subscriptions that a key may have open, likewise.")
    key_events_per_s_max: Int | None = Field(
        default=None, ge=1, le=OFFSET_MAX, description="Events that a key may publish per second, likewise. Unset: any."
    )
    key_bytes_per_s_max: Int | None = Field(
        default=None, ge=1, le=OFFSET_MAX, description="Bytes of batches per second, likewise. Unset: any."
    )


class TopicSection(Section):
    """What holds for topics that match a pattern. The first table that matches counts."""

    pattern: Selection = Field(description="Which topics: plant.*.temp, or > for all.")
    copies: Int = knob(1, 1, COPIES_MAX, "Nodes that must have synced an event before its publisher gets the receipt.")
    retention_age_s: Seconds | None = Field(
        default=None,
        ge=1.0,
        le=100 * YEAR_S,
        allow_inf_nan=False,
        description="Older events may go. Unset: none.",
    )
    retention_bytes: Int | None = Field(
        default=None, ge=MIB, le=OFFSET_MAX, description="Of each stream, what exceeds this may go. Unset: nothing."
    )
    compact: bool = Field(default=False, description="Keep only the latest event of each key.")

    def retention_rule(self) -> RetentionRule:
        """A table that says nothing of retention keeps all, whatever the tables behind it say."""
        age_us = None if self.retention_age_s is None else int(self.retention_age_s * US_PER_S)
        size = OFFSET_MAX if age_us is None and self.retention_bytes is None else self.retention_bytes
        return RetentionRule(self.pattern, age_us_max=age_us, stream_bytes_max=size)


class GroupsSection(Section):
    """Groups of subscribers that share streams."""

    handover_timeout_s: Seconds = knob(
        GroupSettings().release_timeout_s,
        *GROUP_RANGES["release_timeout_s"],
        "How long a member may take to let go of streams that go to another, and how long a node waits until it has "
        "heard what others say of the group before it begins with a stream.",
    )
    expire_after_s: Seconds = knob(
        GroupSettings().expire_after_s,
        *GROUP_RANGES["expire_after_s"],
        "A group that has had no members and was not moved for so long is forgotten with its positions. Give all nodes "
        "the same, much more than their clocks differ and than parts of the mesh are ever cut off.",
    )


class KvSection(Section):
    """Buckets of keys and values, which every node holds."""

    keys_max: Int = knob(
        KvSettings().keys_max,
        1000,
        100_000_000,
        "Keys of all buckets, about 500 bytes of memory each. Writes beyond that are refused here.",
    )
    buckets_max: Int = knob(KvSettings().buckets_max, 1, 100_000, "Buckets that can be made at this node.")
    cache_bytes_max: Int = knob(
        KvSettings().cache_bytes_max, 0, 64 * GIB, "Values kept in memory. Others are read from the log."
    )
    clock_skew_s_max: Seconds = knob(
        KvSettings().skew_ms_max / 1000,
        1,
        HOUR_S,
        "How far ahead the clock of another node may be. What it writes further ahead counts when its time comes.",
    )
    grace_s: Seconds = knob(
        KvSettings().grace_s,
        0,
        YEAR_S,
        "How long the log remembers that a key was deleted or has expired. Longer than any node is ever cut off.",
    )

    def settings(self) -> KvSettings:
        return KvSettings(
            keys_max=self.keys_max,
            buckets_max=self.buckets_max,
            cache_bytes_max=self.cache_bytes_max,
            skew_ms_max=int(self.clock_skew_s_max * 1000),
            grace_s=self.grace_s,
        )


class LaterSection(Section):
    """Events for a later time, and schedules ([more](later.md))."""

    ahead_s_max: Seconds = knob(
        LaterSettings().ahead_s_max, 60, AHEAD_S_MAX, "How far ahead an event can be due; at most 366 days."
    )
    pending_max: Int = knob(
        LaterSettings().pending_max,
        1,
        100_000_000,
        "Events that wait at this node. What is due soon takes 16 bytes of memory each. More are refused.",
    )
    pending_of_key_max: Int = knob(
        LaterSettings().pending_of_key_max, 1, 100_000_000, "The same, of one key, or of all keys of the same name."
    )
    schedules_of_key_max: Int = knob(
        LaterSettings().schedules_of_key_max, 1, 10_000, "Schedules of one key, in the whole mesh."
    )

    def settings(self) -> LaterSettings:
        return LaterSettings(
            ahead_s_max=self.ahead_s_max,
            pending_max=self.pending_max,
            pending_of_key_max=self.pending_of_key_max,
            schedules_of_key_max=self.schedules_of_key_max,
        )


class KeysSection(Section):
    """API keys of clients, which all nodes of the mesh know ([more](security.md#keys-belong-to-the-mesh))."""

    makers: Annotated[tuple[Name, ...], BeforeValidator(split_list)] = Field(
        default=(),
        max_length=1024,
        description="Nodes whose word counts on which keys there are and which are revoked. None: all of the mesh. "
        "Set the same everywhere.",
    )
    unheard_s_max: Seconds | None = Field(
        default=None,
        ge=10.0,
        le=YEAR_S,
        allow_inf_nan=False,
        description="How long keys are good at a node that hears from no other, and so of no revocation. "
        "Unset: for ever.",
    )


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    CONSOLE = "console"
    JSON = "json"


class LogSection(Section):
    """What the node says about itself, on standard error."""

    level: LogLevel = Field(default=LogLevel.INFO, description="The least important lines that are written.")
    format: LogFormat = Field(default=LogFormat.CONSOLE, description="Lines for people, or JSON for machines.")
    held_up_s: Seconds = knob(
        0.1,
        0.005,
        60.0,
        "A step that holds up everything else in the node for so long is told with its place (`loop_held_up`); at most "
        "once in a hundred times that, unless it is longer.",
    )


class TracingSection(Section):
    """Where spans of traced events go ([tracing.md](tracing.md)). Needs `pip install 'weft[tracing]'`."""

    endpoint: OtlpEndpoint | None = Field(
        default=None,
        description="An OTLP collector: http://HOST:PORT, spoken to in protobuf. Unset: no spans are made.",
    )
    sample: float = knob(
        1.0,
        0.0,
        1.0,
        "Of the traces that begin at this node's gateways, the share that is followed. Clients decide for what they "
        "publish.",
    )
    spans_per_s_max: Int = knob(1000, 1, 100_000, "Spans that this node makes in a second, at most; more are dropped.")


class ShutdownSection(Section):
    """How the node goes."""

    drain_timeout_s: Seconds = knob(
        10.0, 0.0, 600.0, "How long receipts, deliveries and acknowledgements that are under way may take to finish."
    )
