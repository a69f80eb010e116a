"""``weft.coaty.Agent`` and the reference agent: every pattern both ways, all key types, dialling and being dialled."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.interop.coaty.js_agent import HERE, KEY_TYPES, OUR_KEY_TYPES, JsAgent, own_identity, unavailable
from weft import coaty
from weft.coaty import Agent, new_id
from weft.coaty import settling as settling_room
from weft.coaty.identities import new_identity
from weft.wire.libp2p import KeyType, PrivateKey

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=unavailable() or "")

WAIT_S_MAX = 30.0
NAMESPACE = "h-coaty"  # the reference agent's


@pytest.fixture(autouse=True)
def quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling_room, "COATY_SETTLING_S", 0.05)


@pytest.fixture(scope="module", params=KEY_TYPES)
def js(request: pytest.FixtureRequest) -> Iterator[JsAgent]:
    with JsAgent.start(request.param, "--settle", "0") as agent:
        agent.wait("ready")
        yield agent


def thing(name: str = "thing", **more: Any) -> coaty.CoatyObject:
    return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Thing", "name": name, **more}


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not holds():
            await asyncio.sleep(0.01)


async def told(js: JsAgent, name: str, **arguments: object) -> None:
    await asyncio.to_thread(js.command, name, **arguments)


async def heard(js: JsAgent, kind: str, **fields: object) -> dict[str, Any]:
    return await asyncio.to_thread(js.wait, kind, WAIT_S_MAX, **fields)


async def heard_from(js: JsAgent, agent: Agent, kind: str) -> dict[str, Any]:
    return await heard(js, kind, sourceId=agent.id)


async def both_want(js: JsAgent, agent: Agent, ours: str, theirs: str) -> None:
    """Until the reference knows that we want one topic, and we that it wants the other."""
    await asyncio.to_thread(
        js.wait_for,
        lambda event: event["ev"] == "subs" and event["id"] == agent.peer_id and [True, ours] in event["subs"],
        WAIT_S_MAX,
    )
    await eventually(lambda: agent.peer.wanted_by(theirs))


def stranger(js: JsAgent) -> PrivateKey:
    """Nobody that the reference has met before: it would dial who that was, at the address of an earlier test."""
    return new_identity(KeyType[OUR_KEY_TYPES[js.key_type].upper()])


@asynccontextmanager
async def connected(js: JsAgent, **options: Any) -> AsyncIterator[Agent]:
    """One of ours, with a key of another type, that has dialled the reference and settled."""
    async with Agent(NAMESPACE, name="weft", identity=stranger(js), bootstrap=[js.address], **options) as agent:
        await eventually(lambda: agent.is_online)
        await agent.ready()
        yield agent


@pytest.mark.req("COA-11", "COA-03", "COA-05")
async def test_one_way_events_both_ways(js: JsAgent) -> None:
    async with connected(js) as agent:
        topic = f"raw/{new_id()}"
        advertised, gone = agent.observe_advertise(object_type="com.weft.Thing"), agent.observe_deadvertise()
        channel, raw = agent.observe_channel("c"), agent.observe_raw(topic)
        for what in ({"what": "Advertise", "objectType": "com.weft.Thing"}, {"what": "Deadvertise"}):
            await told(js, "observe", **what)
        await told(js, "observe", what="Channel", id="c")
        await told(js, "observe", what="Raw", topic=topic)
        await both_want(js, agent, topic, topic)

        ours, theirs = thing("ours: ✓"), thing("theirs: ✓")
        await agent.advertise(ours, {"k": [1, None]})
        await agent.channel("c", ours)
        await agent.deadvertise(ours["objectId"])
        await agent.raw(topic, b"\x00ours")
        assert (await heard_from(js, agent, "Advertise"))["data"] == {
            "object": ours,
            "privateData": {"k": [1, None]},
        }
        assert (await heard_from(js, agent, "Channel"))["data"]["object"] == ours
        assert (await heard_from(js, agent, "Deadvertise"))["data"] == {"objectIds": [ours["objectId"]]}
        assert (await heard(js, "Raw", topic=topic))["hex"] == b"\x00ours".hex()

        await told(js, "advertise", object=theirs)
        await told(js, "channel", id="c", objects=[theirs, theirs])
        await told(js, "deadvertise", objectIds=[theirs["objectId"]])
        await told(js, "raw", topic=topic, hex="00ff")
        agent_id = (await heard(js, "started"))["agentId"]
        events = [await advertised.next(WAIT_S_MAX) for _ in range(2)]  # publish-to-self: ours first
        assert [(event.source_id, event.data.object) for event in events] == [(agent.id, ours), (agent_id, theirs)]
        assert (await channel.next(WAIT_S_MAX)).source_id == agent.id
        assert list((await channel.next(WAIT_S_MAX)).data.objects or ()) == [theirs, theirs]
        assert (await gone.next(WAIT_S_MAX)).source_id == agent.id
        assert list((await gone.next(WAIT_S_MAX)).data.object_ids) == [theirs["objectId"]]
        assert [(await raw.next(WAIT_S_MAX)).payload for _ in range(2)] == [b"\x00ours", b"\x00\xff"]
        await told(js, "unobserve", what="Deadvertise")
        await told(js, "unobserve", what="Advertise", objectType="com.weft.Thing")
        await told(js, "unobserve", what="Channel", id="c")


@pytest.mark.req("COA-11", "COA-09")
async def test_we_ask_and_the_reference_answers(js: JsAgent) -> None:
    async with connected(js) as agent:
        pump = thing("pump")
        await told(js, "observe", what="Call", operation="op")
        await told(js, "observe", what="Discover", object=pump, relatedObjects=[thing("related")])
        await told(js, "observe", what="Query", objects=[pump])
        await told(js, "observe", what="Update", coreType="CoatyObject")
        await eventually(lambda: agent.peer.wanted_by(f"coaty/1/{NAMESPACE}/UPDCoatyObject"))

        returned = await (await agent.call("op", {"a": [1, "ü"]})).first(WAIT_S_MAX)
        assert returned.data.result == {"echo": {"a": [1, "ü"]}}
        assert returned.data.execution_info == {"by": "js-agent"}
        resolved = await (await agent.discover(object_id=pump["objectId"])).first(WAIT_S_MAX)
        assert resolved.data.object == pump
        assert [one["name"] for one in resolved.data.related_objects or ()] == ["related"]
        wanted = coaty.ObjectFilter((coaty.where("name", coaty.Operator.LIKE, "pu%"),))
        retrieved = await (await agent.query(core_types=["CoatyObject"], where=wanted)).first(WAIT_S_MAX)
        assert list(retrieved.data.objects) == [pump]
        completed = await (await agent.update(pump)).first(WAIT_S_MAX)
        assert completed.data.object == {**pump, "name": "pump!"}
        assert not any("/RTN/" in topic for topic in agent.peer._pubsub._router.topics)
        await told(js, "unobserve", what="Call", operation="op")
        await told(js, "unobserve", what="Update", coreType="CoatyObject")
        await told(js, "unobserve", what="Discover")
        await told(js, "unobserve", what="Query")


@pytest.mark.req("COA-11")
async def test_the_reference_asks_and_we_answer(js: JsAgent) -> None:
    async with connected(js) as agent:
        mine = thing("mine", externalId=new_id())
        calls, discovers = agent.observe_call("ours"), agent.observe_discover()
        queries, updates = agent.observe_query(), agent.observe_update(object_type="com.weft.Thing")
        await both_want(js, agent, f"coaty/1/{NAMESPACE}/UPD:com.weft.Thing", f"coaty/1/{NAMESPACE}/DSC")
        await told(js, "call", operation="ours", parameters=[1, 2])
        call = await calls.next(WAIT_S_MAX)
        assert list(call.data.parameters or ()) == [1, 2]
        await call.reply(coaty.Return(error=coaty.CallError(42, "nein")))
        assert (await heard_from(js, agent, "Return"))["data"] == {"error": {"code": 42, "message": "nein"}}

        await told(js, "discover", externalId=mine["externalId"])
        question = await discovers.next(WAIT_S_MAX)
        assert question.data.matches(mine)
        await question.reply(coaty.Resolve(mine))
        assert (await heard_from(js, agent, "Resolve"))["data"] == {"object": mine}

        await told(js, "query", objectTypes=["com.weft.Thing"], filter={})
        await (await queries.next(WAIT_S_MAX)).reply(coaty.Retrieve([mine]))
        assert (await heard_from(js, agent, "Retrieve"))["data"] == {"objects": [mine]}

        await told(js, "update", object=mine)
        update = await updates.next(WAIT_S_MAX)
        await update.reply(coaty.Complete({**update.data.object, "name": "done"}))
        assert (await heard_from(js, agent, "Complete"))["data"] == {"object": {**mine, "name": "done"}}


@pytest.mark.req("COA-11")
async def test_the_reference_dials_us(js: JsAgent) -> None:
    async with Agent(NAMESPACE, name="weft", identity=stranger(js)) as agent:
        await told(js, "dial", addr=agent.addresses[0])
        await eventually(lambda: agent.is_online)
        await told(js, "observe", what="Channel", id="in")
        own = agent.observe_channel("out")
        await both_want(js, agent, f"coaty/1/{NAMESPACE}/CHNout", f"coaty/1/{NAMESPACE}/CHNin")
        await agent.channel("in", thing("a"))
        assert (await heard_from(js, agent, "Channel"))["data"]["object"]["name"] == "a"
        await told(js, "channel", id="out", object=thing("b"))
        event = await own.next(WAIT_S_MAX)
        assert event.data.object is not None
        assert event.data.object["name"] == "b"
        await told(js, "unobserve", what="Channel", id="in")


@pytest.mark.req("COA-11", "COA-08")
async def test_a_connection_that_the_reference_drops_comes_back(js: JsAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.coaty import neighbourhood

    monkeypatch.setattr(neighbourhood, "LIBP2P_DISCOVERY_S", 0.2)

    async with connected(js) as agent:
        await told(js, "hangup", id=agent.peer_id)
        assert await agent.states.next(WAIT_S_MAX) is True
        assert await agent.states.next(WAIT_S_MAX) is False
        assert await agent.states.next(WAIT_S_MAX) is True
        again = agent.observe_channel("again")
        async with asyncio.timeout(WAIT_S_MAX):
            while True:  # the reference may drop and dial a few times more before it is content
                await told(js, "channel", id="again", object=thing("back"))
                with suppress(TimeoutError):
                    await again.next(0.3)
                    break


@pytest.mark.req("COA-11", "COA-10")
async def test_the_last_will_of_a_reference_agent_that_was_killed() -> None:
    async with Agent(NAMESPACE, name="survivor", identity=own_identity("Ed25519")) as agent:
        gone = agent.observe_deadvertise()
        with JsAgent.start("secp256k1", "--settle", "0", "--bootstrap", agent.addresses[0]) as js:
            agent_id = (await heard(js, "started"))["agentId"]
            await eventually(
                lambda: any(will.agent_id == agent_id for will in agent.peer._liveliness._decisions.last_wills)
            )
            os.kill(js.pid, signal.SIGKILL)
            event = await gone.next(WAIT_S_MAX)
            assert event.source_id == agent_id
            assert agent_id in event.data.object_ids


@pytest.mark.req("COA-11")
async def test_io_values_of_reference_agents() -> None:
    def point(kind: str, number: int) -> coaty.CoatyObject:
        return {
            "objectId": f"0000000{number}-0000-4000-8000-000000000000",
            "coreType": kind,
            "objectType": f"coaty.{kind}",
            "name": f"{kind}{number}",
            "valueType": "temperature",
        }

    node: coaty.CoatyObject = {
        "objectId": new_id(),
        "coreType": "IoNode",
        "objectType": "coaty.IoNode",
        "name": "plant",
        "ioSources": [],
        "ioActors": [point("IoActor", 5)],
    }

    async with Agent("io", name="actor", identity=own_identity("Ed25519"), io_nodes=[node]) as agent:
        values = agent.observe_io_values(point("IoActor", 5)["objectId"])
        keys = [str(HERE / f"peerid_{kind}.json") for kind in ("RSA", "secp256k1")]
        with JsAgent("io", agent.addresses[0], *keys, script="io_agent.js"):
            assert await values.next(3 * WAIT_S_MAX) == {"celsius": 21.5}  # two agents have to start


@pytest.mark.req("COA-11")
async def test_io_routing_both_ways() -> None:
    """We are the router. Our sources feed the reference's actors, and its sources feed ours: JSON on the namespace's
    own route, bytes on an external one."""

    def point(kind: str, number: int, *, raw: bool = False) -> coaty.CoatyObject:
        return {
            "objectId": f"0000000{number}-0000-4000-8000-000000000000",
            "coreType": kind,
            "objectType": f"coaty.{kind}",
            "name": f"{kind}{number}",
            "valueType": "temperature",
            "useRawIoValues": raw,
        }

    ids = {number: point("IoSource", number)["objectId"] for number in range(1, 9)}
    node: coaty.CoatyObject = {
        "objectId": new_id(),
        "coreType": "IoNode",
        "objectType": "coaty.IoNode",
        "name": "plant",
        "ioSources": [point("IoSource", 5), point("IoSource", 7, raw=True)],
        "ioActors": [point("IoActor", 6), point("IoActor", 8, raw=True)],
    }

    async with Agent("io", name="router", identity=own_identity("Ed25519"), io_nodes=[node]) as agent:
        key = str(HERE / "peerid_secp256k1.json")
        with JsAgent("io", agent.addresses[0], key, script="io_peer.js") as js:
            await asyncio.to_thread(js.wait, "ready", 2 * WAIT_S_MAX)
            await eventually(lambda: agent.peer.wanted_by("coaty/1/io/ASCplant"))
            json_route, external = "coaty/1/io/IOV", "outside/of/coaty"

            await agent.associate("plant", ids[5], ids[2], json_route, 250)
            await heard(js, "IoState", point=2, has=True)
            await eventually(lambda: agent.peer.wanted_by(json_route))
            assert await agent.io_value(ids[5], {"celsius": 1.5})
            assert (await heard(js, "IoValue", point=2))["value"] == {"celsius": 1.5}
            await agent.associate("plant", ids[7], ids[4], external)
            await eventually(lambda: agent.peer.wanted_by(external))
            assert await agent.io_value(ids[7], b"\x01\xfe")
            assert (await heard(js, "IoValue", point=4))["value"] == "01fe"
            await agent.associate("plant", ids[5], ids[2], None)
            await eventually(lambda: not agent.peer.wanted_by(json_route))
            assert not await agent.io_value(ids[5], {"celsius": 2}), "nobody is there any more"

            values, raw_values = agent.observe_io_values(ids[6]), agent.observe_io_values(ids[8])
            await agent.associate("plant", ids[1], ids[6], json_route, 100)
            assert await values.next(WAIT_S_MAX) == {"celsius": 21.5}
            assert (await heard(js, "IoState", point=1, has=True))["rate"] == 100
            await agent.associate("plant", ids[3], ids[8], "outside/too")
            assert await raw_values.next(WAIT_S_MAX) == b"\x00\xff\x07"
