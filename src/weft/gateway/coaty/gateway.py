"""The bridge as a node starts it: an agent in the namespace, and the two ways between it and the log."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from structlog.stdlib import BoundLogger

from weft.coaty.agent import Agent, new_id
from weft.coaty.identities import kept_identity
from weft.coaty.observing import Observation
from weft.coaty.settling import Publication
from weft.errors import WeftError
from weft.gateway.coaty.inbound import Inbound, listened_topics
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.outbound import Outbound, Questions
from weft.gateway.coaty.settings import CoatySettings
from weft.gateway.coaty.sharing import BRIDGE_TYPE, Sharing, bridge_object, group_of, is_marked, mark_of, marked
from weft.gateway.coaty.topics import events_pattern
from weft.gateway.following import Following
from weft.gateway.publishing import Publishing
from weft.limits import MIB
from weft.port.node import MeshNode
from weft.wire.coaty import require_namespace

COATY_BRIDGE_CREDIT_BYTES: Final = 4 * MIB  # delivered to a bridge and not said yet: two of the longest
COATY_MEET_S: Final = 1.0  # until a bridge asks newcomers whether they are bridges, too
COATY_TEND_S: Final = 5.0  # between looks at questions that nobody answered


class CoatyGateway:
    """A ``Gateway``. ``mesh_name`` is the mesh's: bridges of the same one share the work."""

    def __init__(
        self,
        mesh: MeshNode,
        mesh_name: str,
        settings: CoatySettings,
        read_clock: Callable[[], int],
        logger: BoundLogger,
    ) -> None:
        require_namespace(settings.namespace)
        self.listeners: Sequence[str] = ()
        self._mesh = mesh
        self._mesh_name = mesh_name
        self._settings = settings
        self._read_clock = read_clock
        self._logger = logger
        self._mark = mark_of(mesh_name)
        self._newcomer = asyncio.Event()
        self._publishing = Publishing(mesh, read_clock)
        self._agent: Agent | None = None
        self._following: Following | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        settings, namespace = self._settings, self._settings.namespace
        own = bridge_object(new_id(), settings.name, self._mesh_name)
        agent = self._agent = Agent(
            namespace,
            name=settings.name,
            identity=kept_identity(settings.identity),
            listen=settings.listen,
            bootstrap=settings.bootstrap,
            mdns=settings.mdns,
            join=[own],
        )
        agent.peer.on_insider = self._newcomer.set
        agent.peer.is_ignored = lambda heard: is_marked(heard.seqno, self._mark)
        objects = Objects(namespace, self._publishing, self._logger)
        self.sharing = Sharing(own["objectId"], self._mesh_name)
        self.inbound = Inbound(namespace, agent.id, self._publishing, self.sharing, objects, self._logger)
        dispatch = agent.peer.dispatch
        topics = listened_topics(namespace, settings.channels, settings.operations, settings.io_contexts)
        heard: Observation[tuple[str, bytes]] = dispatch.observe(topics, lambda *said: said, Observation)
        self._questions = Questions(
            lambda topic: dispatch.add(topic, lambda *said: dispatch.put(heard, said, len(said[1])))
        )
        self.outbound = Outbound(namespace, self._say, self._questions, objects, self._read_clock, self._logger)
        self._publishing.start()
        await agent.start()
        self._tasks = [
            asyncio.get_running_loop().create_task(work, name=f"coaty bridge {namespace}")
            for work in (self.inbound.run(heard), self._tend(), self._meet_others(agent), self._tell_errors(agent))
        ]
        self._following = Following(
            self._mesh,
            events_pattern(namespace),
            self.outbound.take,
            self._interrupted,
            credit_bytes=COATY_BRIDGE_CREDIT_BYTES,
            group=group_of(namespace),
        )
        self._following.start()
        self.listeners = tuple(f"coaty {address}" for address in agent.addresses)
        self._logger.info("coaty_ready", namespace=namespace, listeners=self.listeners)

    async def close(self) -> None:
        self.listeners = ()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._following is not None:
            await self._following.close()
            self._following = None
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.close()
            self._publishing.close()

    # --- while it runs -------------------------------------------------------------------------------------------

    async def _say(self, publication: Publication) -> None:
        """In the namespace, with the mark of our mesh. Waits while neighbours cannot follow."""
        assert self._agent is not None, "the bridge runs"
        seqno = marked(self._mark, secrets.token_bytes)
        await self._agent.peer.publish([Publication(publication.topic, publication.payload, seqno)])

    async def _meet_others(self, agent: Agent) -> None:
        """Ask who is a bridge, too, again whenever somebody new has come."""
        while True:
            self._newcomer.clear()
            async with await agent.discover(object_types=[BRIDGE_TYPE]) as resolves:
                while not self._newcomer.is_set():
                    with suppress(TimeoutError):
                        resolve = await resolves.next(COATY_MEET_S)
                        if resolve.data.object is not None:
                            self.sharing.advertised(resolve.data.object)

    async def _tell_errors(self, agent: Agent) -> None:
        async for error in agent.errors:
            self._logger.warning("coaty_problem", reason=str(error))

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(COATY_TEND_S)
            self._questions.forget(asyncio.get_running_loop().time())

    def _interrupted(self, error: WeftError) -> None:
        self._logger.warning("coaty_out_interrupted", reason=str(error))
