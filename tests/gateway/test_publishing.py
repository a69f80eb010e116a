"""Events of many clients gathered into batches, and each answered with its own place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.exmp.fakes import FakeMesh
from tests.gateway.typed import gate_for
from weft.errors import UsageError, WeftError
from weft.gateway.publishing import Publishing
from weft.limits import KIB
from weft.model import Receipt, Topic
from weft.port.node import MeshNode
from weft.schema import SchemaBroken

A, B = Topic("a"), Topic("b")


class Asker:
    """Whoever waits for one event."""

    def __init__(self) -> None:
        self.offset: int | None = None
        self.error: WeftError | None = None

    def published(self, receipt: Receipt, number: int) -> None:
        self.offset = receipt.first_offset + number

    def refused(self, error: WeftError) -> None:
        self.error = error


@asynccontextmanager
async def publishing_at() -> AsyncIterator[tuple[FakeMesh, Publishing]]:
    mesh = FakeMesh()
    publishing = Publishing(cast(MeshNode, mesh), lambda: 1000, "a gateway")
    publishing.start()
    yield mesh, publishing
    publishing.close()
    assert mesh.publishers == []
    assert mesh.held.bytes == 0


async def turn() -> None:
    await asyncio.sleep(0)


async def test_one_turn_is_one_batch_per_topic_and_everybody_gets_their_own_place() -> None:
    async with publishing_at() as (mesh, publishing):
        askers = [Asker() for _ in range(7)]
        for number, asker in enumerate(askers):
            key, headers = (b"k", {"h": "v"}) if number == 2 else (None, None)
            publishing.add(A if number % 2 == 0 else B, b"%d" % number, key, headers, asker)
        assert mesh.published == []
        await turn()
        assert [(topic, [event.payload for event in batch]) for _, topic, batch in mesh.published] == [
            (A, [b"0", b"2", b"4", b"6"]),
            (B, [b"1", b"3", b"5"]),
        ]
        assert [event.key for event in mesh.published[0][2]] == [None, b"k", None, None]
        assert mesh.held.bytes > 0
        publishing.receipts(mesh.receipts())
        assert [asker.offset for asker in askers] == [0, 0, 1, 1, 2, 2, 3]
        publishing.add(A, b"7", None, None, askers[0])
        await turn()
        publishing.receipts(mesh.receipts())
        assert askers[0].offset == 4


@pytest.mark.req("EXM-06")
async def test_what_does_not_go_into_a_batch_waits_for_the_next_turn_and_so_does_all_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two batches of one stream in one write would let others overtake the second."""
    monkeypatch.setattr("weft.gateway.publishing.GATEWAY_GATHER_EVENTS", 10)

    async with publishing_at() as (mesh, publishing):
        for number in range(25):
            publishing.add(A, b"%d" % number, None, None, Asker())
        publishing.add(B, b"last", None, None, Asker())
        sent = []
        while publishing._rounds:
            await turn()
            sent.append([(topic, len(batch)) for _, topic, batch in mesh.published])
            publishing.receipts(mesh.receipts())
        assert sent == [[(A, 10)], [(A, 10)], [(A, 5), (B, 1)]]


@pytest.mark.req("EXM-06")
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 1), st.integers(1, 300_000), st.booleans()),
        max_size=40,
    )
)
@settings(deadline=None, max_examples=50)
async def test_whatever_is_added_takes_effect_in_order(events: list[tuple[str, int, int, int, bool]]) -> None:
    """An event is never written before one that was added before it. What one turn hands over is one write, as long as
    it has at most one batch of a stream."""

    async with publishing_at() as (mesh, publishing):
        for number, (topic, partition, copies, size, possible) in enumerate(events):
            key = b"" if possible else b"k" * 100_000
            payload = b"%d" % number + b" " * size
            publishing.add(Topic(topic), payload, key, None, Asker(), partition=partition, copies=copies)
        last = -1
        while publishing._rounds:
            mesh.published.clear()
            mesh.places.clear()
            await turn()
            streams = [
                (topic, partition) for (_, topic, _), (partition, _) in zip(mesh.published, mesh.places, strict=True)
            ]
            assert len(streams) == len(set(streams)), "one batch of a stream"
            numbers = [int(event.payload) for _, _, batch in mesh.published for event in batch]
            assert not numbers or min(numbers) > last, "nothing is overtaken"
            assert all(
                events[int(event.payload)][:3] == (topic, partition, copies)
                for (_, topic, batch), (partition, copies) in zip(mesh.published, mesh.places, strict=True)
                for event in batch
            )
            last = max(numbers, default=last)
        assert last == max((number for number, event in enumerate(events) if event[4]), default=-1)


