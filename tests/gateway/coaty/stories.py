"""What the stories about bridges share: nodes with agents on one side and mesh clients on the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from weft import coaty
from weft.client import Client, Received, Subscription
from weft.coaty import Agent, new_id
from weft.coaty import settling as settling_room
from weft.gateway.coaty import gateway as gateway_room
from weft.gateway.coaty.gateway import CoatyGateway
from weft.testing import mesh
from weft.testing.live_mesh import Mesh

WAIT_S_MAX = 60.0
BRIDGE = {
    "gateway.coaty.namespace": "plant",
    "gateway.coaty.channels": ["line1"],
    "gateway.coaty.operations": ["add"],
}


def settle_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling_room, "COATY_SETTLING_S", 0.05)
    monkeypatch.setattr(gateway_room, "COATY_MEET_S", 0.3)


def thing(name: str, object_type: str = "com.weft.Pump") -> coaty.CoatyObject:
    return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": object_type, "name": name}


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not holds():
            await asyncio.sleep(0.005)


def gateway(it: Mesh, node: str) -> CoatyGateway:
    (found,) = it.node(node).gateways
    assert isinstance(found, CoatyGateway)
    return found


def address(it: Mesh, node: str) -> str:
    return gateway(it, node).listeners[0].removeprefix("coaty ")


@asynccontextmanager
async def agent_at(it: Mesh, *nodes: str, name: str = "agent") -> AsyncIterator[Agent]:
    """An agent that is connected to these bridges."""
    async with Agent("plant", name=name, bootstrap=[address(it, node) for node in nodes]) as agent:
        await eventually(lambda: len(agent.neighbours) >= len(nodes))
        topic = "coaty/1/plant/CHNline1"
        await eventually(lambda: len(agent.peer.wanted_by(topic)) >= len(nodes))
        await agent.ready()
        yield agent


@asynccontextmanager
async def reading(client: Client, pattern: str) -> AsyncIterator[Subscription]:
    async with client.subscribe(pattern, start="earliest") as events:
        await events.opened()
        yield events


async def next_of(events: Subscription, count: int = 1) -> list[Received]:
    async with asyncio.timeout(WAIT_S_MAX):
        return [await anext(aiter(events)) for _ in range(count)]


@asynccontextmanager
async def bridged() -> AsyncIterator[tuple[Mesh, Client, Agent]]:
    """A node that is a bridge, a client of it, and an agent on the other side."""
    async with mesh(nodes=1, settings=BRIDGE) as it, it.client() as client, agent_at(it, "n0") as agent:
        yield it, client, agent


async def bridge_wants_to_send(it: Mesh, node: str, agent: Agent, topic: str) -> None:
    """Until the bridge knows that the agent wants this topic: Floodsub sends to nobody before."""
    bridge = gateway(it, node)._agent
    assert bridge is not None
    await eventually(lambda: agent.peer.host.peer in bridge.peer.wanted_by(topic))


def name_of(event: Received) -> str:
    return str(json.loads(event.payload)["data"]["object"]["name"])
