"""A client between nodes that fail at random, from a seed: what is acknowledged is stored once, and delivered once."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.client.fake import FakeNode, Faults, Key, error, running
from tests.client.story import connect
from weft.client import Client, Published, Subscription
from weft.wire.mesh import mesh_pb2 as pb

TOPICS = ("t.1", "t.2")
ROUNDS = 25


async def do_something_wrong(nodes: list[FakeNode], dice: random.Random) -> None:
    node = dice.choice(nodes)
    match dice.randrange(6):
        case 0:
            node.faults.drop_before_storing += 1
        case 1:
            node.faults.drop_after_storing += 1
        case 2:
            node.faults.refuse.append(error(pb.ERROR_BUSY))
        case 3:
            node.faults.drop_subscribers_after = dice.randrange(3)
        case 4:
            await node.stop()
            await asyncio.sleep(0.01 * dice.random())
            await node.start()
        case _:
            node.faults.refuse_open.append(error(pb.ERROR_BUSY))


async def publish(client: Client, dice: random.Random, nodes: list[FakeNode]) -> dict[str, list[Published]]:
    tickets: dict[str, list[Published]] = {topic: [] for topic in TOPICS}
    for _ in range(ROUNDS):
        for _ in range(dice.randrange(30)):
            topic = dice.choice(TOPICS)
            tickets[topic].append(client.publish_nowait(topic, b"%d" % len(tickets[topic])))
        await asyncio.sleep(0.003 * dice.random())
        if dice.random() < 0.5:
            await do_something_wrong(nodes, dice)
    return tickets


async def watch(watcher: Subscription, nodes: list[FakeNode]) -> None:
    """It has been thrown from node to node. From now on there is one, and that has all streams: all must come."""
    for node in nodes[1:]:
        await node.stop()
    nodes[0].faults = Faults()
    nodes[0].log.update({key: batches for node in nodes[1:] for key, batches in node.log.items()})
    await nodes[0].notify()
    wanted = {key: sum(map(len, batches)) for key, batches in nodes[0].log.items()}
    seen: dict[Key, list[int]] = {key: [] for key in wanted}
    while any(len(seen[key]) < wanted[key] for key in wanted):
        event = await anext(watcher)
        seen[event.topic, event.origin, event.epoch, event.partition].append(event.offset)
    assert seen == {key: list(range(count)) for key, count in wanted.items()}, "each once, in order"


@pytest.mark.req("SDK-01", "NFR-02")
@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_lost_repeated_or_out_of_order(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test's dice
    nodes = [FakeNode("node-a"), FakeNode("node-b")]
    async with running(*nodes) as addresses, connect(addresses, batch_bytes=1000) as client:
        watcher = client.subscribe("t.*", start="earliest")
        tickets = await publish(client, dice, nodes)
        await client.flush()
        stored = {(topic, node.node_id): node.payloads(topic) for node in nodes for topic in TOPICS}
        for topic in TOPICS:
            numbers = [int(payload) for node in nodes for payload in stored[topic, node.node_id]]
            assert sorted(numbers) == list(range(len(tickets[topic]))), "each is somewhere, once"
            for number, ticket in enumerate(tickets[topic]):
                receipt = ticket.result()
                place = stored[topic, receipt.stream.origin][receipt.first_offset]
                assert int(place) == number, "a receipt says where its event is"
        await watch(watcher, nodes)