async def test_a_timestamp_of_ones_own_is_kept() -> None:
    async with publishing_at() as (mesh, publishing):
        publishing.add(A, b"then", None, None, Asker(), timestamp_us=7)
        publishing.add(A, b"now", None, None, Asker())
        await turn()
        assert [event.timestamp_us for _, _, batch in mesh.published for event in batch] == [7, 1000]


async def test_an_impossible_event_is_refused_alone() -> None:
    async with publishing_at() as (mesh, publishing):
        askers = [Asker() for _ in range(3)]
        for number, asker in enumerate(askers):
            publishing.add(A, b"x", b"k" * (100_000 if number == 1 else 1), None, asker)
        await turn()
        publishing.receipts(mesh.receipts())
        assert [asker.offset for asker in askers] == [0, None, 1]
        assert isinstance(askers[1].error, UsageError)


async def test_what_is_larger_than_a_batch_may_be_is_refused_and_too_many_are_parted() -> None:
    async with publishing_at() as (mesh, publishing):
        askers = [Asker() for _ in range(4)]
        mesh.limits = replace(mesh.limits, batch_bytes_max=64 * KIB)
        for number, asker in enumerate(askers):
            publishing.add(A, b"x" * (100_000 if number == 1 else 30_000), None, None, asker)
        while publishing._rounds:
            await turn()
        publishing.receipts(mesh.receipts())
        assert [asker.offset for asker in askers] == [0, None, 1, 2]
        assert "the event is too large" in str(askers[1].error)


async def test_what_the_node_refuses_is_refused_to_all_of_the_batch() -> None:
    async with publishing_at() as (mesh, publishing):
        askers = [Asker() for _ in range(3)]
        for asker in askers:
            publishing.add(A, b"x", None, None, asker)
        await turn()
        full = WeftError("the disk is full")
        publishing.refused(mesh.published.pop()[0], full)
        assert [asker.error for asker in askers] == [full] * 3
        assert mesh.refusals == [full]


async def test_a_node_that_drains_waits_for_what_is_owed() -> None:
    async with publishing_at() as (mesh, publishing):
        asker = Asker()
        publishing.add(A, b"x", None, None, asker)
        publishing.drain()
        await turn()
        assert len(mesh.published) == 1 and mesh.publishers == [publishing]
        publishing.receipts(mesh.receipts())
        assert asker.offset == 0 and mesh.publishers == []

    async with publishing_at() as (mesh, publishing):
        publishing.drain()
        assert mesh.publishers == [], "nothing is owed"


@pytest.mark.req("LAK-02", "EXM-06")
async def test_an_event_that_breaks_its_schema_is_refused_alone_and_the_others_keep_their_order() -> None:
    async with publishing_at() as (mesh, publishing):
        mesh.checks = gate_for("a", "id BIGINT")
        askers = [Asker() for _ in range(7)]
        for number, asker in enumerate(askers[:6]):
            payload = b'{"id":"x"}' if number in (2, 3) else b'{"id":%d}' % number
            publishing.add(A if number % 2 == 0 else B, payload, None, None, asker)
        await turn()
        assert [(topic, [event.payload for event in batch]) for _, topic, batch in mesh.published] == [
            (B, [b'{"id":1}', b'{"id":"x"}', b'{"id":5}']),
            (A, [b'{"id":0}', b'{"id":4}']),
        ]
        publishing.receipts(mesh.receipts())
        assert [asker.offset for asker in askers[:6]] == [0, 0, None, 1, 1, 2]
        assert isinstance(askers[2].error, SchemaBroken) and mesh.refusals == [askers[2].error]
        publishing.add(A, b"nothing at all", None, None, askers[6])
        await turn()
        assert mesh.published == [] and isinstance(askers[6].error, SchemaBroken)


@pytest.mark.req("LAK-02", "EXM-06")
async def test_while_many_events_are_checked_all_that_follows_waits() -> None:
    async with publishing_at() as (mesh, publishing):
        mesh.checks = gate_for("a", "id BIGINT")
        for number in range(3_000):
            publishing.add(A, b'{"id":%d}' % number, None, None, Asker())
        await turn()
        publishing.add(B, b"behind them", None, None, Asker())
        await turn()
        assert mesh.published == []
        while len(mesh.published) < 2:
            await asyncio.sleep(0.001)
        assert [(topic, len(batch)) for _, topic, batch in mesh.published] == [(A, 3_000), (B, 1)]
        publishing.receipts(mesh.receipts())
