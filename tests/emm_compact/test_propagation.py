"""Stories of nodes without sockets: how far events get, how often, and in which order (EMC-12, EMC-13)."""

from __future__ import annotations

import pytest

from tests.emm_compact.foreign import INTERVAL_S, made
from tests.emm_compact.world import (
    Conditions,
    World,
    address,
    notification,
    ring_pairs,
    star_pairs,
)
from weft.emm_compact import Settings
from weft.wire.reject import Reject
from weft.wire.udp import Datagram


@pytest.mark.req("EMC-12", "EMC-13")
@pytest.mark.parametrize("pairs", [ring_pairs(5), star_pairs(5)], ids=["ring", "star"])
def test_every_event_reaches_every_application_once(pairs: list[tuple[int, int]]) -> None:
    world = World(5)
    world.link(*pairs)
    for number in range(5):
        world.publish(number, f"from {number}")
    world.run(1)
    for place in world.places:
        assert sorted(place.texts) == [f"from {number}" for number in range(5) if number != place.number]


@pytest.mark.req("EMC-12")
def test_an_event_is_sent_on_unchanged_and_not_back() -> None:
    world = World(3)
    world.link((0, 1), (1, 2))
    world.wire.clear()
    world.publish(0, "x")
    world.run(1)
    (first, second) = world.wire
    assert first[:2] == (0, 1) and second[:2] == (1, 2)
    assert first[2].data == second[2].data
    assert (first[2].ttl, second[2].ttl) == (64, 63)


@pytest.mark.req("EMC-12")
@pytest.mark.parametrize(("ttl", "reached"), [(1, 1), (2, 2), (3, 3), (64, 4)])
def test_time_to_live_is_how_far_an_event_gets(ttl: int, reached: int) -> None:
    world = World(5)
    world.link((0, 1), (1, 2), (2, 3), (3, 4))
    world.publish(0, "x", ttl=ttl)
    world.run(1)
    assert [len(place.events) for place in world.places[1:]] == [1] * reached + [0] * (4 - reached)
    assert sum(place.session.figures.ended for place in world.places) == (ttl < 64)


def test_routers_count_as_well() -> None:
    world = World(3, conditions=Conditions(hops=5))
    world.link((0, 1), (1, 2))
    world.publish(0, "x", ttl=12)
    world.run(1)
    assert [event.ttl for event in world.places[1].events] == [7]
    assert [event.ttl for event in world.places[2].events] == [1]


@pytest.mark.req("EMC-13")
def test_nodes_with_the_same_triple_are_told_apart() -> None:
    world = World(1)
    for text in ("from one", "from another"):
        packet = made(notification(text), 0, world)
        world.inject(0, Datagram(packet.raw, address(1), 64, 0), Datagram(packet.raw, address(2), 64, 0))
    assert world.places[0].texts == ["from one", "from another"]
    assert world.places[0].session.figures.rejected == {Reject.REPLAY: 2}


@pytest.mark.req("EMC-02")
def test_what_is_urgent_comes_first() -> None:
    world = World(1)
    packets = [made(notification(str(number)), 1, world, number, urgent=number >= 3) for number in range(5)]
    world.inject(0, *(Datagram(packet.raw, address(1), 64, 0) for packet in packets))
    assert world.places[0].texts == ["3", "4", "0", "1", "2"]


def test_events_that_nobody_reads_are_bounded_and_counted() -> None:
    world = World(2, settings=Settings(events_max=3))
    world.link((0, 1))
    session = world.places[0].session
    for number in range(5):
        packet = made(notification(str(number)), 1, world, number)
        session.receive_datagram(Datagram(packet.raw, address(1), 64, 0), world.at)
    assert (session.figures.delivered, session.figures.unread) == (3, 2)


def test_a_cache_that_is_too_small_is_noticed() -> None:
    world = World(2, settings=Settings(seen_max=5))
    world.link((0, 1))
    for number in range(20):
        world.publish(0, str(number))
    world.run(INTERVAL_S)
    assert world.places[1].session.figures.forgotten > 10


def test_whatever_arrives_is_refused_or_taken() -> None:
    world = World(1)
    for data in (b"", b"\x20", b"\x01" * 600, bytes(17), b"\xff" * 40):
        world.inject(0, Datagram(data, address(1), 64, 0))
    assert world.places[0].session.figures.rejected.total() == 5
