"""The service for operators: what the node says of itself, of its peers, of groups, of where a topic goes; and how to
have it leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from weft.model import NodeId, Topic, parse_node_id, parse_topic
from weft.port.access import Caller
from weft.wire.mesh import mesh_pb2 as pb


class Answers(Protocol):
    """What the node knows. Raises WeftError for what cannot be meant."""

    def status(self) -> pb.StatusReply: ...

    def peers(self) -> pb.PeersReply: ...

    def groups(self, group: str) -> pb.GroupsReply: ...

    def explain(self, topic: Topic, origin: NodeId | None) -> pb.ExplainReply: ...

    def leave(self) -> pb.LeaveReply:
        """Begin to shut down; what is under way is finished, this answer included."""


Method = Callable[[Any, Caller], Awaitable[Any]]


def admin_methods(answers: Answers) -> dict[str, tuple[Method, Any]]:
    """By name: what answers, and what it takes."""

    def explain(request: pb.ExplainRequest) -> pb.ExplainReply:
        origin = parse_node_id(request.origin) if request.origin else None
        return answers.explain(parse_topic(request.topic), origin)

    def answering(what: str, answer: Callable[[Any], Any]) -> Method:
        async def method(request: Any, caller: Caller) -> Any:
            caller.check_admin(what)
            return answer(request)

        return method

    return {
        "Status": (answering("see the status", lambda _: answers.status()), pb.StatusRequest),
        "Peers": (answering("see the peers", lambda _: answers.peers()), pb.PeersRequest),
        "Groups": (answering("see groups", lambda request: answers.groups(request.group)), pb.GroupsRequest),
        "Explain": (answering("see routes", explain), pb.ExplainRequest),
        "Leave": (answering("have the node leave the mesh", lambda _: answers.leave()), pb.LeaveRequest),
    }
