"""A node as a bridge, and the reference agent on the other side: its events, its calls, and calls to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.coaty.js_agent import JsAgent, unavailable
from tests.up import up
from weft.client import Client, Received
from weft.coaty import new_id
from weft.gateway.coaty.gateway import CoatyGateway
from weft.testing import mesh

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=unavailable() or "")

WAIT_S_MAX = 60.0
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
async def test_mesh_clients_and_the_reference_talk_to_each_other(js: JsAgent) -> None:
    settings = {
        "gateway.coaty.namespace": NAMESPACE,
        "gateway.coaty.bootstrap": [js.address],
        "gateway.coaty.channels": ["line1"],
        "gateway.coaty.operations": ["mesh-op"],
    }
    thing = {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Thing", "name": "über"}
    topic = f"coaty/1/{NAMESPACE}/CHNline1"

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


@pytest.mark.req("COA-12", "COA-11")
async def test_a_node_as_users_start_it_and_the_reference_talk_to_each_other(js: JsAgent, tmp_path: Path) -> None:
    """``weft up``, secured, on its own event loop."""
    channel = f"coaty.{NAMESPACE}.CHN.line2"
    file = tmp_path / "weft.toml"
    settings = f'[gateway.coaty]\nnamespace = "{NAMESPACE}"\nbootstrap = ["{js.address}"]\nchannels = ["line2"]\n'
    file.write_text(settings)

    def thing(name: str) -> dict[str, str]:
        return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Thing", "name": name}

    with up(tmp_path / "a", "--config", str(file)) as node:
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
        node.end_quietly()


@pytest.mark.req("COA-12", "COA-11")
async def test_the_reference_gets_3000_events_of_the_mesh_each_once(js: JsAgent, tmp_path: Path) -> None:
    """And it was there before the bridge, which names nothing in its configuration."""
    count, channel = 3000, f"coaty.{NAMESPACE}.CHN.many"
    file = tmp_path / "weft.toml"
    file.write_text(f'[gateway.coaty]\nnamespace = "{NAMESPACE}"\nbootstrap = ["{js.address}"]\n')

    with up(tmp_path / "a", "--config", str(file)) as node:
        async with node.client() as client:
            agent_id = (await asyncio.to_thread(js.wait, "started", WAIT_S_MAX))["agentId"]
            await first(client, f"coaty.{NAMESPACE}.ADV.Identity", lambda said: said["sourceId"] == agent_id)
            await asyncio.to_thread(js.command, "count", id="many", n=count, ms=120_000)
            topic = f"coaty/1/{NAMESPACE}/CHNmany"  # once the bridge listens, it knows that somebody else does
            await asyncio.to_thread(
                js.wait_for, lambda event: event["ev"] == "subs" and [True, topic] in event["subs"], WAIT_S_MAX
            )
            thing = {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Thing"}
            said = ({"sourceId": new_id(), "data": {"object": {**thing, "name": str(each)}}} for each in range(count))
            await asyncio.gather(*(client.publish(channel, json.dumps(each)) for each in said))
            counted = await asyncio.to_thread(js.wait, "count", 180.0, id="many")
            assert (counted["n"], counted["unique"], counted["ordered"]) == (count, count, True)
        node.end_quietly()


@pytest.mark.req("COA-12", "COA-11")
async def test_raw_events_and_answers_pass_between_reference_agents_by_a_bridge(js: JsAgent, tmp_path: Path) -> None:
    """Two reference agents that only the bridge connects: calls and answers, raw events, and what the mesh says raw."""
    file = tmp_path / "weft.toml"
    file.write_text(f'[gateway.coaty]\nnamespace = "{NAMESPACE}"\nbootstrap = ["{js.address}"]\n')

    raw = f"coaty.{NAMESPACE}.RAW.far/raw"
    with up(tmp_path / "a", "--config", str(file)) as node:
        bridge = node.gateway("coaty")
        with JsAgent.start("secp256k1", "--settle", "0", "--bootstrap", bridge, "--name", "other") as other:

            def told(agent: JsAgent, name: str, **arguments: object) -> Any:
                return asyncio.to_thread(agent.command, name, **arguments)

            async def knows(agent: JsAgent, topic: str) -> None:
                wanted = [True, topic]
                await asyncio.to_thread(
                    agent.wait_for, lambda event: event["ev"] == "subs" and wanted in event["subs"], WAIT_S_MAX
                )

            await told(js, "observe", what="Call", operation="far-op")
            await told(js, "observe", what="Raw", topic="far/raw")
            await knows(other, f"coaty/1/{NAMESPACE}/CLLfar-op")
            await knows(other, "far/raw")
            await asyncio.to_thread(other.tell, "call", operation="far-op", parameters={"a": 1})
            answer = await asyncio.to_thread(other.wait, "Return", WAIT_S_MAX)
            assert answer["data"]["result"] == {"echo": {"a": 1}}
            await told(other, "raw", topic="far/raw", hex="00ff")
            await asyncio.to_thread(js.wait, "Raw", WAIT_S_MAX, topic="far/raw", hex="00ff")
            async with node.client() as client:
                async with asyncio.timeout(WAIT_S_MAX), client.subscribe(raw, start="earliest") as events:
                    assert (await anext(aiter(events))).payload == b"\x00\xff"
                await client.publish(raw, b"\x07")
            await asyncio.to_thread(js.wait, "Raw", WAIT_S_MAX, topic="far/raw", hex="07")
        node.end_quietly()
