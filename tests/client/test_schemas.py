"""Events that a node refuses because they break their topic's schema: they fail, and nothing else does (LAK-02)."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.fake import FakeNode, error, running
from tests.client.story import connect
from weft.client import SchemaBroken
from weft.errors import UsageError
from weft.model import Batch
from weft.wire.mesh import mesh_pb2 as pb

pytestmark = pytest.mark.req("LAK-02")


def broken(event: int, **also: str) -> pb.Error:
    facts = {"event": str(event), "field": "temp", "reason": "is required", "schema": "plant.>", "version": "2"}
    return error(pb.ERROR_SCHEMA_BROKEN, "the event breaks the schema of its topic", **facts, **also)


async def test_only_the_events_at_fault_fail() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        await client.publish("plant.a", b"first")
        node.faults.refuse = [broken(1, also_3="id: may not be null"), broken(0)]
        tickets = [client.publish_nowait("plant.a", b"%d" % number, key=b"k") for number in range(6)]
        outcomes = await asyncio.gather(*(_outcome(ticket) for ticket in tickets))
        assert node.payloads("plant.a") == [b"first", b"2", b"4", b"5"]
        assert [each if isinstance(each, int) else str(each.fault) for each in outcomes] == [
            "temp: is required",
            "temp: is required",
            1,
            "id: may not be null",
            2,
            3,
        ]
        failed = outcomes[1]
        assert isinstance(failed, SchemaBroken) and failed.facts["schema"] == "plant.>"
        assert str(failed) == (
            "the event breaks the schema of its topic: temp: is required (schema plant.>, version 2)"
        )
        await client.publish("plant.a", b"last")
        assert node.payloads("plant.a")[-1] == b"last"


async def _outcome(ticket: object) -> int | SchemaBroken:
    try:
        receipt = await ticket  # type: ignore[misc]
    except SchemaBroken as failed:
        return failed
    return int(receipt.first_offset)


async def test_a_batch_of_bad_events_only() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        await client.publish("plant.a", b"first")
        node.faults.refuse = [broken(0, also_1="id: may not be null")]
        tickets = [client.publish_nowait("plant.a", b"x"), client.publish_nowait("plant.a", b"y")]
        outcomes = [await _outcome(ticket) for ticket in tickets]
        assert all(isinstance(each, SchemaBroken) for each in outcomes)
        assert node.payloads("plant.a") == [b"first"]


async def test_a_whole_batch_is_refused_as_one() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.refuse = [broken(1)]
        with pytest.raises(SchemaBroken) as refused:
            await client.publish_batch("plant.a", Batch.from_columns([b"1", b"2"], 0))
        assert refused.value.facts["event"] == "1"
        assert node.payloads("plant.a") == []


async def test_an_answer_that_names_no_event_of_the_batch_fails_all_of_it() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        node.faults.refuse = [broken(7), error(pb.ERROR_SCHEMA_BROKEN, "no facts at all")]
        for _ in range(2):
            with pytest.raises(SchemaBroken):
                await client.publish("plant.a", b"1")
        await client.publish("plant.a", b"2")
        assert node.payloads("plant.a") == [b"2"]


async def test_a_text_needs_its_kind() -> None:
    node = FakeNode()
    async with running(node) as addresses, connect(addresses) as client:
        with pytest.raises(UsageError, match="needs its kind"):
            await client.schemas.set("plant.>", "id BIGINT")
        with pytest.raises(UsageError, match="does not know that kind"):
            await client.schemas.set("plant.>", "id BIGINT", kind="xml")  # type: ignore[arg-type]
