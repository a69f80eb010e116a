"""A Coaty agent: the thirteen event patterns, over libp2p, for one event loop."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from types import TracebackType
from typing import Any, Self

from weft.coaty.events import Event, Question, RawEvent, Responses
from weft.coaty.identities import new_identity
from weft.coaty.io_points import IoPoints
from weft.coaty.observing import Observation
from weft.coaty.peer import Peer, is_joinable
from weft.coaty.settling import Publication
from weft.errors import UsageError, WeftError
from weft.limits import LIBP2P_CONNECTIONS_MAX
from weft.wire.coaty import (
    DEFAULT_NAMESPACE,
    EVERYTHING,
    RESPONSE_TO,
    Advertise,
    Associate,
    BadCoatyMessage,
    Call,
    Channel,
    CoatyObject,
    Complete,
    ContextFilter,
    CoreType,
    Deadvertise,
    Discover,
    EventData,
    EventType,
    IoState,
    IoValue,
    JoinCondition,
    Message,
    ObjectFilter,
    Query,
    Request,
    Resolve,
    Retrieve,
    Return,
    Topic,
    Update,
    decode_event_untrusted,
    encode_payload,
    observed_filter,
    parse_topic_untrusted,
    require_raw_topic,
    response_problem,
    topics_of,
)
from weft.wire.coaty.jsonvalues import Json, JsonObject
from weft.wire.libp2p import Multiaddr, PrivateKey, multiaddr


def new_id() -> str:
    """A UUID as Coaty wants them (COA-06)."""
    return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))


class Agent:
    """An agent in a namespace. Use it with ``async with``, or ``start`` and ``close`` it.

    ``join`` are objects that are advertised first, after the agent's own identity; they are gone when the agent is.
    ``listen`` is where other agents reach this one; ``bootstrap`` are addresses of agents to connect to; ``mdns`` names
    the interfaces, by their IPv4 addresses, on which to look for others (none: no multicast at all). Connections beyond
    ``connections_max`` are closed, and reported by ``errors``.
    """

    def __init__(
        self,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        name: str,
        identity: PrivateKey | None = None,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        bootstrap: Sequence[str] = (),
        mdns: Sequence[str] = (),
        join: Sequence[CoatyObject] = (),
        io_nodes: Sequence[CoatyObject] = (),
        agent_id: str | None = None,
        connections_max: int = LIBP2P_CONNECTIONS_MAX,
    ) -> None:
        self.namespace = namespace
        self.id = agent_id or new_id()
        self.identity: CoatyObject = {
            "objectId": self.id,
            "objectType": CoreType.IDENTITY.object_type,
            "coreType": str(CoreType.IDENTITY),
            "name": name,
        }
        own = [self.identity, *join, *io_nodes]
        can_join = is_joinable(namespace)  # if not, that is reported when it starts (COA-04)
        self.peer = Peer(
            namespace,
            identity or new_identity(),
            self.id,
            listen=listen,
            bootstrap=[_bootstrap(address) for address in bootstrap],
            interfaces=[IPv4Address(address) for address in mdns],
            join=[each for one in own if can_join for each in self._publications(Message(self.id, Advertise(one)))],
            mortal_ids=[one["objectId"] for one in own[1:]],
            connections_max=connections_max,
        )
        self._can_join = can_join
        self._own = own
        self._resolving: asyncio.Task[None] | None = None
        self._io = IoPoints(namespace, io_nodes if can_join else (), self.peer.dispatch)

    # --- life ----------------------------------------------------------------------------------------------------

    @property
    def addresses(self) -> list[str]:
        """Where this agent can be reached: for ``bootstrap`` of others."""
        host = self.peer.host
        return [f"{address}/p2p/{host.peer}" for address in host.listen_addresses]

    @property
    def peer_id(self) -> str:
        return str(self.peer.host.peer)

    @property
    def neighbours(self) -> list[str]:
        """Peer ids of the agents that are connected."""
        return [str(peer) for peer in self.peer.host.neighbours]

    @property
    def is_online(self) -> bool:
        return self.peer.is_online

    @property
    def states(self) -> Observation[bool]:
        """Every change of ``is_online``. All callers share one observation."""
        return self.peer.states

    @property
    def errors(self) -> Observation[WeftError]:
        """What went wrong without anybody having asked: an impossible namespace, events that cannot be read."""
        return self.peer.errors

    async def start(self) -> None:
        """Join the namespace; raise UsageError if ``listen`` is not possible."""
        if self._can_join:
            discovers = self.observe_discover()
            self._resolving = asyncio.get_running_loop().create_task(self._resolve(discovers), name=f"coaty {self.id}")
        await self.peer.start()

    async def ready(self) -> None:
        """Wait until publications are sent at once: a second after the last neighbour said what it wants (COA-07)."""
        await self.peer.ready()

    async def dial(self, address: str) -> None:
        """Connect to another agent now; raise PeerError if that is not possible."""
        await self.peer.host.dial(_bootstrap(address))

    async def close(self) -> None:
        if self._resolving is not None:
            self._resolving.cancel()
            await asyncio.gather(self._resolving, return_exceptions=True)
        await self.peer.close()

    async def _resolve(self, discovers: Observation[Question[Discover, Resolve]]) -> None:
        """Who looks for this agent, or for what it joined with, finds it. By this every agent is subscribed to a topic
        of its namespace, and so is known to belong to it."""
        async for question in discovers:
            for own in self._own:
                if question.source_id != self.id and question.data.matches(own):
                    with suppress(UsageError):  # too much waits until we may speak: those who come then are told
                        await question.reply(Resolve(own))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- one-way events ------------------------------------------------------------------------------------------

    async def advertise(self, advertised: CoatyObject, private_data: JsonObject | None = None) -> None:
        await self._publish(Advertise(advertised, private_data))

    async def deadvertise(self, *object_ids: str) -> None:
        await self._publish(Deadvertise(object_ids))

    async def channel(self, channel: str, *objects: CoatyObject, private_data: JsonObject | None = None) -> None:
        one = objects[0] if len(objects) == 1 else None
        many = None if one is not None else objects
        await self._publish(Channel(one, many, private_data), channel)

    async def associate(
        self, context: str, source_id: str, actor_id: str, route: str | None, update_rate: float | None = None
    ) -> None:
        """For IO routers: let a source feed an actor; without a route, let it stop."""
        await self._publish(Associate(source_id, actor_id, route, update_rate), context)

    async def io_value(self, source_id: str, value: Json | bytes) -> bool:
        """Publish a value of an IO source of this agent; False if nobody is associated with it now."""
        route = self._io.route_of(source_id)
        if route is None:
            return False
        if isinstance(value, bytes) != self._io.is_raw(source_id):
            raise UsageError(
                "values of this IO source must be bytes if it has useRawIoValues, and must not be otherwise",
                source=source_id,
            )
        payload = encode_payload(Message(self.id, IoValue(value)))
        await self.peer.publish([Publication(route, payload)])
        return True

    async def raw(self, topic: str, payload: bytes) -> None:
        """Any bytes on a topic outside of Coaty's own."""
        require_raw_topic(topic)
        await self.peer.publish([Publication(topic, payload)])

    # --- questions -----------------------------------------------------------------------------------------------

    async def discover(
        self,
        *,
        object_id: str | None = None,
        external_id: str | None = None,
        object_types: Sequence[str] | None = None,
        core_types: Sequence[str] | None = None,
    ) -> Responses[Resolve]:
        return await self._ask(Discover(external_id, object_id, object_types, core_types))

    async def query(
        self,
        *,
        object_types: Sequence[str] | None = None,
        core_types: Sequence[str] | None = None,
        where: ObjectFilter = EVERYTHING,
        joins: Sequence[JoinCondition] = (),
    ) -> Responses[Retrieve]:
        return await self._ask(Query(object_types, core_types, where, tuple(joins)))

    async def update(self, updated: CoatyObject) -> Responses[Complete]:
        return await self._ask(Update(updated))

    async def call(
        self,
        operation: str,
        parameters: Sequence[Json] | JsonObject | None = None,
        where: ContextFilter | None = None,
    ) -> Responses[Return]:
        return await self._ask(Call(parameters, where), operation)

    async def _ask(self, request: Request, name: str | None = None) -> Responses[Any]:
        """Subscribed to the answers before the question is out."""
        correlation_id = new_id()
        message = Message(self.id, request, correlation_id)
        topic = Topic(self.namespace, RESPONSE_TO[message.event], correlation_id=correlation_id)

        def read_untrusted(text: str, payload: bytes) -> Event[Any]:
            answer = decode_event_untrusted(parse_topic_untrusted(text), payload)
            problem = response_problem(request, answer.data)  # type: ignore[arg-type]  # by its topic it is a response
            if problem is not None:
                raise BadCoatyMessage(problem, source=answer.source_id)
            return Event(answer.source_id, answer.data)

        responses: Responses[Any] = self.peer.dispatch.observe([str(topic)], read_untrusted, Responses)
        await self._publish_message(message, name)
        return responses

    # --- observing -----------------------------------------------------------------------------------------------

    def observe_advertise(
        self, *, core_type: str | None = None, object_type: str | None = None
    ) -> Observation[Event[Advertise]]:
        return self._observe(EventType.ADVERTISE, _type_filter(core_type, object_type), _of_type(object_type))

    def observe_deadvertise(self) -> Observation[Event[Deadvertise]]:
        """Objects that were withdrawn, and the last wills of agents that died."""
        return self._observe(EventType.DEADVERTISE, None)

    def observe_channel(self, channel: str) -> Observation[Event[Channel]]:
        return self._observe(EventType.CHANNEL, channel)

    def observe_associate(self, context: str) -> Observation[Event[Associate]]:
        return self._observe(EventType.ASSOCIATE, context)

    def observe_io_values(self, actor_id: str) -> Observation[Any]:
        """The values that an IO actor of this agent gets: JSON, or bytes if it has ``useRawIoValues``."""
        return self._io.observe_values(actor_id)

    def observe_io_state(self, point_id: str) -> Observation[IoState]:
        return self._io.observe_state(point_id)

    def observe_raw(self, topic: str) -> Observation[RawEvent]:
        require_raw_topic(topic)
        return self.peer.dispatch.observe([topic], RawEvent, Observation)

    def observe_discover(self) -> Observation[Question[Discover, Resolve]]:
        return self._observe_questions(EventType.DISCOVER, None)

    def observe_query(self) -> Observation[Question[Query, Retrieve]]:
        return self._observe_questions(EventType.QUERY, None)

    def observe_update(
        self, *, core_type: str | None = None, object_type: str | None = None
    ) -> Observation[Question[Update, Complete]]:
        return self._observe_questions(EventType.UPDATE, _type_filter(core_type, object_type), _of_type(object_type))

    def observe_call(self, operation: str, context: JsonObject | None = None) -> Observation[Question[Call, Return]]:
        """Calls of this operation; with a context, only calls whose filter the context matches."""
        return self._observe_questions(EventType.CALL, operation, lambda call: call.concerns(context))

    def _observe(
        self, event: EventType, name: str | None, wanted: Callable[[Any], bool] = lambda data: True
    ) -> Observation[Event[Any]]:
        topic = Topic(self.namespace, event, name)

        def read_untrusted(text: str, payload: bytes) -> Event[Any] | None:
            message = decode_event_untrusted(topic, payload)
            return Event(message.source_id, message.data) if wanted(message.data) else None

        return self.peer.dispatch.observe([str(topic)], read_untrusted, Observation)

    def _observe_questions(
        self, event: EventType, name: str | None, wanted: Callable[[Any], bool] = lambda data: True
    ) -> Observation[Question[Any, Any]]:
        topic = Topic(self.namespace, event, name)

        def read_untrusted(text: str, payload: bytes) -> Question[Any, Any] | None:
            message = decode_event_untrusted(topic, payload)
            correlation_id = message.correlation_id
            assert correlation_id is not None, "two-way events have one"
            if not wanted(message.data):
                return None

            async def reply(response: Any) -> None:
                problem = response_problem(message.data, response)  # type: ignore[arg-type]  # by its topic a request
                if problem is not None:
                    raise UsageError(problem)
                await self._publish_message(Message(self.id, response, correlation_id))

            return Question(message.source_id, message.data, correlation_id, reply)

        return self.peer.dispatch.observe([str(topic)], read_untrusted, Observation)

    # --- publishing ----------------------------------------------------------------------------------------------

    async def _publish(self, data: EventData, name: str | None = None) -> None:
        await self._publish_message(Message(self.id, data), name)

    async def _publish_message(self, message: Message, name: str | None = None) -> None:
        await self.peer.publish(self._publications(message, name))

    def _publications(self, message: Message, name: str | None = None) -> list[Publication]:
        payload = encode_payload(message)
        return [Publication(str(topic), payload) for topic in topics_of(self.namespace, message, name)]


def _type_filter(core_type: str | None, object_type: str | None) -> str:
    if (core_type is None) == (object_type is None):
        raise UsageError("give either core_type or object_type")
    return core_type if core_type is not None else observed_filter(str(object_type))


def _of_type(object_type: str | None) -> Callable[[Any], bool]:
    """Some object types have no topic of their own: what comes on that of their core type is looked through."""
    return lambda data: object_type is None or data.object["objectType"] == object_type


def _bootstrap(address: str) -> Multiaddr:
    found = multiaddr.parse(address)
    if found.peer is None or found.tcp_endpoint is None:
        raise UsageError("an agent's address looks like /ip4/127.0.0.1/tcp/4001/p2p/PEER", have=repr(address))
    return found
