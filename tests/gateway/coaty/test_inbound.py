"""What becomes of an event that a bridge hears: brought over, left to another bridge, taken over from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import structlog

from weft.coaty import CoatyObject, new_id
from weft.errors import WeftError
from weft.gateway.coaty.inbound import ISLAND_HEADER, NOWHERE, Inbound
from weft.gateway.coaty.learning import BridgeReport, Learned
from weft.gateway.coaty.memory import IDENTITY_HEADER, Remembered
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.sharing import Bridge, Heard, Sharing
from weft.gateway.publishing import Publishing, Waiting
from weft.limits import COATY_PAYLOAD_BYTES_MAX
from weft.model import Topic

OWN, OTHER = new_id(), new_id()
CHANNEL = "coaty/1/plant/CHNline1"


@dataclass
class Published:
    """In place of the node."""

    events: list[tuple[str, bytes, Mapping[str, str], Waiting]] = field(default_factory=list)

    def add(
        self, topic: Topic, payload: bytes, key: bytes | None, headers: Mapping[str, str] | None, waiting: Waiting
    ) -> None:
        self.events.append((topic, payload, headers or {}, waiting))

    def on(self, topic: str) -> list[bytes]:
        return [payload for each, payload, _, _ in self.events if each == topic]


@dataclass
class Room:
    inbound: Inbound
    published: Published
    sharing: Sharing
    learned: Learned
    brought: Remembered


def room() -> Room:
    published, sharing, learned, brought = Published(), Sharing(OWN), Learned("plant", [], 10), Remembered()
    publishing, logger = cast(Publishing, published), structlog.stdlib.get_logger("test")
    objects = Objects("plant", publishing, logger)

    def passes_on(peer: str, topic: str) -> bool:
        return peer == "their-peer"

    inbound = Inbound(
        "plant",
        OWN,
        publishing,
        sharing,
        learned,
        brought,
        objects,
        passes_on,
        lambda topic: True,
        lambda: "here",
        logger,
    )
    return Room(inbound, published, sharing, learned, brought)


def thing(name: str) -> CoatyObject:
    return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Pump", "name": name}


def said(topic: str, data: Any, origin: str = "peer", identity: str | None = None) -> Heard:
    return Heard(topic, json.dumps({"sourceId": new_id(), "data": data}).encode(), identity or new_id(), origin)


def on_channel(origin: str = "peer") -> Heard:
    return said(CHANNEL, {"object": thing("pump")}, origin)


def other_bridge_comes(it: Room, *hears: str) -> None:
    it.learned.reported("n1", BridgeReport(OTHER, "their-peer", (), "", (), hears), 0.0)
    it.sharing.told([Bridge(OTHER, "their-peer", "")])
    assert it.sharing.came("their-peer")


def on_loop(story: Callable[[], None]) -> None:
    async def turn() -> None:
        story()

    asyncio.run(turn())


def origins_of_other(sharing: Sharing, count: int) -> list[str]:
    found = (f"peer {number}" for number in range(10_000))
    return [origin for origin in found if not sharing.is_ours(origin)][:count]


@pytest.mark.req("COA-12")
def test_nothing_comes_over_before_others_are_known_and_nothing_is_lost_by_that() -> None:
    def story() -> None:
        it = room()
        early, seen = on_channel(), on_channel()
        it.inbound.heard(early)
        it.inbound.heard(seen)
        assert it.published.events == []
        it.inbound.is_in_mesh(seen.identity)  # another bridge has brought it over meanwhile
        it.inbound.settle()
        assert it.published.on("coaty.plant.CHN.line1") == [early.payload]

    on_loop(story)


@pytest.mark.req("COA-12")
def test_an_event_comes_over_once_however_often_it_is_heard() -> None:
    def story() -> None:
        it = room()
        it.inbound.settle()
        event = on_channel()
        for _ in range(3):
            it.inbound.heard(event)
        assert it.published.on("coaty.plant.CHN.line1") == [event.payload]
        assert it.inbound.figures.repeated == 2
        _, _, headers, waiting = it.published.events[0]
        assert (headers[IDENTITY_HEADER], headers[ISLAND_HEADER]) == (event.identity, "here")
        waiting.refused(WeftError("full"))
        it.inbound.heard(event)
        assert len(it.published.events) == 2, "what the node refused may come again"

    on_loop(story)


@pytest.mark.req("COA-12")
def test_what_is_left_to_a_bridge_that_dies_is_taken_over_unless_the_mesh_has_it() -> None:
    def story() -> None:
        it = room()
        it.inbound.settle()
        other_bridge_comes(it, CHANNEL)
        one, two = (on_channel(origin) for origin in origins_of_other(it.sharing, 2))
        for event in (one, two):
            it.inbound.heard(event)
        assert it.published.on("coaty.plant.CHN.line1") == []
        assert (it.inbound.figures.left_to_others, len(it.inbound.held)) == (2, 2)
        it.inbound.is_in_mesh(one.identity)
        assert it.sharing.left("their-peer")
        it.inbound.take_over()
        assert it.published.on("coaty.plant.CHN.line1") == [two.payload]
        assert it.inbound.figures.taken_over == 1

    on_loop(story)


@pytest.mark.req("COA-12")
def test_a_bridge_that_does_not_listen_to_a_topic_gets_no_share_of_it() -> None:
    def story() -> None:
        it = room()
        it.inbound.settle()
        other_bridge_comes(it)
        for origin in origins_of_other(it.sharing, 3):
            it.inbound.heard(on_channel(origin))
        assert len(it.published.on("coaty.plant.CHN.line1")) == 3

    on_loop(story)


@pytest.mark.req("COA-12")
def test_answers_are_brought_over_by_the_bridge_that_asked() -> None:
    """No other listens to them."""

    def story() -> None:
        it = room()
        it.inbound.settle()
        other_bridge_comes(it)
        correlation = new_id()
        topic = f"coaty/1/plant/RTN/{correlation}"
        said = json.dumps({"sourceId": new_id(), "correlationId": correlation, "data": {"result": 1}}).encode()
        for origin in origins_of_other(it.sharing, 3):
            it.inbound.heard(Heard(topic, said, new_id(), origin, is_answer=True))
        assert it.published.on("coaty.plant.RTN") == [said] * 3

    on_loop(story)


@pytest.mark.req("COA-12")
def test_what_another_mesh_has_carried_goes_out_nowhere() -> None:
    def story() -> None:
        it = room()
        it.inbound.settle()
        event = on_channel()
        it.inbound.heard(Heard(event.topic, event.payload, event.identity, event.origin, is_foreign=True))
        assert it.published.events[0][2][ISLAND_HEADER] == NOWHERE

    on_loop(story)


@pytest.mark.req("COA-12")
def test_bytes_pass_as_they_are() -> None:
    def story() -> None:
        it = room()
        it.inbound.settle()
        for topic in ("sensors/7", "coaty/1/plant/IOV"):
            it.inbound.heard(Heard(topic, b"\x00\xff", new_id(), "peer"))
        it.inbound.heard(Heard(CHANNEL, b"\x00\xff", new_id(), "peer"))
        assert it.published.on("coaty.plant.RAW.sensors/7") == [b"\x00\xff"]
        assert it.published.on("coaty.plant.IOV") == [b"\x00\xff"]
        assert it.inbound.figures.rejected == 1, "a channel event is JSON"

    on_loop(story)


@pytest.mark.req("COA-12")
def test_an_object_is_found_once_and_again_when_it_was_gone() -> None:
    def story() -> None:
        it = room()
        it.inbound.settle()
        advertised, unheard = thing("advertised"), thing("unheard")
        it.inbound.heard(said("coaty/1/plant/ADVCoatyObject", {"object": advertised}))
        for _ in range(2):
            for each in (advertised, unheard):
                it.inbound.found(new_id(), each)
        names = [json.loads(each)["data"]["object"]["name"] for each in it.published.on("coaty.plant.ADV.CoatyObject")]
        assert names == ["advertised", "unheard"]
        it.inbound.heard(said("coaty/1/plant/DAD", {"objectIds": [unheard["objectId"]]}))
        it.inbound.found(new_id(), unheard)
        assert len(it.published.on("coaty.plant.ADV.CoatyObject")) == 3

    on_loop(story)


@pytest.mark.req("COA-12")
def test_what_the_mesh_has_of_objects_counts_when_agents_are_asked() -> None:
    """Whichever bridge wrote it, in whatever order it is read, and though agents answer before all of it has come."""

    def story() -> None:
        it = room()
        topic = "coaty.plant.ADV.CoatyObject"
        there, gone, back, changed, new = (thing(name) for name in ("there", "gone", "back", "changed", "new"))
        for each in (there, gone, back, changed, new):
            it.inbound.found(new_id(), each)
        for each, told_us in ((there, 1), (gone, 1), (back, 3), ({**changed, "name": "other"}, 1)):
            it.inbound.is_told(each["objectId"], json.dumps(each).encode(), told_us)
        it.inbound.is_told(gone["objectId"], b"", 2)
        it.inbound.is_told(back["objectId"], b"", 2)  # of another bridge, before it was back
        for payload in (b"no JSON", b"[]", b"{}"):
            it.inbound.is_told(new["objectId"], payload, 1)
        assert it.published.on(topic) == [], "nothing is known yet of what the mesh has"
        it.inbound.settle()
        names = {json.loads(each)["data"]["object"]["name"] for each in it.published.on(topic)}
        assert names == {"gone", "changed", "new"}
        for each in (there, gone, back, changed, new):
            it.inbound.found(new_id(), each)
        assert len(it.published.on(topic)) == 3

    on_loop(story)


@pytest.mark.req("COA-12")
def test_an_object_that_is_longer_when_it_is_written_again_does_not_end_the_bridge() -> None:
    """It is carried over as it came; the state of the namespace does without it."""

    def story() -> None:
        it = room()
        it.inbound.settle()
        body = json.dumps(thing("measured"))[:-1] + ', "values": [' + "1e9," * 200_000 + "0]}"
        payload = f'{{"sourceId": "{new_id()}", "data": {{"object": {body}}}}}'.encode()
        it.inbound.heard(Heard("coaty/1/plant/ADVCoatyObject", payload, new_id(), "peer"))
        assert it.published.on("coaty.plant.ADV.CoatyObject") == [payload]
        assert it.published.on("coaty.plant.objects") == []
        it.inbound.heard(event := on_channel())
        assert it.published.on("coaty.plant.CHN.line1") == [event.payload]

    on_loop(story)


@pytest.mark.req("COA-12")
@pytest.mark.parametrize(
    "odd", [{"text": "x" * COATY_PAYLOAD_BYTES_MAX}, {"objectType": "a/b"}], ids=["too long", "no topic"]
)
def test_an_object_that_cannot_be_advertised_is_not_found_and_does_not_end_the_bridge(odd: CoatyObject) -> None:
    def story() -> None:
        it = room()
        it.inbound.found(new_id(), {**thing("odd"), **odd})
        it.inbound.settle()
        it.inbound.found(new_id(), {**thing("odd"), **odd})
        it.inbound.found(new_id(), thing("plain"))
        assert len(it.published.on("coaty.plant.ADV.CoatyObject")) == 1
        assert it.inbound.figures.rejected == 2

    on_loop(story)
