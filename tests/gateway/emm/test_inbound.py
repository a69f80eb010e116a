"""The way in, with a node that is played by the test: turns, bounds, and what happens when the log does not keep up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.gateway.emm.devices import SOURCE, Device, arrived, judge_of
from tests.gateway.typed import gate_for
from weft.datagram_node import Instant
from weft.errors import StorageError
from weft.gateway.emm import inbound as module
from weft.gateway.emm.compact_judge import CompactJudge
from weft.gateway.emm.inbound import Inbound
from weft.gateway.emm.names import NameRights
from weft.gateway.emm.quarantine import Quarantine
from weft.gateway.emm.rows import Accepted
from weft.gateway.emm.topics import HELLO_TOPIC, QUARANTINE_TOPIC, TopicMap
from weft.model import Batch, Topic
from weft.model.traces import SpanRef
from weft.port.held import HeldBytes, Use
from weft.port.schemas import EventChecks, NoChecks
from weft.wire.emm_compact import KeyRing
from weft.wire.seen import SALT_BYTES, Seen

WAIT_S = 20.0
SENSOR = Device(1)


@dataclass
class FakeMesh:
    """Takes batches and answers when the test says so."""

    answers: bool = True
    publishes: list[tuple[int, str, Batch]] = field(default_factory=list)
    joined: list[Any] = field(default_factory=list)
    left: list[Any] = field(default_factory=list)
    held: HeldBytes = field(default_factory=lambda: HeldBytes(1 << 30, 1 << 30))
    refusals: list[Exception] = field(default_factory=list)
    checks: EventChecks = field(default_factory=NoChecks)
    span: SpanRef | None = None  # that it is told to publish in

    def join(self, publisher: Any) -> None:
        self.joined.append(publisher)

    def leave(self, publisher: Any) -> None:
        self.left.append(publisher)

    def publish(self, publisher: Any, request: int, topic: str, partition: int, batch: Batch, copies: int) -> None:
        self.publishes.append((request, topic, batch))
        if self.answers:
            publisher.receipts([(request, None)])

    def begin_trace(self, gateway: str, topic: Topic, events: int) -> SpanRef | None:
        return self.span

    def count_refusal(self, error: Exception) -> None:
        self.refusals.append(error)

    @property
    def events(self) -> int:
        return sum(len(batch) for _, _, batch in self.publishes)


def made(mesh: FakeMesh, heard: list[Accepted] | None = None) -> Inbound:
    compact = CompactJudge(KeyRing(), Seen(bytes(SALT_BYTES)), TopicMap(), NameRights())
    found: list[Accepted] = [] if heard is None else heard
    inbound = Inbound(
        cast(Any, mesh),
        judge_of(SENSOR),
        compact,
        Quarantine(0.0),
        lambda: Instant(time.monotonic(), time.time()),
        found.append,
    )
    inbound.start()
    return inbound


def event(number: int = 0, **more: Any) -> bytes:
    return SENSOR.event("n", number, at_s=int(time.time()), **more)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.001)


async def some_turns() -> None:
    """Of the loop: enough for whatever is due at once."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_datagrams_that_come_one_by_one_are_gathered() -> None:
    mesh = FakeMesh()
    inbound = made(mesh)
    packets = [event(number) for number in range(100)]  # made before, so that they come close together
    for packet in packets:
        inbound.receive(arrived(packet))
        await asyncio.sleep(0)
    await until(lambda: mesh.events == 100)
    assert len(mesh.publishes) < 50
    assert inbound.figures.published == 100
    inbound.close()


@pytest.mark.req("EMM-29")
async def test_something_urgent_does_not_wait_for_others() -> None:
    mesh = FakeMesh()
    inbound = made(mesh)
    inbound.receive(arrived(event(1)))
    await until(lambda: mesh.events == 1)
    inbound.receive(arrived(event(2)))
    due_s = inbound._turn_s
    inbound.receive(arrived(event(3, urgent=True)))
    assert inbound._turn_s < due_s
    await until(lambda: mesh.events == 3)
    (_, _, batch) = mesh.publishes[-1]
    assert [each.payload for each in batch] == [b"3", b"2"]
    inbound.close()


