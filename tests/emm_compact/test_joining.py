"""Stories of nodes without sockets: how relationships begin, who gets one, and who does not (EMC-11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.emm_compact.foreign import INTERVAL_S, heartbeat_of, join_of, made
from tests.emm_compact.world import (
    Conditions,
    World,
    address,
    node_id,
    ring_of,
    star_pairs,
)
from weft.datagram_node.relationships import DATAGRAM_BAR_S
from weft.emm_compact import ChangeKind, Settings
from weft.errors import UsageError
from weft.limits import DATAGRAM_SOUGHT_MAX
from weft.wire.emm_compact import EventType, Field, FieldType, Heartbeat, decode_untrusted
from weft.wire.reject import Reject
from weft.wire.udp import Datagram


@pytest.mark.req("EMC-11")
def test_a_join_makes_a_relationship_on_both_sides_with_two_messages() -> None:
    world = World(2, settings=Settings(status=b"north hall", heartbeat_interval_s=7))
    world.link((0, 1))
    assert (world.places[0].neighbours, world.places[1].neighbours) == ({1}, {0})
    (neighbour,) = world.places[1].session.relationships
    assert (neighbour.node_id, neighbour.address) == (node_id(0).bytes, address(0))
    assert neighbour.about.join is not None
    assert (neighbour.about.join.status, neighbour.heartbeat_interval_s) == (b"north hall", 7)
    world.run(5)
    assert world.sent(EventType.JOIN, 0, 1) == world.sent(EventType.JOIN, 1, 0) == 1


def test_two_nodes_that_join_each_other_at_once_answer_once() -> None:
    world = World(2)
    world.join(0, 1)
    world.join(1, 0)
    world.run(5)
    assert (world.places[0].neighbours, world.places[1].neighbours) == ({1}, {0})
    assert world.sent(EventType.JOIN, 0, 1) == world.sent(EventType.JOIN, 1, 0) == 2


def test_slow_answers_are_not_answered_forever() -> None:
    world = World(2, conditions=Conditions(delay_s=(4.0, 4.0)))
    world.join(0, 1)
    world.run(60)
    assert (world.places[0].neighbours, world.places[1].neighbours) == ({1}, {0})
    joins = world.sent(EventType.JOIN, 0, 1) + world.sent(EventType.JOIN, 1, 0)
    world.run(600)
    assert world.sent(EventType.JOIN, 0, 1) + world.sent(EventType.JOIN, 1, 0) == joins


def test_a_join_that_is_lost_is_repeated_less_and_less_often() -> None:
    world = World(2, conditions=Conditions(loss=1.0))
    world.join(0, 1)
    world.run(3600)
    assert world.sent(EventType.JOIN, 0, 1) in range(60, 70)
    world.conditions.loss = 0
    world.run(61)
    assert world.places[0].neighbours == {1}


def test_a_node_that_answers_with_heartbeats_alone_is_a_neighbour_too() -> None:
    world = World(1)
    world.join(0, 9)
    world.inject(0, Datagram(made(heartbeat_of(9), 9, world).raw, address(9), 64, 0))
    (neighbour,) = world.places[0].session.relationships
    assert neighbour.node_id == node_id(9).bytes
    assert neighbour.about.join is None and neighbour.about.heartbeat is not None
    assert neighbour.heartbeat_interval_s == INTERVAL_S, "ours, if it does not say"


def test_heartbeats_say_when_the_next_is_due() -> None:
    world = World(1, settings=Settings(heartbeat_interval_s=60))
    world.join(0, 9)
    interval = (Field(FieldType.HEARTBEAT_INTERVAL, b"\x64"),)
    world.inject(0, Datagram(made(replace(heartbeat_of(9), more=interval), 9, world).raw, address(9), 64, 0))
    (neighbour,) = world.places[0].session.relationships
    assert neighbour.heartbeat_interval_s == 100
    world.run(61)
    own = [decode_untrusted(each.data).body for *_, each in world.wire]
    assert [body.more for body in own if isinstance(body, Heartbeat)] == [
        (Field(FieldType.HEARTBEAT_INTERVAL, b"\x3c"),)
    ]


@pytest.mark.req("EMC-11")
def test_ten_and_up_to_the_limit() -> None:
    world = World(13, settings=Settings(relationships_max=10))
    world.link(*star_pairs(13))
    assert world.places[0].neighbours == set(range(1, 11)), "those that came first"
    assert {int.from_bytes(each.node_id) - 0xA0000 for each in world.places[0].session.relationships.known()} == set(
        range(1, 13)
    ), "those without a place are known all the same"


@pytest.mark.req("EMC-11")
def test_a_preferred_node_takes_anothers_place() -> None:
    world = World(13, settings=Settings(relationships_max=10, preferred=[node_id(12)]))
    for pair in star_pairs(13):
        world.link(pair)
    assert world.places[0].neighbours == {*range(1, 10), 12}, "the youngest of those that are not preferred goes"
    assert [each.kind for each in world.places[0].changes][-2:] == [ChangeKind.DROPPED, ChangeKind.JOINED]


def test_a_node_we_were_told_to_join_is_preferred() -> None:
    world = World(13, settings=Settings(relationships_max=10))
    world.link(*star_pairs(12))
    world.link((0, 12))
    assert 12 in world.places[0].neighbours


def test_the_longest_status_fits_a_join_and_a_longer_one_is_refused() -> None:
    world = World(2, settings=Settings(status=bytes(142)))
    world.link((0, 1))
    assert world.places[1].neighbours == {0}
    with pytest.raises(UsageError, match="status is too long"):
        Settings(status=bytes(143))


def test_a_limit_below_ten_or_beyond_six_bits_is_refused() -> None:
    for wrong in (9, 64):
        with pytest.raises(UsageError, match="relationships_max is out of range"):
            Settings(relationships_max=wrong)


@pytest.mark.req("EMC-11")
def test_a_dropped_neighbour_stays_away_for_a_while() -> None:
    world = World(2)
    world.link((0, 1))
    assert world.places[1].session.drop(node_id(0), world.at) is not None
    assert world.places[1].session.drop(node_id(0), world.at) is None
    world.run(DATAGRAM_BAR_S - 10)
    assert world.places[1].neighbours == set()
    assert world.places[0].neighbours == set(), "it heard nothing for so long, and asks in vain"
    world.run(80)
    assert world.places[1].neighbours == {0}


def test_a_stranger_cannot_join() -> None:
    world = World(1)
    stranger = made(join_of(1), 2, world)
    world.inject(0, Datagram(stranger.raw, address(1), 64, 0))
    assert world.places[0].neighbours == set()
    assert world.places[0].session.figures.rejected == {Reject.UNKNOWN_KEY: 1}


def test_a_join_that_somebody_passed_on_does_not_say_where_its_node_is() -> None:
    world = World(3)
    world.link((0, 1))
    world.inject(0, Datagram(made(join_of(2), 2, world).raw, address(1), 63, 0))
    world.inject(0, Datagram(made(heartbeat_of(2), 2, world, 1).raw, address(1), 63, 0))
    assert world.places[0].neighbours == {1}
    world.run(1)
    assert world.sent(EventType.JOIN, 0, 1) == 1, "and nobody is asked"


def test_a_node_does_not_join_itself() -> None:
    world = World(1)
    world.join(0, 0)
    world.run(600)
    assert world.places[0].neighbours == set()
    assert world.sent(EventType.JOIN, 0, 0) == 1


def test_a_node_that_moved_is_found_by_its_heartbeats() -> None:
    world = World(3)
    world.link((0, 1))
    world.crash(1)
    world.places[2].session = world.places[1].session
    world.inject(0, Datagram(made(heartbeat_of(1), 1, world).raw, address(2), 64, 0))
    (neighbour,) = world.places[0].session.relationships
    assert neighbour.address == address(1), "a heartbeat proves membership, not who it is"
    world.run(0.1)
    (neighbour,) = world.places[0].session.relationships
    assert neighbour.address == address(2), "a signed join does"
    assert (world.sent(EventType.JOIN, 0, 2), world.sent(EventType.JOIN, 2, 0)) == (1, 1)


def test_heartbeats_alone_do_not_move_a_neighbour() -> None:
    """Any member could write another's node id into them."""
    world = World(2)
    world.link((0, 1))
    for number in range(3):
        world.inject(0, Datagram(made(heartbeat_of(1), 1, world, number).raw, address(2), 64, 0))
        world.run(0.5)
    (neighbour,) = world.places[0].session.relationships
    assert neighbour.address == address(1)


