"""Stories of EMM nodes without sockets: who finds whom, what is delivered, forwarded, refused, and how fast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.emm.world import KEY_ID, UNIX_S, World, node_id, secret
from weft.datagram_node import ChangeKind
from weft.emm import Forward, Settings
from weft.errors import UsageError
from weft.wire import emm
from weft.wire.emm import Credentials, EventType, Verdict
from weft.wire.reject import Reject

QUICK = Settings(heartbeat_interval_s=1.0)
RELAY = replace(QUICK, forward=(Forward(">"),))


def kinds(world: World) -> list[EventType]:
    return [emm.parse_untrusted(each.data).kind for each in world.wire]


@pytest.mark.req("EMM-27")
def test_two_nodes_find_each_other_with_hello_and_stay_in_touch_with_heartbeats() -> None:
    world = World(2, QUICK)
    world.join(0, 1)
    world.run(0.5)
    assert kinds(world) == [EventType.HELLO, EventType.HELLO]
    assert [len(session.neighbours) for session in world.nodes] == [1, 1]
    (neighbour,) = world.nodes[0].neighbours
    assert (neighbour.node_id, neighbour.about) == (node_id(1).bytes, b"weft")
    world.run(10)
    assert set(kinds(world)[2:]) == {EventType.HEARTBEAT}
    assert len(kinds(world)) == 2 + 2 * 10
    assert [len(session.neighbours) for session in world.nodes] == [1, 1]


@pytest.mark.req("EMM-27")
def test_a_silent_node_is_given_up_and_found_again() -> None:
    world = World(2, QUICK)
    world.join(0, 1)
    world.run(1)
    list(world.nodes[0].neighbours.changes())
    world.cut = {1}
    world.run(6)
    assert [len(session.neighbours) for session in world.nodes] == [0, 0]
    assert [change.kind for change in world.nodes[0].neighbours.changes()] == [ChangeKind.LOST]
    world.cut = set()
    world.run(70)
    assert [len(session.neighbours) for session in world.nodes] == [1, 1]


def test_a_node_that_was_restarted_is_greeted_when_others_still_know_it() -> None:
    world = World(2, QUICK)
    world.join(0, 1)
    world.run(1)
    fresh = World(2, QUICK, seed=5)
    fresh.now_s, world.nodes[1] = world.now_s, fresh.nodes[1]
    world.run(3)
    assert [len(session.neighbours) for session in world.nodes] == [1, 1]


def test_an_event_goes_to_every_neighbour_with_everything_in_it() -> None:
    world = World(3, QUICK)
    world.join(0, 1)
    world.join(0, 2)
    world.run(1)
    assert world.publish(0, "plant.temp", 21.5, {"unit": "C"}) == 2
    world.run(1)
    for number in (1, 2):
        (event,) = world.events[number]
        assert (event.name, event.values, event.node_id) == ("plant.temp", (21.5, {"unit": "C"}), node_id(0))
        assert (event.verdict, event.urgent, event.value) == (Verdict.VERIFIED, False, 21.5)
    assert world.events[0] == []


@pytest.mark.req("EMM-27")
def test_intermediaries_forward_by_rule_and_by_nothing_else() -> None:
    rules = (Forward("plant.>", (node_id(2),)), Forward("alarm.>"))
    world = World(4, replace(QUICK, forward=rules))
    for other in (0, 2, 3):
        world.join(other, 1)
    world.run(1)
    for name in ("plant.temp", "alarm.fire", "private"):
        world.publish(0, name)
    world.run(1)
    assert sorted(world.names(1)) == ["alarm.fire", "plant.temp", "private"]
    assert sorted(world.names(2)) == ["alarm.fire", "plant.temp"]
    assert world.names(3) == ["alarm.fire"]
    assert world.nodes[1].figures.forwarded == 2


@pytest.mark.req("EMM-27", "EMM-19")
@pytest.mark.parametrize("seed", range(5))
def test_in_a_ring_with_shortcuts_everybody_gets_each_event_once(seed: int) -> None:
    world = World(6, RELAY, seed=seed, doubling=0.3)
    for number in range(6):
        world.join(number, (number + 1) % 6)
    world.join(0, 3)
    world.run(3)
    for number in range(6):
        world.publish(number, f"from.{number}")
    world.run(3)
    for number in range(6):
        assert sorted(world.names(number)) == sorted(f"from.{other}" for other in range(6) if other != number)


@pytest.mark.req("EMM-27")
def test_what_is_forwarded_is_the_packet_itself_with_one_less_to_live() -> None:
    world = World(3, replace(RELAY, ttl=2))
    world.join(0, 1)
    world.join(2, 1)
    world.run(1)
    world.wire.clear()
    world.publish(0, "n")
    world.run(0.5)
    events = [each for each in world.wire if emm.parse_untrusted(each.data).kind is EventType.EVENT]
    assert [(each.target[1], each.ttl) for each in events] == [(1, 2), (2, 1)]
    assert events[0].data == events[1].data
    assert world.nodes[2].figures.ended == 1  # it would forward, too, but there is nothing left


@pytest.mark.req("EMM-29")
def test_urgent_events_are_handled_first_on_both_sides() -> None:
    world = World(2, replace(QUICK, rate_per_s_max=40.0))
    world.join(0, 1)
    world.run(1)
    for number in range(30):
        world.publish(0, f"slow.{number}")
    world.publish(0, "fire", urgent=True)
    world.run(3)
    assert world.names(1).index("fire") < 20  # it overtook what had to wait
    assert len(world.names(1)) == 31


def test_sending_keeps_to_its_pace_and_what_waits_is_bounded() -> None:
    world = World(2, replace(QUICK, rate_per_s_max=50.0, outbox_max=100))
    world.join(0, 1)
    world.run(1)
    for number in range(200):
        world.publish(0, f"n.{number}")
    assert not world.nodes[0].has_room(urgent=False)
    assert world.nodes[0].has_room(urgent=True)
    assert world.nodes[0].figures.unsent == 100
    world.wire.clear()
    world.run(1)
    assert len(world.wire) <= 50 + 16 + 5  # a second, a burst and some heartbeats
    world.run(5)
    assert len(world.names(1)) == 100


def test_events_that_nobody_takes_are_dropped_and_counted() -> None:
    world = World(1, replace(QUICK, events_max=3))
    for number in range(5):
        draft = emm.draft_event(number + 1, int(UNIX_S + world.now_s), f"n{number}", node_id=node_id(0))
        world.send(0, emm.build(draft, Credentials(KEY_ID, hmac_key=secret(0))))
    figures = world.nodes[0].figures
    assert (figures.delivered, figures.unread) == (3, 2)


@pytest.mark.req("EMM-18", "EMM-19", "EMM-20")
def test_what_is_refused_is_counted_told_and_does_nothing() -> None:
    world = World(2, RELAY)
    world.join(0, 1)
    world.run(1)
    draft = emm.draft_hello(7, int(world.at.unix_s), node_id(1), b"evil")
    forged = emm.build(draft, Credentials(KEY_ID, hmac_key=b"x" * 32))
    world.send(0, forged)
    world.send(0, b"\x99")
    assert world.nodes[0].figures.rejected == {Reject.BAD_HMAC: 1, Reject.TRUNCATED: 1}
    assert [refusal.error.reason for refusal in world.refused] == [Reject.BAD_HMAC, Reject.TRUNCATED]
    assert [neighbour.address for neighbour in world.nodes[0].neighbours] == [world.address(1)]
    world.publish(1, "once")
    world.run(1)
    (capture,) = [each.data for each in world.wire if b"once" in each.data and each.target == world.address(0)]
    for _ in range(3):
        world.send(0, capture)
    world.run(400)
    world.send(0, capture)  # the cache has forgotten it; its time has not
    assert world.names(0) == ["once"]
    assert world.nodes[0].figures.rejected[Reject.REPLAY] == 3
    assert world.nodes[0].figures.rejected[Reject.STALE] == 1


@pytest.mark.parametrize("seed", range(4))
def test_with_loss_and_doubling_nodes_still_find_each_other_and_nothing_comes_twice(seed: int) -> None:
    world = World(8, RELAY, loss=0.2, doubling=0.2, seed=seed)
    for number in range(8):
        world.join(number, (number + 1) % 8)
        world.join(number, (number + 3) % 8)
    world.run(30)
    assert all(len(session.neighbours) >= 2 for session in world.nodes)
    for number in range(8):
        world.publish(number, f"from.{number}")
        world.run(0.1)
    world.run(3)
    for number in range(8):
        names = world.names(number)
        assert len(names) == len(set(names))
        assert f"from.{number}" not in names
    assert sum(len(world.names(number)) for number in range(8)) > 40  # of 56: many ways lead there


@pytest.mark.parametrize(
    "settings",
    [{"ttl": 0}, {"peers_max": 1}, {"heartbeat_interval_s": 0}, {"outbox_max": 0}, {"capabilities": b"x" * 256}],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Settings(**settings)  # type: ignore[arg-type]


def test_a_forwarding_rule_needs_a_pattern() -> None:
    with pytest.raises(UsageError):
        Forward("plant..temp")
