"""One connection with a link and a node that the test plays: what is said in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.gateway.exmp.fakes import FakeMesh, delivered
from weft.exmp import JsonObject
from weft.gateway.exmp.admission import OpenAdmission
from weft.gateway.exmp.operations import subscribe
from weft.gateway.exmp.outcomes import RequestCounts
from weft.gateway.exmp.session import ClientSession
from weft.gateway.publishing import Publishing
from weft.port.access import OpenAccess
from weft.port.node import MeshNode
from weft.transport.addresses import Address
from weft.transport.tcp import Answer, ExmpConnection
from weft.wire.exmp import Operation, Outcome, RequestReceived


class FakeLink:
    """A connection whose other side takes everything."""

    tls = None
    peer_address = Address("127.0.0.1", 1)
    is_open = True
    is_congested = False
    requests_out = 0
    pending_max = 10

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def allow_message_bytes(self, bytes_max: int) -> None: ...

    def prove(self) -> None: ...

    def flush(self) -> None: ...

    def respond(self, request_id: int, outcome: Outcome) -> None:
        self.said.append(("answer", outcome))

    def request(self, op: str, data: JsonObject | None, answered: Callable[[Answer], None]) -> None:
        self.said.append((op, data))


@pytest.mark.req("EXM-11")
async def test_a_subscriber_knows_its_number_before_the_first_event_comes() -> None:
    """Answers to events of another subscription, in the turn in which the node opens this one, had its events sent
    before the answer with its number."""

    link, mesh = FakeLink(), FakeMesh()
    node = cast(MeshNode, mesh)
    session = ClientSession(
        cast(ExmpConnection, link),
        node,
        Publishing(node, lambda: 0, "a test"),
        OpenAdmission(OpenAccess()),
        {"subscribe": subscribe},
        set(),
        set(),
        RequestCounts(),
    )
    session.requested([RequestReceived(1, Operation("subscribe", {"pattern": ">"}))])
    await asyncio.sleep(0)  # the node is asked

    def opens() -> None:
        batch = delivered("a", 0, [b"x"])
        mesh.holding.take(len(batch.data))
        mesh.subscriber.opened([], False)
        mesh.subscriber.deliver([batch])

    asyncio.get_running_loop().call_soon(opens)
    session.pump_soon()
    for _ in range(4):
        await asyncio.sleep(0)
    assert [what for what, _ in link.said] == ["answer", "event"]
