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
    """The node's name, its mesh and its data directory."""

    id: Name | None = Field(
        default=None,
        description="The node's name in the mesh. Unset: made once from the host's name and kept in the data "
        "directory.",
    )
    data: Path = Field(
        default=Path("weft-data"),
        description="The directory of the log, made if absent. A relative path starts at the working directory.",
    )
    mesh: Name = Field(
        default=NodeId("weft"),
        description="The mesh's name. Nodes of another mesh are refused, so that two meshes never mix.",
    )


class ListenSection(Section):
    """The addresses at which this node can be reached. Port 0 takes a free port."""

    grpc: Listen = Field(default=Address("127.0.0.1", 7400), description="Clients and peers, over gRPC.")
    advertise: Listen | None = Field(
        default=None,
        description="The address that others are told, if it is not the one to listen on. Port 0: the same port.",
    )
    admin: Listen = Field(
        default=Address("127.0.0.1", 7480), description="Console, metrics, health and readiness, over HTTP."
    )
    ca: Listen | None = Field(
        default=None,
        description="This node's CA, over HTTPS, for nodes and clients that enrol or renew. Unset: not served.",
    )


class AdminSection(Section):
    """What is served at `listen.admin` beside health and readiness ([console.md](console.md))."""

    console: bool = Field(
        default=True, description="Serve the console: the mesh in a browser, for holders of an API key."
    )
    metrics: Literal["key", "open"] = Field(
        default="key",
        description="Whether `/metrics` needs an API key with the admin right (`Authorization: Bearer`) or is open. "
        "It is always open at an insecure node.",
    )
    metrics_topics_max: Int = knob(
        20, 0, 1000, "How many topics have metrics of their own, the largest first; the rest is counted as `other`."
    )
    tls: Literal["auto", "always"] = Field(
        default="auto",
        description="TLS with this node's certificate: at every address except loopback, or always. An "
        "insecure node never uses TLS.",
    )
    session_s: Seconds = knob(
        8 * HOUR_S, 60.0, 7 * DAY_S, "The longest time that somebody stays signed in to the console."
    )
    idle_s: Seconds = knob(HOUR_S / 2, 60.0, 7 * DAY_S, "The same while no page is open.")
    ask_others: bool = Field(
        default=True,
        description="Let the console ask other nodes, too, with the key that signed in. Otherwise it shows only what "
        "gossip says about them.",
    )


class SecuritySection(Section):
    """Certificates. Without settings, a node makes its own CA in its data directory ([more](security.md))."""

    ca_url: CaAddress | None = Field(
        default=None, description="The CA that this node enrols with and renews at: https://HOST:PORT."
    )
    ca_fingerprint: str | None = Field(
        default=None,
        pattern=r"^[0-9A-Fa-f:]{64,95}$",
        description="SHA-256 of that CA's root certificate. Unset: the one in the token.",
    )
    token: Token | None = Field(
        default=None,
        description="The enrolment token (`weft ca token`). It is not used once the node has a certificate.",
    )
    token_file: Path | None = Field(default=None, description="A file with the token, which only its owner may read.")
    hosts: Annotated[tuple[str, ...], BeforeValidator(split_list)] = Field(
        default=(),
        max_length=CERTIFICATE_NAMES_MAX - 4,
        description="More names and addresses by which clients know this node, for the certificate of its own CA.",
    )
    client_certificates: Literal["optional", "required"] = Field(
        default="optional",
        description="Whether clients must show a certificate of the mesh in addition to their key. Peers always must.",
    )
    certificate_lifetime_s: Seconds = knob(
        CERTIFICATE_LIFETIME_S,
        CERTIFICATE_LIFETIME_S_MIN,
        CERTIFICATE_LIFETIME_S_MAX,
        "The lifetime of certificates of a CA that this node makes. They are renewed after two thirds of it.",
    )


class Peer(Section):
    """A node to dial. With `node_id`, any other node that answers there is refused."""

    address: Dialled = Field(description="HOST:PORT of the peer's gRPC listener.")
    node_id: Name | None = Field(default=None, description="The node that must answer. Unset: any node of this mesh.")


PeerItem = Annotated[Peer, BeforeValidator(_peer_table)]


