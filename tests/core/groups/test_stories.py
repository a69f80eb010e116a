"""What happens to members of a group at node a, told step by step."""

from __future__ import annotations

import pytest

from tests.core.groups.talk import (
    ALL,
    ONE,
    SETTINGS,
    A,
    B,
    C,
    T,
    assignments,
    at,
    hear,
    is_quiet,
    make,
    member,
    name_that_loses,
    name_that_wins,
    place,
    said,
    state,
    stream,
)
from weft.core.errors import MemberTaken
from weft.core.groups import CommitPositions, GroupMember, Groups, Replaced
from weft.core.groups.events import NodeSaid, Place, PlaceSaid
from weft.core.groups.group import GROUP_START_S
from weft.core.messages import StreamKey
from weft.model import Epoch, NodeId, Pattern

U = stream("plant.u")
SETTLED_S = SETTINGS.settle_s


def test_alone_a_member_has_everything_at_once() -> None:
    groups = make(T, U, stream("office.door"))
    assert groups.join(1, "g", "m", ALL, 0.0) == []
    assert groups.get_timer() == 0.0
    effects = groups.tick(0.0)
    assert assignments(effects) == [(1, 1, (T, U))]
    assert said(effects) == [NodeSaid(A, {"m": member(T, U)})]
    assert is_quiet(groups)
    assert groups.holder("g", T) == (A, "m")
    assert groups.members("g") == [GroupMember(A, "m", ALL)]
    assert groups.names() == ["g"]


def test_among_others_a_node_says_what_it_wants_and_listens_first() -> None:
    groups = make(T, lives=[B])
    groups.join(1, "g", "m", ALL, 0.0)
    effects = groups.tick(0.0)
    assert assignments(effects) == []
    assert said(effects) == [NodeSaid(A, {"m": member(T)})]
    assert groups.get_timer() == SETTLED_S
    assert assignments(groups.tick(SETTLED_S)) == [(1, 1, (T,))]
    assert is_quiet(groups)


def test_a_stream_that_comes_later_is_shared_later() -> None:
    groups = make(T)
    groups.join(1, "g", "m", ALL, 0.0)
    groups.tick(0.0)
    groups.stream_known(U, 5.0)
    groups.stream_known(U, 5.0)
    assert assignments(groups.tick(5.0)) == [(1, 2, (T, U))]
    groups.stream_known(stream("office.door"), 6.0)
    assert is_quiet(groups)


def test_a_stream_that_another_node_holds_is_not_touched() -> None:
    """Not even by the rightful owner, and not if it takes for ever; unless that node is gone."""
    groups = make(T, lives=[B])
    name = name_that_wins(T, A, "x", B)
    hear(groups, B, state(B, x=member(T)), offset=0, now_s=0.0)
    groups.join(1, "g", name, ALL, 0.0)
    assert assignments(groups.tick(0.0)) == []
    assert assignments(groups.tick(100.0)) == []
    assert groups.holder("g", T) == (B, "x")
    groups.node_lives(B, Epoch(1), False, 101.0)
    assert assignments(groups.tick(101.0)) == [(1, 1, (T,))]


def test_a_stream_is_handed_over_after_the_answer_and_its_position_goes_first() -> None:
    groups = make(T, lives=[B])
    name = name_that_loses(T, A, "x", B)
    groups.join(1, "g", name, ALL, 0.0)
    groups.tick(0.0)
    groups.tick(1.0)
    assert groups.handled(1, [at(T, 7)], 1, 1.5) == [CommitPositions("g", (at(T, 7),))]
    hear(groups, B, state(B, x=member()), offset=0, now_s=1.6)
    effects = groups.tick(1.6)
    assert assignments(effects) == [(1, 2, ())]
    assert said(effects) == [], "it is still held"
    assert groups.handled(1, [at(T, 9)], 1, 1.7) == [CommitPositions("g", (at(T, 9),))], "what was in hand counts"
    assert said(groups.tick(1.7)) == []
    groups.handled(1, [], 2, 1.8)
    assert said(groups.tick(1.8)) == [PlaceSaid(T, Place(0, 9)), NodeSaid(A, {name: member()})]
    assert groups.handled(1, [at(T, 11)], 2, 1.9) == [], "it has let go"


