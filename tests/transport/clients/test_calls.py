"""What a stream of calls takes from its caller's account, and gives back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from weft.errors import UsageError
from weft.model import Pattern
from weft.port.access import OpenAccess
from weft.port.calls import CallDesk
from weft.port.node import MeshNode
from weft.port.quotas import Usage
from weft.transport.clients.calls import CallStream
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import mesh_pb2 as pb


class Desk:
    def __init__(self) -> None:
        self.serving: set[int] = set()

    def serve(self, client: CallStream, server: int, pattern: Pattern, slots: int) -> None:
        if server in self.serving:
            raise UsageError("two servers with one number", number=server)
        self.serving.add(server)

    def leave(self, client: CallStream) -> None: ...


class Call:
    unsent_bytes = 0

    def __init__(self) -> None:
        self.said: list[pb.CallsReply] = []

    def write_now(self, data: bytes) -> None:
        self.said.append(pb.CallsReply.FromString(data))

    async def read(self) -> bytes | None:
        return None


@pytest.mark.req("SEC-05")
async def test_a_server_that_is_refused_takes_no_other_out_of_the_account() -> None:
    usage, call = Usage("key k1"), Call()
    quotas = SimpleNamespace(usage=lambda caller: usage)
    node = SimpleNamespace(quotas=quotas, count_refusal=lambda error: None)
    desk, caller = cast("CallDesk", Desk()), OpenAccess().anybody()
    stream = CallStream(cast("MeshNode", node), desk, caller, cast("ServerCall", call))
    for _ in range(3):
        stream._serve(pb.CallsServe(number=1, pattern="shop.>", slots=1))
    assert [each.serving.HasField("error") for each in call.said] == [False, True, True]
    assert usage.subscriptions == 1
    await stream.run()
    assert usage.subscriptions == 0, "nothing is left on the account when the stream is over"
