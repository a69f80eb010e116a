"""Bridges that cannot reach each other, with an agent connected to both: they share what it passes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.gateway.coaty.stories import (
    BRIDGE,
    WAIT_S_MAX,
    agent_at,
    bridge_wants_to_send,
    eventually,
    gateway,
    name_of,
    next_of,
    reading,
    settle_quickly,
    thing,
)
from weft.client import Client
from weft.coaty import Agent, Return, new_id
from weft.coaty.observing import Observation
from weft.coaty.peer import Peer
from weft.gateway.coaty import outbound as outbound_room
from weft.gateway.coaty.sharing import Bridge, Sharing
from weft.testing import mesh
from weft.testing.live_mesh import Mesh

NODES = ("n0", "n1")
LINE1 = "coaty/1/plant/CHNline1"
COUNT = 40


@pytest.fixture(autouse=True)
def out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    settle_quickly(monkeypatch)
    monkeypatch.setattr(Peer, "dial_soon", lambda peer, address: None)  # as if bridges could not reach each other
    monkeypatch.setattr(outbound_room, "COATY_PATIENCE_S", WAIT_S_MAX)  # however busy the machine is


@asynccontextmanager
async def two_islands() -> AsyncIterator[tuple[Mesh, Client, Agent]]:
    """Two bridges, and an agent that is connected to both, when both have heard of that."""
    async with (
        mesh(nodes=2, settings=BRIDGE) as it,
        it.client() as client,
        agent_at(it, *NODES, name="between") as agent,
    ):
        await eventually(lambda: all(gateway(it, node).sharing.near for node in NODES))
        await eventually(lambda: all(bridge.island for node in NODES for bridge in gateway(it, node).sharing.near))
        assert all(gateway(it, node).sharing.others == () for node in NODES)
        assert len({gateway(it, node).island.name for node in NODES}) == 2
        yield it, client, agent


async def publish(client: Client, name: str) -> None:
    said = {"sourceId": new_id(), "data": {"object": thing(name)}}
    await client.publish("coaty.plant.CHN.line1", json.dumps(said))


async def name_on(channel: Observation[Any]) -> str:
    return str((await channel.next(WAIT_S_MAX)).data.object["name"])


def heard_by(it: Mesh, node: str) -> int:
    """Events that a bridge has made up its mind about."""
    figures = gateway(it, node).inbound.figures
    return figures.published + figures.left_to_others + figures.repeated


@pytest.mark.req("COA-12")
async def test_an_agent_between_two_islands_hears_and_is_heard_once() -> None:
    async with two_islands() as (it, client, agent):
        channel = agent.observe_channel("line1")
        for node in NODES:
            await bridge_wants_to_send(it, node, agent, LINE1)
        names = [str(number) for number in range(COUNT)]
        for name in names:
            await publish(client, name)
        assert [await name_on(channel) for _ in names] == names
        before = [heard_by(it, node) for node in NODES]
        for name in names:
            await agent.channel("line1", thing(f"own {name}"))
        own = [await name_on(channel) for _ in names]
        assert own == [f"own {name}" for name in names], "nothing of before came a second time"
        for node, count in zip(NODES, before, strict=True):
            await eventually(lambda node=node, count=count: heard_by(it, node) >= count + COUNT)  # type: ignore[misc]
        await publish(client, "end")
        async with reading(client, "coaty.plant.CHN.line1") as events:
            found = [name_of(event) for event in await next_of(events, 2 * COUNT + 1)]
        assert sorted(found) == sorted([*names, *own, "end"])
        assert await name_on(channel) == "end", "nothing that it said came back"


@pytest.mark.req("COA-12")
async def test_an_answer_of_an_agent_between_two_islands_comes_once() -> None:
    async with two_islands() as (it, client, agent):
        calls = agent.observe_call("add")
        for node in NODES:
            await bridge_wants_to_send(it, node, agent, "coaty/1/plant/CLLadd")
        async with reading(client, "coaty.plant.RTN") as answers:
            keys = [new_id() for _ in range(10)]
            for key in keys:
                call = {"sourceId": new_id(), "correlationId": key, "data": {"parameters": [1]}}
                await client.publish("coaty.plant.CLL.add", json.dumps(call))
                await eventually(lambda key=key: len(agent.peer.wanted_by(f"coaty/1/plant/RTN/{key}")) == 2)  # type: ignore[misc]
                await (await calls.next(WAIT_S_MAX)).reply(Return(result=1))
            found = [(event.key or b"").decode() for event in await next_of(answers, len(keys))]
            assert found == keys


@pytest.mark.req("COA-12")
async def test_what_was_left_to_a_bridge_that_is_gone_is_brought_over() -> None:
    """The other bridge ends without a word to the namespace; that its node is gone, the mesh finds out."""

    async with two_islands() as (it, _, agent):
        (brings,) = [node for node in NODES if gateway(it, node).sharing.is_ours(agent.peer_id)]
        (leaves,) = set(NODES) - {brings}
        stays = gateway(it, leaves)
        before = stays.inbound.figures.taken_over
        async with it.client(leaves) as client, reading(client, "coaty.plant.CHN.line1") as events:
            await it.kill(brings)
            await agent.channel("line1", thing("after"))
            assert [name_of(event) for event in await next_of(events)] == ["after"]
        assert not stays.sharing.near
        assert stays.inbound.figures.taken_over > before


# --- who takes part --------------------------------------------------------------------------------------------------


def test_bridges_are_near_by_the_peers_beside_both() -> None:
    sharing = Sharing("own")
    sharing.came("agent")
    far, near = Bridge("far", "far peer", "a"), Bridge("near", "near peer", "b", frozenset({"agent", "stranger"}))
    assert sharing.told([far, near])
    assert (sharing.others, sharing.near) == ((), {near: frozenset({"agent"})})
    assert not sharing.told([far, near])
    assert sharing.came("near peer") and (sharing.others, sharing.near) == ((near,), {}), "connected is more than near"
    assert sharing.left("near peer") and sharing.near
    assert sharing.left("agent") and not sharing.near


def test_of_two_near_bridges_one_brings_over_what_the_agent_between_says() -> None:
    ids = (new_id(), new_id())
    pair = [Sharing(own) for own in ids]
    for one, other in ((0, 1), (1, 0)):
        pair[one].came("agent")
        pair[one].told([Bridge(ids[other], f"peer {other}", "", frozenset({"agent"}))])
    for number in range(50):
        assert sum(each.is_ours(f"origin {number}") for each in pair) == 1