def test_who_does_not_answer_loses_the_stream_after_a_while() -> None:
    groups = make(T, lives=[B])
    name = name_that_loses(T, A, "x", B)
    groups.join(1, "g", name, ALL, 0.0)
    groups.tick(0.0)
    groups.tick(1.0)
    hear(groups, B, state(B, x=member()), offset=0, now_s=2.0)
    groups.tick(2.0)
    assert groups.get_timer() == 2.0 + SETTINGS.release_timeout_s
    groups.tick(11.9)
    assert groups.holder("g", T) == (A, name)
    assert said(groups.tick(12.0)) == [NodeSaid(A, {name: member()})]
    assert groups.holder("g", T) is None


@pytest.mark.parametrize("generation", [0, 1, 99])
def test_an_answer_counts_for_what_was_asked(generation: int) -> None:
    """Not for an assignment that is still to come."""
    groups = make(T, lives=[B])
    name = name_that_loses(T, A, "x", B)
    groups.join(1, "g", name, ALL, 0.0)
    groups.tick(0.0)
    groups.tick(1.0)
    groups.handled(1, [], generation, 1.5)
    hear(groups, B, state(B, x=member()), offset=0, now_s=2.0)
    groups.tick(2.0)
    groups.tick(2.1)
    assert groups.holder("g", T) == (A, name)


def test_two_that_want_the_same_stream_at_once_agree_before_they_serve_it() -> None:
    groups = make(T, lives=[B])
    name = name_that_loses(T, A, "x", B)
    groups.join(1, "g", name, ALL, 0.0)
    groups.tick(0.0)
    hear(groups, B, state(B, x=member(T)), offset=0, now_s=0.1)
    effects = groups.tick(0.1)
    assert said(effects) == [NodeSaid(A, {name: member()})]
    assert assignments([*effects, *groups.tick(5.0)]) == []


def test_the_rightful_one_of_two_keeps_the_stream() -> None:
    groups = make(T, lives=[B])
    name = name_that_wins(T, A, "x", B)
    groups.join(1, "g", name, ALL, 0.0)
    groups.tick(0.0)
    hear(groups, B, state(B, x=member(T)), offset=0, now_s=0.1)
    assert assignments(groups.tick(SETTLED_S)) == [], "the other one has not let go yet"
    hear(groups, B, state(B, x=member()), offset=1, now_s=0.4)
    assert assignments(groups.tick(0.4)) == [(1, 1, (T,))]


def test_after_a_partition_the_rightful_one_works_on() -> None:
    groups = make(T)
    name = name_that_wins(T, A, "x", B)
    groups.join(1, "g", name, ALL, 0.0)
    groups.tick(0.0)
    groups.node_lives(B, Epoch(1), True, 9.0)
    hear(groups, B, state(B, x=member(T)), offset=0, now_s=9.0)
    assert groups.tick(9.0) == []
    assert groups.holder("g", T) == (A, name)


def test_between_two_members_here_a_stream_moves_only_after_the_answer() -> None:
    groups = make(T)
    loser = name_that_loses(T, A, "x", A)
    groups.join(1, "g", loser, ALL, 0.0)
    groups.tick(0.0)
    groups.join(2, "g", "x", ALL, 1.0)
    assert assignments(groups.tick(1.0)) == [(1, 2, ())]
    groups.handled(1, [at(T, 3)], 2, 1.2)
    assert assignments(groups.tick(1.2)) == [(2, 1, (T,))]
    assert groups.position("g", T) == 3


