"""The way out, with a node that is played by the test: order, pace, and subscriptions that break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import pytest
import structlog

from weft.core.messages import Delivered
from weft.datagram_node import Instant
from weft.errors import StorageError, WeftError
from weft.gateway.emm import outbound as module
from weft.gateway.emm.identity import Identity
from weft.gateway.emm.outbound import Outbound
from weft.gateway.emm.packing import Packed, Packer
from weft.gateway.emm.settings import Out, Target
from weft.model import Batch, Epoch, NodeId, Stream, parse_pattern, parse_topic
from weft.port.errors import ShuttingDown
from weft.port.held import HeldBytes, Holding
from weft.security import Secret, Trust
from weft.wire import emm
from weft.wire.udp import Address, quic_address

WAIT_S = 20.0
ME = Identity(UUID(int=5), Secret(b"e" * 32))
THERE, ELSEWHERE = ("10.0.0.1", 1), ("10.0.0.2", 2)
BY_QUIC = quic_address(("10.0.0.3", 3))
CALM, URGENT = Out(parse_pattern("calm.>")), Out(parse_pattern("urgent.>"), urgent=True)


@dataclass
class FakeMesh:
    subscribers: list[Any] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    held: HeldBytes = field(default_factory=lambda: HeldBytes(1 << 30, 1 << 30))
    holdings: list[Holding] = field(default_factory=list)

    def subscribe(self, subscriber: Any, *rest: Any) -> int:
        self.subscribers.append(subscriber)
        self.holdings.append(rest[-1])
        return len(self.subscribers)

    def unsubscribe(self, number: int) -> None:
        self.gone.append(number)

    def tell(self, event: Any) -> None:
        self.told.append(event)


class Way:
    """Out, and what went."""

    def __init__(self, *rules: Out, targets: Sequence[Address] = (THERE,), rate_per_s: float = 20_000.0) -> None:
        self.mesh = FakeMesh()
        self.sent: list[tuple[str, Address]] = []
        packer = Packer(ME.node_id, lambda bits: bits)
        packer.credentials = ME.credentials(Trust())
        self.outbound = Outbound(
            cast(Any, self.mesh),
            packer,
            rules,
            lambda _: targets,
            self._send,
            lambda: Instant(asyncio.get_running_loop().time(), time.time()),
            rate_per_s,
            structlog.get_logger(),
        )
        self.outbound.start()

    def _send(self, packed: Packed, target: Address) -> bool:
        self.sent.append((emm.parse_untrusted(packed.data).event_name or "", target))
        return True

    def deliver(self, rule: int, topic: str, count: int = 1, headers: dict[str, str] | None = None) -> None:
        batch = Batch.from_columns([b"x"] * count, 5, None, [headers] * count)
        stream = Stream(parse_topic(topic), NodeId("a"), 0)
        self.mesh.holdings[rule].take(len(batch.data))  # as the core does
        self.mesh.subscribers[rule].deliver([Delivered(stream, Epoch(1), batch.data, 0)])

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.mark.req("EMM-29")
async def test_urgent_events_overtake_the_others() -> None:
    way = Way(CALM, URGENT, rate_per_s=100.0)
    way.deliver(0, "calm.a", 30)
    await way.until(lambda: way.sent)
    way.deliver(1, "urgent.b")
    await way.until(lambda: len(way.sent) == 31)
    assert [name for name, _ in way.sent].index("urgent.b") < 30
    way.outbound.close()


async def test_every_target_gets_it_and_credit_is_given_back() -> None:
    way = Way(CALM, targets=(THERE, ELSEWHERE))
    way.deliver(0, "calm.a", 100)
    await way.until(lambda: len(way.sent) == 200)
    assert way.sent.count(("calm.a", ELSEWHERE)) == 100
    assert sum(each.bytes for each in way.mesh.told) > 0
    assert way.outbound.figures.sent == 200
    way.outbound.close()
    assert way.mesh.gone == [1]


async def test_what_came_as_a_datagram_and_what_nobody_wants_is_passed_over() -> None:
    way = Way(CALM)
    way.deliver(0, "calm.a", 2, {"emm-protocol": "emm"})
    way.deliver(0, "calm.b")
    await way.until(lambda: way.sent)
    assert (way.sent, way.outbound.figures.echoes) == ([("calm.b", THERE)], 2)
    nobody = Way(CALM, targets=())
    nobody.deliver(0, "calm.a")
    await nobody.until(lambda: nobody.mesh.told)
    assert nobody.sent == []
    way.outbound.close()
    nobody.outbound.close()


@pytest.mark.req("EMM-28")
async def test_what_one_rule_wants_by_quic_no_rule_sends_in_the_clear() -> None:
    secret, everything = Out(parse_pattern("calm.secret.>"), quic=True), Out(parse_pattern(">"))
    mixed = Way(secret, everything, targets=(THERE, BY_QUIC))
    for rule in (0, 1):
        mixed.deliver(rule, "calm.secret.a")
    mixed.deliver(1, "calm.b")
    await mixed.until(lambda: len(mixed.sent) == 4)
    assert mixed.sent == [("calm.secret.a", BY_QUIC)] * 2 + [("calm.b", THERE), ("calm.b", BY_QUIC)]
    assert mixed.outbound.figures.no_quic == 0
    plain = Way(secret, everything, targets=(THERE,))
    for rule in (0, 1):
        plain.deliver(rule, "calm.secret.a", 10)
    plain.deliver(1, "calm.b")
    await plain.until(lambda: plain.sent)
    assert (plain.sent, plain.outbound.figures.no_quic) == ([("calm.b", THERE)], 10)
    for way in (mixed, plain):
        way.outbound.close()


@pytest.mark.req("EMM-28")
async def test_targets_without_a_connection_are_counted() -> None:
    targets = (Target("b", 1, quic=True), Target("c", 1, quic=True))
    way = Way(Out(parse_pattern("calm.>"), targets=targets, quic=True), targets=(BY_QUIC,))
    way.deliver(0, "calm.a", 3)
    await way.until(lambda: len(way.sent) == 3)
    assert way.outbound.figures.no_quic == 3
    way.outbound.close()


@pytest.mark.parametrize(
    ("error", "again"), [(StorageError("events were lost"), True), (ShuttingDown("the node goes"), False)]
)
async def test_a_subscription_that_breaks_is_opened_again(
    error: WeftError, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)

    way = Way(CALM)
    way.mesh.subscribers[0].ended(error)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(way.mesh.subscribers) == 1 + again
    way.outbound.close()


async def test_what_a_broken_subscription_left_behind_goes_out_and_gives_no_credit_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)

    way = Way(CALM)
    way.deliver(0, "calm.a")
    way.mesh.subscribers[0].ended(StorageError("events were lost"))
    way.outbound._work.cancel()  # type: ignore[union-attr]  # as if the pace allowed nothing until it is open again
    way.outbound._work = None
    await way.until(lambda: len(way.mesh.subscribers) == 2)
    way.deliver(1, "calm.b")
    await way.until(lambda: len(way.sent) == 2)
    assert way.sent == [("calm.a", THERE), ("calm.b", THERE)]
    assert [each.subscription for each in way.mesh.told] == [2]
    way.outbound.close()
