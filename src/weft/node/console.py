"""The console joined to its node: what it may ask, and what the node adds to its status for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from weft.console.app import Console, ConsoleParts, ConsoleSettings
from weft.console.asking import Asking
from weft.limits import OFFSET_MAX
from weft.model import Topic, matches
from weft.model.pipeline_reports import PipelineReport
from weft.node.admin_http import AdminOptions
from weft.node.answers import NodeAnswers
from weft.node.clients import Clients
from weft.node.config import NodeConfig
from weft.node.metrics import Metrics
from weft.node.protection import Protection
from weft.node.wiring import TopicSettings, retention_rules
from weft.security.key_store import read_keys
from weft.transport.addresses import Address, parse_address
from weft.transport.clients.admin import admin_methods
from weft.transport.grpc.channel import Channel
from weft.wire.mesh import mesh_pb2 as pb


def make_console(config: NodeConfig, node_id: str) -> Console:
    settings = ConsoleSettings(
        config.admin.session_s, config.admin.idle_s, is_open=config.insecure, has_tls=config.admin_has_tls
    )
    return Console(node_id, settings)


def admin_options(config: NodeConfig, console: Console) -> AdminOptions:
    return AdminOptions(
        console,
        shows_console=config.admin.console,
        is_open=config.insecure or config.admin.metrics == "open",
    )


def console_url(config: NodeConfig, admin_address: str) -> str:
    """Where people find the console on the node's own machine; empty if there is none."""
    if not config.admin.console or not admin_address:
        return ""
    address = parse_address(admin_address)
    shown = Address("127.0.0.1", address.port) if address.is_wildcard else address
    return f"{'https' if config.admin_has_tls else 'http'}://{shown}"


def console_parts(
    config: NodeConfig,
    clients: Clients,
    answers: NodeAnswers,
    protection: Protection,
    topics: TopicSettings,
    pipelines: Callable[[], Iterable[PipelineReport]],
) -> ConsoleParts:
    async def dial(address: str) -> tuple[Channel, str | None]:
        channel, proof = await protection.gate.dial(address)
        return channel, None if proof is None else proof.name

    def topic_settings(topic: Topic) -> dict[str, object]:
        rule = next((each for each in retention_rules(config) if matches(each.pattern, topic)), None)
        size = None if rule is None else rule.stream_bytes_max
        return {
            "copies": topics.copies(topic),
            "compact": topics.compact(topic),
            "age_s": None if rule is None or rule.age_us_max is None else rule.age_us_max / 1_000_000,
            "bytes": None if size == OFFSET_MAX else size,
        }

    async def group_lags() -> list[tuple[str, int, float]]:
        """The lags of groups whose positions this node has: groups that read here now, or did before."""
        figures, here = await answers.group_figures(), set(await asyncio.to_thread(clients.log.groups))
        return [(each.group, each.lag_events, each.lag_s) for each in figures if each.group in here]

    admin = {name: method for name, (method, _) in admin_methods(answers).items()}
    return ConsoleParts(
        Asking(clients, admin, clients.members, dial if config.admin.ask_others else None),
        protection.access,
        keys=lambda: () if config.insecure else read_keys(config.node.data),
        topic_settings=topic_settings,
        group_lags=group_lags,
        pipelines=pipelines,
    )


def figures_of(metrics: Metrics, clients: Clients, protection: Protection) -> pb.StatusReply:
    """What the status of a node says beside what its broker knows."""
    published, delivered = metrics.flows
    expires_in_s = protection.expires_in_s()
    return pb.StatusReply(
        counters=pb.Counters(
            published_events=published.events,
            published_bytes=published.bytes,
            delivered_events=delivered.events,
            delivered_bytes=delivered.bytes,
            clients=clients.streams,
            subscriptions=clients.subscriptions,
        ),
        certificate_end_s=0 if expires_in_s is None else round(time.time() + expires_in_s),
    )
