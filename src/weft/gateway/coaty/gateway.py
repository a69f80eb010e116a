"""The bridge as a node starts it: an agent in the namespace, and both ways between it and the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace
from structlog.stdlib import BoundLogger

from weft.coaty.agent import Agent
from weft.coaty.events import Event, Responses
from weft.coaty.identities import kept_identity
from weft.coaty.observing import Observation
from weft.coaty.settling import Publication
from weft.core.messages import Delivered, Edge
from weft.doors import Door
from weft.errors import UsageError, WeftError
from weft.gateway import BridgeFigures
from weft.gateway.coaty.inbound import Inbound, listened_always, listened_by_name
from weft.gateway.coaty.islands import Island
from weft.gateway.coaty.learning import COATY_REPORT_S, BridgeReport, Learned, decode_report_untrusted
from weft.gateway.coaty.listening import Listening
from weft.gateway.coaty.memory import Remembered, identities_in, read_back
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.outbound import COATY_QUESTIONS_MAX, Outbound, Questions
from weft.gateway.coaty.settings import CoatySettings
from weft.gateway.coaty.sharing import Heard, Sharing, group_of, mark_of, said_of
from weft.gateway.coaty.topics import bridges_topic, events_pattern, objects_topic
from weft.gateway.following import Following, Take, tell_defect
from weft.gateway.publishing import Publishing
from weft.limits import MIB
from weft.model import Batch, Pattern, Receipt
from weft.port.node import MeshNode
from weft.wire.coaty import CoreType, Resolve, require_namespace
from weft.wire.libp2p import multiaddr

COATY_BRIDGE_CREDIT_BYTES: Final = 4 * MIB  # delivered to a bridge and not said yet: two of the longest
COATY_MEET_S: Final = 1.0  # until everybody there has answered what there is
COATY_GRACE_S: Final = 4.0  # and as long again as a link of the mesh takes to come up
COATY_ASK_S: Final = 2.0  # until newcomers are asked: most have advertised themselves by then, a second after they came
COATY_BESIDE_S: Final = 1.0  # between reports in which only the neighbours have changed: agents come in crowds
COATY_TEND_S: Final = 5.0  # between searches for what has become too old


class CoatyGateway:
    """A ``Gateway``. ``mesh_name`` is the mesh's name: bridges of the same mesh share the work."""

    def __init__(
        self,
        mesh: MeshNode,
        mesh_name: str,
        settings: CoatySettings,
        read_clock: Callable[[], int],
        logger: BoundLogger,
        door: Door | None = None,
    ) -> None:
        require_namespace(settings.namespace)
        self.listeners: Sequence[str] = ()
        self._mesh = mesh
        self._mesh_name = mesh_name
        self._settings = settings
        self._read_clock = read_clock
        self._logger = logger
        self._door = door
        self._publishing = Publishing(mesh, read_clock, "the Coaty gateway")
        self._agent: Agent | None = None
        self._following: Following | None = None  # what goes out
        self._watching: Following | None = None  # what came in through any bridge, and what bridges report
        self._state: Following | None = None  # the objects that the mesh has, from the beginning
        self._tasks: list[asyncio.Task[None]] = []
        self._newcomer = asyncio.Event()
        self._met = asyncio.Event()  # other bridges are known by now, and so is the island
        self._island_changed = asyncio.Event()
        self._is_relearning = False
        self._reported: BridgeReport | None = None
        self._reported_at_s = 0.0
        self._logged_refused = 0

    # --- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        namespace = self._settings.namespace
        agent = self._make_agent()
        self._make_rooms(agent)
        for identity in read_back(self._mesh.log, events_pattern(namespace), self._read_clock()):
            self._brought.add(identity)
        heard: Observation[Heard] = agent.peer.dispatch.observe([], lambda *said: None, Observation)
        self._listening.begin(heard)
        self._publishing.start()
        await agent.start()
        self._watching = self._new_following(self._watch, events_pattern(namespace))
        self._watching.start()
        self._state = self._new_following(self._take_state, Pattern(objects_topic(namespace)), start=Edge.EARLIEST)
        self._state.start()
        self._follow()
        works = (
            self.inbound.run(heard), self._tend(), self._meet(agent), self._tell_errors(agent), self._keep_island()
        )  # fmt: skip
        self._tasks = [asyncio.get_running_loop().create_task(work, name=f"coaty bridge {namespace}") for work in works]
        for task in self._tasks:
            task.add_done_callback(tell_defect)
        self._relearn()
        self.listeners = tuple(f"coaty {address}" for address in agent.addresses)
        self._logger.info("coaty_ready", namespace=namespace, listeners=self.listeners)

    def _make_agent(self) -> Agent:
        settings = self._settings
        identity = kept_identity(settings.identity)
        self.island = Island(settings.island, settings.identity.with_name("island"), str(identity.peer))
        agent = self._agent = Agent(
            settings.namespace,
            name=settings.name,
            identity=identity,
            listen=settings.listen,
            bootstrap=settings.bootstrap,
            mdns=settings.mdns,
            connections_max=settings.connections_max,
        )
        agent.peer.host.door = self._door or agent.peer.host.door
        return agent

    def _make_rooms(self, agent: Agent) -> None:
        settings, namespace, mark = self._settings, self._settings.namespace, mark_of(self._mesh_name)
        self._brought, self._heard, self._said = Remembered(), Remembered(), Remembered()
        objects = Objects(namespace, self._publishing, self._logger)
        self.sharing = Sharing(agent.id)
        configured = listened_by_name(
            namespace, settings.channels, settings.operations, settings.io_contexts, settings.raw_topics
        )
        self.learned = Learned(namespace, configured, settings.learned_max)
        self._listening = Listening(
            agent.peer, namespace, mark, listened_always(namespace), self._heard, self._said, self.learned
        )
        self._listening.on_came, self._listening.on_left = self._came, self._left
        self._listening.on_wants = self._relearn
        agent.peer.tap = self._listening
        self._questions = Questions(self._listening.subscribe, COATY_QUESTIONS_MAX)
        self.inbound = Inbound(
            namespace,
            agent.id,
            self._publishing,
            self.sharing,
            self.learned,
            self._brought,
            objects,
            self._listening.passes_on,
            self._questions.has_said,
            lambda: self.island.name,
            self._logger,
        )
        self.outbound = Outbound(
            namespace,
            mark,
            self._say,
            lambda: self.island.name,
            lambda topic: self._listening.islands_near(self.sharing.near, topic),
            self._heard,
            self._said,
            self._listening.news,
            self._questions,
            objects,
            self._read_clock,
            self._logger,
        )

    async def close(self) -> None:
        self.listeners = ()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for following in (self._following, self._watching, self._state):
            if following is not None:
                await following.close()
        self._following = self._watching = self._state = None
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.close()
            self._publishing.close()

    # --- to the namespace ----------------------------------------------------------------------------------------

    async def _say(self, publication: Publication) -> None:
        """Publish in the namespace, with the mark of our mesh. Waits while neighbours cannot follow."""
        assert self._agent is not None and publication.seqno is not None, "the bridge runs, and marks what it says"
        await self._agent.peer.publish([publication])
        self._said.add(said_of(publication.seqno))

    async def _take(self, delivered: Delivered) -> None:
        """Nothing goes out before we know our island."""
        await self._met.wait()
        await self.outbound.take(delivered)

    def _follow(self) -> None:
        namespace = self._settings.namespace
        group = group_of(namespace, self.island.name)
        self._following = self._new_following(self._take, events_pattern(namespace), group=group)
        self._following.start()

    def _new_following(self, take: Take, pattern: Pattern, *, group: str = "", start: Edge = Edge.LATEST) -> Following:
        credit_bytes = COATY_BRIDGE_CREDIT_BYTES
        return Following(
            self._mesh, pattern, take, self._interrupted, credit_bytes=credit_bytes, group=group, start=start
        )

    def _interrupted(self, error: WeftError) -> None:
        self._logger.warning("coaty_out_interrupted", reason=str(error))

    # --- what other bridges do -----------------------------------------------------------------------------------

    async def _take_state(self, delivered: Delivered) -> None:
        """Objects that some bridge has brought over, this one before it was started again, say."""
        for event in Batch.read_stored(delivered.data).events_from(delivered.first_offset):
            self.inbound.is_told((event.key or b"").decode(errors="replace"), event.payload, event.timestamp_us)

    async def _watch(self, delivered: Delivered) -> None:
        if delivered.stream.origin == self._mesh.node_id:
            return
        batch = Batch.read_stored(delivered.data)
        if delivered.stream.topic != bridges_topic(self._settings.namespace):
            for identity in identities_in(batch, delivered.first_offset):
                self.inbound.is_in_mesh(identity)
            return
        for event in batch.events_from(delivered.first_offset):
            self._take_report((event.key or b"").decode(errors="replace"), event.payload)

    def _take_report(self, node: str, payload: bytes) -> None:
        try:
            report = decode_report_untrusted(payload)
        except UsageError as error:
            self._logger.warning("coaty_report_rejected", member=node, reason=str(error))
            return
        if self.learned.reported(node, report, self._now_s()):
            self._reported = None  # it does not know us either
        self._share()
        self._connect(report.addresses)
        self._relearn()

    def _connect(self, addresses: Sequence[str]) -> None:
        """Connect to another bridge, so that both hear the same. A bridge that cannot be reached counts as another
        island.
        """
        for address in addresses:
            with suppress(UsageError):
                found = multiaddr.parse(address)
                agent = self._agent
                if agent is not None and found.tcp_endpoint is not None and found.peer != agent.peer.host.peer:
                    agent.peer.dial_soon(found)

    def _came(self, peer: str) -> None:
        self._newcomer.set()
        self._shared(self.sharing.came(peer))

    def _left(self, peer: str) -> None:
        self._shared(self.sharing.left(peer))

    def _share(self) -> None:
        gone = {str(state.node_id) for state in self._mesh.members() if state.liveness.gone}
        self._shared(self.sharing.told(self.learned.bridges(gone)))

    def _shared(self, has_changed: bool) -> None:
        """The set of bridges that share the work with us has changed."""
        if not has_changed:
            return
        self.inbound.take_over()
        if self._met.is_set() and self.island.choose(self.sharing.islands):
            self._island_changed.set()
            self._relearn()

    def _relearn(self) -> None:
        """At the end of this turn of the loop, because a newcomer announces many topics at once."""
        if not self._is_relearning:
            self._is_relearning = True
            asyncio.get_running_loop().call_soon(self._listen_and_report)

    def _listen_and_report(self) -> None:
        self._is_relearning = False
        if self._agent is None:
            return
        hears = self._listening.listen(self.learned.listened())
        wants = tuple(self.learned.wants())
        island = self.island.name if self._met.is_set() else ""
        report = BridgeReport(
            self._agent.id, self._agent.peer_id, tuple(self._agent.addresses), island, wants, hears,
            self.learned.beside(),
        )  # fmt: skip
        if self._is_worth_telling(report):
            self._reported, self._reported_at_s = report, self._now_s()
            node = str(self._mesh.node_id).encode()
            self._publishing.add(bridges_topic(self._settings.namespace), report.encode(), node, None, self)
        refused, self._logged_refused = self._logged_refused, self.learned.refused
        if self.learned.refused > refused:
            limit = self._settings.learned_max
            self._logger.warning("coaty_topics_not_learned", topics=self.learned.refused, limit=limit)

    def _is_worth_telling(self, report: BridgeReport) -> bool:
        since_s = self._now_s() - self._reported_at_s
        if self._reported is None or since_s >= COATY_REPORT_S:
            return True
        if report == self._reported:
            return False
        if replace(self._reported, beside=report.beside) == report and since_s < COATY_BESIDE_S:
            asyncio.get_running_loop().call_later(COATY_BESIDE_S - since_s, self._relearn)
            return False
        return True

    def published(self, receipt: Receipt, number: int) -> None:
        """A report is in the mesh."""

    def refused(self, error: WeftError) -> None:
        self._reported = None  # the next look tries again
        self._logger.warning("coaty_report_refused", reason=str(error))

    # --- who and what is there -----------------------------------------------------------------------------------

    async def _meet(self, agent: Agent) -> None:
        """Ask which bridges and objects exist, and ask again whenever a neighbour comes."""
        await agent.ready()
        while True:
            self._newcomer.clear()
            until_s = self._now_s() + COATY_MEET_S
            async with await agent.discover(core_types=list(CoreType)) as resolves:
                while not (self._newcomer.is_set() and self._met.is_set()):
                    await self._take_answers(resolves)
                    if not self._met.is_set() and self._now_s() >= until_s + self._grace_s():
                        self._settle()
            await asyncio.sleep(COATY_ASK_S)

    async def _take_answers(self, resolves: Responses[Resolve]) -> None:
        with suppress(TimeoutError):
            answer: Event[Resolve] = await resolves.next(COATY_MEET_S)
            for found in (answer.data.object, *(answer.data.related_objects or ())):
                if found is not None:
                    self.inbound.found(answer.source_id, found)

    def _grace_s(self) -> float:
        """How long to wait for reports of bridges at other nodes, if there are other nodes and none has reported."""
        return 0.0 if self.learned.reports or not self._mesh.members() else COATY_GRACE_S

    def _settle(self) -> None:
        self.island.choose(self.sharing.islands)
        self._island_changed.set()
        self._met.set()
        self.inbound.settle()
        self._relearn()

    async def _keep_island(self) -> None:
        """Take part in the group of our island, whichever that is by now."""
        followed = self.island.name
        while True:
            await self._island_changed.wait()
            self._island_changed.clear()
            if self.island.name != followed:
                followed = self.island.name
                self._logger.info("coaty_island", island=followed)
                if self._following is not None:
                    await self._following.close()
                try:
                    self._follow()
                except WeftError as error:  # no more subscribers are accepted at the moment
                    self._interrupted(error)
                    followed = ""
                    await asyncio.sleep(COATY_TEND_S)
                    self._island_changed.set()

    async def _tell_errors(self, agent: Agent) -> None:
        async for error in agent.errors:
            self._logger.warning("coaty_problem", reason=str(error))

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(COATY_TEND_S)
            now_s = self._now_s()
            self._questions.forget(now_s)
            self._listening.forget(now_s)
            self.inbound.expire()
            self.learned.forget(now_s)
            self._share()
            self._relearn()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    # --- for the metrics -----------------------------------------------------------------------------------------

    def bridge_figures(self) -> BridgeFigures:
        """What was counted since the start, and the current state."""
        if self._agent is None:
            return BridgeFigures()
        came, went, peer = self.inbound.figures, self.outbound.figures, self._agent.peer
        return BridgeFigures(
            events_in=_counts(came),
            events_out=_counts(went),
            neighbours=len(peer.host.neighbours),
            bridges=len(self.sharing.others),
            topics=len(peer.topics),
            held=len(self.inbound.held),
            held_forgotten=self.inbound.held.forgotten,
            questions=len(self._questions),
            topics_refused=self.learned.refused,
            connections_refused=peer.host.refused,
            distrusted=peer.distrusted,
        )


def _counts(figures: object) -> Mapping[str, int]:
    return {name: getattr(figures, name) for name in type(figures).__dataclass_fields__}  # type: ignore[attr-defined]
