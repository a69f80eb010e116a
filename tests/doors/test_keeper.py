"""Who gets in, who has to go for it, and who never has to: without sockets, with time passed in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.doors import Door, Doorkeeper, DoorLimits, Guest, Reason, TurnedAway
from weft.doors.keeper import LEAVING_MAX, Crowd, source_of

pytestmark = pytest.mark.req("SEC-04")

GRACE_S = 2.0
WIDE = DoorLimits(100, 100, 100, 100, GRACE_S)


class House:
    """A keeper, and what it told."""

    def __init__(self, connections_max: float = 1000) -> None:
        self.told: list[TurnedAway] = []
        self.keeper = Doorkeeper(connections_max, self.told.append)
        self.out: list[Guest] = []

    def come(self, door: Door, host: str, now_s: float = 0.0) -> Guest | None:
        """A connection that goes at once when it is told to."""
        guest = door.arrive(host, now_s)
        if guest is not None:

            def go(text: str, guest: Guest = guest) -> None:
                self.out.append(guest)
                guest.leave()

            guest.turn_out = go
        return guest

    def admitted(self, door: Door, host: str, now_s: float = 0.0) -> Guest:
        guest = self.come(door, host, now_s)
        assert guest is not None
        return guest

    @property
    def reasons(self) -> list[Reason]:
        return [each.reason for each in self.told]


@pytest.mark.parametrize(
    ("limits", "reason", "text"),
    [
        (replace(WIDE, of_address_max=2), Reason.ADDRESS, "too many connections from one address (limit 2)"),
        (
            replace(WIDE, strangers_of_address_max=2),
            Reason.ADDRESS,
            "too many unauthenticated connections from one address (limit 2)",
        ),
        (replace(WIDE, connections_max=2), Reason.PORT, "too many connections (limit 2)"),
        (replace(WIDE, strangers_max=2), Reason.PORT, "too many unauthenticated connections (limit 2)"),
    ],
)
def test_each_bound_of_a_port_is_kept_and_named(limits: DoorLimits, reason: Reason, text: str) -> None:
    house = House()
    door = house.keeper.door("grpc", limits)
    first, _ = house.admitted(door, "10.0.0.1"), house.admitted(door, "10.0.0.1")
    assert house.come(door, "10.0.0.1") is None
    assert house.told == [TurnedAway("grpc", "10.0.0.1", reason, text)]
    assert house.keeper.turned_away == {("grpc", reason.value): 1}
    first.leave()
    first.leave()  # once is enough
    assert house.come(door, "10.0.0.1") is not None
    assert door.connections == 2


def test_all_ports_share_what_the_process_has() -> None:
    house = House(connections_max=2)
    grpc, exmp = house.keeper.door("grpc", WIDE), house.keeper.door("exmp", WIDE)
    admin = house.keeper.door("admin", WIDE, apart=True)
    house.admitted(grpc, "10.0.0.1").prove()
    house.admitted(exmp, "10.0.0.2").prove()
    assert house.come(grpc, "10.0.0.3") is None and house.come(exmp, "10.0.0.3") is None
    assert house.reasons == [Reason.NODE, Reason.NODE]
    house.admitted(admin, "10.0.0.3")  # has places of its own


def test_an_idle_crowd_makes_room_for_a_newcomer_of_the_same_address() -> None:
    """Behind the same NAT, or on the same machine."""
    house = House()
    door = house.keeper.door("grpc", replace(WIDE, strangers_of_address_max=3))
    idle = [house.admitted(door, "10.0.0.1", now_s) for now_s in (0.0, 0.1, 0.2)]
    newcomer = house.admitted(door, "10.0.0.1", GRACE_S)
    assert house.out == idle[:1] and newcomer.is_here


def test_in_a_rush_those_who_came_first_finish() -> None:
    house = House()
    door = house.keeper.door("grpc", replace(WIDE, strangers_max=3))
    for _ in range(3):
        house.admitted(door, "10.0.0.1", 0.0)
    assert house.come(door, "10.0.0.1", GRACE_S - 0.1) is None
    assert house.out == []


def test_others_get_the_place_of_the_newest_of_the_largest_crowd() -> None:
    house = House()
    door = house.keeper.door("grpc", replace(WIDE, strangers_max=4))
    crowd = [house.admitted(door, "10.0.0.1", 0.1 * each) for each in range(3)]
    alone = house.admitted(door, "10.0.0.2", 0.0)
    house.admitted(door, "10.0.0.3", 0.5)
    assert house.out == crowd[-1:] and alone.is_here


def test_a_crowd_of_many_addresses_makes_room_as_well() -> None:
    house = House()
    door = house.keeper.door("grpc", replace(WIDE, strangers_max=3))
    crowd = [house.admitted(door, f"10.0.0.{each}", 0.1 * each) for each in range(3)]
    assert house.come(door, "10.0.1.1", GRACE_S - 0.1) is None
    house.admitted(door, "10.0.1.1", GRACE_S)
    house.admitted(door, "10.0.1.2", GRACE_S + 0.1)
    assert house.out == crowd[:2]


def test_one_crowd_at_several_ports_is_one() -> None:
    house = House(connections_max=4)
    grpc, exmp = house.keeper.door("grpc", WIDE), house.keeper.door("exmp", WIDE)
    alone = house.admitted(grpc, "10.0.0.2")
    crowd = [house.admitted(door, "10.0.0.1", 0.1) for door in (grpc, exmp, exmp)]
    house.admitted(grpc, "10.0.0.3", 1.0)
    assert house.out == crowd[-1:] and alone.is_here
    assert house.told[-1].port == "exmp", "whose connection was closed"


def test_who_has_proved_itself_stays_whatever_happens() -> None:
    house = House(connections_max=3)
    door = house.keeper.door("grpc", WIDE)
    known = [house.admitted(door, "10.0.0.1") for _ in range(3)]
    for guest in known:
        guest.prove()
        guest.prove()
    assert house.come(door, "10.0.0.2", 1000.0) is None
    known[0].leave()
    stranger = house.admitted(door, "10.0.0.2", 1000.0)
    house.admitted(door, "10.0.0.1", 1000.0 + GRACE_S)
    assert house.out == [stranger] and all(guest.is_here for guest in known[1:])


def test_who_was_active_has_waited_the_least() -> None:
    """A scraper that asks every few seconds stays; those who only sit there go."""
    house = House()
    door = house.keeper.door("admin", replace(WIDE, connections_max=2, grace_s=0.0))
    scraper, idle = house.admitted(door, "10.0.0.1", 0.0), house.admitted(door, "10.0.0.1", 1.0)
    scraper.was_active(5.0)
    house.admitted(door, "10.0.0.1", 5.0)
    assert house.out == [idle]


def test_who_proves_nothing_in_time_has_to_go() -> None:
    house = House()
    door = house.keeper.door("grpc", replace(WIDE, stranger_s=30.0))
    assert door.next_deadline_s() is None
    late, known = house.admitted(door, "10.0.0.1", 0.0), house.admitted(door, "10.0.0.1", 1.0)
    later = house.admitted(door, "10.0.0.1", 2.0)
    known.prove()
    assert door.next_deadline_s() == 30.0
    door.expire(29.9)
    assert house.out == []
    door.expire(30.0)
    assert house.out == [late] and house.told[-1] == TurnedAway(
        "grpc", "10.0.0.1", Reason.LATE, "no authentication within 30 s"
    )
    door.expire(100.0)
    assert house.out == [late, later] and door.next_deadline_s() is None and known.is_here


def test_those_on_their_way_out_hold_up_newcomers_only_when_they_are_many() -> None:
    house = House()
    most = 4 * LEAVING_MAX
    door = house.keeper.door("grpc", replace(WIDE, connections_max=most))
    slow = [door.arrive("10.0.0.1", 0.0) for _ in range(most)]  # nobody closes them
    for _ in range(LEAVING_MAX):
        assert not door.is_settling
        assert door.arrive("10.0.0.1", GRACE_S) is not None
    assert door.is_settling and door.connections == most + LEAVING_MAX
    assert door.arrive("10.0.0.1", GRACE_S) is None
    for guest in slow:
        assert guest is not None
        guest.leave()
    assert not door.is_settling and door.connections == LEAVING_MAX


def test_one_network_of_ipv6_is_one_address() -> None:
    house = House()
    door = house.keeper.door("grpc", replace(WIDE, strangers_of_address_max=1))
    house.admitted(door, "2001:db8::1")
    assert house.come(door, "2001:db8::ffff:2") is None
    assert house.come(door, "2001:db8:0:1::1") is not None
    assert source_of("::ffff:10.0.0.1") == source_of("10.0.0.1") == "10.0.0.1"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["come", "prove", "leave", "active", "expire"]),
        st.integers(0, 3),  # the host
        st.integers(0, 50),  # which of those who are here
        st.integers(0, 1),  # the door
        st.floats(0.0, 3.0),  # how much later
    ),
    max_size=80,
)


@given(STEPS)
def test_bounds_hold_and_known_guests_stay_whatever_happens(steps: list[tuple[str, int, int, int, float]]) -> None:
    limits = DoorLimits(6, 4, 4, 2, grace_s=1.0, stranger_s=10.0)
    house = House(connections_max=8)
    doors = [house.keeper.door("a", limits), house.keeper.door("b", limits)]
    here: list[Guest] = []
    known: set[Guest] = set()
    now_s = 0.0
    for action, host, which, at, later_s in steps:
        now_s += later_s
        chosen = here[which % len(here)] if here else None
        if action == "come":
            came = house.come(doors[at], f"10.0.0.{host}", now_s)
            here += [came] if came is not None else []
        elif action == "expire":
            doors[at].expire(now_s)
        elif chosen is not None and action == "prove":
            chosen.prove()
            known.add(chosen)
        elif chosen is not None and action == "active":
            chosen.was_active(now_s)
        elif chosen is not None:
            chosen.leave()
            known.discard(chosen)
        here = [guest for guest in here if guest.is_here]
        assert known <= set(here), "who is known is never turned out"
        for door in doors:
            inside = [guest for guest in here if guest.door is door]
            strangers = [guest for guest in inside if guest not in known]
            assert (door.connections, door.strangers) == (len(inside), len(strangers))
            assert len(inside) <= 6 and len(strangers) <= 4
            for each in range(4):
                assert sum(guest.host == f"10.0.0.{each}" for guest in inside) <= 4
                assert sum(guest.host == f"10.0.0.{each}" for guest in strangers) <= 2
        assert len(here) <= 8
        check_ranks(house.keeper.house, [guest for guest in here if guest not in known])


def check_ranks(crowd: Crowd, strangers: list[Guest]) -> None:
    """The index of who has the most, against its definition."""
    counts = Counter(guest.source for guest in strangers)
    assert crowd._most == max(counts.values(), default=0)
    assert {source: rank for rank, sources in crowd._ranks.items() for source in sources} == counts
