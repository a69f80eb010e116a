"""How groups end: dropped by somebody, or forgotten because nobody uses them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.core.groups import chaos
from tests.core.groups.talk import (
    ALL,
    DAY_S,
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
    place,
    said,
    state,
    stream,
)
from tests.core.groups.world import GROUP, Faults, World
from weft.core.groups import Dropped, ForgetPositions, GroupEffect, Groups, GroupSettings, Say, Statement, groups
from weft.core.groups.events import (
    DropSaid,
    GroupSubject,
    LedgerOf,
    LedgerSaid,
    NodeSaid,
    Place,
    PlaceSaid,
    PolicySaid,
    WithdrawalSaid,
    drop_event,
    ledger_event,
    place_event,
    policy_event,
    withdrawal,
)
from weft.core.groups.ledger import Ledger, Try
from weft.core.groups.names import topic_of
from weft.core.messages import Acked, Nacked, StreamKey
from weft.core.policy import DEFAULT_POLICY, GroupPolicy, policy_at
from weft.errors import UsageError
from weft.limits import OFFSET_MAX
from weft.model import Batch, Event, NodeId, Position, Stream

U = stream("plant.u")
LIFE_S = SETTINGS.expire_after_s


def working(handled: int = 5) -> Groups:
    """Node a with a member that has handled something, which the mesh was told."""
    mesh = make(T)
    mesh.join(1, "g", "m", ALL, 0.0)
    mesh.tick(0.0)
    mesh.handled(1, [at(T, handled)], 1, 0.1)
    mesh.tick(2.0)
    return mesh


def statements(origin: NodeId, *events: Event) -> list[Statement]:
    return [Statement(origin, ONE, offset, event) for offset, event in enumerate(events)]


def stamped(event: Event, at_s: float) -> Event:
    return Event(event.payload, int(at_s * 1e6), event.key)


# --- dropping --------------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-03")
def test_a_dropped_group_ends_for_its_members_and_begins_anew() -> None:
    mesh = working()
    effects = mesh.drop("g", 3.0)
    assert effects[:2] == [Dropped(1, "g"), ForgetPositions("g")], "positions go before it is said"
    assert said(effects) == [DropSaid(1)]
    assert not mesh.knows("g") and mesh.remembers("g") and mesh.names() == [] and mesh.positions("g") == []
    assert said(mesh.tick(3.0)) == [WithdrawalSaid(T), WithdrawalSaid(A)], "what it said before"
    assert is_quiet(mesh)
    assert mesh.handled(1, [at(T, 9)], 1, 3.0) == mesh.leave(1, 3.0) == [], "it is no member any more"
    with pytest.raises(UsageError, match="there is no group g"):
        mesh.drop("g", 3.0)
    mesh.join(2, "g", "m", ALL, 4.0)
    assert mesh.position("g", T) is None
    effects = mesh.tick(4.0)
    assert assignments(effects) == [(2, 1, (T,))]
    assert [each.era for each in said(effects) if isinstance(each, NodeSaid)] == [1]
    mesh.handled(2, [at(T, 1)], 1, 4.5)
    assert said(mesh.tick(6.0)) == [PlaceSaid(T, Place(0, 1), 1)]


def test_what_is_said_anew_is_not_withdrawn() -> None:
    """A group that begins anew before all that was said of the old one is withdrawn."""
    mesh = working()
    mesh.drop("g", 3.0)
    mesh.move("g", [at(T, 2)], 3.0)
    assert said(mesh.tick(3.0)) == [WithdrawalSaid(A)], "not the position, which is of the new era"


@pytest.mark.req("SEC-03")
def test_a_drop_elsewhere_counts_here_and_what_is_older_does_not() -> None:
    """In a split, one side drops the group and the other goes on with it. When they hear each other, it is over."""
    mesh = working()
    hear(mesh, B, place(T, 7, 70), offset=0, now_s=2.0)
    effects = mesh.heard(*talk(B, drop_event(1), 1), 3.0)
    assert effects == [Dropped(1, "g"), ForgetPositions("g")]
    hear(mesh, C, place(T, 9, 90), state(C, x=member(T)), offset=0, now_s=3.5)  # which has not heard of it
    assert not mesh.knows("g") and mesh.positions("g") == [] and mesh.members("g") == []
    hear(mesh, C, place_event(T, Place(0, 1), 1), offset=2, now_s=4.0)
    assert mesh.positions("g") == [at(T, 1)], "what was said since"


@pytest.mark.req("SEC-03")
def test_whoever_hears_of_a_later_era_first_needs_no_drop() -> None:
    mesh = working()
    effects = mesh.heard(*talk(B, place_event(U, Place(0, 3), 2), 0), 3.0)
    assert effects == [Dropped(1, "g"), ForgetPositions("g")]
    assert mesh.positions("g") == [at(U, 3)]
    hear(mesh, C, drop_event(2), drop_event(1), offset=0, now_s=3.0)
    assert mesh.positions("g") == [at(U, 3)], "it was known"
    assert said(mesh.drop("g", 4.0)) == [DropSaid(3)]


def talk(origin: NodeId, event: Event, offset: int) -> tuple[StreamKey, Batch]:
    return (Stream(topic_of("g"), origin, 0), ONE), Batch.from_events([event]).with_base_offset(offset)


def recalled(
    log: Iterable[Statement], logged: Iterable[Position] = (), now_s: float = 0.0
) -> tuple[Groups, list[GroupEffect]]:
    mesh = make(T, logged=logged)
    return mesh, mesh.recall("g", log, now_s)


def test_a_node_that_starts_recalls_the_drop_and_nothing_from_before() -> None:
    log = [*statements(B, drop_event(1)), *statements(A, place(T, 0, 5), state(A, m=member(T)))]
    mesh, effects = recalled(log, logged=[at(T, 6)])
    assert effects == [ForgetPositions("g")], "it was killed before it could"
    assert not mesh.knows("g") and mesh.remembers("g")
    assert set(said(mesh.tick(0.0))) == {WithdrawalSaid(T), WithdrawalSaid(A)}
    mesh.move("g", [at(T, 1)], 1.0)
    assert mesh.positions("g") == [at(T, 1)]


def test_positions_in_the_log_count_if_this_node_has_spoken_in_the_era() -> None:
    log = [*statements(B, drop_event(1)), *statements(A, place_event(T, Place(0, 5), 1))]
    mesh, effects = recalled(log, logged=[at(T, 6)])
    assert effects == [] and mesh.positions("g") == [at(T, 6)]
    assert said(mesh.tick(2.0))[0] == PlaceSaid(T, Place(0, 6), 1), "it was handled, and not said in time"


@pytest.mark.req("SEC-06")
def test_a_drop_in_the_last_era_is_refused() -> None:
    """A node that lies can say that it is the last one. Dropping the group ended this node."""
    mesh = make(T)
    hear(mesh, B, place_event(T, Place(0, 5), OFFSET_MAX), offset=0, now_s=0.0)
    with pytest.raises(UsageError, match="use another name"):
        mesh.drop("g", 1.0)
    assert mesh.names() == ["g"]


def test_that_a_group_was_dropped_is_remembered_as_long_as_an_unused_one() -> None:
    mesh = working()
    mesh.drop("g", 3.0)
    mesh.tick(3.0)
    assert said(mesh.tick(3.0 + LIFE_S - 1)) == []
    assert mesh.remembers("g")
    assert said(mesh.tick(3.0 + LIFE_S)) == [WithdrawalSaid(GroupSubject.DROP)]
    assert not mesh.remembers("g")


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GRAVES_MAX", 1)
    mesh = working()
    mesh.move("h", [at(T, 1)], 0.0)
    mesh.drop("g", 3.0)
    with pytest.raises(UsageError, match=r"too many groups were dropped lately \(group h, limit 1\)"):
        mesh.drop("h", 3.0)
    hear(mesh, B, drop_event(1), offset=0, now_s=3.0, group="i")
    assert mesh.refused == 1 and mesh.names() == ["h"]


@pytest.mark.req("SEC-05")
def test_dropped_groups_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS_MAX", 1)
    mesh = working()
    with pytest.raises(UsageError, match="too many groups"):
        mesh.move("h", [], 0.0)
    mesh.drop("g", 3.0)
    mesh.move("h", [], 0.0)


@pytest.mark.req("SEC-05")
def test_much_is_withdrawn_some_at_a_time() -> None:
    mesh = make()
    keys = [stream(f"plant.t{number}") for number in range(2500)]
    mesh.move("g", [at(key, 1) for key in keys], 0.0)
    mesh.drop("g", 1.0)
    parts = []
    while mesh.get_timer() == 0.0:
        parts.append(said(mesh.tick(1.0)))
    assert [len(each) for each in parts] == [groups.WITHDRAWALS_AT_ONCE] * (len(keys) // groups.WITHDRAWALS_AT_ONCE)
    assert {each.what for part in parts for each in part if isinstance(each, WithdrawalSaid)} == set(keys)


# --- ledgers and policies --------------------------------------------------------------------------------------------

ONCE = GroupPolicy(max_deliveries=1)


def settling() -> Groups:
    """Node a with a member that settles event by event: 0 failed and waits, 1 is done; the mesh was told."""
    mesh = make(T)
    mesh.join(1, "g", "m", ALL, 0.0, window=10, policy=GroupPolicy(in_order=False))
    mesh.tick(0.0)
    mesh.handled(1, [at(T, 0)], 1, 0.0)
    mesh.settled(1, [Acked(*T, 1, 2)], [Nacked(*T, 0, 1000.0, "broken")], 1, 0.1)
    assert [type(each) for each in said(mesh.tick(2.0))] == [PlaceSaid, LedgerSaid]
    return mesh


@pytest.mark.req("SEC-03")
def test_all_that_a_node_said_of_a_group_is_withdrawn_when_it_is_dropped() -> None:
    mesh = settling()
    mesh.drop("g", 3.0)
    withdrawn = {WithdrawalSaid(what) for what in (T, LedgerOf(T), A, GroupSubject.POLICY)}
    assert set(said(mesh.tick(3.0))) == withdrawn
    assert is_quiet(mesh), "no retry waits"


@pytest.mark.req("SEC-05")
def test_all_that_a_node_said_of_a_group_is_withdrawn_when_it_is_forgotten() -> None:
    mesh = settling()
    mesh.leave(1, 10.0)
    effects = run_to(mesh, 10.0 + LIFE_S)
    assert {each.what for each in said(effects) if isinstance(each, WithdrawalSaid)} == {
        T,
        LedgerOf(T),
        A,
        GroupSubject.POLICY,
    }
    assert not mesh.remembers("g")


@pytest.mark.req("SEC-03")
def test_ledgers_and_policies_of_an_era_that_is_over_do_not_count() -> None:
    mesh = make(T)
    ledger = Ledger([(3, 5)], [(1, Try(2, 0, False, "broken"))])
    hear(mesh, B, place_event(T, Place(0, 0), 1), offset=0, now_s=0.0)
    hear(mesh, C, ledger_event(T, 0, ledger), policy_event(policy_at(ONCE, 9)), offset=0, now_s=0.0)
    assert mesh.policy("g") is None
    mesh.join(1, "g", "m", ALL, 1.0, window=10)
    mesh.tick(1.0)
    mesh.settled(1, [Acked(*T, 0, 3)], [], 1, 1.0)
    assert mesh.position("g", T) == 3, "3 and 4 are not done"
    hear(mesh, C, policy_event(policy_at(ONCE, 1, 1)), offset=2, now_s=2.0)
    assert mesh.policy("g") == ONCE, "that one is of this era"


@pytest.mark.req("SEC-03")
def test_whoever_hears_of_a_later_era_by_a_policy_begins_it() -> None:
    mesh = settling()
    effects = mesh.heard(*talk(B, policy_event(policy_at(ONCE, 1, 1)), 0), 3.0)
    assert effects == [Dropped(1, "g"), ForgetPositions("g")]
    assert mesh.policy("g") == ONCE and mesh.positions("g") == []


@pytest.mark.req("SEC-03")
def test_what_fails_in_a_new_era_is_noted_and_said_as_of_that_era() -> None:
    mesh = settling()
    hear(mesh, B, place_event(T, Place(0, 0), 1), offset=0, now_s=3.0)
    mesh.join(2, "g", "m", ALL, 4.0, window=10)
    mesh.tick(4.0)
    mesh.settled(2, [Acked(*T, 1, 2)], [Nacked(*T, 0, 1000.0, "again")], 1, 4.5)
    ledger = Ledger([(1, 2)], [(0, Try(1, 1_004_500_000, False, "again"))])
    assert said(mesh.tick(5.0)) == [PlaceSaid(T, Place(0, 0), 1), LedgerSaid(T, 0, ledger, 1)]


def test_a_node_that_starts_withdraws_ledgers_and_policies_from_before_the_drop() -> None:
    own = statements(A, place(T, 0, 5), ledger_event(T, 0, Ledger([(7, 9)])), policy_event(policy_at(ONCE, 1)))
    mesh, _ = recalled([*statements(B, drop_event(1)), *own])
    assert not mesh.knows("g")
    assert set(said(mesh.tick(0.0))) == {WithdrawalSaid(what) for what in (T, LedgerOf(T), GroupSubject.POLICY)}


def test_a_policy_and_a_ledger_that_others_withdraw_are_said_by_whoever_still_uses_the_group() -> None:
    mesh = make(T, lives=[B])
    mesh.join(1, "g", "m", ALL, 0.0, window=10)
    ledger = Ledger([(7, 9)])
    policy = policy_at(DEFAULT_POLICY, 4)
    hear(mesh, B, place(T, 0, 5), ledger_event(T, 0, ledger), policy_event(policy), offset=0, now_s=1.0)
    run_to(mesh, 50.0)
    hear(mesh, B, withdrawal(T), withdrawal(LedgerOf(T)), withdrawal(GroupSubject.POLICY), offset=3, now_s=60.0)
    again = said(run_to(mesh, 70.0))
    assert PlaceSaid(T, Place(0, 5)) in again and LedgerSaid(T, 0, ledger) in again and PolicySaid(policy) in again


@pytest.mark.req("SEC-03")
def test_nobody_withdraws_the_members_of_another_node() -> None:
    mesh = make(T, lives=[B, C])
    hear(mesh, B, state(B, m=member(T)), offset=0, now_s=0.0)
    hear(mesh, C, withdrawal(B), offset=9, now_s=1.0)
    assert mesh.refused == 1 and [each.node for each in mesh.members("g")] == [B]


# --- forgetting ------------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-05")
def test_a_group_that_nobody_uses_is_forgotten() -> None:
    mesh = working()
    mesh.leave(1, 10.0)
    mesh.tick(10.0)
    run_to(mesh, 10.0 + LIFE_S - 1)
    assert mesh.knows("g")
    effects = run_to(mesh, 10.0 + LIFE_S)
    assert ForgetPositions("g") in effects and set(said(effects)) == {WithdrawalSaid(T), WithdrawalSaid(A)}
    assert not mesh.remembers("g")
    assert mesh.get_timer() is None


def run_to(mesh: Groups, end_s: float) -> list[GroupEffect]:
    """All that happens by time alone until then."""
    effects: list[GroupEffect] = []
    while (timer_s := mesh.get_timer()) is not None and timer_s <= end_s:
        effects += mesh.tick(timer_s or end_s)
    return effects


@pytest.mark.req("SEC-05")
def test_a_group_with_members_is_not_forgotten_and_its_node_says_so_now_and_then() -> None:
    """Otherwise a node that starts would take it for unused: nothing else may have been said for months."""
    mesh = working()
    again = [effect for effect in run_to(mesh, 3 * LIFE_S) if isinstance(effect, Say)]
    assert mesh.position("g", T) == 5
    stamps_s = [event.timestamp_us / 1e6 for effect in again for event in effect.events]
    assert len(stamps_s) >= 8 and max(stamps_s) > 2.7 * LIFE_S
    other = make(T, lives=[B])
    hear(other, B, state(B, m=member(T)), place(T, 0, 5), offset=0, now_s=0.0)
    run_to(other, 3 * LIFE_S)
    assert other.position("g", T) == 5, "used at another node that lives"
    other.node_lives(B, ONE, False, 3 * LIFE_S)
    run_to(other, 3 * LIFE_S + DAY_S)
    assert other.knows("g")
    run_to(other, 5 * LIFE_S)
    assert not other.knows("g")


def test_who_says_again_what_a_dead_node_said_does_not_use_the_group() -> None:
    mesh = make(T, lives=[B])
    hear(mesh, B, stamped(place(T, 0, 5), 0.0), offset=0, now_s=0.0)
    mesh.node_lives(B, ONE, False, 1000.0)
    (say,) = [effect for effect in run_to(mesh, 1100.0) if isinstance(effect, Say)]
    assert [event.timestamp_us for event in say.events] == [0]


def test_a_node_that_was_away_too_long_forgets_before_it_speaks() -> None:
    log = [*statements(A, place(T, 0, 5), state(A, m=member(T))), *statements(B, place(U, 0, 4))]
    mesh, effects = recalled(log, logged=[at(T, 6)], now_s=LIFE_S)
    effects += mesh.tick(LIFE_S)
    assert effects[0] == ForgetPositions("g")
    assert set(said(effects)) == {WithdrawalSaid(T), WithdrawalSaid(A)}
    assert not mesh.remembers("g")


def test_what_others_withdraw_is_said_by_whoever_still_uses_the_group() -> None:
    """The other side of a split has forgotten it."""
    mesh = working()
    mesh.node_lives(B, ONE, True, 2.0)
    hear(mesh, B, place(U, 0, 3), offset=0, now_s=2.0)
    run_to(mesh, 50.0)
    hear(mesh, B, withdrawal(U), withdrawal(B), offset=1, now_s=60.0)
    assert said(run_to(mesh, 70.0)) == [PlaceSaid(U, Place(0, 3))]
    assert mesh.positions("g") == [at(T, 5), at(U, 3)]


def test_who_had_withdrawn_that_it_has_members_says_that_it_has_none() -> None:
    """Somebody who missed that may remember members from before."""
    log = [*statements(A, withdrawal(A), withdrawal(T)), *statements(B, state(B, m=member(T, turn=3)))]
    mesh, _ = recalled(log)
    assert said(mesh.tick(0.0)) == [NodeSaid(A, {})]
    assert mesh.positions("g") == []


def test_a_clock_that_is_ahead_does_not_keep_a_group_for_ever() -> None:
    mesh, _ = recalled(statements(B, stamped(place(T, 0, 5), 1e9)))
    run_to(mesh, LIFE_S)
    assert not mesh.knows("g")


# --- many nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_after_any_trouble_a_dropped_group_is_dropped_everywhere(seed: int) -> None:
    """One side of a split drops it; nodes die meanwhile. Whoever is a member in the end began after that."""
    world = chaos.run(seed, deaths=True, partitions=True)
    one, *others = [node.node_id for node in world.live()]
    for other in others:
        world.part(one, other)
    world.run(5.0)
    world.drop(one)
    world.run(5.0)
    world.heal()
    world.run(40.0)
    for node in world.live():
        assert not node.clients and not node.groups.knows(GROUP), (seed, node.node_id)
        assert GROUP not in node.committed
    for node in world.live():
        world.kill(node.node_id)
        world.restart(node.node_id)
    world.join(one, "anew", "plant.>")
    world.run(60.0)
    positions = {tuple(node.groups.positions(GROUP)) for node in world.live()}
    assert len(positions) == 1, seed


@pytest.mark.parametrize("seed", range(6))
def test_a_group_that_nobody_uses_is_forgotten_by_all_and_stays_so(seed: int) -> None:
    world = World(seed, Faults(), GroupSettings(expire_after_s=100.0))
    for name in "abc":
        world.start(name)
    world.learn(T)
    world.run(3.0)
    subscriptions = [world.join(NodeId(name), f"m-{name}", "plant.>") for name in "abc"]
    world.run(200.0)
    assert all(node.groups.position(GROUP, T) for node in world.live()), "it is used"
    for subscription in subscriptions:
        world.leave(subscription)
    world.run(60.0)
    world.kill(NodeId("b"))
    world.run(130.0)
    assert not any(node.groups.remembers(GROUP) for node in world.live())
    world.restart(NodeId("b"))
    world.run(30.0)
    for node in world.live():
        assert not node.groups.remembers(GROUP) and GROUP not in node.committed, (seed, node.node_id)
