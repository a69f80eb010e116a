"""Who hears whom: agents at one bridge, at two, and those who were there before; nothing is configured by name."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import pytest

from tests.gateway.coaty.stories import (
    WAIT_S_MAX,
    address,
    bridge_wants_to_send,
    eventually,
    gateway,
    next_of,
    reading,
    settle_quickly,
    thing,
)
from weft.coaty import Agent, Return, new_id
from weft.coaty.peer import Peer, Tap
from weft.testing import mesh
from weft.testing.live_mesh import Mesh
from weft.wire.libp2p import PeerId

BARE = {"gateway.coaty.namespace": "plant"}


@pytest.fixture(autouse=True)
def quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    settle_quickly(monkeypatch)


async def joined(it: Mesh, node: str, name: str, stack: AsyncExitStack) -> Agent:
    agent = await stack.enter_async_context(Agent("plant", name=name, bootstrap=[address(it, node)]))
    await eventually(lambda: agent.peer.wanted_by("coaty/1/plant/DAD"))
    await agent.ready()
    return agent


async def wanted(agent: Agent, topic: str) -> None:
    await eventually(lambda: agent.peer.wanted_by(topic))


@pytest.mark.req("COA-12")
async def test_a_bridge_learns_what_agents_want() -> None:
    """Channels, operations, contexts and raw topics come to the mesh because somebody observes them."""

    async with mesh(nodes=1, settings=BARE) as it, it.client() as client, AsyncExitStack() as stack:
        observer = await joined(it, "n0", "observer", stack)
        speaker = await joined(it, "n0", "speaker", stack)
        channel, raw = observer.observe_channel("new"), observer.observe_raw("sensors/7")
        association = observer.observe_associate("context")
        for topic in ("coaty/1/plant/CHNnew", "sensors/7", "coaty/1/plant/ASCcontext"):
            await wanted(speaker, topic)
        pump, source, actor = thing("pump"), new_id(), new_id()
        await speaker.channel("new", pump)
        await speaker.raw("sensors/7", b"\x00\x01")
        await speaker.associate("context", source, actor, "external/route")
        assert (await channel.next(WAIT_S_MAX)).data.object == pump, "a bridge passes on what it listens to"
        assert (await raw.next(WAIT_S_MAX)).payload == b"\x00\x01"
        assert (await association.next(WAIT_S_MAX)).data.associating_route == "external/route"
        for topic in ("CHN.new", "ASC.context", "RAW.sensors/7"):
            async with reading(client, f"coaty.plant.{topic}") as events:
                (event,) = await next_of(events)
                assert event.headers is not None
                assert event.headers["coaty-peer"] == speaker.peer_id
        await client.publish("coaty.plant.RAW.sensors/7", b"\xff")
        assert (await raw.next(WAIT_S_MAX)).payload == b"\xff"
        raw.close()
        await eventually(lambda: not speaker.peer.wanted_by("sensors/7"))


@pytest.mark.req("COA-12")
async def test_agents_that_only_a_bridge_connects_get_answers_from_each_other() -> None:
    async with mesh(nodes=1, settings=BARE) as it, it.client() as client, AsyncExitStack() as stack:
        one, other = [await joined(it, "n0", name, stack) for name in ("one", "other")]
        await call_each_other(one, other)
        pumps = other.observe_advertise(object_type="com.weft.Pump")
        await wanted(one, "coaty/1/plant/ADV:com.weft.Pump")
        pump = thing("pump")
        await one.advertise(pump)
        assert (await pumps.next(WAIT_S_MAX)).data.object == pump
        async with reading(client, "coaty.plant.ADV.>") as adverts:
            while (event := (await next_of(adverts))[0]).key != pump["objectId"].encode():
                pass
        assert event.topic == "coaty.plant.ADV.CoatyObject"
        counted = await client.positions("coaty.plant.ADV.:com.weft.Pump")
        assert not counted, "it came over once, by its core type"


async def call_each_other(one: Agent, other: Agent) -> None:
    calls = other.observe_call("multiply")
    await eventually(lambda: one.peer.wanted_by("coaty/1/plant/CLLmultiply"))
    responses = await one.call("multiply", [6, 7])
    question = await calls.next(WAIT_S_MAX)
    await question.reply(Return(result=42))
    answer = await responses.first(WAIT_S_MAX)
    assert (answer.source_id, answer.data.result) == (other.id, 42)


@pytest.mark.req("COA-12")
async def test_agents_at_different_bridges_hear_each_other_by_the_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two islands: no agent and no bridge of one is connected to any of the other."""
    monkeypatch.setattr(Peer, "dial_soon", lambda peer, address: None)  # as if bridges could not reach each other

    async with mesh(nodes=2, settings=BARE) as it, it.client() as client, AsyncExitStack() as stack:
        one, other = await joined(it, "n0", "one", stack), await joined(it, "n1", "other", stack)
        await call_each_other(one, other)
        await call_each_other(other, one)
        channel, raw, own = other.observe_channel("far"), other.observe_raw("far/raw"), one.observe_channel("far")
        for topic in ("coaty/1/plant/CHNfar", "far/raw"):
            await wanted(one, topic)
        await bridge_wants_to_send(it, "n1", other, "far/raw")
        pump = thing("pump")
        await one.channel("far", pump)
        await one.raw("far/raw", b"\x00")
        assert (await channel.next(WAIT_S_MAX)).data.object == pump
        assert (await raw.next(WAIT_S_MAX)).payload == b"\x00"
        me = new_id()
        await client.publish("coaty.plant.CHN.far", json.dumps({"sourceId": me, "data": {"object": pump}}))
        assert (await channel.next(WAIT_S_MAX)).source_id == me, "clients of the mesh reach both islands"
        assert [(await own.next(WAIT_S_MAX)).source_id for _ in range(2)] == [one.id, me], "and nothing came back"
        assert all(gateway(it, node).sharing.others == () for node in ("n0", "n1"))


