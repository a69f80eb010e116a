"""Stories of nodes without sockets: what heartbeats say, and what their absence does (EMC-08, EMC-15)."""

from __future__ import annotations

import pytest

from tests.emm_compact.foreign import INTERVAL_S, join_of, made
from tests.emm_compact.world import (
    World,
    address,
    ring_of,
    signer,
)
from weft.emm_compact import ChangeKind
from weft.wire.emm_compact import (
    Ecn,
    EventType,
    PropagationMap,
    decode_untrusted,
    fingerprint,
)
from weft.wire.udp import Datagram

SILENCE_S = 3.5 * INTERVAL_S


@pytest.mark.req("EMC-08")
def test_heartbeats_tell_how_a_node_fares() -> None:
    world = World(3)
    world.link((0, 1), (1, 2))
    for number in range(3):
        world.publish(0, f"event {number}")
    world.publish(2, "event of another")
    world.run(INTERVAL_S)
    (seen,) = (each.about.heartbeat for each in world.places[0].session.relationships)
    assert seen is not None
    assert seen.uptime_s == INTERVAL_S
    assert (seen.rate.sent, seen.rate.received, seen.rate.ecn) == (0, 4, Ecn.ECT_0)
    assert all(event.triple in seen.digest for event in world.places[1].events)
    assert seen.propagation == PropagationMap(0, 31, fingerprint(signer(1).public_key))
    world.run(INTERVAL_S)
    (seen,) = (each.about.heartbeat for each in world.places[0].session.relationships)
    assert seen is not None
    assert seen.rate.received == 0, "counted anew in each interval"


@pytest.mark.req("EMC-15")
def test_a_silent_node_is_dropped() -> None:
    world = World(2)
    world.link((0, 1))
    world.run(300)
    assert world.places[0].neighbours == {1}
    heard_s = max(each.heard_s for each in world.places[0].session.relationships)
    world.crash(1)
    world.run(heard_s + SILENCE_S - world.now_s - 0.1)
    assert world.places[0].neighbours == {1}
    world.run(0.2)
    assert world.places[0].neighbours == set()
    assert [each.kind for each in world.places[0].changes] == [ChangeKind.JOINED, ChangeKind.LOST]


@pytest.mark.req("EMC-15")
def test_a_node_that_seldom_beats_is_given_the_time_it_announced() -> None:
    world = World(1)
    world.inject(0, Datagram(made(join_of(9, interval_s=100), 9, world).raw, address(9), 64, 0))
    assert world.places[0].neighbours == set(), "nobody knows its key"
    world.places[0].session.ring = ring_of([0, 9])
    world.inject(0, Datagram(made(join_of(9, interval_s=100), 9, world, 1).raw, address(9), 64, 0))
    world.run(349)
    assert world.places[0].neighbours == {9}
    world.run(2)
    assert world.places[0].neighbours == set()


@pytest.mark.req("EMC-11")
@pytest.mark.parametrize("who_joined", [0, 1])
def test_a_lost_relationship_is_made_again(who_joined: int) -> None:
    world = World(2)
    world.link((who_joined, 1 - who_joined))
    world.sever(0, 1)
    world.run(120)
    assert world.places[0].neighbours == world.places[1].neighbours == set()
    world.heal()
    world.run(61)
    assert (world.places[0].neighbours, world.places[1].neighbours) == ({1}, {0})


@pytest.mark.req("EMC-11")
def test_a_node_we_were_told_to_join_is_asked_forever_and_others_for_an_hour() -> None:
    world = World(2)
    world.link((0, 1))
    world.sever(0, 1)
    world.run(3 * 3600)
    so_far = world.sent(EventType.JOIN, 1, 0)
    world.run(600)
    assert world.sent(EventType.JOIN, 1, 0) == so_far, "1 was joined, and has given up"
    world.heal()
    world.run(61)
    assert (world.places[0].neighbours, world.places[1].neighbours) == ({1}, {0})


@pytest.mark.req("EMC-11")
@pytest.mark.parametrize("away_s", [0.1, 20, 120])
def test_a_node_that_restarts_is_found_by_its_neighbours(away_s: float) -> None:
    """It remembers nobody: either it is still a neighbour, and its heartbeats come, or it is asked again."""
    world = World(2)
    world.link((0, 1))
    world.crash(1)
    world.run(away_s)
    world.restart(1)
    world.run(61)
    assert (world.places[0].neighbours, world.places[1].neighbours) == ({1}, {0})


def test_a_node_that_restarts_and_asks_is_answered_at_once() -> None:
    world = World(2)
    world.link((0, 1))
    world.crash(0)
    world.run(0.5)
    world.restart(0)
    world.join(0, 1)
    world.run(0.1)
    assert world.places[0].neighbours == {1}


def test_a_clock_that_is_set_back_stops_no_heartbeats() -> None:
    world = World(2)
    world.link((0, 1))
    session = world.places[0].session
    for step in range(1, 4):
        at = world.at._replace(steady_s=world.now_s + step * INTERVAL_S, unix_s=world.at.unix_s - 3600)
        session.handle_timer(at)
        headers = [decode_untrusted(each.data).header for each in session.datagrams_to_send(at)]
        epochs = [header.epoch for header in headers if header.type is EventType.HEARTBEAT]
        assert epochs == [int(at.unix_s) % 65536], "dated by the clock as it is, or everybody would refuse it"