def test_a_stream_comes_back_when_the_new_owner_goes_before_it_was_let_go() -> None:
    groups = make(T)
    loser = name_that_loses(T, A, "x", A)
    groups.join(1, "g", loser, ALL, 0.0)
    groups.tick(0.0)
    groups.join(2, "g", "x", ALL, 1.0)
    groups.tick(1.0)
    groups.leave(2, 1.1)
    assert assignments(groups.tick(1.1)) == []
    groups.handled(1, [], 2, 1.2)
    assert assignments(groups.tick(1.2)) == [(1, 3, (T,))]


def test_who_leaves_leaves_its_streams_at_once_and_its_positions_are_said() -> None:
    groups = make(T, lives=[B])
    groups.join(1, "g", "m", ALL, 0.0)
    groups.tick(0.0)
    groups.tick(1.0)
    groups.handled(1, [at(T, 4)], 0, 1.0)
    groups.leave(1, 1.1)
    groups.leave(1, 1.1)
    assert said(groups.tick(1.1)) == [PlaceSaid(T, Place(0, 4)), NodeSaid(A, {})]
    assert groups.handled(1, [at(T, 5)], 0, 1.2) == []


def test_positions_are_said_once_in_a_while() -> None:
    groups = make(T, U)
    groups.join(1, "g", "m", ALL, 0.0)
    groups.tick(0.0)
    for number in range(1, 10):
        groups.handled(1, [at(T, number), at(U, 2 * number)], 1, number / 10)
    assert groups.get_timer() == pytest.approx(0.1 + SETTINGS.publish_interval_s)
    assert said(groups.tick(1.2)) == [PlaceSaid(T, Place(0, 9)), PlaceSaid(U, Place(0, 18))]
    assert is_quiet(groups)
    assert groups.positions("g") == [at(T, 9), at(U, 18)]


@pytest.mark.parametrize("key", [U, stream("office.door"), stream("plant.t", A, Epoch(2))])
def test_a_member_speaks_only_of_what_it_has(key: StreamKey) -> None:
    groups = make(T)
    groups.join(1, "g", "m", ALL, 0.0)
    groups.tick(0.0)
    assert groups.handled(1, [at(key, 5)], 1, 0.1) == []


def test_a_member_begins_where_the_log_says_that_the_group_stands() -> None:
    groups = make(T, logged=[at(T, 12)])
    groups.join(1, "g", "m", ALL, 0.0)
    assert groups.position("g", T) == 12
    assert groups.position("other", T) is None
    assert groups.position("g", U) is None


def test_a_move_takes_the_stream_away_and_gives_it_back() -> None:
    groups = make(T)
    groups.join(1, "g", "m", ALL, 0.0)
    groups.tick(0.0)
    groups.handled(1, [at(T, 100)], 1, 0.5)
    effects = groups.move("g", [at(T, 10)], 1.0)
    assert said(effects) == [PlaceSaid(T, Place(1, 10))]
    assert effects[0] == CommitPositions("g", (at(T, 10),)), "written before it is said"
    assert assignments(groups.tick(1.0)) == [(1, 2, ())]
    assert groups.handled(1, [at(T, 120)], 2, 1.1) == [], "handled before it heard of the move"
    assert assignments(groups.tick(1.1)) == [(1, 3, (T,))]
    assert groups.position("g", T) == 10
    assert groups.handled(1, [at(T, 11)], 3, 1.2) == [CommitPositions("g", (at(T, 11),))]


def test_a_move_at_another_node_reaches_the_member_here() -> None:
    groups = make(T, lives=[B])
    groups.join(1, "g", "m", ALL, 0.0)
    groups.tick(0.0)
    groups.tick(1.0)
    groups.handled(1, [at(T, 100)], 1, 1.0)
    hear(groups, B, place(T, 1, 10), offset=0, now_s=1.5)
    assert assignments(groups.tick(1.5)) == [(1, 2, ())]
    groups.handled(1, [at(T, 100)], 2, 1.6)
    assert assignments(groups.tick(1.6)) == [(1, 3, (T,))]
    assert groups.position("g", T) == 10


