"""Subscriptions over EXMP: events as requests, answers as acknowledgements, groups that remember (EXM-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.gateway.exmp.joined import PATIENCE_S, address_of, joined, refused, until
from weft import exmp
from weft.exmp import Client, JsonObject
from weft.gateway.exmp.operations import EXMP_SUBSCRIPTIONS_MAX
from weft.node.runtime import Node


class Reader:
    """A client that keeps the events it is asked to handle."""

    def __init__(self) -> None:
        self.events: list[JsonObject] = []
        self.endings: list[JsonObject] = []
        self.hold: asyncio.Event | None = None  # answers none before it is set
        self.refuse_at: int | None = None
        self.client: Client

    async def event(self, data: JsonObject) -> None:
        if data["offset"] == self.refuse_at:
            raise exmp.Failure("busy", "not today")
        self.events.append(data)
        if self.hold is not None:
            await self.hold.wait()

    async def ended(self, data: JsonObject) -> None:
        self.endings.append(data)

    @property
    def payloads(self) -> list[str]:
        return [event["payload"] for event in self.events]


@asynccontextmanager
async def reading(node: Node) -> AsyncIterator[Reader]:
    reader = Reader()
    handlers: dict[str, exmp.Handler] = {"event": reader.event, "ended": reader.ended}
    async with exmp.connect(address_of(node), handlers=handlers) as reader.client:
        yield reader


async def publish(client: Client, topic: str, first: int, end: int) -> None:
    await asyncio.gather(*(client.call("publish", {"topic": topic, "payload": str(n)}) for n in range(first, end)))


def numbers(first: int, end: int) -> list[str]:
    return [str(n) for n in range(first, end)]


@pytest.mark.req("EXM-11")
async def test_events_come_as_requests_in_order(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client), reading(node) as reader:
        await publish(client, "plant.temp", 0, 300)
        answer = await reader.client.call("subscribe", {"pattern": "plant.>", "start": "earliest"})
        assert answer == {"subscription": 1}
        await publish(client, "plant.temp", 300, 600)
        await publish(client, "office.door", 0, 5)
        await until(lambda: len(reader.events) >= 600)
        assert reader.payloads == numbers(0, 600)
        first = reader.events[0]
        assert (first["subscription"], first["topic"], first["origin"], first["offset"]) == (
            1,
            "plant.temp",
            "a",
            0,
        )


async def test_a_subscription_begins_where_it_is_told(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client), reading(node) as reader:
        await publish(client, "t", 0, 10)
        found = await client.call("fetch", {"topic": "t", "offset": 7, "events_max": 1})
        assert found is not None
        place = f"t@a/0:e{node.log.epoch}:8"
        starts: list[JsonObject] = [
            {"start": "latest"},
            {"start_positions": [place]},
            {"start_timestamp_us": found["events"][0]["timestamp_us"] + 3_600_000_000},
            {"start": "earliest"},
        ]
        for number, start in enumerate(starts, 1):
            assert await reader.client.call("subscribe", {"pattern": "t", **start}) == {"subscription": number}
        await publish(client, "t", 10, 11)
        await until(lambda: len(reader.events) >= 1 + 3 + 11)
        by_number = {n: [e["payload"] for e in reader.events if e["subscription"] == n] for n in (1, 2, 3, 4)}
        assert by_number == {1: ["10"], 2: numbers(8, 11), 3: [], 4: numbers(0, 11)}


@pytest.mark.req("EXM-11")
async def test_a_group_goes_on_behind_the_last_event_that_was_answered(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        await publish(client, "t", 0, 20)
        wanted = {"pattern": "t", "group": "g", "start": "earliest", "window": 1}
        async with reading(node) as first:
            first.refuse_at = 12
            await first.client.call("subscribe", wanted)
            await until(lambda: first.endings)
            assert first.payloads == numbers(0, 12)
            assert first.endings[0]["subscription"] == 1
            assert "not today" in first.endings[0]["description"]
        await until(lambda: [each.offset for each in node.log.positions("g")] == [12])
        async with reading(node) as second:
            await second.client.call("subscribe", wanted)
            await until(lambda: len(second.events) >= 8)
            assert second.payloads == numbers(12, 20)
        await until(lambda: [each.offset for each in node.log.positions("g")] == [20])


@pytest.mark.req("EXM-11")
async def test_no_more_events_are_under_way_than_the_window(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client), reading(node) as reader:
        reader.hold = asyncio.Event()
        await publish(client, "t", 0, 50)
        await reader.client.call("subscribe", {"pattern": "t", "start": "earliest", "window": 3})
        await until(lambda: reader.events)
        peer = reader.client.peer
        assert peer is not None
        await until(lambda: len(peer._queue) == 2)  # one is being handled, two wait behind it
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(peer._queue) == 2
        reader.hold.set()
        await until(lambda: len(reader.events) == 50)
        assert reader.payloads == numbers(0, 50)


async def test_members_of_a_group_share_streams_and_hand_them_over(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        topics = [f"s.t{n}" for n in range(30)]  # of six, one member gets all in one of 32 runs: streams are drawn
        for topic in topics:
            await publish(client, topic, 0, 2)
        wanted = {"pattern": "s.>", "group": "g", "start": "earliest"}
        async with reading(node) as first, reading(node) as second:
            await first.client.call("subscribe", {**wanted, "member": "one"})
            await until(lambda: len(first.events) == 60)
            await second.client.call("subscribe", {**wanted, "member": "two"})
            # What belongs to whom is settled between them; then both get new events.
            number = 2
            while not second.events or not first.events[60:]:
                for topic in topics:
                    await publish(client, topic, number, number + 1)
                number += 1
                await asyncio.sleep(0.02)
            await until(lambda: len(first.events) + len(second.events) >= len(topics) * number)
            seen = [(event["topic"], event["offset"]) for event in (*first.events, *second.events)]
            assert len(seen) == len(set(seen)) == len(topics) * number


async def test_after_unsubscribe_nothing_more_comes(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client), reading(node) as reader:
        await reader.client.call("subscribe", {"pattern": "t"})
        await publish(client, "t", 0, 3)
        await until(lambda: len(reader.events) == 3)
        assert await reader.client.call("unsubscribe", {"subscription": 1}) is None
        await publish(client, "t", 3, 6)
        assert await reader.client.call("subscribe", {"pattern": "t", "start": "earliest"}) == {"subscription": 2}
        await until(lambda: len(reader.events) == 3 + 6)
        assert [event["subscription"] for event in reader.events] == [1] * 3 + [2] * 6
        assert node.clients.subscriptions == 1


async def test_a_connection_that_ends_takes_its_subscriptions_with_it(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        async with reading(node) as reader:
            await reader.client.call("subscribe", {"pattern": "t"})
            assert node.clients.subscriptions == 1
        await until(lambda: node.clients.subscriptions == 0)
        await client.call("$echo")


async def test_one_connection_has_so_many_subscriptions(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (_, client):
        for _ in range(EXMP_SUBSCRIPTIONS_MAX):
            await client.call("subscribe", {"pattern": "t"})
        code, words = await refused(client, "subscribe", {"pattern": "t"})
        assert (code, words) == (
            "busy",
            f"too many subscriptions on one connection (limit {EXMP_SUBSCRIPTIONS_MAX})",
        )


async def test_a_node_that_shuts_down_tells_its_subscribers(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, _), reading(node) as reader:
        await reader.client.call("subscribe", {"pattern": "t"})
        await node.stop()
        await until(lambda: reader.endings)
        assert [(each["subscription"], each["code"]) for each in reader.endings] == [(1, "shutting_down")]
