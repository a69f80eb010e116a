"""The gateway as a node starts it: sockets, keys, relations, and both ways between datagrams and the log."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from structlog.stdlib import BoundLogger

from weft.datagram_node import Instant
from weft.doors import Door
from weft.errors import StorageError, UsageError, WeftError
from weft.gateway import CompactFigures
from weft.gateway.emm.accepting import Acceptance
from weft.gateway.emm.checkers import Checkers
from weft.gateway.emm.compact_judge import CompactJudge
from weft.gateway.emm.compact_node import CompactNode, compact_settings
from weft.gateway.emm.dialled import Dialled
from weft.gateway.emm.identity import FRESH_BYTES, IdentityFile, settle_identity
from weft.gateway.emm.inbound import GATEWAY_EMM_TURN_MAX, Inbound
from weft.gateway.emm.judge import EmmJudge
from weft.gateway.emm.names import NameRights
from weft.gateway.emm.outbound import Outbound
from weft.gateway.emm.packing import Packed, Packer
from weft.gateway.emm.quarantine import Quarantine
from weft.gateway.emm.relations import Relations
from weft.gateway.emm.replay_journal import ReplayJournal
from weft.gateway.emm.rows import Accepted, Arrived, Header, Sources
from weft.gateway.emm.settings import GatewaySettings, Out, Target
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, TopicMap
from weft.limits import SECURITY_RELOAD_INTERVAL_S
from weft.port.node import MeshNode
from weft.security import Credentials, Trust, TrustFile
from weft.security.trust_file import add_pins
from weft.transport.quic import QuicLinks, is_quic, read_roots
from weft.transport.udp import UdpSocket
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import Terms, TrustStore
from weft.wire.emm_compact import EventType
from weft.wire.seen import SALT_BYTES, Seen
from weft.wire.udp import Address, Datagram, Datagrams, Outgoing, show


class EmmGateway:
    """A ``Gateway``. ``certificate`` returns the node's own, for QUIC; None if the node has none.

    ``door`` lets QUIC connections in.
    """

    def __init__(
        self,
        mesh: MeshNode,
        data: Path,
        settings: GatewaySettings,
        certificate: Callable[[], Credentials] | None,
        logger: BoundLogger,
        door: Door | None = None,
    ) -> None:
        if settings.quic is not None and certificate is None:
            raise UsageError("gateway.emm.quic needs a certificate, and an insecure node has none")
        if settings.dialled() and settings.quic_root is None and certificate is None:
            raise UsageError(
                "gateway.emm has addresses with quic://, and an insecure node has no root certificate to check them "
                "with: set gateway.emm.quic_root"
            )
        at = _now()
        self.listeners: Sequence[str] = ()
        self._udp: UdpSocket | None = None
        self._quic = QuicLinks(self._on_datagrams, self._on_gone, door=door)
        self._settings = settings
        self._certificate = certificate
        self._logger = logger
        self._trust_file = TrustFile(data, at.steady_s)
        self._data = data
        self._trust = Trust()
        self._pins: dict[UUID, bytes] = {}  # keys that were pinned on first use, and are not in the trust file yet
        self._pins_failed = False
        self._problem: str | None = None  # with the trust file, as it was logged
        self._store = TrustStore(settings.policy)
        self._identity = settle_identity(data, secrets.token_bytes(FRESH_BYTES))
        self._identity_file = IdentityFile(data, at.steady_s)
        self._sources = Sources()
        self._seal_keys: dict[bytes, bytes] = {}
        rules = settings.packet_rules
        self._relations = Relations(self._identity, settings.heartbeat_interval_s, secrets.randbits, at, rules)
        self._journal = ReplayJournal(data, secrets.token_bytes(SALT_BYTES), at.unix_s)
        self._journal_failed = False
        self._seen = seen = Seen(self._journal.salt, journalled=True)
        self._journal.restore(seen, at.unix_s)
        topics = TopicMap(settings.rules, settings.prefix)
        self._compact_node = CompactNode(
            self._identity.node_id,
            compact_settings(settings),
            seen,
            secrets.randbits,
            self._send_on,
            _now,
            self._overflowed,
            logger,
        )
        self._packer = Packer(
            self._identity.node_id,
            secrets.randbits,
            self._compact_node.seal_event,
            rules,
            settings.seal,
            self._find_seal_key,
        )
        self._checkers = Checkers()
        acceptance = Acceptance(topics, settings.payload)
        terms = Terms(rules, settings.unsigned_allowed, settings.seal)
        self._names = names = NameRights()
        self._judge = EmmJudge(self._store, seen, acceptance, self._checkers.check, terms, names, self._find_seal_key)
        self._compact = CompactJudge(self._trust.key_ring(), seen, topics, names, settings.payload)
        self._take_over(self._trust_file.current(at.steady_s), at)
        quarantine = Quarantine(at.steady_s, per_s=settings.quarantine_per_s)
        self.inbound = Inbound(
            mesh,
            self._judge,
            self._compact,
            quarantine,
            _now,
            self._on_accepted,
            rules.packet_bytes_max,
            self._on_compact,
            self._keep_marks,
        )
        self.outbound = Outbound(
            mesh, self._packer, settings.out, self._targets, self._send, _now, settings.rate_per_s_max, logger
        )
        self._resolved: dict[Out, list[Address]] = {}
        self._dialled = Dialled(self._quic, settings.dialled(), self._quic_root, self._on_dialled, logger)
        self._tending: asyncio.Task[None] | None = None

    # --- starting and ending -------------------------------------------------------------------------------------

    async def start(self) -> None:
        settings = self._settings
        listeners = []
        self.inbound.start()  # before anything can arrive
        if settings.udp is not None:
            self._udp = await UdpSocket.bind(
                *settings.udp,
                self._on_received,
                wants_more=self.inbound.line.has_room,
                datagram_bytes_max=settings.packet_rules.packet_bytes_max,
                datagrams_at_once=GATEWAY_EMM_TURN_MAX,
            )
            listeners.append(f"emm {show(self._udp.address)}")
        if settings.quic is not None:
            assert self._certificate is not None, "checked before"
            address = await self._quic.listen(*settings.quic, self._certificate())
            listeners.append(f"emm-quic {show(address)}")
        for out in settings.out:
            plain = [target for target in out.targets if not target.quic]
            self._resolved[out] = [await self._resolve(each.host, each.port) for each in plain]
        at = _now()
        for address in [await self._resolve(each.host, each.port) for each in settings.join if not each.quic]:
            self._relations.seek(address, at)
        plain_joins = [each for each in settings.compact_join if not each.quic]
        self._compact_node.join([await self._resolve(each.host, each.port) for each in plain_joins])
        self._dialled.start()
        self.outbound.start()
        self.listeners = tuple(listeners)
        self._tending = asyncio.create_task(self._tend())
        self._tending.add_done_callback(_tell_defect)
        self._logger.info("emm_ready", emm_node=str(self._identity.node_id), listeners=listeners)

    async def _resolve(self, host: str, port: int) -> Address:
        if self._udp is None:
            raise UsageError(f"gateway.emm sends to {host} from its UDP address: set gateway.emm.udp")
        return await self._udp.resolve(host, port)

    async def close(self) -> None:
        self.listeners = ()
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
        self._compact_node.close()
        await self._dialled.close()
        if self._udp is not None:
            self._udp.close()
        self._quic.close()
        self.outbound.close()
        self.inbound.close()
        self._checkers.close()
        await self._write_pins_down()
        await self._sync_marks()
        self._journal.close()

    # --- for the metrics -----------------------------------------------------------------------------------------

    def fates(self) -> dict[str, int]:
        """What became of datagrams so far."""
        inbound, outbound = self.inbound, self.outbound
        return {
            "received": inbound.figures.received,
            "published": inbound.figures.published,
            "refused-by-log": inbound.figures.refused,
            "dropped": inbound.line.dropped + inbound.signatures.dropped + self._overflowed() + self._quic.dropped,
            "relayed": self._compact_node.figures.relayed,
            "ended": self._compact_node.figures.ended,
            "expired": self._compact_node.figures.expired,
            "sent": outbound.figures.sent,
            "unsent": outbound.figures.unsent + self._compact_node.unrelayed,
            "no-quic": outbound.figures.no_quic,
            "unfit": outbound.figures.unfit,
        }

    def _overflowed(self) -> int:
        return 0 if self._udp is None or self._udp.is_closed else self._udp.overflowed

    def rejected(self) -> dict[str, int]:
        """Datagrams that were refused, by reason (EMM-18)."""
        return {str(reason): count for reason, count in list(self.inbound.quarantine.rejected.items())}

    def compact_figures(self) -> CompactFigures:
        return CompactFigures(self._compact_node.neighbours, self._compact_node.figures.slowed)

    # --- while it runs -------------------------------------------------------------------------------------------

    async def _tend(self) -> None:
        """Handle changed keys, a renewed certificate, and due neighbours."""
        shown = self._certificate() if self._certificate is not None else None
        while True:
            await asyncio.sleep(SECURITY_RELOAD_INTERVAL_S)
            at = _now()
            self._take_over(self._trust_file.current(at.steady_s), at)
            await self._write_pins_down()
            await self._sync_marks()
            if self._certificate is not None and (current := self._certificate()) is not shown:
                shown = current
                self._quic.renew(current)
            self._call(at)

    async def _write_pins_down(self) -> None:
        """Write down keys that were pinned on first use, so that they are known after a restart (EMM-17)."""
        self._pins |= self._store.take_new_pins()
        if not self._pins:
            return
        try:
            await asyncio.to_thread(add_pins, self._data, self._pins)
        except WeftError as error:
            if not self._pins_failed:
                self._logger.error("first_use_not_kept", reason=str(error), keys=len(self._pins))
            self._pins_failed = True  # tried again in a while
        else:
            self._pins, self._pins_failed = {}, False

    def _keep_marks(self, unix_s: float) -> None:
        """Packets that become events now must not be accepted again after a restart (EMM-19)."""
        if new := self._seen.take_new():
            try:
                self._journal.append(new, unix_s)
            except StorageError as error:
                self._tell_of_journal(error)
            else:
                self._journal_failed = False

    async def _sync_marks(self) -> None:
        try:
            await asyncio.to_thread(self._journal.sync)
        except StorageError as error:
            self._tell_of_journal(error)

    def _tell_of_journal(self, error: StorageError) -> None:
        """Report that the journal cannot be written: datagrams that are taken now could be replayed after a restart."""
        if not self._journal_failed:
            self._logger.error("replays_not_kept", reason=str(error))
        self._journal_failed = True

    def _find_seal_key(self, key_id: bytes) -> bytes | None:
        return self._seal_keys.get(key_id)

    def _take_over(self, trust: Trust, at: Instant) -> None:
        problem = self._trust_file.problem
        if problem not in (None, self._problem):
            self._logger.error("trust_unreadable", reason=problem)
        self._problem = problem
        identity = self._identity_file.current(at.steady_s, self._identity, self._logger)
        if trust is self._trust and identity is self._identity:
            return
        self._identity = identity
        trust.fill(self._store, self._trust)
        self._trust = trust
        self._seal_keys = trust.seal_keys()
        self._names.use(trust.names_by_sender())
        self._judge.trust_changed()
        self._compact.trust_changed(trust.key_ring())
        self._relations.sign_with(identity, trust)
        self._compact_node.sign_with(identity.signer(trust))
        self._packer.credentials = identity.credentials(trust)

    def _on_received(self, received: Datagrams) -> None:
        self.inbound.receive(self._sources.arrived(received.contents, received.sources, received.ttls, received.toses))

    def _on_datagrams(self, datagrams: Sequence[Datagram]) -> None:
        contents, sources = [each.data for each in datagrams], [each.source for each in datagrams]
        ttls, toses = [each.ttl for each in datagrams], [each.tos for each in datagrams]
        self.inbound.receive(self._sources.arrived(contents, sources, ttls, toses))

    def _on_accepted(self, accepted: Accepted) -> None:
        """EMM's hellos and heartbeats are few, so they are handled one by one."""
        if accepted.topics[0] not in (HELLO_TOPIC, HEARTBEAT_TOPIC):
            return
        at = _now()
        protocols = accepted.headers[Header.PROTOCOL].to_pylist()  # EMM-C's go to its own node, as they came
        sources = accepted.headers[Header.SOURCE].to_pylist()
        for protocol, data, source in zip(protocols, accepted.payloads.to_pylist(), sources, strict=True):
            address = self._sources.address(source)
            if address is None or protocol != DatagramProtocol.EMM:
                continue
            if not is_quic(address) or self._quic.is_up(address):
                self._relations.heard(data, address, at)
        self._call(at)

    def _on_compact(self, arrived: Sequence[Arrived], at: Instant) -> None:
        self._compact_node.take(arrived, self._sources.address, at)

    def _call(self, at: Instant) -> None:
        for each in self._relations.datagrams_to_send(at):
            self._send_on(each)

    def _targets(self, out: Out) -> Sequence[Address]:
        if not out.targets:
            is_compact = out.protocol is DatagramProtocol.EMM_COMPACT
            return self._compact_node.takers(EventType.NOTIFICATION) if is_compact else self._relations.targets()
        dialled = (self._dialled.address(target) for target in out.targets if target.quic)
        return [*self._resolved[out], *(address for address in dialled if address is not None)]

    # --- QUIC ----------------------------------------------------------------------------------------------------

    def _quic_root(self) -> bytes:
        """The certificates against which others are checked: a file may be replaced while the gateway runs."""
        if self._settings.quic_root is not None:
            return read_roots(self._settings.quic_root)
        assert self._certificate is not None, "checked before"
        return self._certificate().root_pem

    def _on_dialled(self, target: Target, address: Address) -> None:
        at = _now()
        if target in self._settings.join:
            self._relations.seek(address, at)
            self._call(at)
        if target in self._settings.compact_join:
            self._compact_node.join([address])

    def _on_gone(self, address: Address) -> None:
        self._relations.gone(address)
        self._compact_node.gone(address)

    def _send(self, packed: Packed, target: Address) -> bool:
        taken = None if packed.compact is None else self._compact_node.send(packed.compact, target)
        if taken is None:
            return self._send_on(Outgoing(packed.data, target, tos=packed.tos, urgent=packed.urgent))
        return taken

    def _send_on(self, each: Outgoing) -> bool:
        if is_quic(each.target):
            return self._quic.send(each.data, each.target)
        if self._udp is None:
            return False
        return self._udp.send(each.data, each.target, ttl=each.ttl, tos=each.tos, urgent=each.urgent)


def _tell_defect(task: asyncio.Task[None]) -> None:
    """Nothing should go wrong there: if it does, it must not go unnoticed."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "EMM gateway", "exception": error, "task": task})


def _now() -> Instant:
    return Instant(asyncio.get_running_loop().time(), time.time())
