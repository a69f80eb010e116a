"""Agents of our own with each other: every pattern, and what holds of all of them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from weft import coaty
from weft.coaty import Agent, KeyType, ObjectFilter, Operator, Return, new_id, new_identity, where
from weft.coaty import observing as observing_room
from weft.coaty import settling as settling_room
from weft.coaty.observing import Observation
from weft.errors import UsageError
from weft.limits import COATY_OBSERVED_BYTES_MAX
from weft.wire.coaty import Discover, EventType, Message, Topic, encode_payload

WAIT_S_MAX = 20.0


@pytest.fixture(autouse=True)
def quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling_room, "COATY_SETTLING_S", 0.05)


def thing(name: str, object_type: str = "coaty.CoatyObject", **more: Any) -> coaty.CoatyObject:
    return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": object_type, "name": name, **more}


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def pair(namespace: str = "plant", **options: Any) -> AsyncIterator[tuple[Agent, Agent]]:
    """Two agents, connected and settled."""
    async with Agent(namespace, name="one", **options) as one:
        other = Agent(namespace, name="other", bootstrap=one.addresses)  # one listens by now
        async with other:
            await eventually(lambda: one.neighbours and other.neighbours)
            await asyncio.gather(one.ready(), other.ready())
            yield one, other


async def wanted(agent: Agent, topic: str) -> None:
    """Until the agent knows that somebody else wants this topic: Floodsub sends to nobody before."""
    await eventually(lambda: agent.peer.wanted_by(topic))


@pytest.mark.req("COA-03", "COA-05")
async def test_advertise_reaches_observers_of_core_type_and_of_object_type() -> None:
    async with pair() as (one, other):
        by_core = other.observe_advertise(core_type="CoatyObject")
        by_type = other.observe_advertise(object_type="com.weft.Pump")
        plain = other.observe_advertise(object_type="coaty.CoatyObject")
        await wanted(one, "coaty/1/plant/ADV:com.weft.Pump")
        pump, other_thing = thing("pump", "com.weft.Pump"), thing("plain")
        await one.advertise(pump, {"secret": 1})
        await one.advertise(other_thing)
        event = await by_type.next(WAIT_S_MAX)
        assert (event.source_id, event.data.object, event.data.private_data) == (one.id, pump, {"secret": 1})
        assert [(await by_core.next(WAIT_S_MAX)).data.object for _ in range(2)] == [pump, other_thing]
        assert (await plain.next(WAIT_S_MAX)).data.object == other_thing


async def test_deadvertise_channel_and_raw() -> None:
    async with pair() as (one, other):
        gone, channel, raw = other.observe_deadvertise(), other.observe_channel("line1"), other.observe_raw("any/t")
        await wanted(one, "any/t")
        first, second = thing("a"), thing("b")
        await one.deadvertise(first["objectId"])
        await one.channel("line1", first)
        await one.channel("line1", first, second)
        await one.raw("any/t", b"\x00\xff")
        assert list((await gone.next(WAIT_S_MAX)).data.object_ids) == [first["objectId"]]
        assert (await channel.next(WAIT_S_MAX)).data.object == first
        assert list((await channel.next(WAIT_S_MAX)).data.objects or ()) == [first, second]
        assert await raw.next(WAIT_S_MAX) == coaty.RawEvent("any/t", b"\x00\xff")
        with pytest.raises(UsageError):
            await one.raw("coaty/1/plant/ADV", b"")


@pytest.mark.req("COA-09")
async def test_a_call_is_answered_and_the_answers_topic_is_left() -> None:
    async with pair() as (one, other):
        calls = other.observe_call("add", context={"floor": 3})
        everywhere = other.observe_call("add")
        await wanted(one, "coaty/1/plant/CLLadd")
        third_floor = coaty.ContextFilter((where("floor", Operator.EQUALS, 3),))
        responses = await one.call("add", [1, 2], third_floor)
        call = await calls.next(WAIT_S_MAX)
        await call.reply(Return(result=sum(call.data.parameters or ())))
        answer = await responses.next(WAIT_S_MAX)
        assert (answer.source_id, answer.data.result) == (other.id, 3)
        topics = one.peer._pubsub._router.topics
        assert any("/RTN/" in topic for topic in topics)
        responses.close()
        await eventually(lambda: not any("/RTN/" in topic for topic in one.peer._pubsub._router.topics))
        await everywhere.next(WAIT_S_MAX)

        fourth_floor = coaty.ContextFilter((where("floor", Operator.EQUALS, 4),))
        unmet = await one.call("add", [1], fourth_floor)
        unheard = await everywhere.next(WAIT_S_MAX)  # the observer without a context hears every call
        with pytest.raises(TimeoutError):
            await calls.next(0.1)
        await unheard.reply(Return(error=coaty.CallError(7, "not today")))
        error = (await unmet.first(WAIT_S_MAX)).data.error
        assert error == coaty.CallError(7, "not today")


async def test_discover_query_and_update() -> None:
    async with pair() as (one, other):
        pumps = [thing("p1", "com.weft.Pump", power=5), thing("p2", "com.weft.Pump", power=9)]
        discovers, queries = other.observe_discover(), other.observe_query()
        updates = other.observe_update(core_type="CoatyObject")
        await wanted(one, "coaty/1/plant/UPDCoatyObject")

        resolves = await one.discover(object_types=["com.weft.Pump"])
        question = await discovers.next(WAIT_S_MAX)
        for pump in pumps:
            assert question.data.matches(pump)
            await question.reply(coaty.Resolve(pump))
        assert [(await resolves.next(WAIT_S_MAX)).data.object for _ in pumps] == pumps
        with pytest.raises(UsageError, match="not one that was looked for"):
            await question.reply(coaty.Resolve(thing("x")))

        strong = ObjectFilter((where("power", Operator.GREATER_THAN, 6),))
        retrieves = await one.query(object_types=["com.weft.Pump"], where=strong)
        query = await queries.next(WAIT_S_MAX)
        await query.reply(coaty.Retrieve(coaty.select(pumps, query.data.object_filter)))
        assert list((await retrieves.first(WAIT_S_MAX)).data.objects) == [pumps[1]]

        completes = await one.update({**pumps[0], "power": 6})
        update = await updates.next(WAIT_S_MAX)
        await update.reply(coaty.Complete({**update.data.object, "name": "p1!"}))
        assert (await completes.first(WAIT_S_MAX)).data.object["name"] == "p1!"
        assert await (await one.discover(object_id=new_id())).within(0.05) == []


async def test_io_values_flow_once_a_router_has_associated_them() -> None:
    def point(kind: str) -> coaty.CoatyObject:
        return {"objectId": new_id(), "coreType": kind, "objectType": f"coaty.{kind}", "name": kind, "valueType": "t"}

    source, actor = point("IoSource"), point("IoActor")

    def node(**points: list[coaty.CoatyObject]) -> coaty.CoatyObject:
        kinds: dict[str, list[coaty.CoatyObject]] = {"ioSources": [], "ioActors": []}
        more = kinds | points
        return {"objectId": new_id(), "coreType": "IoNode", "objectType": "coaty.IoNode", "name": "ctx", **more}

    async with (
        Agent("plant", name="actor", io_nodes=[node(ioActors=[actor])]) as one,
        Agent("plant", name="source", io_nodes=[node(ioSources=[source])], bootstrap=one.addresses) as other,
    ):
        await eventually(lambda: one.neighbours and other.neighbours)
        await asyncio.gather(one.ready(), other.ready())
        await wanted(other, "coaty/1/plant/ASCctx")
        values, states = one.observe_io_values(actor["objectId"]), other.observe_io_state(source["objectId"])
        assert not (await states.next(WAIT_S_MAX)).has_associations
        assert not await other.io_value(source["objectId"], 21.5)  # nobody listens yet
        route = "coaty/1/plant/IOV"
        await other.associate("ctx", source["objectId"], actor["objectId"], route, 100)
        state = await states.next(WAIT_S_MAX)
        assert (state.has_associations, state.update_rate) == (True, 100)
        await wanted(other, route)
        assert await other.io_value(source["objectId"], {"celsius": 21.5})
        assert await values.next(WAIT_S_MAX) == {"celsius": 21.5}
        await other.associate("ctx", source["objectId"], actor["objectId"], None)
        assert not (await states.next(WAIT_S_MAX)).has_associations
        with pytest.raises(UsageError, match="no IoSource"):
            await other.io_value(actor["objectId"], 1)


@pytest.mark.req("COA-08")
async def test_an_agent_by_itself_is_offline_and_hears_itself() -> None:
    async with Agent("plant", name="alone", identity=new_identity(KeyType.ED25519)) as alone:
        await alone.ready()
        assert not alone.is_online
        own = alone.observe_channel("c")
        await alone.channel("c", thing("me"))
        assert (await own.next(WAIT_S_MAX)).source_id == alone.id
        async with Agent("plant", name="guest", bootstrap=alone.addresses):
            assert await alone.states.next(WAIT_S_MAX) is True
            assert alone.is_online
        assert await alone.states.next(WAIT_S_MAX) is False
        assert not alone.is_online


@pytest.mark.req("COA-07")
async def test_join_events_are_the_first_that_others_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling_room, "COATY_SETTLING_S", 2.0)  # time to connect, on a busy machine too

    async with Agent("plant", name="host") as host:
        identities = host.observe_advertise(core_type="Identity")
        things = host.observe_advertise(core_type="CoatyObject")
        assert (await identities.next(WAIT_S_MAX)).data.object == host.identity  # publish-to-self
        joined = [thing("first"), thing("second")]
        async with Agent("plant", name="guest", bootstrap=host.addresses, join=joined) as guest:
            await guest.advertise(thing("third"))  # at once, and still not before the others
            assert (await identities.next(WAIT_S_MAX)).data.object == guest.identity
            names = [(await things.next(WAIT_S_MAX)).data.object["name"] for _ in range(3)]
            assert names == ["first", "second", "third"]


@pytest.mark.req("COA-10")
async def test_the_last_will_of_an_agent_that_left_is_carried_out() -> None:
    async with Agent("plant", name="host") as host:
        gone = host.observe_deadvertise()
        joined = thing("mine")
        async with Agent("plant", name="guest", bootstrap=host.addresses, join=[joined]) as guest:
            await guest.ready()
            await eventually(lambda: len(host.peer._liveliness._decisions.last_wills) == 2)
        event = await gone.next(WAIT_S_MAX)
        assert event.source_id == guest.id
        assert list(event.data.object_ids) == [guest.id, joined["objectId"]]


@pytest.mark.req("COA-04")
@pytest.mark.parametrize("namespace", ["", "a..b", "a.", "x" * 237, "a/b", "a#"])
async def test_an_impossible_namespace_is_an_error_event(namespace: str) -> None:
    async with Agent(namespace, name="x") as agent:
        assert "namespace" in str(await agent.errors.next(WAIT_S_MAX))
        with pytest.raises(UsageError):
            await agent.advertise(thing("x"))


async def test_namespaces_do_not_mix() -> None:
    async with Agent("plant", name="one") as one, Agent("office", name="two", bootstrap=one.addresses) as two:
        await eventually(lambda: one.neighbours and two.neighbours)
        heard = one.observe_channel("c")
        await asyncio.gather(one.ready(), two.ready())
        await two.channel("c", thing("not for you"))
        await one.channel("c", thing("for me"))
        first = (await heard.next(WAIT_S_MAX)).data.object
        assert first is not None
        assert first["name"] == "for me"
        assert len(one.peer._liveliness._decisions.last_wills) == 1  # strangers' wills are not kept


async def test_events_that_cannot_be_read_are_reported_and_the_link_stays() -> None:
    async with pair() as (one, other):
        heard = other.observe_channel("c")
        await wanted(one, "coaty/1/plant/CHNc")
        one.peer._pubsub.publish("coaty/1/plant/CHNc", b"{not json")
        await one.channel("c", thing("fine"))
        assert (await heard.next(WAIT_S_MAX)).data.object is not None
        assert "payload" in str(await other.errors.next(WAIT_S_MAX))
        assert other.is_online


async def test_an_observer_that_cannot_follow_holds_its_neighbours_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing_room, "COATY_OBSERVED_MAX", 64)

    async def _publish(agent: Agent, count: int) -> None:
        for number in range(count):
            await agent.raw("flood", b"%d" % number)

    async with pair(identity=new_identity(KeyType.ED25519)) as (one, other):
        heard = other.observe_raw("flood")
        await wanted(one, "flood")
        count = 1000
        publishing = asyncio.create_task(_publish(one, count))
        await eventually(lambda: heard.is_full)
        got = [await heard.next(WAIT_S_MAX) for _ in range(count)]
        assert [int(event.payload) for event in got] == list(range(count))  # none lost, none twice, in order
        await publishing


async def test_a_queue_is_full_of_a_few_large_events_too() -> None:
    room: list[None] = []
    observation: coaty.Observation[bytes] = coaty.Observation(lambda: None, lambda: room.append(None))
    half = COATY_OBSERVED_BYTES_MAX // 2
    observation.put(b"1", half)
    assert not observation.is_full
    observation.put(b"2", half)
    assert observation.is_full
    assert await observation.next() == b"1"
    assert observation.is_full  # half of it is still there
    assert await observation.next() == b"2"
    assert not observation.is_full
    assert len(room) == 1


async def test_who_lets_go_of_an_observation_has_left_it() -> None:
    async with Agent("plant", name="x") as agent:
        observation = agent.observe_raw("t")
        assert "t" in agent.peer._pubsub._router.topics
        del observation
        gc.collect()
        await eventually(lambda: "t" not in agent.peer._pubsub._router.topics)


async def test_closing_an_agent_ends_its_observations() -> None:
    async def _all(observation: coaty.Observation[coaty.RawEvent]) -> list[coaty.RawEvent]:
        return [event async for event in observation]

    async with Agent("plant", name="x") as agent:
        observation = agent.observe_raw("t")
        waiting = asyncio.create_task(_all(observation))
        await asyncio.sleep(0)
    assert await waiting == []
    with pytest.raises(UsageError, match="closed"):
        await agent.raw("t", b"")


async def test_many_who_look_for_an_agent_before_it_may_speak_do_not_silence_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling_room, "COATY_SETTLING_S", 0.2)
    monkeypatch.setattr(settling_room, "COATY_DEFERRED_BYTES_MAX", 1)

    async with Agent("plant", name="one") as one:
        topic = Topic("plant", EventType.DISCOVER)

        def looked_for(correlation_id: str) -> None:
            message = Message(new_id(), Discover(object_id=one.id), correlation_id)
            one.peer.dispatch.deliver(str(topic), encode_payload(message))

        looked_for(new_id())  # there is no room for an answer
        await one.ready()
        correlation_id = new_id()
        answers = Topic("plant", EventType.RESOLVE, correlation_id=correlation_id)
        found: Observation[bytes] = one.peer.dispatch.observe(
            [str(answers)], lambda topic, payload: payload, Observation
        )
        looked_for(correlation_id)
        assert one.id.encode() in await found.next(WAIT_S_MAX)
