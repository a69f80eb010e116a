"""IO associations of one agent: on which routes its sources publish, and which routes its actors listen to.

Associate events in, effects out. An IO router (another agent) decides who is associated with whom.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.wire.coaty.one_way import Associate

COATY_IO_ASSOCIATIONS_MAX: Final = 1024  # of the IO points of one agent, which are a few dozen


@dataclass(frozen=True, slots=True)
class SubscribeRoute:
    route: str


@dataclass(frozen=True, slots=True)
class UnsubscribeRoute:
    route: str


@dataclass(frozen=True, slots=True)
class IoState:
    """What the observer of an IO point gets: whether anybody is at the other end, and how often a source may send."""

    io_point_id: str
    has_associations: bool
    update_rate: float | None = None


IoEffect: TypeAlias = SubscribeRoute | UnsubscribeRoute | IoState


class IoRoutes:
    """Associations of the IO points of this agent; those of others are not stored."""

    def __init__(self, io_source_ids: Iterable[str], io_actor_ids: Iterable[str]) -> None:
        self._source_ids = frozenset(io_source_ids)
        self._actor_ids = frozenset(io_actor_ids)
        self._routes: dict[tuple[str, str], str] = {}  # (source, actor) -> route
        self._update_rates: dict[str, float | None] = {}  # by source, as told last

    def route_of(self, io_source_id: str) -> str | None:
        """The route on which a source publishes its values; None while nobody listens."""
        return next((route for (source, _), route in self._routes.items() if source == io_source_id), None)

    def actors_on(self, route: str) -> list[str]:
        """The actors of this agent that get what arrives on a route.

        All of them, whatever the source: the reference gives all IO values of a namespace the same route.
        """
        actors = {actor: None for (_, actor), known in self._routes.items() if known == route}
        return [actor for actor in actors if actor in self._actor_ids]

    def associate(self, event: Associate) -> list[IoEffect]:
        """Apply an Associate event. Events about points of other agents change nothing."""
        source, actor = event.io_source_id, event.io_actor_id
        if source not in self._source_ids and actor not in self._actor_ids:
            return []
        listening = self._listening()
        self._apply(source, actor, event.associating_route)
        if source in self._source_ids:
            self._update_rates[source] = event.update_rate
        return self._difference(listening) + self._states(source, actor)

    def _apply(self, source: str, actor: str, route: str | None) -> None:
        self._routes.pop((source, actor), None)
        if route is None:
            return
        if source in self._source_ids:
            # It publishes on one route, so a new one ends its associations on any other.
            for pair in [pair for pair, known in self._routes.items() if pair[0] == source and known != route]:
                del self._routes[pair]
        if len(self._routes) < COATY_IO_ASSOCIATIONS_MAX:
            self._routes[source, actor] = route

    def _listening(self) -> dict[str, None]:
        return {route: None for (_, actor), route in self._routes.items() if actor in self._actor_ids}

    def _difference(self, before: dict[str, None]) -> list[IoEffect]:
        now = self._listening()
        effects: list[IoEffect] = [UnsubscribeRoute(route) for route in before if route not in now]
        return effects + [SubscribeRoute(route) for route in now if route not in before]

    def _states(self, source: str, actor: str) -> list[IoEffect]:
        states: list[IoEffect] = []
        if source in self._source_ids:
            has_actors = self.route_of(source) is not None
            states.append(IoState(source, has_actors, self._update_rates[source] if has_actors else None))
        if actor in self._actor_ids:
            states.append(IoState(actor, any(pair[1] == actor for pair in self._routes)))
        return states
