"""One node's configuration, as ``config_loading.load_config`` makes it from ``weft.toml``, environment and flags."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from weft.configuration import Section
from weft.errors import UsageError
from weft.log.retention import RetentionRule
from weft.model import Pattern, Topic, matches
from weft.node.config.gateways import GatewaySection
from weft.node.config.history import HISTORY_TABLES_MAX, HistorySection
from weft.node.config.named_addresses import NamedAddress, named_addresses
from weft.node.config.sections import (
    AdminSection,
    GroupsSection,
    KeysSection,
    KvSection,
    LaterSection,
    LimitsSection,
    LinkSection,
    ListenSection,
    LogSection,
    MembershipSection,
    NodeSection,
    PeerItem,
    SecuritySection,
    Selection,
    ShutdownSection,
    StorageSection,
    TopicSection,
    TracingSection,
    split_list,
)
from weft.security.identity import check_mesh


class NodeConfig(Section):
    """One node's configuration, checked."""

    insecure: bool = Field(
        default=False,
        description="Plain text and no keys: every program on this machine may do everything. Loopback addresses only.",
    )
    peers: Annotated[tuple[PeerItem, ...], BeforeValidator(split_list)] = Field(
        default=(),
        max_length=1024,
        description="Nodes to dial: HOST:PORT, or tables with `address` and `node_id`. One is enough to join a mesh.",
    )
    legacy_peers: Annotated[tuple[Selection, ...], BeforeValidator(split_list)] = Field(
        default=(Pattern(">"),),
        max_length=256,
        description="Topics that are sent to a peer that cannot say what it wants, because it knows only the first "
        "four messages.",
    )
    topics: tuple[TopicSection, ...] = Field(
        default=(), max_length=1024, description="Tables of settings for topics, see below."
    )
    history: tuple[HistorySection, ...] = Field(
        default=(),
        max_length=HISTORY_TABLES_MAX,
        description="Archive tables that go on where the log ends, see below.",
    )
    node: NodeSection = NodeSection()
    listen: ListenSection = ListenSection()
    admin: AdminSection = AdminSection()
    security: SecuritySection = SecuritySection()
    link: LinkSection = LinkSection()
    membership: MembershipSection = MembershipSection()
    storage: StorageSection = StorageSection()
    limits: LimitsSection = LimitsSection()
    groups: GroupsSection = GroupsSection()
    kv: KvSection = KvSection()
    later: LaterSection = LaterSection()
    keys: KeysSection = KeysSection()
    gateway: GatewaySection = GatewaySection()
    log: LogSection = LogSection()
    tracing: TracingSection = TracingSection()
    shutdown: ShutdownSection = ShutdownSection()

    @model_validator(mode="after")
    def _safe(self) -> Self:
        exmp = self.gateway.exmp
        if exmp.tcp is not None and not exmp.tcp.is_loopback:
            raise ValueError(
                f"gateway.exmp.tcp {exmp.tcp} is plain text, so it is allowed on loopback addresses (127.0.0.1, [::1], "
                "localhost) only; use gateway.exmp.tls for others"
            )
        if not self.insecure:
            try:
                check_mesh(self.node.mesh)  # part of every certificate's identity, so its rules are stricter
            except UsageError as error:
                raise ValueError(f"node.mesh: {error}") from None
            if self.listen.grpc.is_wildcard and self.listen.advertise is None:
                raise ValueError(
                    f"listen.grpc {self.listen.grpc} means every address of this machine: say with --advertise "
                    "(listen.advertise) which one others are told"
                )
            return self
        protected = [
            name
            for name, value in (
                ("listen.ca", self.listen.ca),
                ("security.ca_url", self.security.ca_url),
                ("security.token", self.security.token),
                ("security.token_file", self.security.token_file),
                ("gateway.exmp.tls", exmp.tls),
                ("gateway.emm.quic", self.gateway.emm.quic),
            )
            if value is not None
        ]
        if protected:
            raise ValueError(
                f"insecure works without certificates, so it cannot be combined with {', '.join(protected)}"
            )
        outside = [str(each) for each in self.named_addresses() if not each.address.is_loopback]
        if outside:
            raise ValueError(
                "insecure is plain text without keys, so it is allowed on loopback addresses (127.0.0.1, [::1], "
                f"localhost) only; these are others: {', '.join(outside)}"
            )
        return self

    @property
    def admin_has_tls(self) -> bool:
        """Whether the admin port speaks TLS. On a loopback address, nobody else can listen in (ADR 38)."""
        return not self.insecure and (self.admin.tls == "always" or not self.listen.admin.is_loopback)

    def named_addresses(self) -> Iterator[NamedAddress]:
        """Every address that this node listens on or sends to."""
        return named_addresses(self.listen, self.peers, self.gateway)

    def settings_for(self, topic: Topic) -> TopicSection:
        """The first table that matches; the defaults if none does."""
        return next((each for each in self.topics if matches(each.pattern, topic)), OTHER_TOPICS)

    @cached_property
    def retention_rules(self) -> tuple[RetentionRule, ...]:
        """For ``weft.log.retention.retain``."""
        return tuple(each.retention_rule() for each in self.topics)


OTHER_TOPICS: Final = TopicSection(pattern=Pattern(">"))
