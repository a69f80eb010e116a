"""Clients that ask and serve, as the node that drains sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from weft.core.call_messages import CallInput, Handed, Question, Reply, Serve
from weft.core.calls import Calls
from weft.errors import WeftError
from weft.model import NodeId, Pattern, Topic
from weft.node.calls import NodeCalls
from weft.node.clients import Clients

QUESTION = Question(Topic("shop.price"), b"tea", {}, 60.0)


class Places:
    """As much of ``Clients`` as ``NodeCalls`` needs."""

    node_id = NodeId("a")
    call_streams = 0

    def admit(self) -> None: ...
    def check_open(self) -> None: ...


class Server:
    def replied(self, number: int, reply: Reply) -> None: ...
    def failed(self, number: int, error: WeftError) -> None: ...
    def handed(self, server: int, handle: int, question: Question) -> None: ...
    def over(self, handle: int) -> None: ...
    def took(self, handle: int, count: int) -> None: ...
    def ended(self, error: WeftError) -> None: ...


@pytest.mark.req("CON-04")
@pytest.mark.parametrize(
    "go",
    [
        pytest.param(lambda desk, server: desk.leave(server), id="with its stream"),
        pytest.param(lambda desk, server: desk.stop_serving(server, 1, gone=True), id="by itself"),
    ],
)
async def test_a_node_that_drains_does_not_wait_for_a_server_that_went_with_a_request_of_another_node_in_hand(
    go: Callable[[NodeCalls, Server], None],
) -> None:
    fed: list[CallInput] = []
    desk = NodeCalls(cast("Calls", None), cast("Clients", Places()), fed.append, lambda: 0.0, 1)
    server = Server()
    desk.join(server)
    desk.serve(server, 1, Pattern("shop.>"), 1)
    (serves,) = fed
    assert isinstance(serves, Serve)
    desk.perform(Handed(serves.server, 7, QUESTION))
    desk.drain()
    waiting = asyncio.create_task(desk.wait_done())
    await asyncio.sleep(0)
    assert not waiting.done(), "the server may still answer"
    go(desk, server)
    for _ in range(10):
        await asyncio.sleep(0)
    assert waiting.done()
