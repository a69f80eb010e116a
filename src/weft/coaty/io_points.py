"""The IO points of an agent: sources that publish values once they are associated, actors that get them (IO routing).

A router, which is another agent, associates sources with actors by Associate events; ``weft.wire.coaty.IoRoutes`` says
what follows from each. Sources and actors belong to IO nodes, one for each IO context, by whose name they are routed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, assert_never
from weakref import WeakSet

from weft.coaty.dispatch import Dispatch
from weft.coaty.observing import Observation
from weft.errors import UsageError
from weft.wire.coaty import (
    Associate,
    CoatyObject,
    CoreType,
    EventType,
    IoEffect,
    IoRoutes,
    IoState,
    IoValue,
    SubscribeRoute,
    Topic,
    UnsubscribeRoute,
    decode_event_untrusted,
    decode_external_io_value_untrusted,
    is_coaty_topic,
    parse_topic_untrusted,
    require_object,
)

RAW: Final = "useRawIoValues"  # the property of an IO point whose values are bytes
KINDS: Final = (CoreType.IO_SOURCE, CoreType.IO_ACTOR)

Observers: TypeAlias = defaultdict[str, WeakSet[Observation[Any]]]  # by IO point; observers that are gone are forgotten


class IoPoints:
    """All IO nodes of one agent."""

    def __init__(self, namespace: str, nodes: Sequence[CoatyObject], dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._points = {point["objectId"]: point for node in nodes for point in _points_of(node)}
        sources, actors = ([one for one in self._points.values() if one["coreType"] == kind] for kind in KINDS)
        self._routes = IoRoutes((one["objectId"] for one in sources), (one["objectId"] for one in actors))
        self._leave_route: dict[str, Callable[[], None]] = {}
        self._states: dict[str, IoState] = {}
        self._values: Observers = defaultdict(WeakSet)
        self._watchers: Observers = defaultdict(WeakSet)
        for node in nodes:
            dispatch.add(str(Topic(namespace, EventType.ASSOCIATE, node["name"])), self._on_associate)

    def route_of(self, source_id: str) -> str | None:
        """The topic on which a source publishes; None while no actor is associated with it."""
        self._require(source_id, CoreType.IO_SOURCE)
        return self._routes.route_of(source_id)

    def is_raw(self, point_id: str) -> bool:
        return bool(self._points[point_id].get(RAW))

    def observe_values(self, actor_id: str) -> Observation[Any]:
        self._require(actor_id, CoreType.IO_ACTOR)
        return self._observed(self._values, actor_id)

    def observe_state(self, point_id: str) -> Observation[IoState]:
        """How it stands now, and every change."""
        if point_id not in self._points:
            raise UsageError("no IO point of this agent", id=point_id)
        observation: Observation[IoState] = self._observed(self._watchers, point_id)
        observation.put(self._states.get(point_id, IoState(point_id, has_associations=False)))
        return observation

    def _observed(self, observers: Observers, point_id: str) -> Observation[Any]:
        def make(leave: Callable[[], None], taken: Callable[[], None]) -> Observation[Any]:
            return Observation(leave, taken)

        observation = self._dispatch.observe([], lambda topic, payload: None, make)
        observers[point_id].add(observation)
        return observation

    def _require(self, point_id: str, kind: CoreType) -> None:
        if self._points.get(point_id, {}).get("coreType") != kind:
            raise UsageError(f"no {kind} of this agent", id=point_id)

    # --- what arrives --------------------------------------------------------------------------------------------

    def _on_associate(self, topic: str, payload: bytes) -> None:
        event = decode_event_untrusted(parse_topic_untrusted(topic), payload).data
        assert isinstance(event, Associate), "that is what comes on this topic"
        for effect in self._routes.associate(event):
            self._perform(effect)

    def _perform(self, effect: IoEffect) -> None:
        match effect:
            case SubscribeRoute(route):
                self._leave_route[route] = self._dispatch.add(route, self._on_value)
            case UnsubscribeRoute(route):
                self._leave_route.pop(route)()
            case IoState(point_id):
                self._states[point_id] = effect
                self._hand_on(self._watchers, point_id, effect)
            case _:
                assert_never(effect)

    def _on_value(self, route: str, payload: bytes) -> None:
        for actor_id in self._routes.actors_on(route):
            if self._values[actor_id]:
                value = self._read_untrusted(route, payload, actor_id)
                self._hand_on(self._values, actor_id, value, len(payload))

    def _read_untrusted(self, route: str, payload: bytes, actor_id: str) -> Any:
        if self.is_raw(actor_id):
            return payload
        if not is_coaty_topic(route):
            return decode_external_io_value_untrusted(payload).value
        event = decode_event_untrusted(parse_topic_untrusted(route), payload).data
        assert isinstance(event, IoValue), "that is what comes on this route"
        return event.value

    def _hand_on(self, observers: Observers, point_id: str, item: Any, size_bytes: int = 0) -> None:
        for observation in list(observers[point_id]):
            self._dispatch.put(observation, item, size_bytes)


def _points_of(node: CoatyObject) -> list[CoatyObject]:
    require_object(node, "IO node")
    if node["coreType"] != CoreType.IO_NODE:
        raise UsageError("an IO node has the core type IoNode", have=node["coreType"])
    return [*node.get("ioSources", ()), *node.get("ioActors", ())]