@pytest.mark.req("COA-12")
async def test_agents_at_different_bridges_that_are_connected() -> None:
    """One island: bridges find each other over the mesh, and pass on questions and answers."""

    async with mesh(nodes=2, settings=BARE) as it, it.client() as client, AsyncExitStack() as stack:
        one, other = await joined(it, "n0", "one", stack), await joined(it, "n1", "other", stack)
        await eventually(lambda: all(gateway(it, node).sharing.others for node in ("n0", "n1")))
        await eventually(lambda: len({gateway(it, node).island.name for node in ("n0", "n1")}) == 1)
        await call_each_other(one, other)
        async with reading(client, "coaty.plant.RTN") as answers:
            calls = one.observe_call("add")
            await eventually(lambda: all("coaty/1/plant/CLLadd" in heard_by(it, node) for node in ("n0", "n1")))
            call = {"sourceId": new_id(), "correlationId": new_id(), "data": {"parameters": [1]}}
            await client.publish("coaty.plant.CLL.add", json.dumps(call))
            await (await calls.next(WAIT_S_MAX)).reply(Return(result=1))
            (answer,) = await next_of(answers)
            assert answer.key == str(call["correlationId"]).encode()


def heard_by(it: Mesh, node: str) -> tuple[str, ...]:
    agent = gateway(it, node)._agent
    assert agent is not None
    return agent.peer.topics


@pytest.mark.req("COA-12")
async def test_an_agent_that_was_there_before_the_bridge_appears_in_the_mesh() -> None:
    async with Agent("plant", name="early", join=[thing("pump")]) as agent:
        await agent.ready()  # and has said who it is, to nobody
        settings = {**BARE, "gateway.coaty.bootstrap": agent.addresses}
        async with mesh(nodes=1, settings=settings) as it, it.client() as client:
            names: set[str] = set()
            async with reading(client, "coaty.plant.objects") as changes:
                while not {"early", "pump"} <= names:
                    (change,) = await next_of(changes)
                    names.add(json.loads(change.payload)["name"])
            async with reading(client, "coaty.plant.ADV.Identity") as adverts:
                while True:
                    (advert,) = await next_of(adverts)
                    if json.loads(advert.payload)["sourceId"] == agent.id:
                        break


@pytest.mark.req("COA-12")
async def test_what_was_brought_over_is_known_after_a_restart() -> None:
    async with mesh(nodes=1, settings=BARE) as it, it.client() as client, AsyncExitStack() as stack:
        agent = await joined(it, "n0", "agent", stack)
        said = thing("said once")
        await agent.advertise(said)
        async with reading(client, "coaty.plant.ADV.CoatyObject") as events:
            identity = None
            while identity is None:
                (event,) = await next_of(events)
                if event.key == said["objectId"].encode():
                    identity = (event.headers or {})["coaty-message-id"]
        island = gateway(it, "n0").island.name
        await it.kill("n0")
        await it.restart("n0")
        assert identity in gateway(it, "n0")._brought
        assert gateway(it, "n0").island.name == island


async def test_a_neighbour_comes_once_however_often_it_subscribes() -> None:
    """Two bridges that asked each other at every new subscription, which asking makes, never came to rest."""

    class Counting(Tap):
        def __init__(self) -> None:
            self.came_in: list[PeerId] = []

        def came(self, peer: PeerId) -> None:
            self.came_in.append(peer)

    async with Agent("plant", name="one") as one:
        tap = one.peer.tap = Counting()
        async with Agent("plant", name="other", bootstrap=one.addresses) as other:
            await eventually(lambda: tap.came_in)
            kept = [other.observe_channel(f"c{number}") for number in range(20)]
            await eventually(lambda: one.peer.wanted_by("coaty/1/plant/CHNc19"))
            assert tap.came_in == [other.peer.host.peer]
            del kept
        await eventually(lambda: not one.neighbours)


async def test_connections_are_bounded_and_the_bound_is_told() -> None:
    async with (
        Agent("plant", name="full", connections_max=1) as full,
        Agent("plant", name="first", bootstrap=full.addresses) as first,
    ):
        await eventually(lambda: first.is_online and full.is_online)
        async with Agent("plant", name="second", bootstrap=full.addresses):
            error = await full.errors.next(WAIT_S_MAX)
            assert "too many connections" in str(error)
            assert "1" in str(error)
        assert full.peer.host.refused >= 1
        assert len(full.neighbours) == 1
