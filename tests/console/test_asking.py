"""The same question to several nodes: what each says, and why one says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from weft.console.asking import CHANNELS_MAX, NODES_ASKED_MAX, Asker, Asking, CannotAsk, Dial
from weft.errors import PeerError, WeftError
from weft.membership import NodeState
from weft.membership.state import Liveness
from weft.model import Epoch, NodeId
from weft.port.access import EVERYBODY, Caller
from weft.port.node import MeshNode
from weft.security import Secret
from weft.transport.grpc.channel import Channel
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.rpc import Metadata, RpcError, StatusCode

KEY = Secret("weft_k1_secret")
ASKER = Asker(Caller(EVERYBODY, lambda error, who: None), KEY)


class FakeNode:
    node_id = NodeId("a")


class FakeChannel:
    """Another node. It answers with the address it was dialled at, or fails."""

    def __init__(self, address: str, failure: WeftError | None = None, reply: bytes | None = None) -> None:
        self.address = address
        self.failure = failure
        self.reply = reply
        self.metadata: list[Metadata] = []
        self.closed = False

    async def unary(self, path: str, request: bytes, metadata: Metadata, timeout_s: float) -> bytes:
        assert path == "/weft.mesh.v1.Admin/Status"
        self.metadata.append(metadata)
        if self.failure is not None:
            raise self.failure
        return pb.StatusReply(node_id=self.address).SerializeToString() if self.reply is None else self.reply

    def close(self) -> None:
        self.closed = True

    async def wait_closed(self) -> None:
        assert self.closed


def state(name: str, liveness: Liveness = Liveness.ALIVE) -> NodeState:
    return NodeState(NodeId(name), 1, 1, Epoch(1), liveness, (f"{name}.example:7400",))


def asking(
    others: Sequence[NodeState], channels: dict[str, FakeChannel], names: dict[str, str] | None = None
) -> Asking:
    async def dial(address: str) -> tuple[Channel, str | None]:
        name = address.split(".")[0]
        if name not in channels:
            raise PeerError("nobody answers")
        return cast(Channel, channels[name]), (names or {}).get(name, name)

    async def status(request: pb.StatusRequest, caller: Caller) -> pb.StatusReply:
        caller.check_admin("see the status")
        return pb.StatusReply(node_id="a")

    node = cast(MeshNode, FakeNode())
    return Asking(node, {"Status": status}, lambda: others, cast(Dial, dial))


def asked(asking: Asking) -> dict[str, Any]:
    async def story() -> dict[str, Any]:
        replies = await asking.everywhere("Status", pb.StatusRequest(), ASKER)
        await asking.close()
        return replies

    return asyncio.run(story())


@pytest.mark.req("SEE-01", "SEC-02")
def test_every_node_is_asked_with_the_callers_own_key() -> None:
    channels = {name: FakeChannel(name) for name in "bcd"}
    replies = asked(asking([state("b"), state("c"), state("d", Liveness.DEAD)], channels))
    assert {name: reply.node_id for name, reply in replies.items()} == {"a": "a", "b": "b", "c": "c"}
    assert channels["b"].metadata == [(("authorization", f"Bearer {KEY.reveal()}"),)]
    assert channels["d"].metadata == [] and all(channels[name].closed for name in "bc")


@pytest.mark.req("SEE-01")
@pytest.mark.parametrize(
    ("channel", "why"),
    [
        (None, "nobody answers"),
        (FakeChannel("b", RpcError(StatusCode.UNAUTHENTICATED, "key k1 is not valid")), "it does not know your key"),
        (FakeChannel("b", RpcError(StatusCode.DEADLINE_EXCEEDED)), "deadline exceeded"),
        (FakeChannel("b", reply=b"\xff\xff"), "its answer cannot be read"),
    ],
)
def test_a_node_that_says_nothing_is_told_of_and_the_others_answer(channel: FakeChannel | None, why: str) -> None:
    channels = {"c": FakeChannel("c")} | ({} if channel is None else {"b": channel})
    replies = asked(asking([state("b"), state("c")], channels))
    assert isinstance(replies["b"], PeerError) and replies["b"].what == why
    assert replies["c"].node_id == "c"


@pytest.mark.req("SEE-01", "SEC-01")
def test_the_key_is_not_sent_to_a_node_that_is_another_one() -> None:
    channel = FakeChannel("b")
    replies = asked(asking([state("b")], {"b": channel}, {"b": "mallory"}))
    assert isinstance(replies["b"], CannotAsk) and "another node answers" in replies["b"].what
    assert channel.metadata == [] and channel.closed


@pytest.mark.req("SEE-01", "SEC-05")
def test_of_a_large_mesh_some_are_asked_and_few_connections_kept() -> None:
    others = [state(f"n{number:03}") for number in range(200)]
    channels = {each.node_id: FakeChannel(each.node_id) for each in others}
    assert len(asked(asking(others, cast(dict[str, FakeChannel], channels)))) == NODES_ASKED_MAX + 1
    assert sum(bool(each.metadata) for each in channels.values()) == NODES_ASKED_MAX <= CHANNELS_MAX


@pytest.mark.req("SEE-01")
def test_without_a_way_to_others_only_this_node_answers() -> None:
    alone = asking([state("b")], {"b": FakeChannel("b")})
    alone._dial = None
    assert set(asked(alone)) == {"a"}
