"""The simulated network keeps the promises of a connection, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from weft.model import NodeId
from weft.testing.sim.calls import SimCall
from weft.testing.sim.loop import Clock, new_loop
from weft.testing.sim.network import Host, Network, SimConnection, edge_of
from weft.testing.sim.schedule import Schedule, chance_of
from weft.transport.peers.byte_streams import AcceptedCall, LinkBroken
from weft.transport.peers.links import CONTROL_STREAM, EVENT_STREAM
from weft.wire.rpc import RpcError, StatusCode

A, B = NodeId("a"), NodeId("b")


class Ends:
    """Node a dials node b, which writes down what it gets."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        chance = chance_of(1, "test")
        self.network = Network(self.schedule, chance, self)
        self.got: list[int] = []
        self.said: list[str] = []
        self.reads = True
        self.answer = RpcError(StatusCode.UNAVAILABLE, "no more")
        handlers = {EVENT_STREAM: self._serve, CONTROL_STREAM: self._serve}
        self.a = Host(A, new_loop("a", self.schedule, Clock(), chance, 0.0), {})
        self.b: Host | None = Host(B, new_loop("b", self.schedule, Clock(), chance, 0.0), handlers)

    def host(self, node: NodeId) -> Host | None:
        return self.b

    async def _serve(self, call: AcceptedCall) -> None:
        try:
            while self.reads and (message := await call.read()) is not None:
                self.got.append(int(message))
            await asyncio.sleep(1000.0 if not self.reads else 0.0)
            raise self.answer
        except asyncio.CancelledError:
            self.said.append("b is cancelled")
            raise

    def do(self, action: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.a.loop.run_on(lambda: self.a.loop.create_task(action))

    def connect(self, path: str = EVENT_STREAM) -> tuple[SimConnection, SimCall]:
        found: list[tuple[SimConnection, SimCall]] = []

        async def dial() -> None:
            connection = await self.network.dial(self.a, B)
            found.append((connection, await connection.call(path, ())))

        self.do(dial())
        self.schedule.run(1.0)
        return found[0]

    async def read(self, call: SimCall) -> None:
        try:
            while await call.read() is not None:
                pass
            self.said.append("a reads the end")
        except RpcError as error:
            self.said.append(f"a reads: {error.details}")


def test_frames_of_events_arrive_in_order_whatever_their_delays() -> None:
    ends = Ends()
    _, call = ends.connect()
    ends.network.conditions.delay_s_max = 3.0
    for number in range(50):
        call.write_nowait(b"%d" % number)
    ends.schedule.run(10.0)
    assert ends.got == list(range(50))


def test_gossip_may_be_lost_repeated_and_overtaken_but_a_hello_comes_first() -> None:
    ends = Ends()
    conditions = ends.network.conditions
    conditions.delay_s_max, conditions.loss, conditions.duplication, conditions.reordering = 0.4, 0.3, 0.3, 0.5
    _, call = ends.connect(CONTROL_STREAM)
    for number in range(100):
        call.write_nowait(b"%d" % number)
    ends.schedule.run(10.0)
    assert ends.got[0] == 0
    assert len(set(ends.got)) < 100
    assert len(ends.got) > len(set(ends.got))
    assert ends.got != sorted(ends.got)


def test_who_writes_waits_until_the_other_end_reads() -> None:
    ends = Ends()
    ends.reads = False
    ends.network.conditions.window_bytes = 10
    _, call = ends.connect()
    written: list[int] = []

    async def write() -> None:
        for number in range(10, 30):
            await call.write(b"%d" % number)
            written.append(number)

    ends.do(write())
    ends.schedule.run(10.0)
    assert written == [10, 11, 12, 13, 14]
    assert ends.got == []


def test_a_status_follows_what_was_written() -> None:
    ends = Ends()
    _, call = ends.connect()
    ends.do(ends.read(call))
    call.write_nowait(b"1")
    call.end()
    ends.schedule.run(5.0)
    assert ends.got == [1]
    assert ends.said == ["a reads: no more"]


@pytest.mark.parametrize("silent", [0.0, 1.0])
def test_a_break_loses_what_is_under_way_and_both_ends_hear_of_it_in_time(silent: float) -> None:
    ends = Ends()
    connection, call = ends.connect()
    ends.network.conditions.silent = silent
    ends.do(ends.read(call))
    call.write_nowait(b"1")
    connection.break_()
    call.write_nowait(b"2")
    ends.schedule.run(0.2)
    assert len(ends.said) == (0 if silent else 2)
    ends.schedule.run(20.0)
    assert ends.got == []
    assert sorted(ends.said) == ["a reads: the connection was lost", "b is cancelled"]
    assert not ends.network.links[edge_of(A, B)].connections


def test_what_was_sent_before_a_connection_is_closed_arrives() -> None:
    ends = Ends()
    connection, call = ends.connect()
    ends.network.conditions.delay_s_max = 2.0
    call.write_nowait(b"1")
    connection.close()
    ends.schedule.run(5.0)
    assert ends.got == [1]
    assert ends.said == ["b is cancelled"]


def refused(spoil: Callable[[Ends], object]) -> str:
    ends = Ends()
    ends.connect()
    spoil(ends)
    said: list[str] = []

    async def dial() -> None:
        try:
            async with asyncio.timeout(100.0):
                await ends.network.dial(ends.a, B)
        except (LinkBroken, TimeoutError) as error:
            said.append(type(error).__name__)

    ends.do(dial())
    ends.schedule.run(200.0)
    return said[0]


def nobody(ends: Ends) -> None:
    ends.b = None


def nobody_answers(ends: Ends) -> None:
    ends.b, ends.network.conditions.silent = None, 1.0


def test_nobody_connects_where_nobody_is_nor_over_a_cut_nor_over_a_link_that_is_stalled() -> None:
    edge = edge_of(A, B)
    assert refused(nobody) == "LinkBroken"
    assert refused(nobody_answers) == "TimeoutError"
    assert refused(lambda ends: ends.network.cut([edge])) == "LinkBroken"
    assert refused(lambda ends: setattr(ends.network.links[edge], "stalled_s", 50.0)) == "TimeoutError"


def test_a_stalled_link_carries_what_was_sent_when_the_stall_is_over() -> None:
    ends = Ends()
    _, call = ends.connect()
    ends.network.links[edge_of(A, B)].stalled_s = 30.0
    call.write_nowait(b"1")
    ends.schedule.run(25.0)
    assert ends.got == []
    ends.schedule.run(10.0)
    assert ends.got == [1]


def test_nobody_hears_from_who_is_gone() -> None:
    ends = Ends()
    _, call = ends.connect()
    ends.do(ends.read(call))
    call.write_nowait(b"1")
    assert ends.b is not None
    ends.network.gone(ends.b)
    ends.b.loop.die()
    ends.schedule.run(30.0)
    assert ends.got == []
    assert "a reads: the connection was lost" in ends.said
