"""Members of groups: what was handled is reported, what was lost is let go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.client.fake import FakeNode, Group, running, until
from tests.client.story import connect
from tests.client.test_subscribe import filled, numbers, payloads, take
from weft.client.duplex import Duplex
from weft.model import Epoch, NodeId, Position, Stream, Topic

pytestmark = pytest.mark.usefixtures("either_client")

KEY = ("a", "node-a", 1, 0)


@pytest.mark.asyncio_only
async def test_what_was_handled_is_the_groups_position() -> None:
    node = FakeNode()
    await filled(node, 30)
    async with running(node) as addresses, connect(addresses) as client:
        async with client.subscribe("a", group="g", start="earliest") as subscription:
            await take(subscription, 13)
            await until(lambda: node.groups["g"].positions[KEY] == 12)
            await take(subscription, 1)
        assert node.groups["g"].positions[KEY] == 13, "the last one was not done with"
        async with client.subscribe("a", group="g", start="earliest") as subscription:
            assert payloads(await take(subscription, 3)) == numbers(3, 13)


async def test_by_hand_an_event_is_handled_when_it_is_said() -> None:
    node = FakeNode()
    await filled(node, 30)
    async with running(node) as addresses, connect(addresses) as client:
        async with client.subscribe("a", group="g", start="earliest", commit="manual") as subscription:
            events = await take(subscription, 20)
            await subscription.handled(events[4])
            await until(lambda: node.groups["g"].positions[KEY] == 5)
            await subscription.handled(events[9].position)
        assert node.groups["g"].positions[KEY] == 9


async def test_what_is_handled_while_a_report_is_under_way_is_reported_before_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = FakeNode()
    await filled(node, 30)
    write, closing = Duplex.write, asyncio.Event()

    async def slow_write(call: Duplex[Any, Any], message: Any) -> None:
        await write(call, message)
        if message.HasField("settled"):
            await closing.wait()

    monkeypatch.setattr(Duplex, "write", slow_write)
    async with running(node) as addresses, connect(addresses) as client:
        subscription = client.subscribe("a", group="g", start="earliest", commit="manual")
        await subscription.handled((await take(subscription, 5))[-1])
        await until(lambda: "g" in node.groups and bool(node.groups["g"].answers))
        await subscription.handled((await take(subscription, 5))[-1])
        asyncio.get_running_loop().call_soon(closing.set)
        await subscription.close()
        assert node.groups["g"].positions[KEY] == 10


async def test_batches_are_handled_one_by_one() -> None:
    node = FakeNode()
    await filled(node, 30)
    async with running(node) as addresses, connect(addresses) as client:
        subscription = client.subscribe("a", group="g", start="earliest")
        first = await subscription.next_batch()
        second = await subscription.next_batch()
        assert first is not None
        assert second is not None
        await until(lambda: node.groups["g"].positions[KEY] == first.end_offset)
        await subscription.handled(second)
        await subscription.close()
        assert node.groups["g"].positions[KEY] == second.end_offset


@pytest.mark.req("SDK-01", "NFR-02")
async def test_a_member_that_comes_back_hands_out_nothing_twice() -> None:
    node = FakeNode()
    await filled(node, 100)
    async with running(node) as addresses, connect(addresses, handled_interval_s=60.0, credit_bytes=2000) as client:
        subscription = client.subscribe("a", group="g", start="earliest")
        seen = payloads(await take(subscription, 35))
        await node.stop()
        node.groups["g"].positions[KEY] = 0  # the reports did not arrive
        await node.start()
        seen += payloads(await take(subscription, 65))
        assert seen == numbers(100)


async def test_a_second_member_takes_over_a_stream_and_the_first_lets_go_of_it() -> None:
    node = FakeNode()
    await filled(node, 20, topic="s.1")
    await filled(node, 20, topic="s.2")
    async with running(node) as addresses, connect(addresses) as one, connect(addresses) as two:
        first = one.subscribe("s.*", group="g", member="m1", start="earliest")
        await take(first, 1)
        group: Group = node.groups["g"]
        await until(lambda: [member for member, _ in group.answers[:1]] == ["m1"])
        second = two.subscribe("s.*", group="g", member="m2", start="earliest")
        await second.opened()
        await until(lambda: group.generation >= 2)
        generation = group.generation
        await take(first, 1)
        await until(lambda: ("m1", generation) in [(member, said.generation) for member, said in group.answers])
        assert {event.topic for event in await take(second, 20)} == {"s.2"}
        await second.close()
        await until(lambda: len(group.assigned["m1"]) == 2)
        await first.close()


async def test_positions_can_be_asked_for_moved_and_sought() -> None:
    node = FakeNode()
    await filled(node, 30)
    stream = Stream(Topic("a"), NodeId("node-a"), 0)
    async with running(node) as addresses, connect(addresses) as client:
        await client.commit("g", [Position(stream, Epoch(1), 7)])
        (place,) = await client.positions("a", "g")
        assert (place.earliest_offset, place.latest_offset, place.group_offset) == (0, 30, 7)
        assert await client.seek("g", "a", "latest") == [Position(stream, Epoch(1), 30)]
        assert await client.seek("g", "a", 12) == [Position(stream, Epoch(1), 12)]
        assert await client.seek("g", "a", "earliest") == [Position(stream, Epoch(1), 0)]
        async with client.subscribe("a", group="g") as subscription:
            assert payloads(await take(subscription, 1)) == [b"0"]
