"""PL-03: heartbeats, and what becomes of a link without them."""

from __future__ import annotations

from random import Random

import pytest

from weft.membership import (
    Effect,
    Health,
    HealthChanged,
    Heartbeat,
    LinkUp,
    Members,
    MessageReceived,
    NodeState,
    RoundTrip,
    Send,
    Settings,
    Start,
)
from weft.membership.heartbeats import TRANSITIONS, Heartbeats, Sign
from weft.model import Epoch, NodeId

B = NodeId("b")
HEALTHY, UNHEALTHY, DISCONNECTED = Health.HEALTHY, Health.UNHEALTHY, Health.DISCONNECTED


def changes(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, HealthChanged)]


def linked() -> Heartbeats:
    heartbeats = Heartbeats()
    assert heartbeats.up(B, gossips=True) == [HealthChanged(B, DISCONNECTED, HEALTHY)]
    return heartbeats


@pytest.mark.req("PL-03")
def test_three_misses_make_a_link_unhealthy_and_one_answer_heals_it() -> None:
    heartbeats = linked()
    assert heartbeats.beat(5.0) == [Send(B, Heartbeat(5_000_000))]
    assert changes(heartbeats.beat(10.0)) == []
    assert changes(heartbeats.beat(15.0)) == []
    assert changes(heartbeats.beat(20.0)) == [HealthChanged(B, HEALTHY, UNHEALTHY)]
    assert changes(heartbeats.beat(25.0)) == [], "said once"
    assert heartbeats.healthy() == ()
    assert heartbeats.on_heartbeat(B, Heartbeat(1, echo=25_000_000), 25.25) == [
        HealthChanged(B, UNHEALTHY, HEALTHY),
        RoundTrip(B, 0.25),
    ]
    assert heartbeats.healthy() == (B,)


@pytest.mark.req("PL-03")
def test_misses_have_to_follow_each_other() -> None:
    heartbeats = linked()
    for beat in range(1, 10):
        assert changes(heartbeats.beat(beat * 5.0)) == []
        if beat % 3 == 0:
            heartbeats.on_heartbeat(B, Heartbeat(7), beat * 5.0 + 1)


@pytest.mark.req("PL-03")
@pytest.mark.parametrize("silent", [False, True])
def test_a_broken_link_is_disconnected(silent: bool) -> None:
    heartbeats = linked()
    for beat in range(4 if silent else 0):
        heartbeats.beat(float(beat))
    assert heartbeats.down(B) == [HealthChanged(B, UNHEALTHY if silent else HEALTHY, DISCONNECTED)]
    assert heartbeats.down(B) == []
    assert heartbeats.on_heartbeat(B, Heartbeat(1), 9.0) == [], "late"


@pytest.mark.parametrize("health", Health)
@pytest.mark.parametrize("sign", Sign)
def test_transitions(health: Health, sign: Sign) -> None:
    """Written down a second time, as a rule."""
    expected = {Sign.UP: HEALTHY, Sign.DOWN: DISCONNECTED, Sign.MISSED: UNHEALTHY, Sign.HEARD: HEALTHY}[sign]
    if health is DISCONNECTED and sign is not Sign.UP:
        expected = DISCONNECTED
    assert TRANSITIONS.get((health, sign), health) is expected


def test_every_honest_heartbeat_is_answered_and_an_answer_is_not() -> None:
    heartbeats = linked()
    assert heartbeats.on_heartbeat(B, Heartbeat(42), 2.0) == [Send(B, Heartbeat(2_000_000, echo=42))]
    assert heartbeats.on_heartbeat(B, Heartbeat(44), 4.0) == [Send(B, Heartbeat(4_000_000, echo=44))]
    assert heartbeats.on_heartbeat(B, Heartbeat(46, echo=4_000_000), 4.5) == [RoundTrip(B, 0.5)]


def test_two_that_answer_everything_get_into_no_storm() -> None:
    """A peer of the document may answer each heartbeat with one that looks like any other."""
    heartbeats = linked()
    answers = sum(len(heartbeats.on_heartbeat(B, Heartbeat(1), 0.01 * turn)) for turn in range(1000))
    assert answers == 10, "in ten seconds"


def test_an_answer_to_something_never_sent_tells_no_time() -> None:
    assert linked().on_heartbeat(B, Heartbeat(1, echo=99_000_000), 5.0) == []


def test_a_timestamp_is_never_mistaken_for_none() -> None:
    assert linked().beat(0.0) == [Send(B, Heartbeat(1))]


@pytest.mark.req("SEC-05")
def test_a_heartbeat_that_changes_nothing_looks_at_no_other_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub with a thousand links gets four hundred a second."""
    chance = Random(1)  # noqa: S311 - chance from a seed is the point
    members = Members(NodeState(NodeId("a"), 1, 1, Epoch(1)), Settings(), chance)
    members.step(Start(), 0.0)
    members.step(LinkUp(B), 0.0)
    looks: list[Heartbeats] = []

    def healthy(self: Heartbeats) -> tuple[NodeId, ...]:
        looks.append(self)
        return (B,)

    monkeypatch.setattr(Heartbeats, "healthy", healthy)
    members.step(MessageReceived(B, Heartbeat(1)), 1.0)
    assert looks == []