def test_a_group_can_be_moved_before_anybody_joins() -> None:
    groups = make(T)
    assert said(groups.move("g", [at(T, 10), at(U, 3)], 0.0)) == [
        PlaceSaid(T, Place(1, 10)),
        PlaceSaid(U, Place(1, 3)),
    ]
    assert groups.positions("g") == [at(T, 10), at(U, 3)]


def test_the_same_member_again_takes_the_place_of_the_first() -> None:
    groups = make(T)
    groups.join(1, "g", "m", ALL, 0.0)
    groups.tick(0.0)
    assert groups.join(2, "g", "m", ALL, 1.0) == [Replaced(1)]
    effects = groups.tick(1.0)
    assert assignments(effects) == [(2, 1, (T,))]
    assert said(effects) == [NodeSaid(A, {"m": member(T, turn=2)})]
    groups.leave(1, 1.1)
    assert groups.holder("g", T) == (A, "m")


def test_the_same_member_at_two_nodes_is_where_it_joined_last() -> None:
    groups = make(T, lives=[B])
    hear(groups, B, state(B, m=member(T)), offset=0, now_s=0.0)
    groups.join(1, "g", "m", ALL, 0.0)
    assert said(groups.tick(0.0)) == [NodeSaid(A, {"m": member(turn=2)})]
    assert groups.members("g") == [GroupMember(A, "m", ALL)]
    hear(groups, B, state(B, m=member()), offset=1, now_s=1.0)
    groups.tick(1.0)
    assert assignments(groups.tick(2.0)) == [(1, 1, (T,))]
    hear(groups, B, state(B, m=member(turn=3)), offset=2, now_s=3.0)
    assert assignments(groups.tick(3.0)) == [(1, 2, ())]
    assert groups.members("g") == [GroupMember(B, "m", ALL)]


def test_members_without_names_are_different_ones() -> None:
    groups = make(T)
    groups.join(1, "g", "", ALL, 0.0)
    groups.join(2, "g", "", ALL, 0.0)
    assert [each.name for each in groups.members("g")] == ["a#1", "a#2"]


def test_groups_are_separate() -> None:
    groups = make(T)
    groups.join(1, "g", "m", ALL, 0.0)
    groups.join(2, "h", "m", ALL, 0.0)
    assert assignments(groups.tick(0.0)) == [(1, 1, (T,)), (2, 1, (T,))]
    groups.handled(1, [at(T, 5)], 1, 0.1)
    assert (groups.position("g", T), groups.position("h", T)) == (5, None)


def restarted(*, logged: int, own: int) -> Groups:
    """Node a was killed with a member at work, and has read its log again."""
    groups = make(T, logged=[at(T, logged)])
    hear(groups, A, state(A, m=member()), place(T, 0, own), state(A, m=member(T)), offset=0, now_s=0.0)
    return groups


def test_a_node_that_returns_takes_back_what_it_said_before() -> None:
    groups = restarted(logged=10, own=10)
    assert groups.holder("g", T) is None
    assert said(groups.tick(0.0)) == [NodeSaid(A, {})]
    assert is_quiet(groups) or said(groups.tick(groups.get_timer() or 0.0)) == []


def test_a_node_that_returns_says_what_it_had_not_said_before() -> None:
    groups = restarted(logged=14, own=10)
    groups.tick(0.0)
    assert said(groups.tick(SETTINGS.publish_interval_s)) == [PlaceSaid(T, Place(0, 14))]
    assert groups.position("g", T) == 14


def test_a_node_without_its_disk_has_let_go_of_everything() -> None:
    groups = make(T, lives=[B])
    hear(groups, B, state(B, x=member(T)), offset=5, now_s=0.0)
    groups.join(1, "g", name_that_loses(T, A, "x", B), ALL, 0.0)
    groups.tick(0.0)
    groups.node_lives(B, Epoch(2), True, 1.0)
    groups.tick(1.0)
    assert assignments(groups.tick(2.0)) == [(1, 1, (T,))]


