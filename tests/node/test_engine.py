"""The engine: what effects lead to waits its turn, time is kept for both machines, and a bug stops everything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from weft import membership
from weft.core import Broker, BrokerSettings
from weft.core import messages as core
from weft.errors import StorageError
from weft.log import MemoryStore, open_store
from weft.membership import Health, Members, NodeState
from weft.model import Epoch, NodeId, Pattern
from weft.node.engine import Engine

ME = NodeId("a")
PEER = NodeId("b")


class Links:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def send(self, effect: object) -> None:
        self.asked.append(("send", effect))

    def send_member(self, peer: NodeId, message: object) -> None:
        self.asked.append(("send_member", peer, type(message).__name__))

    def dial(self, address: str) -> None:
        self.asked.append(("dial", address))

    def disconnect(self, peer: NodeId, reason: str) -> None:
        self.asked.append(("disconnect", peer, reason))


class Bench:
    def __init__(self) -> None:
        log = open_store(MemoryStore(), lambda: Epoch(1))
        own = NodeState(ME, incarnation=1, version=1, epoch=Epoch(1))
        self.members = Members(own, membership.Settings(), Random(1), ["127.0.0.1:1"])  # noqa: S311 - not a secret
        self.broker = Broker(ME, log, BrokerSettings(), wall_offset_s=0.0)
        self.served: list[object] = []
        self.news: list[object] = []
        self.kicks = 0
        self.failures: list[StorageError] = []
        self.damage: list[StorageError] = []
        self.links = Links()
        self.engine = Engine(
            self.broker,
            self.members,
            serve=self.served.append,
            call=self.served.append,
            news=self.news.append,
            kick=self._kick,
            damaged=self.damage.append,
            failed=self.failures.append,
            buckets_found=lambda: None,
            now_s=time.monotonic,
        )
        self.engine.links = self.links

    def _kick(self) -> None:
        self.kicks += 1


@asynccontextmanager
async def working_bench() -> AsyncIterator[Bench]:
    bench = Bench()
    try:
        yield bench
    finally:
        bench.engine.stop()


def subscribe(number: int = 1) -> core.Subscribe:
    return core.Subscribe(number, Pattern("plant.>"), core.Edge.LATEST, credit_bytes=1)


async def test_starting_dials_and_what_this_node_wants_becomes_known() -> None:
    async with working_bench() as bench:
        bench.engine.start()
        assert ("dial", "127.0.0.1:1") in bench.links.asked
        assert "plant.>" not in bench.members.own.interest
        bench.engine.feed(subscribe())
        async with asyncio.timeout(30):
            while "plant.>" not in bench.members.own.interest:  # by the timer: interest is told a little later
                await asyncio.sleep(0.001)
        assert bench.broker.routes.states[ME].interest == bench.members.own.interest
        assert bench.kicks > 0


async def test_a_link_is_heard_of_by_both_machines() -> None:
    async with working_bench() as bench:
        bench.engine.start()
        bench.engine.feed_member(membership.LinkUp(PEER))
        assert ("send_member", PEER, "Gossip") in bench.links.asked
        assert bench.broker.routes.states[ME].neighbours == (PEER,)
        assert any(isinstance(each, membership.HealthChanged) for each in bench.news)


async def test_what_an_effect_leads_to_waits_until_the_step_is_done() -> None:
    async with working_bench() as bench:
        bench.engine.start()
        steps: list[str] = []
        step = bench.broker.step

        def noting(event: core.Input, now_s: float) -> list[core.Effect]:
            steps.append(f"begin {type(event).__name__}")
            effects = step(event, now_s)
            steps.append(f"end {type(event).__name__}")
            return effects

        def answering(effect: object) -> None:
            if isinstance(effect, core.Opened):
                bench.engine.feed(core.Unsubscribe(1))

        bench.broker.step = noting  # type: ignore[method-assign]
        bench.engine._serve = answering
        bench.engine.feed(subscribe())
        assert steps[:4] == ["begin Subscribe", "end Subscribe", "begin Unsubscribe", "end Unsubscribe"]


async def test_a_peer_that_broke_the_protocol_is_disconnected() -> None:
    async with working_bench() as bench:
        bench.engine.start()
        bench.broker.step = lambda *_: [core.DropLink(PEER, "nonsense")]  # type: ignore[method-assign]
        bench.engine.feed(core.Tick())
        assert ("disconnect", PEER, "nonsense") in bench.links.asked


async def test_damage_that_core_met_is_handed_on() -> None:
    async with working_bench() as bench:
        bench.engine.start()
        damage = StorageError("flipped bits")
        bench.broker.step = lambda *_: [core.DamageFound(damage)]  # type: ignore[method-assign]
        bench.engine.feed(core.Tick())
        assert bench.damage == [damage]
        assert not bench.failures


@pytest.mark.req("PL-03")
@pytest.mark.parametrize("plain", [False, True])
async def test_a_peer_whose_heartbeats_are_missed_is_dialled_again(plain: bool) -> None:
    """But a plain one, which may have no heartbeats to send, is only called unhealthy."""

    async with working_bench() as bench:
        bench.engine.start()
        bench.engine.feed_member(membership.LinkUp(PEER, gossips=not plain))
        bench.engine.feed(core.LinkUp(PEER, plain))
        change = membership.HealthChanged(PEER, Health.HEALTHY, Health.UNHEALTHY)
        bench.members.step = lambda *_: [change]  # type: ignore[method-assign]
        bench.engine.feed_member(membership.Tick())
        assert change in bench.news
        assert (("disconnect", PEER, "its heartbeats were missed") in bench.links.asked) is not plain


@pytest.mark.parametrize(
    ("error", "words"),
    [(StorageError("on fire"), "on fire"), (KeyError("bug"), "a step failed: KeyError: 'bug'")],
)
async def test_an_error_in_a_step_ends_the_engine(error: Exception, words: str) -> None:
    async with working_bench() as bench:
        bench.engine.start()

        def fail(*_: object) -> Iterable[core.Effect]:
            raise error

        bench.broker.step = fail  # type: ignore[assignment, method-assign]
        bench.engine.feed(subscribe())
        bench.engine.feed(subscribe(2))
        assert [str(each) for each in bench.failures] == [words]
        before = len(bench.links.asked)
        bench.engine.feed_member(membership.LinkUp(PEER))
        assert len(bench.links.asked) == before
