"""The same question to this node and to others, in the name of the user who is signed in."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from weft.errors import PeerError, WeftError
from weft.limits import MIB
from weft.membership import NodeState
from weft.model import NodeId
from weft.port.access import Caller
from weft.port.node import MeshNode
from weft.security import Secret
from weft.transport.clients.admin import Method
from weft.transport.clients.queries import Queries
from weft.transport.clients.service import ADMIN, MESH
from weft.transport.grpc.channel import Channel
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.rpc import RpcError, StatusCode

NODES_ASKED_MAX: Final = 32  # beside this one, for one question; of the others the page has what gossip says
CHANNELS_MAX: Final = 64  # connections to other nodes that are kept
ASK_TIMEOUT_S: Final = 3.0  # somebody looks at the page
DIAL_TIMEOUT_S: Final = 3.0
FETCHED_BYTES_MAX: Final = 16 * MIB  # of one fetch from another node

Dial = Callable[[str], Awaitable[tuple[Channel, str | None]]]  # a channel, and who proved to be there

REPLIES: Final[Mapping[str, type[Message]]] = {
    "Topics": pb.TopicsReply,
    "Positions": pb.PositionsReply,
    "Status": pb.StatusReply,
    "Peers": pb.PeersReply,
    "Groups": pb.GroupsReply,
    "Explain": pb.ExplainReply,
}


class CannotAsk(PeerError):
    """Another node gives no answer, and why."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A user who is signed in: rights for this node, and the key for others."""

    caller: Caller
    key: Secret[str] | None


