"""The service for operators: what the node says of itself, of its peers, of groups, and of where a topic goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import grpc

from weft.errors import WeftError
from weft.model import NodeId, Topic, parse_node_id, parse_topic
from weft.transport.grpc.access import Access, admitted
from weft.transport.grpc.mesh_errors import abort
from weft.transport.grpc.mesh_service import unary
from weft.wire.mesh import mesh_pb2 as pb

ADMIN: Final = "weft.mesh.v1.Admin"
Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Answers(Protocol):
    """What the node knows. Raises WeftError for what cannot be meant."""

    def status(self) -> pb.StatusReply: ...

    def peers(self) -> pb.PeersReply: ...

    def groups(self, group: str) -> pb.GroupsReply: ...

    def explain(self, topic: Topic, origin: NodeId | None) -> pb.ExplainReply: ...


def add_admin(server: grpc.aio.Server, answers: Answers, access: Access) -> None:
    def explain(request: pb.ExplainRequest) -> pb.ExplainReply:
        origin = parse_node_id(request.origin) if request.origin else None
        return answers.explain(parse_topic(request.topic), origin)

    def answering(what: str, answer: Callable[[Any], Reply]) -> Callable[[Any, Any], Awaitable[Reply]]:
        async def call(request: Any, context: Any) -> Reply:
            caller = await admitted(access, context)
            try:
                caller.check_admin(what)
                return answer(request)
            except WeftError as error:
                await abort(context, error)

        return call

    handlers = {
        "Status": unary(answering("see the status", lambda _: answers.status()), pb.StatusRequest),
        "Peers": unary(answering("see the peers", lambda _: answers.peers()), pb.PeersRequest),
        "Groups": unary(answering("see groups", lambda request: answers.groups(request.group)), pb.GroupsRequest),
        "Explain": unary(answering("see routes", explain), pb.ExplainRequest),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(ADMIN, handlers),))