def _link_knob(name: str, description: str) -> Any:
    """Default and range are those of the links themselves."""
    return knob(getattr(LinkSettings(), name), *LINK_RANGES[name], description)


class LinkSection(Section):
    """How this node talks to its peers (PL-01, PL-02, PL-07)."""

    queue_frames_max: Int = _link_knob("queue_frames_max", "Frames waiting to be sent to one peer.")
    queue_bytes_max: Int = _link_knob("queue_bytes_max", "Bytes waiting to be sent to one peer.")
    send_timeout_s: Seconds = _link_knob(
        "send_timeout_s", "How long to wait for room in a full queue before a frame is dropped."
    )
    drop_policy: DropPolicy = Field(
        default=LinkSettings().drop_policy,
        description="Which frame is dropped when the queue stays full. Nothing is lost: the peer gets it again from "
        "the log.",
    )
    message_bytes_max: Int = _link_knob("max_message_bytes", "The largest message that is accepted from a peer.")
    backoff_s_min: Seconds = _link_knob("backoff_s_min", "The pause after the first failed dial. It doubles each time.")
    backoff_s_max: Seconds = _link_knob("backoff_s_max", "The longest pause between dials.")
    backoff_jitter: Seconds = _link_knob(
        "backoff_jitter", "Which part of a pause is random, so that nodes do not dial at the same moment."
    )
    dial_timeout_s: Seconds = _link_knob("dial_timeout_s", "How long a connection may take to come up.")
    handshake_timeout_s: Seconds = _link_knob(
        "handshake_timeout_s", "How long a connected peer may take to say who it is."
    )
    window_bytes: Int = knob(
        LINK_WINDOW_BYTES,
        64 * KIB,
        1 * GIB,
        "Bytes sent to one peer and not yet acknowledged; one batch may always be sent.",
    )
    ack_timeout_s: Seconds = knob(
        LINK_ACK_TIMEOUT_S,
        1.0,
        600.0,
        "If a peer owes acknowledgements and sends none for this long, everything unacknowledged is sent again.",
    )
    late_copies: bool = Field(
        default=True,
        description="Copy a topic to this node from the moment somebody subscribes here, and its history only when "
        "somebody asks for it. If false, the first subscriber to a topic brings its whole history to this node.",
    )
    interest_filter_bytes_max: Int = knob(
        InterestSettings().filter_bytes_max,
        0,
        INTEREST_FILTER_BYTES_MAX,
        "Size of the filter that a node with more than 224 patterns sends to say what it wants; 14 bits "
        "per pattern keep mistakes at 0.3 %. 0: the node sends wider patterns only, and gets more than it wants.",
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
    """How often nodes exchange what they know of each other. Use the same values at all nodes of a mesh."""

    gossip_interval_s: Seconds = _membership_knob("gossip_interval_s", "Time between two rounds of gossip.")
    gossip_fan_out: Int = _membership_knob("gossip_fan_out", "Links that one round of gossip uses.")
    spread_delay_s: Seconds = _membership_knob(
        "spread_delay_s", "How long a change waits so that others can be sent with it."
    )
    spread_multiplier: Int = _membership_knob(
        "spread_multiplier", "A change is sent to this many times log2(nodes) peers."
    )
    probe_interval_s: Seconds = _membership_knob(
        "probe_interval_s", "Time between two probes of whether a node is alive."
    )
    probe_timeout_s: Seconds = _membership_knob(
        "probe_timeout_s", "How long a probe waits before other nodes are asked to help."
    )
    probe_helpers: Int = _membership_knob("probe_helpers", "How many other nodes are asked to probe a silent node.")
    suspicion_multiplier: Int = _membership_knob(
        "suspicion_multiplier",
        "A suspected node has this many times log2(nodes) probe intervals to show that it is alive.",
    )
    heartbeat_interval_s: Seconds = _membership_knob(
        "heartbeat_interval_s", "Time between heartbeats on a link; three missed ones make it unhealthy (PL-03)."
    )
    unreachable_s: Seconds = _membership_knob(
        "unreachable_s", "How long a node behind a network split is shown as unreachable before it is called dead."
    )
    dead_retention_s: Seconds = _membership_knob("dead_retention_s", "How long a dead node is still shown.")
    rejoin_interval_s: Seconds = _membership_knob(
        "rejoin_interval_s", "Time between dials while this node has no link."
    )
    leave_timeout_s: Seconds = _membership_knob(
        "leave_timeout_s", "How long a shutdown waits until its goodbye is sent."
    )

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
        SEGMENT_BYTES, 1 * MIB, 1 * GIB, "Size of a segment of the log. Disk space is freed in whole segments."
    )
    disk_reserve_bytes: Int = knob(
        DISK_RESERVE_BYTES,
        16 * MIB,
        1024 * GIB,
        "Space to keep free on the disk. With less, publishes are refused; reads continue.",
    )
    prepared_bytes: Int = knob(
        PREPARED_BYTES,
        0,
        1 * GIB,
        "Log files of this size are prepared at start: a sync into a prepared file takes half the "
        "time. A little more than a segment is enough for good; with less, or on a disk without so much room, syncs "
        "are slower at first.",
    )
    maintenance_interval_s: Seconds = knob(60.0, 1.0, 24 * HOUR_S, "Time between rounds of retention and compaction.")


