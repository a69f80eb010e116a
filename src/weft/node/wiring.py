"""What the configuration means for each part of a node."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from weft.core.groups import GroupSettings
from weft.core.settings import BrokerSettings, InterestSettings
from weft.core.topics import DEAD, GROUPS, PLAIN_PREFIX, is_own
from weft.limits import BATCH_BYTES_MAX, MATCHES_KEPT_MAX, MIB, OFFSET_MAX, STAGING_AGE_S
from weft.log.retention import RetentionRule
from weft.model import Pattern, Topic, matches, parse_pattern
from weft.model.key_value import KEY_VALUES
from weft.model.later import LATER_PREFIX
from weft.node.config import NodeConfig
from weft.node.config.sections import TopicSection
from weft.node.machinery import MachinerySettings
from weft.port.node import ClientLimits
from weft.security.quota import Quota
from weft.transport.grpc.server import ServerSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.transport.peers.settings import DropPolicy, LinkSettings
from weft.wire.http2 import Http2Settings

QUARANTINE_BYTES_MAX: Final = 256 * MIB  # of the quarantine in a node's log: half a million packets
DEAD_AGE_S: Final = 90 * 86_400  # of dead letters: somebody looks at them within a quarter, or never
DEAD_BYTES_MAX: Final = 1024 * MIB  # of one group at one node; every node keeps them
INBOX_AGE_S: Final = 3600  # replies to requests are read within seconds or never
PLAIN_AGE_S: Final = 7 * 86_400  # how long a peer that knows only four messages may be away without missing anything
DECISIONS_AGE_S: Final = 90 * 86_400  # of the last thing that a job wrote; a query that rested for longer is a new one
DECISIONS_BYTES_MAX: Final = 4 * BATCH_BYTES_MAX  # of one job: only the last decision counts, and one fits into a batch


# The mesh's own topics have their own rules, whatever the configuration says about ">".
OWN_RULES: Final = (
    RetentionRule(GROUPS, stream_bytes_max=OFFSET_MAX),  # compacted instead
    RetentionRule(DEAD, age_us_max=DEAD_AGE_S * 1_000_000, stream_bytes_max=DEAD_BYTES_MAX),
    RetentionRule(KEY_VALUES, stream_bytes_max=OFFSET_MAX),  # compacted instead
    RetentionRule(parse_pattern(f"{LATER_PREFIX}>"), stream_bytes_max=OFFSET_MAX),  # deleted when they are delivered
    RetentionRule(parse_pattern("weft.quarantine.>"), stream_bytes_max=QUARANTINE_BYTES_MAX),
    RetentionRule(parse_pattern("weft.inbox.>"), age_us_max=INBOX_AGE_S * 1_000_000),
    RetentionRule(parse_pattern("weft.staging.>"), age_us_max=STAGING_AGE_S * 1_000_000),
    RetentionRule(
        parse_pattern("weft.decisions.>"), age_us_max=DECISIONS_AGE_S * 1_000_000, stream_bytes_max=DECISIONS_BYTES_MAX
    ),
    RetentionRule(parse_pattern(f"{PLAIN_PREFIX}>"), age_us_max=PLAIN_AGE_S * 1_000_000),
)


def retention_rules(config: NodeConfig) -> tuple[RetentionRule, ...]:
    """Rules for topics that hold a state come first: the state stays, whatever the configuration says about ">"."""
    states = (RetentionRule(Pattern(topic), stream_bytes_max=OFFSET_MAX) for topic in config.gateway.coaty.compacted)
    return (*OWN_RULES, *states, *config.retention_rules)


class TopicSettings:
    """What is configured for a topic, cached for topics that are published to again and again."""

    def __init__(self, config: NodeConfig) -> None:
        self._settings_for = lru_cache(MATCHES_KEPT_MAX)(config.settings_for)
        self._states = frozenset(config.gateway.coaty.compacted)
        patterns = [pattern for table in config.history for pattern in table.patterns]
        self._archived = lru_cache(MATCHES_KEPT_MAX)(lambda topic: any(matches(each, topic) for each in patterns))

    def _of(self, topic: Topic) -> TopicSection | None:
        return None if is_own(topic) else self._settings_for(topic)

    def copies(self, topic: Topic) -> int:
        settings = self._of(topic)
        return 1 if settings is None else settings.copies

    def archived(self, topic: Topic) -> bool:
        """Whether there is an archive table for it."""
        return not is_own(topic) and self._archived(topic)

    def compact(self, topic: Topic) -> bool:
        settings = self._of(topic)
        return topic in self._states or (settings is not None and settings.compact)


def broker_settings(config: NodeConfig, topics: TopicSettings) -> BrokerSettings:
    return BrokerSettings(
        window_bytes=config.link.window_bytes,
        ack_timeout_s=config.link.ack_timeout_s,
        copies_of=topics.copies,
        plain_patterns=config.legacy_peers,
        late_copies=config.link.late_copies,
        archived=topics.archived,
        interest=InterestSettings(filter_bytes_max=config.link.interest_filter_bytes_max),
        groups=GroupSettings(
            release_timeout_s=config.groups.handover_timeout_s, expire_after_s=config.groups.expire_after_s
        ),
    )


def client_limits(config: NodeConfig) -> ClientLimits:
    limits = config.limits
    return ClientLimits(
        streams_max=limits.clients_max,
        subscriptions_max=limits.subscriptions_max,
        batch_bytes_max=limits.batch_bytes_max,
        held_bytes_max=limits.held_bytes_max,
        caller_bytes_max=limits.caller_bytes_max,
        credit_bytes_max=limits.credit_bytes_max,
        reply_bytes_max=limits.reply_bytes_max,
        quota=Quota(
            topics=limits.key_topics_max,
            groups=limits.key_groups_max,
            subscriptions=limits.key_subscriptions_max,
            events_per_s=limits.key_events_per_s_max,
            bytes_per_s=limits.key_bytes_per_s_max,
        ),
    )


def link_settings(config: NodeConfig) -> LinkSettings:
    link = config.link
    return LinkSettings(
        queue_frames_max=link.queue_frames_max,
        queue_bytes_max=link.queue_bytes_max,
        send_timeout_s=link.send_timeout_s,
        drop_policy=DropPolicy(link.drop_policy.value),
        max_message_bytes=link.message_bytes_max,
        backoff_s_min=link.backoff_s_min,
        backoff_s_max=link.backoff_s_max,
        backoff_jitter=link.backoff_jitter,
        dial_timeout_s=link.dial_timeout_s,
        handshake_timeout_s=link.handshake_timeout_s,
        compression=link.compression,
    )


def machinery_settings(config: NodeConfig, topics: TopicSettings) -> MachinerySettings:
    return MachinerySettings(
        config.node.mesh,
        [str(peer.address) for peer in config.peers],
        config.membership.settings(),
        broker_settings(config, topics),
        client_limits(config),
        link_settings(config),
        config.kv.settings(),
        config.later.settings(),
        config.tracing.spans_per_s_max,
    )


def server_settings(config: NodeConfig) -> ServerSettings:
    """The settings of the gRPC server, for peers and clients alike."""
    limits, link = config.limits, link_settings(config)
    return ServerSettings(
        EndpointSettings(
            Http2Settings(message_bytes_max=link.max_message_bytes), link.keepalive_s, link.keepalive_timeout_s
        ),
        connections_max=limits.connections_max,
        connections_of_host_max=limits.connections_of_host_max,
        strangers_max=limits.strangers_max,
        strangers_of_host_max=limits.strangers_of_host_max,
        grace_s=limits.stranger_grace_s,
        handshake_timeout_s=limits.handshake_timeout_s,
        first_request_timeout_s=limits.first_request_timeout_s,
        stranger_timeout_s=limits.handshake_timeout_s + limits.first_request_timeout_s,
    )
