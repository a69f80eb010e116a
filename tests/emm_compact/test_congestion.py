"""Rates and marks: what CE does, who is told, and what it does not do (EMC-14)."""

from __future__ import annotations

import pytest

from tests.emm_compact.foreign import INTERVAL_S, heartbeat_of, made
from tests.emm_compact.world import World, address, node_id, notification, star_pairs
from weft.emm_compact import Settings
from weft.wire.emm_compact import Ecn, EventType, Heartbeat, decode_untrusted
from weft.wire.udp import Datagram

RATE = Settings().rate_per_s_max


def rate(world: World, who: int, whom: int) -> float:
    session = world.places[who].session
    (neighbour,) = (each for each in session.relationships if each.address == address(whom))
    return session.rate_per_s(neighbour, world.at)


def marks(world: World, source: int, target: int) -> list[Ecn]:
    return [Ecn(outgoing.tos & 3) for who, whom, outgoing in world.wire if (who, whom) == (source, target)]


def signals(world: World, source: int, target: int) -> list[Ecn]:
    """What the heartbeats between two nodes said about congestion."""
    bodies = [decode_untrusted(each.data).body for who, whom, each in world.wire if (who, whom) == (source, target)]
    return [body.rate.ecn for body in bodies if isinstance(body, Heartbeat)]


@pytest.mark.req("EMC-14")
def test_a_mark_of_the_network_slows_down_that_way_and_is_told_back() -> None:
    world = World(3)
    world.link((0, 1), (0, 2))
    world.conditions.mark = lambda source, target, tos: tos | Ecn.CE if (source, target) == (0, 1) else tos
    world.publish(0, "x")
    world.run(0.1)
    assert rate(world, 1, 0) == pytest.approx(RATE / 2, rel=0.02), "as the document wants it"
    assert rate(world, 2, 0) == RATE
    world.run(INTERVAL_S - 1)
    assert signals(world, 1, 0) == [Ecn.CE]
    assert signals(world, 2, 0) == [Ecn.ECT_0]
    assert rate(world, 0, 1) == pytest.approx(RATE / 2, rel=0.1), "and it helps only if the sender knows"
    assert rate(world, 0, 2) == RATE, "other ways are not slowed down"
    assert marks(world, 0, 1)[0] is Ecn.ECT_0


@pytest.mark.req("EMC-14")
def test_a_neighbours_rate_signal_slows_down_the_way_to_it() -> None:
    world = World(2)
    world.link((0, 1))
    world.inject(0, Datagram(made(heartbeat_of(1, Ecn.CE), 1, world).raw, address(1), 64, 0))
    assert rate(world, 0, 1) == RATE / 2
    world.run(5)
    assert rate(world, 0, 1) == pytest.approx(RATE * 3 / 4)
    world.run(5.1)
    assert rate(world, 0, 1) == RATE


@pytest.mark.req("EMC-14")
def test_whoever_is_overrun_says_so_until_the_next_heartbeat() -> None:
    world = World(2)
    world.link((0, 1))
    session = world.places[0].session
    session.note_overflow(0)
    world.publish(0, "before")
    session.note_overflow(3)
    world.publish(0, "overrun")
    world.run(INTERVAL_S)
    session.note_overflow(3)
    world.publish(0, "over")
    assert marks(world, 0, 1)[-4:] == [Ecn.ECT_0, Ecn.CE, Ecn.CE, Ecn.ECT_0], "the third is the heartbeat"
    assert signals(world, 0, 1) == [Ecn.CE]


@pytest.mark.req("EMC-14")
def test_events_that_cannot_be_sent_on_are_congestion() -> None:
    world = World(3, settings=Settings(outbox_max=1, rate_per_s_max=1, rate_per_s_min=1))
    world.link((0, 1), (1, 2))
    for number in range(40):
        packet = made(notification("x"), 0, world, number)
        world.places[1].session.receive_datagram(Datagram(packet.raw, address(0), 64, 0), world.at)
    figures = world.places[1].session.figures
    assert (figures.delivered, figures.relayed, figures.unsent) == (40, 1, 39)
    world.run(INTERVAL_S)
    assert signals(world, 1, 0) == [Ecn.CE]


@pytest.mark.req("EMC-14")
def test_the_rate_is_kept() -> None:
    settings = Settings(rate_per_s_max=100, rate_per_s_min=10)
    world = World(2, settings=settings)
    world.link((0, 1))
    session = world.places[0].session
    for number in range(500):
        assert session.has_room(EventType.NOTIFICATION, urgent=False)
        world.publish(0, str(number))
    world.run(1.0)
    assert len(world.places[1].events) in range(100, 120)
    world.run(4.0)
    assert world.places[1].texts == [str(number) for number in range(500)]


def test_a_full_outbox_holds_up_the_publisher_but_not_what_is_urgent() -> None:
    world = World(2, settings=Settings(rate_per_s_max=1, rate_per_s_min=1, outbox_max=2))
    world.link((0, 1))
    session = world.places[0].session
    while session.has_room(EventType.NOTIFICATION, urgent=False):
        world.publish(0, "x")
    assert session.has_room(EventType.NOTIFICATION, urgent=True)
    assert world.publish(0, "one too many") == 0
    assert session.figures.unsent == 1
    assert world.publish(0, "alarm", urgent=True) == 1
    world.run(1.1)
    assert world.places[1].texts[-1] == "alarm", "it overtook those that wait"


def test_what_waits_for_a_dropped_neighbour_is_forgotten() -> None:
    world = World(2, settings=Settings(rate_per_s_max=1, rate_per_s_min=1))
    world.link((0, 1))
    for number in range(50):
        world.publish(0, str(number))
    sent = world.sent(EventType.NOTIFICATION, 0, 1)
    assert 0 < sent < 50
    world.places[0].session.drop(node_id(1), world.at)
    world.run(60)
    assert world.sent(EventType.NOTIFICATION, 0, 1) == sent


def test_one_slow_neighbour_does_not_hold_up_the_publisher() -> None:
    world = World(3, settings=Settings(outbox_max=1, rate_per_s_max=1000, rate_per_s_min=1))
    world.link(*star_pairs(3))
    session = world.places[0].session
    for second in range(12):
        beat = made(heartbeat_of(1, Ecn.CE), 1, world, second)
        world.inject(0, Datagram(beat.raw, address(1), 64, 0))
        world.run(1.01)
    assert rate(world, 0, 1) < 200
    for _ in range(100):
        assert session.has_room(EventType.NOTIFICATION, urgent=False)
        world.publish(0, "x")
        world.run(0.002)
    assert len(world.places[2].events) == 100
    assert len(world.places[1].events) < 100
