"""A node: everything put together, started, drained and stopped."""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from enum import Enum
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from weft.console.app import Console
from weft.core import Broker
from weft.core import messages as core
from weft.doors.descriptors import FileLimit, file_limit
from weft.errors import StorageError
from weft.gateway import BridgeGateway, DatagramGateway, Gateway, RequestGateway
from weft.log import Log
from weft.log.syncer import Syncer
from weft.membership import Members, NodeState
from weft.model import NodeId, Topic
from weft.node.admin_http import AdminServer
from weft.node.answers import NodeAnswers
from weft.node.clients import Clients, load_arrow
from weft.node.config import NodeConfig
from weft.node.console import admin_options, console_parts, console_url, figures_of, make_console
from weft.node.disk_watch import DiskWatch
from weft.node.enrolling import is_ca_here, read_token, wanted_node_id
from weft.node.entrances import Entrances
from weft.node.figures import GroupFigures, NodeFigures, TopicFigures
from weft.node.gateways import Surroundings, gateway_info, make_gateways
from weft.node.identity import settle_node_id
from weft.node.incarnation import next_incarnation
from weft.node.key_answers import NodeKeyAnswers
from weft.node.logs import node_logger
from weft.node.loop_watch import HeldUp, LoopWatch
from weft.node.machinery import GOODBYE, Machinery, Outside
from weft.node.maintenance import BucketTidying, LaterTidying, Maintenance
from weft.node.metrics import Metrics
from weft.node.protection import Plain, Protection, Secured
from weft.node.refusals import Refusals
from weft.node.slices import LogTotals, largest_topics, log_totals
from weft.node.storage import Storage, open_node_log
from weft.node.wiring import (
    TopicSettings,
    machinery_settings,
    retention_rules,
    server_settings,
)
from weft.security import Secret
from weft.security.files import private_directory
from weft.telemetry import Telemetry, open_telemetry
from weft.transport.addresses import Address
from weft.transport.clients.service import admin_handlers, mesh_handlers
from weft.transport.grpc.server import Handler, Server
from weft.transport.peers.links import PeerLinks
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.lives import RUN_BYTES, Life

if TYPE_CHECKING:
    from weft.node.history import NodeHistory

SWITCH_INTERVAL_S: Final = 0.0005  # the syncing thread gets the GIL back sooner, so receipts are quicker
GOODBYE_S: Final = 1.0  # for the last messages of ending streams


class Phase(Enum):
    """The phases of a node's life."""

    NEW = "not started"
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "shutting down"
    STOPPED = "stopped"