class LimitsSection(Section):
    """What clients may ask of this node."""

    connections_max: Int = knob(
        10_000,
        16,
        1_000_000,
        "gRPC connections of clients and peers that are open at a time. The number of open files of the process "
        "also bounds all ports together; the log line `files_shared_out` says how many connections that allows.",
    )
    connections_of_host_max: Int = knob(
        4096,
        16,
        1_000_000,
        "Connections to one port (gRPC, EXMP, Coaty, QUIC) from one address, or one /64 network of IPv6. Raise it for "
        "clients that come through a proxy.",
    )
    strangers_max: Int = knob(
        1024, 4, 100_000, "Connections to one of these ports that have not yet shown who they are."
    )
    strangers_of_host_max: Int = knob(512, 4, 100_000, "The same from one address.")
    stranger_grace_s: Seconds = knob(
        1.0, 0.1, 300.0, "For this long, such a connection is not closed to make room for a newer one."
    )
    handshake_timeout_s: Seconds = knob(
        10.0, 0.5, 300.0, "How long the handshake of a new gRPC or QUIC connection may take."
    )
    first_request_timeout_s: Seconds = knob(
        20.0,
        0.5,
        300.0,
        "How long a new gRPC connection may take to send its first request; after that it is closed. It is also closed "
        "if it has shown no valid key and no peer's certificate when both times are over.",
    )
    clients_max: Int = knob(10_000, 1, 1_000_000, "Client streams (publish or subscribe) that are open at a time.")
    subscriptions_max: Int = knob(10_000, 1, 1_000_000, "Subscriptions that are open at a time, of all clients.")
    batch_bytes_max: Int = knob(BATCH_BYTES_MAX, 64 * KIB, BATCH_BYTES_MAX, "The largest batch a client may publish.")
    held_bytes_max: Int = knob(
        512 * MIB,
        64 * MIB,
        64 * GIB,
        "Memory held for all callers: batches not yet synced, deliveries and replies not yet taken. Requests for more "
        "wait.",
    )
    caller_bytes_max: Int = knob(
        128 * MIB,
        16 * MIB,
        16 * GIB,
        "The same for one caller (key): a quarter each for publishing, subscriptions, fetches and other replies.",
    )
    credit_bytes_max: Int = knob(
        64 * MIB, 64 * KIB, 1 * GIB, "The most bytes that may be under way to one subscriber, even if it asks for more."
    )
    reply_bytes_max: Int = knob(
        READ_BYTES_MAX, 64 * KIB, BATCH_BYTES_MAX, "Bytes in one reply to a fetch; one batch is always sent."
    )
    key_topics_max: Int = knob(
        100_000,
        1,
        OFFSET_MAX,
        "Topics that a key may create at this node, unless the key has its own quota; 64 partitions count as one.",
    )
    key_groups_max: Int = knob(1024, 1, OFFSET_MAX, "Groups that a key may create, likewise.")
    key_subscriptions_max: Int = knob(5000, 1, OFFSET_MAX, "Subscriptions that a key may have open, likewise.")
    key_events_per_s_max: Int | None = Field(
        default=None, ge=1, le=OFFSET_MAX, description="Events that a key may publish per second, likewise. Unset: any."
    )
    key_bytes_per_s_max: Int | None = Field(
        default=None, ge=1, le=OFFSET_MAX, description="Bytes of batches per second, likewise. Unset: any."
    )


