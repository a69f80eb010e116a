"""What becomes of an event of the mesh at a bridge: said in the namespace, or not, and on which topics (COA-12)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import structlog

from weft.coaty import CoatyObject, new_id
from weft.coaty.settling import Publication
from weft.core.messages import Delivered
from weft.gateway.coaty.inbound import BRIDGE_HEADER, ISLAND_HEADER, NOWHERE
from weft.gateway.coaty.memory import IDENTITY_HEADER, Remembered
from weft.gateway.coaty.objects import Objects
from weft.gateway.coaty.outbound import COATY_QUESTION_S, Outbound, Questions
from weft.gateway.coaty.sharing import is_marked, mark_of
from weft.gateway.publishing import Publishing, Waiting
from weft.model import Batch, Epoch, Event, NodeId, Stream, Topic, parse_topic

pytestmark = pytest.mark.req("COA-12")

NOW_US = 1_800_000_000_000_000
MARK = mark_of("mesh")
CHANNEL = "coaty/1/plant/CHNline1"


class Nobody:
    """In place of the node: what the state of the namespace would be told."""

    def add(self, topic: Topic, payload: bytes, key: bytes, headers: Mapping[str, str], waiting: Waiting) -> None: ...


@dataclass
class Bridge:
    """On the island ``here``, with nobody near."""

    said: list[Publication] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    heard: Remembered = field(default_factory=Remembered)

    def __post_init__(self) -> None:
        logger = structlog.stdlib.get_logger("test")
        self.outbound = Outbound(
            "plant",
            MARK,
            self._say,
            lambda: "here",
            lambda topic: frozenset(),
            self.heard,
            Remembered(),
            asyncio.Event(),
            Questions(self._subscribe, 10),
            Objects("plant", cast(Publishing, Nobody()), logger),
            lambda: NOW_US,
            logger,
        )

    async def _say(self, publication: Publication) -> None:
        self.said.append(publication)

    def _subscribe(self, topic: str) -> Any:
        self.asked.append(topic)
        return lambda: None

    @property
    def topics(self) -> list[str]:
        return [each.topic for each in self.said]

    def takes(self, topic: str, payload: bytes, headers: Mapping[str, str] | None = None, age_s: float = 0.0) -> None:
        event = Event(payload, NOW_US - int(age_s * 1e6), None, dict(headers) if headers else None)
        data = Batch.from_events([event]).with_base_offset(0).data
        stream = Stream(parse_topic(topic), NodeId("a"), 0)
        asyncio.run(self.outbound.take(Delivered(stream, Epoch(1), data, 0)))


def envelope(data: Any, correlation_id: str | None = None) -> bytes:
    correlated = {} if correlation_id is None else {"correlationId": correlation_id}
    return json.dumps({"sourceId": new_id(), **correlated, "data": data}).encode()


def thing() -> CoatyObject:
    return {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Pump", "name": "pump"}


def brought_over(island: str, identity: str = "1") -> dict[str, str]:
    return {BRIDGE_HEADER: new_id(), ISLAND_HEADER: island, IDENTITY_HEADER: identity}


def test_what_clients_of_the_mesh_publish_is_said_with_the_mark_of_a_bridge() -> None:
    bridge = Bridge()
    payload = envelope({"object": thing()})
    bridge.takes("coaty.plant.CHN.line1", payload)
    (said,) = bridge.said
    assert (said.topic, said.payload) == (CHANNEL, payload)
    assert said.seqno is not None and is_marked(said.seqno, MARK)
    assert bridge.outbound.figures.published == 1


@pytest.mark.parametrize(("island", "goes_out"), [("here", False), (NOWHERE, False), ("there", True)])
def test_what_came_from_the_namespace_goes_out_on_other_islands_only(island: str, goes_out: bool) -> None:
    bridge = Bridge()
    bridge.takes("coaty.plant.CHN.line1", envelope({"object": thing()}), brought_over(island))
    assert bridge.topics == ([CHANNEL] if goes_out else [])
    assert bridge.outbound.figures.echoes == (not goes_out)


def test_what_was_heard_here_does_not_go_out_wherever_it_was_brought_over() -> None:
    bridge = Bridge()
    bridge.heard.add("1")
    bridge.takes("coaty.plant.CHN.line1", envelope({"object": thing()}), brought_over("there"))
    assert (bridge.topics, bridge.outbound.figures.echoes) == ([], 1)


@pytest.mark.parametrize("code", ["ADV", "UPD"])
def test_what_goes_under_a_core_type_is_for_those_as_well_who_observe_the_object_type(code: str) -> None:
    bridge = Bridge()
    correlation = new_id() if code == "UPD" else None
    payload = envelope({"object": thing()}, correlation)
    bridge.takes(f"coaty.plant.{code}.CoatyObject", payload)
    assert bridge.topics == [f"coaty/1/plant/{code}CoatyObject", f"coaty/1/plant/{code}:com.weft.Pump"]
    assert {each.payload for each in bridge.said} == {payload}


def test_questions_go_out_as_long_as_somebody_waits_for_answers() -> None:
    bridge = Bridge()
    late, timely = new_id(), new_id()
    bridge.takes("coaty.plant.CLL.add", envelope({"parameters": []}, late), age_s=COATY_QUESTION_S + 1)
    assert (bridge.topics, bridge.asked, bridge.outbound.figures.stale) == ([], [], 1)
    bridge.takes("coaty.plant.CLL.add", envelope({"parameters": []}, timely), age_s=COATY_QUESTION_S - 1)
    assert bridge.topics == ["coaty/1/plant/CLLadd"]
    assert bridge.asked == [f"coaty/1/plant/RTN/{timely}"], "so that its answers are brought back"


def test_what_is_no_event_of_coaty_is_counted_and_not_said() -> None:
    bridge = Bridge()
    bridge.takes("coaty.plant.CHN.line1", b"no JSON")
    bridge.takes("coaty.plant.NONE", envelope({}))
    assert (bridge.topics, bridge.outbound.figures.rejected) == ([], 2)