class Asking:
    """``admin`` are the methods of the service for operators. ``others`` are the other members. ``dial`` raises
    PeerError; None: other nodes are not asked."""

    def __init__(
        self,
        node: MeshNode,
        admin: Mapping[str, Method],
        others: Callable[[], Iterable[NodeState]],
        dial: Dial | None,
    ) -> None:
        self.node = node
        self._others = others
        self._dial = dial
        self._channels: OrderedDict[NodeId, tuple[str, Channel]] = OrderedDict()  # the least recently used first
        queries = Queries(node)
        self._methods: dict[str, tuple[Method, str]] = {
            "Topics": (queries.topics, MESH),
            "Positions": (queries.positions, MESH),
        }
        self._methods |= {name: (method, ADMIN) for name, method in admin.items()}

    # --- questions -----------------------------------------------------------------------------------------------

    async def here(self, method: str, request: Message, asker: Asker) -> Any:
        """Raise WeftError, as gRPC clients get it."""
        return await self._methods[method][0](request, asker.caller)

    async def everywhere(self, method: str, request: Message, asker: Asker) -> dict[str, Any]:
        """For each node its reply or its WeftError. A refusal by this node is raised."""
        replies: dict[str, Any] = {self.node.node_id: await self.here(method, request, asker)}
        asked = [state for state in self._others() if not state.liveness.gone and state.addresses]
        if self._dial is not None:
            answers = await asyncio.gather(*(self._try(state, method, request, asker) for state in _first(asked)))
            replies |= {state.node_id: answer for state, answer in zip(_first(asked), answers, strict=True)}
        return replies

    async def at(self, node_id: NodeId, method: str, request: Message, asker: Asker) -> Any:
        if node_id == self.node.node_id:
            return await self.here(method, request, asker)
        reply = await self._try(self._state(node_id), method, request, asker)
        if isinstance(reply, WeftError):
            raise reply
        return reply

    async def fetch(self, node_id: NodeId, request: pb.FetchRequest, asker: Asker) -> list[bytes]:
        """Stored batches of another node, at most FETCHED_BYTES_MAX; raise WeftError."""
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                return await self._fetch(node_id, request, asker)
        except TimeoutError:
            raise CannotAsk("it does not answer in time", node=node_id, waited_s=ASK_TIMEOUT_S) from None

    # --- other nodes ---------------------------------------------------------------------------------------------

    async def _try(self, state: NodeState, method: str, request: Message, asker: Asker) -> Any:
        path = f"/{self._methods[method][1]}/{method}"
        try:
            channel = await self._channel(state)
            data = await channel.unary(path, request.SerializeToString(), _metadata(asker), ASK_TIMEOUT_S)
            reply: Any = REPLIES[method]()
            reply.ParseFromString(data)
            return reply
        except RpcError as error:
            return _translated(error, state.node_id)
        except DecodeError:
            return CannotAsk("its answer cannot be read", node=state.node_id)
        except PeerError as error:
            return error

    async def _fetch(self, node_id: NodeId, request: pb.FetchRequest, asker: Asker) -> list[bytes]:
        channel = await self._channel(self._state(node_id))
        batches: list[bytes] = []
        size = 0
        try:
            call = await channel.call(f"/{MESH}/Fetch", _metadata(asker), ASK_TIMEOUT_S)
            try:
                call.write_nowait(request.SerializeToString())
                call.end()
                while size < FETCHED_BYTES_MAX and (data := await call.read()) is not None:
                    reply = pb.FetchReply()
                    reply.ParseFromString(data)
                    if reply.HasField("error"):
                        raise CannotAsk(reply.error.message, node=node_id)
                    batches += reply.fetched.batches
                    size += len(data)
            finally:
                call.cancel()
        except RpcError as error:
            raise _translated(error, node_id) from None
        except DecodeError:
            raise CannotAsk("its answer cannot be read", node=node_id) from None
        return batches

    def _state(self, node_id: NodeId) -> NodeState:
        found = next((state for state in self._others() if state.node_id == node_id), None)
        if found is None or not found.addresses or self._dial is None:
            raise CannotAsk("this node cannot be asked", node=node_id)
        return found

    async def _channel(self, state: NodeState) -> Channel:
        """The connection to a node whose identity was checked."""
        address = state.addresses[0]
        kept = self._channels.get(state.node_id)
        if kept is not None and kept[0] == address:
            self._channels.move_to_end(state.node_id)
            return kept[1]
        assert self._dial is not None, "asked before"
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                channel, name = await self._dial(address)
        except TimeoutError:
            raise CannotAsk("it cannot be reached in time", node=state.node_id, address=address) from None
        if name not in (None, state.node_id):
            channel.close()
            raise CannotAsk("another node answers at its address", node=state.node_id, found=name)
        self._keep(state.node_id, address, channel)
        return channel

    def _keep(self, node_id: NodeId, address: str, channel: Channel) -> None:
        before = self._channels.pop(node_id, None)
        self._channels[node_id] = (address, channel)
        if before is not None:
            before[1].close()
        if len(self._channels) > CHANNELS_MAX:
            self._channels.popitem(last=False)[1][1].close()

    def forget_gone(self) -> None:
        """Close the connections to nodes that are down or have left."""
        alive = {state.node_id for state in self._others() if not state.liveness.gone}
        for node_id in [each for each in self._channels if each not in alive]:
            self._channels.pop(node_id)[1].close()

    async def close(self) -> None:
        channels = [channel for _, channel in self._channels.values()]
        self._channels.clear()
        for channel in channels:
            channel.close()
        for channel in channels:
            await channel.wait_closed()


def _first(states: list[NodeState]) -> list[NodeState]:
    return sorted(states, key=lambda state: state.node_id)[:NODES_ASKED_MAX]


def _metadata(asker: Asker) -> tuple[tuple[str, str], ...]:
    return () if asker.key is None else (("authorization", f"Bearer {asker.key.reveal()}"),)


def _translated(error: RpcError, node_id: NodeId) -> CannotAsk:
    if error.status is StatusCode.UNAUTHENTICATED:
        return CannotAsk("it does not know your key", node=node_id)
    return CannotAsk(error.details or error.status.name.lower().replace("_", " "), node=node_id)