class TopicSection(Section):
    """Settings for the topics that match a pattern. The first table that matches counts."""

    pattern: Selection = Field(description="Which topics: plant.*.temp, or > for all.")
    copies: Int = knob(
        1, 1, COPIES_MAX, "How many nodes must have synced an event before its publisher gets the receipt."
    )
    retention_age_s: Seconds | None = Field(
        default=None,
        ge=1.0,
        le=100 * YEAR_S,
        allow_inf_nan=False,
        description="Older events may be removed. Unset: no event is removed because of its age.",
    )
    retention_bytes: Int | None = Field(
        default=None,
        ge=MIB,
        le=OFFSET_MAX,
        description="The oldest events of a stream that is larger may be removed. Unset: none.",
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
        "How long a member may take to release streams that move to another member, and how long a node that takes "
        "over a stream waits to hear the other nodes' records of the group.",
    )
    expire_after_s: Seconds = knob(
        GroupSettings().expire_after_s,
        *GROUP_RANGES["expire_after_s"],
        "A group that had no members and was not moved for this long is forgotten with its positions. Use the same "
        "value at all nodes. It must be much longer than clocks differ, and than parts of the mesh are ever cut off.",
    )


class KvSection(Section):
    """Buckets of keys and values. Every node holds all of them."""

    keys_max: Int = knob(
        KvSettings().keys_max,
        1000,
        100_000_000,
        "Keys of all buckets, about 500 bytes of memory each. This node refuses writes of more keys.",
    )
    buckets_max: Int = knob(KvSettings().buckets_max, 1, 100_000, "Buckets that can be created at this node.")
    cache_bytes_max: Int = knob(
        KvSettings().cache_bytes_max, 0, 64 * GIB, "Values kept in memory. Others are read from the log."
    )
    clock_skew_s_max: Seconds = knob(
        KvSettings().skew_ms_max / 1000,
        1,
        HOUR_S,
        "How far ahead the clock of another node may be. A write with a later time counts when its time has come.",
    )
    grace_s: Seconds = knob(
        KvSettings().grace_s,
        0,
        YEAR_S,
        "How long the log remembers that a key was deleted or has expired. It must be longer than any node is ever "
        "cut off.",
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
        "Events that wait at this node. Those that are due soon take 16 bytes of memory each. More are refused.",
    )
    pending_of_key_max: Int = knob(
        LaterSettings().pending_of_key_max, 1, 100_000_000, "The same for one key, or for all keys of the same name."
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
        description="Nodes that may create and revoke keys. None: every node of the mesh. Use the same list at all "
        "nodes.",
    )
    unheard_s_max: Seconds | None = Field(
        default=None,
        ge=10.0,
        le=YEAR_S,
        allow_inf_nan=False,
        description="How long a node accepts keys while it hears from no other node, and so of no revocation. "
        "Unset: without limit.",
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

    level: LogLevel = Field(default=LogLevel.INFO, description="Lines of this level and above are written.")
    format: LogFormat = Field(default=LogFormat.CONSOLE, description="Lines for people, or JSON for machines.")
    held_up_s: Seconds = knob(
        0.1,
        0.005,
        60.0,
        "A step that holds up the event loop for this long is logged with its place in the code (`loop_held_up`). A "
        "second one within a hundred times that long is logged only if it took longer.",
    )


class TracingSection(Section):
    """Where spans of traced events go ([tracing.md](tracing.md)). Needs `pip install 'weft[tracing]'`."""

    endpoint: OtlpEndpoint | None = Field(
        default=None,
        description="An OTLP collector, http://HOST:PORT, which gets protobuf over HTTP. Unset: no spans are made.",
    )
    sample: float = knob(
        1.0,
        0.0,
        1.0,
        "The share of traces to follow, of those that begin at this node's gateways. Clients decide for the events "
        "they publish.",
    )
    spans_per_s_max: Int = knob(1000, 1, 100_000, "The most spans that this node makes in a second; more are dropped.")


class ShutdownSection(Section):
    """How the node stops."""

    drain_timeout_s: Seconds = knob(
        10.0, 0.0, 600.0, "How long receipts, deliveries and acknowledgements that are under way may take to finish."
    )
