"""The service for operators: what the node says about itself, its peers, groups, the way of a topic and API keys. It
also makes and revokes API keys, and makes the node leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from weft.core.groups import parse_group
from weft.core.policy import GroupPolicy
from weft.model import NodeId, Topic, parse_node_id, parse_topic
from weft.port.access import Caller
from weft.port.pages import PageRoom, read_text_token_untrusted, room_for
from weft.transport.clients.values import read_policy_untrusted
from weft.wire.mesh import mesh_pb2 as pb


class Answers(Protocol):
    """What the node knows. Raises WeftError for a request that makes no sense."""

    async def status(self) -> pb.StatusReply: ...

    async def peers(self, room: PageRoom, after: str) -> pb.PeersReply:
        """The peers whose names come after this one, as many as fit."""

    async def groups(self, group: str, shown: Callable[[str], bool], room: PageRoom, token: bytes) -> pb.GroupsReply:
        """The groups that are ``shown``, as many as fit, beginning where the token of the last page says."""

    async def explain(self, topic: Topic, origin: NodeId | None, room: PageRoom, after: str) -> pb.ExplainReply:
        """The way of a topic, for the nodes whose names come after this one, as many as fit."""

    async def set_group(self, group: str, policy: GroupPolicy) -> None:
        """Durable when this returns."""

    def leave(self) -> pb.LeaveReply:
        """Begin to shut down; calls under way are finished, including this one."""


class KeyAnswers(Protocol):
    """What the node knows about API keys, and what it does with them. Raises WeftError for a request that makes no
    sense."""

    async def keys(self, key: str, room: PageRoom, after: str) -> pb.KeysReply:
        """The keys whose ids come after this one, as many as fit."""

    async def create(self, record: bytes, caller: Caller) -> pb.CreateKeyReply:
        """``record`` is JSON from outside."""

    async def revoke(self, key: str, caller: Caller) -> pb.RevokeKeyReply: ...


Method = Callable[[Any, Caller], Awaitable[Any]]


def admin_methods(answers: Answers) -> dict[str, tuple[Method, Any]]:
    """The methods by name: what answers each, and the request it takes."""

    async def explain(request: pb.ExplainRequest, caller: Caller) -> pb.ExplainReply:
        caller.check_admin("see routes")
        origin = parse_node_id(request.origin) if request.origin else None
        after = read_text_token_untrusted(request.page.token)
        return await answers.explain(parse_topic(request.topic), origin, room_for(request), after)

    async def status(request: pb.StatusRequest, caller: Caller) -> pb.StatusReply:
        caller.check_admin("see the status")
        return await answers.status()

    async def peers(request: pb.PeersRequest, caller: Caller) -> pb.PeersReply:
        caller.check_admin("see the peers")
        return await answers.peers(room_for(request), read_text_token_untrusted(request.page.token))

    async def groups(request: pb.GroupsRequest, caller: Caller) -> pb.GroupsReply:
        """All groups that the caller may use. If the request names one, the caller has to have the right to it."""
        if request.group:
            caller.check_group(parse_group(request.group))
        return await answers.groups(request.group, caller.may_see_group, room_for(request), request.page.token)

    async def set_group(request: pb.SetGroupRequest, caller: Caller) -> pb.SetGroupReply:
        caller.check_admin(f"set what group {request.group} does with failing events")
        await answers.set_group(request.group, read_policy_untrusted(request.policy))
        return pb.SetGroupReply()

    async def leave(_: pb.LeaveRequest, caller: Caller) -> pb.LeaveReply:
        caller.check_admin("have the node leave the mesh")
        return answers.leave()

    return {
        "Status": (status, pb.StatusRequest),
        "Peers": (peers, pb.PeersRequest),
        "Groups": (groups, pb.GroupsRequest),
        "Explain": (explain, pb.ExplainRequest),
        "SetGroup": (set_group, pb.SetGroupRequest),
        "Leave": (leave, pb.LeaveRequest),
    }


def key_methods(keys: KeyAnswers) -> dict[str, tuple[Method, Any]]:
    """The methods for API keys by name, in the same form."""

    async def known_keys(request: pb.KeysRequest, caller: Caller) -> pb.KeysReply:
        caller.check_admin("see keys")
        return await keys.keys(request.key, room_for(request), read_text_token_untrusted(request.page.token))

    async def create_key(request: pb.CreateKeyRequest, caller: Caller) -> pb.CreateKeyReply:
        caller.check_admin("make keys")
        return await keys.create(request.record, caller)

    async def revoke_key(request: pb.RevokeKeyRequest, caller: Caller) -> pb.RevokeKeyReply:
        caller.check_admin("revoke keys")
        return await keys.revoke(request.key, caller)

    return {
        "Keys": (known_keys, pb.KeysRequest),
        "CreateKey": (create_key, pb.CreateKeyRequest),
        "RevokeKey": (revoke_key, pb.RevokeKeyRequest),
    }
