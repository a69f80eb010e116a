"""A node as a bridge, and the reference agent on the other side: its events, its calls, and calls to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.coaty.js_agent import JsAgent, unavailable
from tests.up import RunningNode, up
from weft.client import Client, Received
from weft.coaty import new_id
from weft.gateway.coaty.gateway import CoatyGateway
from weft.testing import mesh

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=unavailable() or "")

WAIT_S_MAX = 30.0
NAMESPACE = "h-coaty"


@pytest.fixture(scope="module")
def js() -> Iterator[JsAgent]:
    with JsAgent.start("RSA", "--settle", "0") as agent:
        agent.wait("ready")
        yield agent


async def first(client: Client, topic: str, wanted: Callable[[Any], bool]) -> Received:
    """The first event on a topic of the mesh with such a payload."""
    async with asyncio.timeout(WAIT_S_MAX), client.subscribe(topic, start="earliest") as events:
        async for event in events:
            if wanted(json.loads(event.payload)):
                return event
    raise AssertionError("the subscription ended")


@pytest.mark.req("COA-12", "COA-11")
def test_mesh_clients_and_the_reference_talk_to_each_other(js: JsAgent) -> None:
    settings = {
        "gateway.coaty.namespace": NAMESPACE,
        "gateway.coaty.bootstrap": [js.address],
        "gateway.coaty.channels": ["line1"],
        "gateway.coaty.operations": ["mesh-op"],
    }
    thing = {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Thing", "name": "über"}
    topic = f"coaty/1/{NAMESPACE}/CHNline1"

    async def story() -> None:
        async with mesh(nodes=1, settings=settings) as it, it.client() as client:
            (bridge,) = it.node("n0").gateways
            assert isinstance(bridge, CoatyGateway)

            async def told(name: str, **arguments: object) -> None:
                await asyncio.to_thread(js.command, name, **arguments)

            async def heard(kind: str, **fields: object) -> dict[str, Any]:
                return await asyncio.to_thread(js.wait, kind, WAIT_S_MAX, **fields)

            await asyncio.to_thread(
                js.wait_for, lambda event: event["ev"] == "subs" and [True, topic] in event["subs"], WAIT_S_MAX
            )
            await told("observe", what="Channel", id="line1")
            await told("observe", what="Call", operation="js-op")
            wanted = f"coaty/1/{NAMESPACE}/CLLjs-op"
            async with asyncio.timeout(WAIT_S_MAX):
                while not (bridge._agent and bridge._agent.peer.wanted_by(wanted)):
                    await asyncio.sleep(0.01)

            await told("channel", id="line1", object=thing)
            event = await first(client, f"coaty.{NAMESPACE}.CHN.line1", lambda said: said["data"]["object"] == thing)
            agent_id = (await heard("started"))["agentId"]
            assert event.headers is not None
            assert event.headers["coaty-source-id"] == agent_id

            me = new_id()
            said = {"sourceId": me, "data": {"object": {**thing, "name": "from the mesh"}}}
            await client.publish(f"coaty.{NAMESPACE}.CHN.line1", json.dumps(said))
            assert (await heard("Channel", sourceId=me))["data"] == said["data"]

            call = {"sourceId": me, "correlationId": new_id(), "data": {"parameters": {"a": 1}}}
            await client.publish(f"coaty.{NAMESPACE}.CLL.js-op", json.dumps(call))
            returned = await first(
                client, f"coaty.{NAMESPACE}.RTN", lambda said: said["correlationId"] == call["correlationId"]
            )
            assert json.loads(returned.payload)["data"]["result"] == {"echo": {"a": 1}}

            await asyncio.to_thread(js.tell, "call", operation="mesh-op", parameters=[1, 2])
            asked = json.loads((await first(client, f"coaty.{NAMESPACE}.CLL.mesh-op", lambda said: True)).payload)
            answer = {"sourceId": me, "correlationId": asked["correlationId"], "data": {"result": 3}}
            await client.publish(f"coaty.{NAMESPACE}.RTN", json.dumps(answer))
            assert (await heard("Return", sourceId=me))["data"] == {"result": 3}

    asyncio.run(story())


@pytest.mark.req("COA-12", "COA-11")
def test_a_node_as_users_start_it_and_the_reference_talk_to_each_other(js: JsAgent, tmp_path: Path) -> None:
    """``weft up``, secured, on its own event loop."""
    channel = f"coaty.{NAMESPACE}.CHN.line2"
    file = tmp_path / "weft.toml"
    settings = f'[gateway.coaty]\nnamespace = "{NAMESPACE}"\nbootstrap = ["{js.address}"]\nchannels = ["line2"]\n'
    file.write_text(settings)

    def thing(name: str) -> dict[str, str]:
        return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Thing", "name": name}

    async def story(node: RunningNode) -> None:
        async with node.client() as client:
            topic = f"coaty/1/{NAMESPACE}/CHNline2"
            await asyncio.to_thread(
                js.wait_for, lambda event: event["ev"] == "subs" and [True, topic] in event["subs"], WAIT_S_MAX
            )
            await asyncio.to_thread(js.command, "observe", what="Channel", id="line2")
            theirs = thing("of the reference")
            await asyncio.to_thread(js.command, "channel", id="line2", object=theirs)
            await first(client, channel, lambda said: said["data"]["object"] == theirs)

            said = {"sourceId": new_id(), "data": {"object": thing("of the mesh")}}
            hearing = asyncio.create_task(asyncio.to_thread(js.wait, "Channel", WAIT_S_MAX, sourceId=said["sourceId"]))
            while not hearing.done():  # Floodsub sends nothing before the bridge knows that somebody listens
                await client.publish(channel, json.dumps(said))
                await asyncio.wait([hearing], timeout=0.1)
            assert hearing.result()["data"] == said["data"]

    with up(tmp_path / "a", "--config", str(file)) as node:
        asyncio.run(story(node))
        node.end_quietly()