@pytest.mark.parametrize(("others", "wait_s"), [([], 1.0), ([C], 1.0), ([NodeId("0"), C], 2.0)])
def test_one_of_those_that_are_left_speaks_for_a_dead_node(others: list[NodeId], wait_s: float) -> None:
    """The first by name, and the next one only if that did not."""
    groups = make(T, lives=[B, *others])
    hear(groups, B, place(T, 0, 5), offset=0, now_s=0.0)
    groups.tick(GROUP_START_S)
    groups.node_lives(B, Epoch(1), False, 100.0)
    groups.node_lives(B, Epoch(1), False, 100.5)
    assert groups.get_timer() == 100.0 + wait_s * SETTINGS.publish_interval_s
    effects = groups.tick(100.0 + wait_s)
    assert effects[0] == CommitPositions("g", (at(T, 5),)), "written before it is said"
    assert said(effects) == [PlaceSaid(T, Place(0, 5))]
    assert is_quiet(groups)


def test_a_node_that_starts_speaks_for_those_that_nobody_remembers() -> None:
    """Its log tells of them, and membership does not."""
    groups = make(T, lives=[C])
    hear(groups, B, place(T, 0, 5), offset=0, now_s=0.0)
    hear(groups, C, place(U, 0, 5), offset=0, now_s=0.0)
    assert groups.get_timer() == GROUP_START_S
    assert said(groups.tick(GROUP_START_S)) == [PlaceSaid(T, Place(0, 5))]


def test_a_node_that_stops_says_all_it_has_to_say() -> None:
    groups = make(T, U)
    groups.join(1, "g", "m", ALL, 0.0)
    groups.join(2, "h", "m", ALL, 0.0)
    groups.tick(0.0)
    groups.handled(1, [at(T, 4)], 1, 0.1)
    assert said(groups.close(0.2)) == [PlaceSaid(T, Place(0, 4)), NodeSaid(A, {}), NodeSaid(A, {})]
    assert is_quiet(groups)


def test_what_is_said_about_groups_is_shared_by_nobody() -> None:
    groups = make(T, stream("weft.groups.g"), stream("weft.plain.x"))
    groups.join(1, "g", "m", Pattern("weft.>"), 0.0)
    assert assignments(groups.tick(0.0)) == [(1, 1, (stream("weft.plain.x"),))]


# --- whose a member is ---------------------------------------------------------------------------------------------

ME, YOU = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.req("SEC-03")
def test_nobody_takes_the_place_of_a_member_that_is_somebody_elses() -> None:
    mesh = make(T)
    mesh.join(1, "g", "m", ALL, 0.0, ME)
    with pytest.raises(MemberTaken, match="m in group g is somebody else's member: choose another name"):
        mesh.join(2, "g", "m", ALL, 0.0, YOU)
    assert mesh.join(3, "g", "m", ALL, 0.0, ME) == [Replaced(1)], "its own it takes over"
    mesh.leave(3, 0.0)
    assert mesh.join(4, "g", "m", ALL, 0.0, YOU) == [], "the name is free"


@pytest.mark.req("SEC-03")
def test_nor_of_one_at_another_node_as_long_as_that_lives() -> None:
    mesh = make(T, lives=[B])
    hear(mesh, B, state(B, m=member(owner=ME), old=member()), offset=0, now_s=0.0)
    with pytest.raises(MemberTaken):
        mesh.join(1, "g", "m", ALL, 0.0, YOU)
    mesh.join(2, "g", "old", ALL, 0.0, YOU)  # an older node does not say whose it is
    mesh.join(3, "g", "m", ALL, 0.0, ME)
    mesh.leave(3, 0.0)
    mesh.node_lives(B, ONE, False, 1.0)
    mesh.join(4, "g", "m", ALL, 1.0, YOU)
    assert [each.name for each in mesh.members("g")] == ["m", "old"]