async def test_while_the_log_owes_too_much_datagrams_wait_and_then_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATEWAY_EMM_OWED_BYTES_MAX", 1)
    monkeypatch.setattr(module, "FULL_PAUSE_S", 0.0)

    mesh = FakeMesh(answers=False)
    inbound = made(mesh)
    inbound.receive(arrived(event(1)))
    await until(lambda: mesh.events == 1)
    inbound.receive(arrived(event(2)))
    await some_turns()
    assert (mesh.events, len(inbound.line)) == (1, 1)
    assert mesh.held.bytes > 0
    inbound.receipts([(mesh.publishes[0][0], cast(Any, None))])
    await until(lambda: mesh.events == 2)
    inbound.close()
    assert mesh.held.bytes == 0


async def test_the_nodes_own_bound_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FULL_PAUSE_S", 0.0)

    mesh = FakeMesh(held=HeldBytes(1 << 30, 40))
    held = mesh.held.holding("the EMM gateway", Use.PUBLISH)
    held.take(11)
    inbound = made(mesh)
    inbound.receive(arrived(event(1)))
    await some_turns()
    assert mesh.events == 0
    held.give_back(11)
    await until(lambda: mesh.events == 1)
    inbound.close()


async def test_what_the_log_refuses_is_lost_and_counted() -> None:
    mesh = FakeMesh(answers=False)
    inbound = made(mesh)
    inbound.receive(arrived(event(1), event(2)))
    await until(lambda: mesh.events == 2)
    inbound.refused(mesh.publishes[0][0], StorageError("disk is full"))
    assert (inbound.figures.refused, inbound.figures.published, len(mesh.refusals)) == (2, 0, 1)
    inbound.close()


async def test_draining_takes_nothing_more_and_leaves_when_all_is_answered() -> None:
    mesh = FakeMesh(answers=False)
    inbound = made(mesh)
    inbound.receive(arrived(event(1)))
    await until(lambda: mesh.events == 1)
    inbound.drain()
    inbound.receive(arrived(event(2)))
    assert (mesh.left, len(inbound.line)) == ([], 0)
    inbound.receipts([(mesh.publishes[0][0], cast(Any, None))])
    assert mesh.left == [inbound]


async def test_hellos_are_heard_and_the_refused_are_kept() -> None:
    mesh, heard = FakeMesh(), list[Accepted]()
    inbound = made(mesh, heard)
    inbound.receive(arrived(SENSOR.hello(int(time.time())), b"junk", b"", b"\x20"))
    await until(lambda: mesh.events == 4)
    assert [each.topics for each in heard] == [[HELLO_TOPIC]]
    kept = {bytes(each.payload) for _, topic, batch in mesh.publishes if topic == QUARANTINE_TOPIC for each in batch}
    assert kept == {b"junk", b"", b"\x20"}
    assert SOURCE in {
        each.headers["emm-source"] for _, _, batch in mesh.publishes for each in batch if each.headers is not None
    }
    inbound.close()


@pytest.mark.req("SEE-03")
async def test_a_batch_of_devices_begins_a_trace_that_its_first_event_carries() -> None:
    span = SpanRef(7, 8)
    mesh = FakeMesh(span=span)
    inbound = made(mesh)
    inbound.receive(arrived(*(event(number) for number in range(100))))
    await until(lambda: mesh.events == 100)
    (batch,) = [batch for _, _, batch in mesh.publishes]
    headers = [dict(each) for each in batch.headers.to_pylist()]
    assert [each.get("traceparent") for each in headers] == [span.traceparent, *[None] * 99]
    assert all(each["emm-protocol"] == "emm" for each in headers)
    inbound.close()


@pytest.mark.req("LAK-02")
async def test_what_breaks_the_schema_of_its_topic_is_lost_and_counted_and_the_rest_goes_on() -> None:
    mesh = FakeMesh()
    mesh.checks = gate_for("emm.>", "id BIGINT")
    inbound = made(mesh)
    now_s = int(time.time())
    inbound.receive(arrived(*(SENSOR.event("n", value, at_s=now_s) for value in ({"id": 1}, {"id": "x"}, {"id": 3}))))
    await until(lambda: mesh.events == 2)
    assert [each.payload for _, _, batch in mesh.publishes for each in batch] == [b'{"id":1}', b'{"id":3}']
    assert (inbound.figures.published, inbound.figures.refused) == (2, 1)
    inbound.receive(arrived(event(7)))
    await until(lambda: inbound.figures.refused == 2)
    assert mesh.events == 2 and mesh.held.bytes == 0
    assert len(mesh.refusals) == 2
    inbound.close()