class Node:
    """``start`` raises WeftError with a clear message; ``stop`` may be called at any time, and more than once.

    After ``start`` was cancelled, there is nothing left to stop. ``files`` is how many files the process may have open,
    if the caller has set that.
    """

    def __init__(self, config: NodeConfig, files: FileLimit | None = None) -> None:
        self.config = config
        self._files = files
        self.grpc_address = ""
        self.advertised = ""  # the same address, as other nodes are told
        self.admin_address = ""
        self.console_url = ""  # empty: there is none
        self.node_id: NodeId
        self.log: Log
        self.members: Members
        self.broker: Broker
        self.links: PeerLinks
        self.answers: NodeAnswers
        self.clients: Clients
        self.protection: Protection
        self.gateways: tuple[Gateway, ...] = ()
        self._refusals: Refusals
        self._telemetry: Telemetry | None = None  # None: no spans are made
        self._history: NodeHistory | None = None  # None: there are no archive tables
        self._console: Console
        self._entrances: Entrances
        self._metrics: Metrics
        self._machinery: Machinery
        self._storage: Storage
        self._disk: DiskWatch
        self._topics = TopicSettings(config)
        self._parts = AsyncExitStack()  # what was started; it ends in reverse order
        self._phase = Phase.NEW
        self._asked_to_leave = asyncio.Event()
        self._failure: asyncio.Future[StorageError]
        self._started_at_s = 0.0
        self._looked: tuple[LogTotals, Sequence[GroupFigures], Sequence[TopicFigures]] | None = None  # for the metrics

    # --- starting ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        assert self._phase is Phase.NEW, "a node is started once"
        self._phase = Phase.STARTING
        self._failure = asyncio.get_running_loop().create_future()
        self._started_at_s = time.monotonic()
        try:
            await self._start()
        except BaseException:
            self._phase = Phase.STOPPED
            await self._parts.aclose()
            raise
        self._phase = Phase.RUNNING
        self._watch_loop()  # not earlier: a start holds up the loop while it reads files and loads modules
        self._logger.info(
            "node_ready",
            grpc=self.grpc_address,
            admin=self.admin_address,
            ca=self.protection.ca_address,
            gateways=", ".join(listener for gateway in self.gateways for listener in gateway.listeners),
            epoch=self.log.epoch,
        )

    async def _start(self) -> None:
        config = self.config
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        token = None if config.insecure else read_token(config)
        self.node_id = self._settle_node_id(token)
        self._logger = node_logger(self.node_id)
        self._refusals = Refusals(self._logger)
        self._metrics = Metrics(self._figures)
        self._start_telemetry()
        self._entrances = Entrances(config, self._files or file_limit(), self._refusals.turned_away)
        self._entrances.log(self._logger)
        if config.admin_has_tls:  # health is served over TLS, too, so this needs a certificate first
            self.protection = await self._make_protection(token)
            await self._start_admin()
        else:
            await self._start_admin()
            self.protection = await self._make_protection(token)
        await self._open_log()
        handlers: dict[str, Handler] = {}
        server = self._make_server(handlers)
        await self._start_history()
        self._make_machinery()
        access = self.protection.access
        keys = NodeKeyAnswers(self.node_id, self.protection.keys, self.clients.quotas, self.protection.look)
        machinery = self._machinery
        handlers |= mesh_handlers(
            self.clients,
            machinery.kv,
            machinery.calls,
            machinery.later,
            machinery.schedules,
            machinery.schemas,
            access,
        )
        handlers |= admin_handlers(self.answers, keys, access, self.clients.held)
        handlers.update(self.links.handlers())
        self._machinery.start()
        self._start_maintenance()
        self._parts.push_async_callback(self.protection.stop)
        await self.protection.start(self._machinery.renew, self._entrances.ca())
        await server.start()
        self._parts.push_async_callback(self.links.stop, GOODBYE)  # if the rest of the start fails
        await self.links.start()
        await self._start_gateways()
        pipelines = self._machinery.kv.pipelines
        parts = console_parts(config, self.clients, self.answers, self.protection, self._topics, pipelines)
        self._console.attach(parts)
        self._parts.push_async_callback(self._console.close)  # before the parts that it uses are gone

    def _start_telemetry(self) -> None:
        settings = self.config.tracing
        if settings.endpoint is None:
            return
        facts = {"service.instance.id": self.node_id, "weft.mesh": self.config.node.mesh}
        self._telemetry = open_telemetry(settings.endpoint, service="weft", facts=facts, sample=settings.sample)
        self._parts.push_async_callback(asyncio.to_thread, self._telemetry.close)
        self._logger.info("tracing", endpoint=settings.endpoint, sample=settings.sample)

    def _watch_loop(self) -> None:
        watch = LoopWatch(self.config.log.held_up_s, self._metrics.loop_delay_s, self._held_up)
        watch.start()
        self._parts.callback(watch.stop)

    def _held_up(self, found: HeldUp) -> None:
        self._logger.warning(
            "loop_held_up",
            delay_s=round(found.delay_s, 4),
            cpu_s=round(found.cpu_s, 4),
            garbage_s=round(found.garbage_s, 4),
            where=list(found.where),
            untold=found.untold,
        )

    def _settle_node_id(self, token: Secret[str] | None) -> NodeId:
        wanted = wanted_node_id(self.config, token)
        if not self.config.insecure:
            is_ca_here(self.config, token)  # raises UsageError before anything is written
            private_directory(self.config.node.data)
        return settle_node_id(self.config.node.data, wanted)

    async def _make_protection(self, token: Secret[str] | None) -> Protection:
        if self.config.insecure:
            return Plain(self.config)
        return await Secured.prepare(self.config, self.node_id, token, self._refusals, self._logger)

    async def _start_admin(self) -> None:
        config, wanted = self.config, self.config.listen.admin
        self._console = make_console(config, self.node_id)
        tls = self.protection.web_context if config.admin_has_tls else None
        options = admin_options(config, self._console)
        admin = AdminServer(wanted.host, wanted.port, self, self._entrances.admin(), options, tls)
        await admin.start()
        self._parts.push_async_callback(admin.stop)
        self.admin_address = str(Address(wanted.host, admin.port))
        self.console_url = console_url(config, self.admin_address)

    async def _open_log(self) -> None:
        data, storage = self.config.node.data, self.config.storage
        opening = asyncio.create_task(
            asyncio.to_thread(
                open_node_log, data, storage.segment_bytes, storage.disk_reserve_bytes, storage.prepared_bytes
            )
        )
        try:
            self.log = await asyncio.shield(opening)
        except asyncio.CancelledError:  # the node was stopped meanwhile: wait for the log, to close it
            (await opening).close()
            raise
        for cut in self.log.cuts:
            self._logger.warning("log_cut", what=str(cut))
        self._storage = Storage(self.log, self._synced, self._fail, self._metrics.synced, True, time.monotonic, Syncer)
        self._parts.push_async_callback(self._storage.close)
        self._storage.start()
        self._disk = DiskWatch(lambda: self._storage.disk_full or self.log.disk_full(), data, self._logger)
        watching = asyncio.create_task(self._disk.run(), name="weft-disk-watch")
        self._parts.callback(watching.cancel)

    async def _start_gateways(self) -> None:
        self.gateways = make_gateways(
            Surroundings(
                self.config,
                self.clients,
                self._machinery.calls,
                self._machinery.later,
                self.answers,
                self.protection,
                self._entrances,
                self._logger,
            )
        )
        for gateway in self.gateways:
            self._parts.push_async_callback(gateway.close)
            await gateway.start()

    def _start_maintenance(self) -> None:
        maintenance = Maintenance(
            self.log,
            retention_rules(self.config),
            self._topics.compact,
            BucketTidying(self.log, self._machinery.kv.settings, self._machinery.kv.forget, self._logger),
            LaterTidying(self.log, self.node_id, self._machinery.later.tidied),
            self.config.storage.maintenance_interval_s,
            self._storage.wake_thread,
            self._logger,
        )
        maintenance.start()
        self._parts.push_async_callback(asyncio.to_thread, maintenance.stop)

    def _make_server(self, handlers: Mapping[str, Handler]) -> Server:
        """Make a server that is bound but does not serve yet: the mesh is told its port before its services exist."""
        wanted = self.config.listen.grpc
        settings, keeper = server_settings(self.config), self._entrances.keeper
        server = Server(handlers, settings, self._refusals, self.protection.grpc_context, keeper)
        port = server.bind(wanted.host, wanted.port)
        self._parts.push_async_callback(server.stop, GOODBYE_S)
        self.grpc_address = str(Address(wanted.host, port))
        told = self.config.listen.advertise or wanted
        self.advertised = str(Address(told.host, told.port or port))
        return server

    async def _start_history(self) -> None:
        """Start the processes for archive tables. They end after everything that may use them."""
        if not self.config.history:
            return
        await asyncio.to_thread(load_arrow)  # a node without tables may never need it
        from weft.node.history import NodeHistory

        tables = [section.reading(self.config.node.data) for section in self.config.history]
        self._history = NodeHistory(tables, self._topics.compact, self._logger)
        self._parts.push_async_callback(self._history.close)
        self._history.start()

    def _make_machinery(self) -> None:
        config = self.config
        incarnation = next_incarnation(config.node.data, time.time_ns() // 1_000_000)
        own = NodeState(self.node_id, incarnation, version=1, epoch=self.log.epoch, addresses=(self.advertised,))
        self._machinery = Machinery(
            own,
            machinery_settings(config, self._topics),
            Outside(
                time.monotonic,
                time.time() - time.monotonic(),
                lambda: time.time_ns() // 1000,
                random.SystemRandom(),
                self.protection.gate,
                self.protection.notary,
                Life(time.time_ns() // 1_000_000, secrets.token_bytes(RUN_BYTES)),
                self.protection.keys,
                None if self._telemetry is None else self._telemetry.tracer,
                self._may_publish,
                self._history,
            ),
            self._storage,
            self._metrics,
            self._refusals,
            self._logger,
            self._fail,
        )
        self._parts.callback(self._machinery.stop)
        keys = self.protection.keys
        if keys is not None:
            keys.send, keys.refused = self._machinery.links.send_keys, self._machinery.news.key_refused
        self.members, self.broker = self._machinery.members, self._machinery.broker
        self.clients, self.links = self._machinery.clients, self._machinery.links
        self.answers = NodeAnswers(
            self.broker,
            self.members,
            self.links.links,
            lambda peer: self._metrics.peer(peer).rtt_ms,
            self._listeners,
            lambda: self.clients.draining,
            self._asked_to_leave.set,
            self.clients.set_group,
            self._about,
        )

    def _may_publish(self, owner: str, topic: Topic) -> bool:
        keys = self.protection.keys
        return keys is None or keys.store.may_publish(owner, topic, time.time())

    def _about(self) -> pb.StatusReply:
        about = figures_of(self._metrics, self.clients, self.protection)
        about.console = self.console_url
        about.gateways.extend(map(gateway_info, self.gateways))
        about.not_ready.extend(self.ready_reasons())
        return about

    def _listeners(self) -> list[str]:
        others = (listener for gateway in self.gateways for listener in gateway.listeners)
        return [f"grpc {self.grpc_address}", f"admin {self.admin_address}", *others]

    def _synced(self, event: core.Synced) -> None:
        self._machinery.synced(event)

    # --- ending --------------------------------------------------------------------------------------------------

    async def stop(self, drain: bool = True) -> None:
        """Send what is owed, within ``shutdown.drain_timeout_s``; say goodbye, and close everything."""
        if self._phase is not Phase.RUNNING:
            return
        self._phase = Phase.DRAINING
        self._logger.info("node_stopping", drain=drain)
        if drain and not self._failure.done():
            await self._machinery.drain(self.config.shutdown.drain_timeout_s)
            await self._machinery.leave()
        else:
            await self.links.stop(GOODBYE, leaving=False)
        await self._parts.aclose()
        self._phase = Phase.STOPPED
        self._logger.info("node_stopped")

    async def wait_failed(self) -> StorageError:
        """Return once the node can no longer keep its promises, with the reason."""
        return await asyncio.shield(self._failure)

    async def wait_asked_to_leave(self) -> None:
        """Return once somebody who has the right asked for it (``weft leave``): then call ``stop``."""
        await self._asked_to_leave.wait()

    def _fail(self, error: StorageError) -> None:
        if self._failure.done():
            return
        self._logger.error("node_failed", reason=str(error), exc_info=error.__cause__)
        self._failure.set_result(error)
        self._machinery.fail(error)

    # --- what it tells: NodeView of the admin server -------------------------------------------------------------

    @property
    def registry(self) -> CollectorRegistry:
        return self._metrics.registry

    async def look(self) -> None:
        if self._phase in (Phase.RUNNING, Phase.DRAINING):
            topics = await largest_topics(self.log, self.config.admin.metrics_topics_max)
            self._looked = await log_totals(self.log), await self.answers.group_figures(), topics

    def ready_reasons(self) -> Sequence[str]:
        if self._phase is not Phase.RUNNING:
            return [f"the node is {self._phase.value}"]
        if self._failure.done():
            return [f"the log has failed: {self._failure.result()}"]
        full, twin = self._disk.look(), self._machinery.twins.reason()
        return [str(reason) for reason in (full, twin) if reason is not None]

    def status(self) -> Mapping[str, str | int | float | bool]:
        facts: dict[str, str | int | float | bool] = {"node": self.node_id, "phase": self._phase.value}
        if self._phase is Phase.RUNNING:
            facts |= {
                "mesh": self.config.node.mesh,
                "epoch": self.log.epoch,
                "uptime_s": int(time.monotonic() - self._started_at_s),
                "grpc": self.grpc_address,
                "members": len(self.members.states),
                "clients": self.clients.streams,
            }
        return facts

    def _figures(self) -> NodeFigures:
        if self._phase not in (Phase.RUNNING, Phase.DRAINING):
            return NodeFigures()
        for link in self.links.links():
            if link.connected and link.peer is not None:
                self._metrics.peer(link.peer).queue_depth = link.queue_frames
        tracing = self._machinery.tracing
        totals, groups, topics = self._looked or (LogTotals(), (), ())
        emm = next((gateway for gateway in self.gateways if isinstance(gateway, DatagramGateway)), None)
        coaty = next((gateway for gateway in self.gateways if isinstance(gateway, BridgeGateway)), None)
        exmp = next((gateway for gateway in self.gateways if isinstance(gateway, RequestGateway)), None)
        return NodeFigures(
            log_bytes=totals.bytes,
            log_streams=totals.streams,
            log_appended=self.log.appended,
            log_synced=self.log.synced,
            log_cuts=len(self.log.cuts),
            log_lost_events=self.clients.lost_events,
            disk_free_bytes=self.log.store.free_bytes(),
            disk_full=self._disk.look() is not None,
            members=Counter(state.liveness.name.lower() for state in self.members.states.values()),
            events_in_vain=self.broker.replication.events_in_vain,
            clients=self.clients.streams,
            subscriptions=self.clients.subscriptions,
            held_bytes=self.clients.held.bytes,
            groups=groups,
            refusals=self._refusals.totals,
            turned_away=self._entrances.keeper.turned_away,
            datagrams={} if emm is None else emm.fates(),
            datagrams_rejected={} if emm is None else emm.rejected(),
            compact=None if emm is None else emm.compact_figures(),
            coaty=None if coaty is None else coaty.bridge_figures(),
            kv=self._machinery.kv.figures(),
            calls=self._machinery.calls.figures(),
            later=self._machinery.later.figures(),
            schedules=self._machinery.schedules.figures(),
            schemas=self._machinery.schema_gate.figures(),
            history=[] if self._history is None else self._history.figures(),
            exmp=None if exmp is None else exmp.request_figures(),
            certificate_expires_s=self.protection.expires_in_s(),
            certificate_renewals=self.protection.renewals,
            certificate_failures=self.protection.renewal_failures,
            topics=topics,
            pipelines=self._machinery.kv.pipelines(),
            spans_made=0 if tracing is None else tracing.made,
            spans_dropped=0 if tracing is None else tracing.dropped,
            keys=None if self.protection.keys is None else self.protection.keys.figures(),
        )
