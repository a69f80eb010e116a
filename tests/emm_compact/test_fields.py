"""What the optional fields of packets do: types that a neighbour takes, expiry, priority, and what nodes tell."""

from __future__ import annotations

import zlib
from dataclasses import replace
from uuid import UUID

import pytest

from tests.emm_compact.foreign import INTERVAL_S, heartbeat_of, join_of, made
from tests.emm_compact.world import Conditions, World, address
from weft.emm_compact import About, Settings
from weft.errors import UsageError
from weft.wire.emm_compact import EventType, Field, FieldType, Priority, SupportedTypes
from weft.wire.reject import Reject
from weft.wire.udp import Datagram

VENDOR = UUID(int=77)


def joined_by(world: World, number: int, who: int, supported: SupportedTypes) -> None:
    """A node of another make, which takes no more than that."""
    packet = made(join_of(who, supported=supported), who, world)
    world.inject(number, Datagram(packet.raw, address(who), 64, 0))


@pytest.mark.req("EMC-09", "EMC-12")
@pytest.mark.parametrize(
    "supported",
    [SupportedTypes.NOTIFICATION, SupportedTypes.COMMAND, SupportedTypes.HEARTBEAT, SupportedTypes(0)],
)
def test_a_neighbour_gets_only_the_types_that_it_takes(supported: SupportedTypes) -> None:
    """Node 2 stands behind 0; events of its own and of 1 are for it only if it takes them."""
    world = World(3)
    world.link((0, 1))
    joined_by(world, 0, 2, supported)
    world.publish(0, "own")
    world.publish(1, "sent on")
    world.command(0, "own")
    world.command(1, "sent-on")
    world.run(2.5 * INTERVAL_S)
    for kind, count in ((EventType.NOTIFICATION, 2), (EventType.COMMAND, 2), (EventType.HEARTBEAT, 2)):
        assert world.sent(kind, 0, 2) == (count if supported & 1 << kind else 0)
    assert world.sent(EventType.JOIN, 0, 2) == 1, "who asks is answered"
    assert world.sent(EventType.NOTIFICATION, 0, 1) == 1


def test_who_is_known_by_heartbeats_alone_gets_everything() -> None:
    world = World(2)
    world.places[0].session.join(address(1), world.at)
    world.inject(0, Datagram(made(heartbeat_of(1), 1, world).raw, address(1), 64, 0))
    assert world.command(0, "x") == world.publish(0, "x") == 1


@pytest.mark.req("EMC-10")
def test_an_expired_command_is_neither_taken_nor_sent_on() -> None:
    world = World(3, conditions=Conditions(delay_s=(3.0, 3.0)))
    world.link((0, 1), (1, 2))
    world.run(20)
    world.command(0, "fine", expiry_s=4)
    world.command(0, "too late", expiry_s=2)
    world.run(20)
    assert [each.body.name for each in world.places[1].commands] == ["fine"]
    assert [each.body.name for each in world.places[2].commands] == [], "six seconds on its way"
    assert world.places[1].session.figures.rejected[Reject.EXPIRED] == 1
    assert world.places[2].session.figures.rejected[Reject.EXPIRED] == 1


@pytest.mark.req("EMC-10", "EMC-14")
def test_what_expires_while_it_waits_for_its_turn_does_not_leave() -> None:
    world = World(2, settings=Settings(rate_per_s_max=20))
    world.link((0, 1))
    for number in range(60):
        world.command(0, f"command-{number}", expiry_s=1)
    world.run(30)
    expired = world.places[0].session.figures.expired
    assert 0 < expired < 60
    assert len(world.places[1].commands) == 60 - expired


@pytest.mark.req("EMC-10")
def test_a_critical_command_goes_before_others() -> None:
    world = World(2, settings=Settings(rate_per_s_max=20))
    world.link((0, 1))
    for number in range(30):
        world.command(0, f"command-{number}")
    world.command(0, "minor", priority=Priority.ERROR)
    world.command(0, "major", priority=Priority.CRITICAL)
    world.run(30)
    names = [each.body.name for each in world.places[1].commands]
    assert len(names) == 32
    assert (names.index("major"), names.index("minor")) == (16, 31), "16 could leave at once"


@pytest.mark.req("EMC-10", "EMC-11")
def test_region_and_vendor_are_told_in_joins_and_heartbeats() -> None:
    world = World(2, settings=Settings(region="eu-central", vendor=VENDOR))
    world.link((0, 1))
    for has_heartbeat in (False, True):
        (neighbour,) = world.places[1].session.relationships
        assert (neighbour.about.heartbeat is not None) == has_heartbeat
        said = About(heartbeat=neighbour.about.heartbeat) if has_heartbeat else neighbour.about
        assert said.topology is not None
        assert (said.topology.region, said.vendor) == ("eu-central", VENDOR)
        world.run(1.5 * INTERVAL_S)


@pytest.mark.req("EMC-09", "EMC-10")
def test_a_status_is_decompressed_and_decoded_if_it_can_be() -> None:
    world = World(3)
    for number, status in ((1, zlib.compress("5 °C".encode("utf-16-be"))), (2, b"junk")):
        more = (Field(FieldType.COMPRESSION, b"\x03"), Field(FieldType.PAYLOAD_ENCODING, b"\x04"))
        packet = made(replace(join_of(number), status=status, more=more), number, world)
        world.inject(0, Datagram(packet.raw, address(number), 64, 0))
    assert [each.about.status for each in world.places[0].session.relationships] == ["5 °C".encode(), b"junk"]


def test_a_node_that_tells_nothing_is_known_for_nothing() -> None:
    world = World(2)
    world.link((0, 1))
    (neighbour,) = world.places[1].session.relationships
    assert (neighbour.about.topology, neighbour.about.vendor) == (None, None)


def test_a_status_shares_its_room_with_region_and_vendor() -> None:
    Settings(status=bytes(142))
    Settings(status=bytes(142 - 18 - 4 - 10), region="eu-central", vendor=VENDOR)
    with pytest.raises(UsageError, match="status is too long"):
        Settings(status=bytes(142 - 18 - 4 - 9), region="eu-central", vendor=VENDOR)
