"""IO associations: routes that sources publish on and actors listen to, as Associate events come in."""

from __future__ import annotations

import pytest

from tests.wire.coaty.samples import uuid
from weft.wire.coaty import Associate, IoEffect, IoRoutes, IoState, SubscribeRoute, UnsubscribeRoute

pytestmark = pytest.mark.req("COA-05")

SOURCE, OTHER_SOURCE, ACTOR, OTHER_ACTOR = map(uuid, range(1, 5))
ROUTE, NEW_ROUTE = "coaty/1/plant/IOV", "external/route"

Story = list[tuple[Associate, list[IoEffect]]]

SOURCE_STORY: Story = [
    (Associate(SOURCE, ACTOR, ROUTE, 100), [IoState(SOURCE, True, 100)]),
    (Associate(SOURCE, OTHER_ACTOR, ROUTE, 200), [IoState(SOURCE, True, 200)]),
    (Associate(SOURCE, ACTOR, None, 300), [IoState(SOURCE, True, 300)]),
    (Associate(SOURCE, OTHER_ACTOR), [IoState(SOURCE, False)]),
    (Associate(SOURCE, OTHER_ACTOR), [IoState(SOURCE, False)]),
    (Associate(OTHER_SOURCE, ACTOR, ROUTE), []),
]

ACTOR_STORY: Story = [
    (Associate(SOURCE, ACTOR, ROUTE, 100), [SubscribeRoute(ROUTE), IoState(ACTOR, True)]),
    (Associate(OTHER_SOURCE, ACTOR, ROUTE), [IoState(ACTOR, True)]),
    (Associate(SOURCE, OTHER_ACTOR, ROUTE), []),
    (Associate(SOURCE, ACTOR), [IoState(ACTOR, True)]),
    (
        Associate(OTHER_SOURCE, ACTOR, NEW_ROUTE),
        [UnsubscribeRoute(ROUTE), SubscribeRoute(NEW_ROUTE), IoState(ACTOR, True)],
    ),
    (Associate(OTHER_SOURCE, ACTOR), [UnsubscribeRoute(NEW_ROUTE), IoState(ACTOR, False)]),
]


def test_the_agent_of_a_source() -> None:
    routes = IoRoutes([SOURCE], [])
    for event, effects in SOURCE_STORY:
        assert routes.associate(event) == effects, event


def test_the_agent_of_an_actor() -> None:
    routes = IoRoutes([], [ACTOR])
    for event, effects in ACTOR_STORY:
        assert routes.associate(event) == effects, event


def test_values_find_their_way() -> None:
    routes = IoRoutes([SOURCE], [ACTOR])
    assert routes.route_of(SOURCE) is None
    routes.associate(Associate(SOURCE, ACTOR, ROUTE))
    routes.associate(Associate(SOURCE, OTHER_ACTOR, ROUTE))
    assert routes.route_of(SOURCE) == ROUTE
    assert routes.actors_on(ROUTE) == [ACTOR], "the other actor lives elsewhere"
    assert routes.actors_on(NEW_ROUTE) == []


def test_a_source_publishes_on_one_route_only() -> None:
    routes = IoRoutes([SOURCE], [ACTOR, OTHER_ACTOR])
    routes.associate(Associate(SOURCE, ACTOR, ROUTE))
    effects = routes.associate(Associate(SOURCE, OTHER_ACTOR, NEW_ROUTE))
    assert effects == [
        UnsubscribeRoute(ROUTE),
        SubscribeRoute(NEW_ROUTE),
        IoState(SOURCE, True),
        IoState(OTHER_ACTOR, True),
    ]
    assert routes.route_of(SOURCE) == NEW_ROUTE
    assert routes.actors_on(ROUTE) == []


def test_associations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.wire.coaty.io_routes.COATY_IO_ASSOCIATIONS_MAX", 3)
    routes = IoRoutes([], [ACTOR])
    for n in range(3):
        routes.associate(Associate(uuid(100 + n), ACTOR, ROUTE))
    assert routes.associate(Associate(SOURCE, ACTOR, NEW_ROUTE)) == [IoState(ACTOR, True)], "no room for one more"