def test_our_own_heartbeat_sent_back_to_us_is_nobodys() -> None:
    world = World(1)
    world.inject(0, Datagram(made(heartbeat_of(0), 0, world).raw, address(5), 64, 0))
    world.run(100)
    assert world.wire == []


@pytest.mark.parametrize("answer", [b"", bytes(16)], ids=["no trace", "a trace of its own"])
def test_a_node_of_another_make_that_answers_every_join_gets_no_endless_answers(answer: bytes) -> None:
    world = World(1)
    world.places[0].session.ring = ring_of([0, 9])
    more = (Field(FieldType.TRACE_ID, answer),) if answer else ()
    for number in range(5):
        join = made(replace(join_of(9), more=more), 9, world, number)
        world.inject(0, Datagram(join.raw, address(9), 64, 0))
    assert world.sent(EventType.JOIN, 0, 9) == 1, "to the first, because it was new"
    assert world.sent(EventType.HEARTBEAT, 0, 9) == 4


def test_too_many_addresses_are_the_callers_mistake() -> None:
    world = World(1)
    for number in range(1, DATAGRAM_SOUGHT_MAX + 1):
        world.join(0, number)
    with pytest.raises(UsageError, match="too many addresses to join"):
        world.join(0, 999)


@pytest.mark.req("EMC-11")
def test_a_node_to_be_joined_is_asked_again_although_as_many_strangers_are_asked_as_can_be() -> None:
    world = World(1)
    world.join(0, 9)
    world.inject(0, Datagram(made(heartbeat_of(9), 9, world).raw, address(9), 64, 0))
    world.run(3.4 * INTERVAL_S)  # a little longer, and it has been silent for too long
    for number in range(10, 10 + DATAGRAM_SOUGHT_MAX):
        world.inject(0, Datagram(made(heartbeat_of(number), number, world).raw, address(number), 64, 0))
    assert world.places[0].neighbours == {9}
    asked = world.sent(EventType.JOIN, 0, 9)
    world.run(INTERVAL_S)
    assert world.places[0].neighbours == set()
    assert world.sent(EventType.JOIN, 0, 9) > asked
