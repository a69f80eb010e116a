"""The bridge in a node as users start it: ``weft up``, secured, on its own event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.strangers import strangers
from tests.up import RunningNode, up
from weft.client import Client, Received
from weft.coaty import Agent, CoatyObject, new_id
from weft.transport.addresses import Address
from weft.wire.libp2p import multiaddr

WAIT_S: Final = 60.0
NAMESPACE: Final = "plant"
CHANNEL: Final = f"coaty/1/{NAMESPACE}/CHNline1"
CONFIG: Final = """
[gateway.coaty]
namespace = "plant"
channels = ["line1"]
bootstrap = {bootstrap}
"""


def configured(directory: Path, *bootstrap: str) -> tuple[str, str]:
    """Flags."""
    file = directory / "weft.toml"
    file.write_text(CONFIG.format(bootstrap=json.dumps(bootstrap)))
    return "--config", str(file)


def thing(name: str) -> CoatyObject:
    return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Pump", "name": name}


def said_by(source: str, item: CoatyObject) -> str:
    return json.dumps({"sourceId": source, "data": {"object": item}})


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def first(client: Client, topic: str, item: CoatyObject) -> Received:
    """The first event on a topic of the mesh that is about this object."""
    async with asyncio.timeout(WAIT_S), client.subscribe(topic, start="earliest") as events:
        async for event in events:
            if json.loads(event.payload)["data"].get("object") == item:
                return event
    raise AssertionError("the subscription ended")


async def exchange(node: RunningNode, agent: Agent) -> None:
    """Advertised and said on a channel, from the agent to the mesh and back."""
    heard, advertised = agent.observe_channel("line1"), agent.observe_advertise(object_type="com.weft.Pump")
    await until(lambda: agent.peer.wanted_by(CHANNEL))
    await agent.ready()
    async with asyncio.timeout(WAIT_S), node.client() as client:
        pump, valve, me = thing("pump"), thing("valve"), new_id()
        await agent.advertise(pump)
        await agent.channel("line1", pump)
        for topic in ("ADV.CoatyObject", "CHN.line1"):
            event = await first(client, f"coaty.{NAMESPACE}.{topic}", pump)
            assert event.headers is not None
            assert event.headers["coaty-source-id"] == agent.id
        await client.publish(f"coaty.{NAMESPACE}.ADV.CoatyObject", said_by(me, valve))
        await client.publish(f"coaty.{NAMESPACE}.CHN.line1", said_by(me, valve))
        assert [(await heard.next(WAIT_S)).data.object for _ in range(2)] == [pump, valve]  # it hears itself as well
        assert [(await advertised.next(WAIT_S)).data.object for _ in range(2)] == [pump, valve]


@pytest.mark.req("COA-12")
async def test_agents_and_mesh_clients_hear_each_other(tmp_path: Path) -> None:
    with up(tmp_path / "a", *configured(tmp_path)) as node:
        async with Agent(NAMESPACE, name="dials the bridge", bootstrap=[node.gateway("coaty")]) as agent:
            await exchange(node, agent)
            await asyncio.to_thread(node.end_quietly)  # with an agent at the other end


@pytest.mark.req("COA-12")
async def test_a_bridge_dials_an_agent(tmp_path: Path) -> None:
    async with Agent(NAMESPACE, name="is dialled") as agent:
        with up(tmp_path / "a", *configured(tmp_path, *agent.addresses)) as node:
            await exchange(node, agent)
            await asyncio.to_thread(node.end_quietly)


@pytest.mark.req("COA-12")
async def test_what_agents_observe_is_learned_and_counted(tmp_path: Path) -> None:
    """Nothing is named in the configuration: a channel, a raw topic, and what an agent has before the bridge comes."""
    file = tmp_path / "weft.toml"

    async with Agent(NAMESPACE, name="observer") as observer, Agent(NAMESPACE, name="speaker") as speaker:
        bootstrap = json.dumps([*observer.addresses, *speaker.addresses])
        file.write_text(f'[gateway.coaty]\nnamespace = "plant"\nbootstrap = {bootstrap}\n')
        await asyncio.gather(observer.ready(), speaker.ready())
        channel, raw = observer.observe_channel("learned"), observer.observe_raw("sensors/7")
        with up(tmp_path / "a", "--config", str(file)) as node:
            for topic in ("coaty/1/plant/CHNlearned", "sensors/7"):
                await until(lambda topic=topic: speaker.peer.wanted_by(topic))  # type: ignore[misc]
            async with asyncio.timeout(WAIT_S), node.client() as client:
                pump = thing("pump")
                await speaker.channel("learned", pump)
                await speaker.raw("sensors/7", b"\x00\x01")
                assert (await channel.next(WAIT_S)).data.object == pump, "the bridge connects the two"
                assert (await raw.next(WAIT_S)).payload == b"\x00\x01"
                await first(client, "coaty.plant.CHN.learned", pump)
                async with client.subscribe("coaty.plant.RAW.sensors/7", start="earliest") as events:
                    assert (await anext(aiter(events))).payload == b"\x00\x01"
                await client.publish("coaty.plant.RAW.sensors/7", b"\xff")
                assert (await raw.next(WAIT_S)).payload == b"\xff"
                await first(client, "coaty.plant.ADV.Identity", observer.identity)
            figures = await asyncio.to_thread(node.metrics)
            assert value_of(figures, 'weft_coaty_in_events_total{fate="published"}') >= 3
            assert value_of(figures, 'weft_coaty_out_events_total{fate="published"}') == 1
            assert value_of(figures, "weft_coaty_neighbours") == 2
            await asyncio.to_thread(node.end_quietly)


def value_of(figures: str, series: str) -> float:
    (line,) = [line for line in figures.splitlines() if line.startswith(f"{series} ")]
    return float(line.rpartition(" ")[2])


@pytest.mark.req("COA-12")
async def test_connections_beyond_the_bound_are_told(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.coaty]\nnamespace = "plant"\nconnections_max = 1\n')

    with up(tmp_path / "a", "--config", str(file)) as node:
        bridge = node.gateway("coaty")
        async with Agent(NAMESPACE, name="one", bootstrap=[bridge]) as one:
            await until(lambda: one.is_online)
            async with Agent(NAMESPACE, name="one too many", bootstrap=[bridge]):
                await until(lambda: any("too many connections (limit 1)" in str(line) for line in node.logged()))
        assert value_of(await asyncio.to_thread(node.metrics), "weft_coaty_connections_refused_total") >= 1
        node.end_quietly()


def test_strangers_do_not_keep_a_node_from_ending(tmp_path: Path) -> None:
    with up(tmp_path / "a", *configured(tmp_path)) as node:
        endpoint = multiaddr.parse(node.gateway("coaty")).tcp_endpoint
        assert endpoint is not None
        with strangers(str(Address(*endpoint))):
            node.metrics()  # by then the node's event loop has seen them
            node.end_quietly()


@pytest.mark.req("COA-12", "OBS-01")
async def test_what_the_page_on_coaty_says_is_counted_is_a_metric(tmp_path: Path) -> None:
    """What is refused on the way out, topics beyond the bound, and questions that wait for answers."""
    file = tmp_path / "weft.toml"

    async with Agent(NAMESPACE, name="wants more than is learned") as agent:
        bootstrap = json.dumps(agent.addresses)
        file.write_text(f'[gateway.coaty]\nnamespace = "plant"\nlearned_max = 1\nbootstrap = {bootstrap}\n')
        kept = [agent.observe_channel(f"c{number}") for number in range(3)]
        with up(tmp_path / "a", "--config", str(file)) as node:

            async def counted(series: str, wanted: float) -> None:
                async with asyncio.timeout(WAIT_S):
                    while value_of(await asyncio.to_thread(node.metrics), series) != wanted:
                        await asyncio.sleep(0.1)

            await counted("weft_coaty_topics_refused", 2)
            figures = await asyncio.to_thread(node.metrics)
            async with node.client() as client:
                await client.publish("coaty.plant.CHN.c0", b"no event of Coaty")
                await counted('weft_coaty_out_events_total{fate="rejected"}', 1)
                call = {"sourceId": new_id(), "correlationId": new_id(), "data": {"parameters": {}}}
                await client.publish("coaty.plant.CLL.add", json.dumps(call))
                await counted("weft_coaty_questions", 1)
            assert value_of(figures, "weft_coaty_topics") > 1
            for series in ("held_events", "held_forgotten_total", "distrusted_total", "bridges"):
                assert value_of(figures, f"weft_coaty_{series}") == 0
            assert len(kept) == 3
            await asyncio.to_thread(node.end_quietly)
