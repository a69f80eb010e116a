"""Real nodes as bridges, agents on one side and mesh clients on the other."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.gateway.coaty.stories import (
    BRIDGE,
    WAIT_S_MAX,
    address,
    agent_at,
    bridge_wants_to_send,
    bridged,
    eventually,
    gateway,
    name_of,
    next_of,
    reading,
    settle_quickly,
    thing,
)
from weft.client import Received
from weft.coaty import Return, new_id
from weft.gateway.coaty.inbound import Inbound
from weft.gateway.coaty.sharing import Heard
from weft.testing import mesh
from weft.testing.live_mesh import Mesh


@pytest.fixture(autouse=True)
def quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    settle_quickly(monkeypatch)


@pytest.mark.req("COA-12")
async def test_events_of_agents_appear_in_the_mesh() -> None:
    async with bridged() as (_, client, agent), reading(client, "coaty.plant.>") as events:
        pump = thing("pump")
        await agent.advertise(pump, {"k": 1})
        await agent.channel("line1", pump)
        advert = ("coaty.plant.ADV.CoatyObject", pump["objectId"].encode())
        channel = ("coaty.plant.CHN.line1", None)
        seen: dict[tuple[str, bytes | None], Received] = {}
        while not {advert, channel} <= seen.keys():  # in any order: they are on different topics
            (event,) = await next_of(events)
            seen[event.topic, event.key] = event
        advertised = seen[advert]
        assert json.loads(advertised.payload)["data"] == {"object": pump, "privateData": {"k": 1}}
        assert advertised.headers is not None
        assert advertised.headers["coaty-source-id"] == agent.id
        assert advertised.headers["coaty-object-type"] == "com.weft.Pump"
        assert json.loads(seen[channel].payload)["data"] == {"object": pump}


@pytest.mark.req("COA-12")
async def test_publications_of_mesh_clients_reach_agents_and_are_no_echo() -> None:
    async with bridged() as (it, client, agent):
        heard = agent.observe_channel("line1")
        gone = agent.observe_deadvertise()
        bridge = gateway(it, "n0")
        await bridge_wants_to_send(it, "n0", agent, "coaty/1/plant/DAD")
        me, pump = new_id(), thing("pump")
        said = {"sourceId": me, "data": {"object": pump}}
        await client.publish("coaty.plant.CHN.line1", json.dumps(said))
        event = await heard.next(WAIT_S_MAX)
        assert (event.source_id, event.data.object) == (me, pump)
        await client.publish("coaty.plant.CHN.line1", b"no Coaty event")
        await client.publish("coaty.plant.XYZ", b"nor this")
        ids = {"sourceId": me, "data": {"objectIds": [pump["objectId"]]}}
        await client.publish("coaty.plant.DAD", json.dumps(ids))
        assert list((await gone.next(WAIT_S_MAX)).data.object_ids) == [pump["objectId"]]
        figures = bridge.outbound.figures
        await eventually(lambda: (figures.published, figures.rejected) == (2, 2))
        channel = await client.positions("coaty.plant.CHN.line1")
        assert sum(each.latest_offset for each in channel) == 2  # nothing came back


@pytest.mark.req("COA-12")
async def test_a_mesh_client_calls_an_agent_and_gets_the_return() -> None:
    async with bridged() as (it, client, agent):
        calls = agent.observe_call("multiply")  # not one that the bridge listens to: it only speaks
        await bridge_wants_to_send(it, "n0", agent, "coaty/1/plant/CLLmultiply")
        async with reading(client, "coaty.plant.RTN") as returns:
            correlation = new_id()
            call = {"sourceId": new_id(), "correlationId": correlation, "data": {"parameters": [6, 7]}}
            await client.publish("coaty.plant.CLL.multiply", json.dumps(call))
            question = await calls.next(WAIT_S_MAX)
            assert question.data.parameters == [6, 7]
            await question.reply(Return(result=42))
            (answer,) = await next_of(returns)
            assert json.loads(answer.payload)["data"] == {"result": 42}
            assert answer.key == correlation.encode()
            assert answer.headers is not None
            assert answer.headers["coaty-correlation-id"] == correlation


@pytest.mark.req("COA-12")
async def test_an_agent_calls_a_mesh_client() -> None:
    async with bridged() as (_, client, agent), reading(client, "coaty.plant.CLL.add") as calls:
        responses = await agent.call("add", [1, 2])
        (call,) = await next_of(calls)
        asked = json.loads(call.payload)
        returned = {"result": sum(asked["data"]["parameters"])}
        answer = {"sourceId": new_id(), "correlationId": asked["correlationId"], "data": returned}
        await client.publish("coaty.plant.RTN", json.dumps(answer))
        assert (await responses.first(WAIT_S_MAX)).data.result == 3


@pytest.mark.req("COA-12")
async def test_several_bridges_neither_loop_nor_double() -> None:
    async def meet(it: Mesh) -> None:
        """Until both know that there are two: they find each other over the mesh."""
        one, other = gateway(it, "n0"), gateway(it, "n1")
        await eventually(lambda: one.sharing.others and other.sharing.others)
        await eventually(lambda: one.sharing.islands == other.sharing.islands == {one.island.name})

    async with (
        mesh(nodes=2, settings=BRIDGE) as it,
        it.client("n0") as client,
        agent_at(it, "n0", "n1") as agent,
    ):
        await meet(it)
        heard = agent.observe_channel("line1")
        bridges = [gateway(it, node) for node in ("n0", "n1")]
        for node in ("n0", "n1"):
            await bridge_wants_to_send(it, node, agent, "coaty/1/plant/CHNline1")
        async with reading(client, "coaty.plant.CHN.line1") as events:
            count = 40
            for number in range(count):
                await agent.channel("line1", thing(f"from Coaty {number}"))
            for number in range(count):
                said = {"sourceId": new_id(), "data": {"object": thing(f"from the mesh {number}")}}
                await client.publish("coaty.plant.CHN.line1", json.dumps(said))
            in_mesh = [name_of(event) for event in await next_of(events, 2 * count)]
            at_agent = [(await heard.next(WAIT_S_MAX)).data.object for _ in range(2 * count)]
            names = [str(one["name"]) for one in at_agent if one is not None]
            expected = sorted([f"from Coaty {n}" for n in range(count)] + [f"from the mesh {n}" for n in range(count)])
            assert sorted(in_mesh) == expected
            assert sorted(names) == expected  # its own by publish-to-self
            shares = [bridge.inbound.figures.left_to_others >= count for bridge in bridges]
            assert sorted(shares) == [False, True], "one brought over all that this agent said"
            with pytest.raises(TimeoutError):
                await heard.next(0.2)


@pytest.mark.req("COA-12")
async def test_the_objects_of_the_namespace_can_be_read_from_the_mesh() -> None:
    async with bridged() as (it, client, agent):
        kept, gone = thing("kept"), thing("gone")
        await agent.advertise(agent.identity)  # again: it may have settled before it was connected
        await agent.advertise(kept)
        await agent.advertise(gone)
        await agent.deadvertise(gone["objectId"])
        async with reading(client, "coaty.plant.objects") as changes:
            state: dict[str, bytes] = {}
            while state.get(gone["objectId"]) != b"":
                (change,) = await next_of(changes)
                state[(change.key or b"").decode()] = change.payload
            assert json.loads(state[kept["objectId"]]) == kept
            assert json.loads(state[agent.id])["name"] == "agent"  # identities are objects, too
        assert it.node("n0").config.gateway.coaty.compacted == ("coaty.plant.objects", "coaty.plant.bridges")


async def test_a_bridge_keeps_its_identity_and_says_what_was_published_while_it_was_down() -> None:
    async with mesh(nodes=1, settings=BRIDGE) as it:
        before = address(it, "n0").rpartition("/")[2]
        async with it.client() as client:
            said = {"sourceId": new_id(), "data": {"object": thing("first")}}
            await client.publish("coaty.plant.CHN.line1", json.dumps(said))
            await eventually(lambda: gateway(it, "n0").outbound.figures.published == 1)
        await it.stop("n0")
        await it.restart("n0")
        assert address(it, "n0").rpartition("/")[2] == before
        async with it.client() as client:
            await client.publish("coaty.plant.CHN.line1", json.dumps(said))
            await eventually(lambda: gateway(it, "n0").outbound.figures.published == 1)  # the first is handled


async def test_a_defect_that_ends_the_bridge_does_not_go_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

    def broken(inbound: Inbound, event: Heard) -> None:
        raise ValueError("a defect")

    async with bridged() as (_, _, agent):
        monkeypatch.setattr(Inbound, "heard", broken)
        await agent.channel("line1", thing("pump"))
        await eventually(lambda: told)
    assert [str(each) for each in told] == ["a defect"]
