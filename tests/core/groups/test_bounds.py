"""What a node refuses, and that it goes on."""

from __future__ import annotations

import pytest

from tests.core.groups.talk import (
    ALL,
    ONE,
    A,
    B,
    C,
    T,
    assignments,
    at,
    hear,
    make,
    member,
    place,
    said,
    state,
    stream,
)
from weft.core.groups import Groups, Refusal, Say, events, group, groups, places, reports
from weft.core.groups.events import LedgerSaid, NodeSaid, Place, PlaceSaid, Said, text_of
from weft.core.groups.hand import Run
from weft.core.groups.ledger import Ledger, Try
from weft.core.messages import Nacked, StreamKey
from weft.core.policy import GroupPolicy
from weft.errors import UsageError
from weft.limits import BATCH_BYTES_MAX
from weft.model import Batch, Event, NodeId, Pattern


@pytest.mark.parametrize(
    ("name", "member_name", "pattern", "error"),
    [
        ("", "m", ALL, "is not a name for a group"),
        ("a b", "m", ALL, "is not a name for a group"),
        ("g", "a#1", ALL, "is not a name for a member"),
        ("g", "m", Pattern("weft.groups.>"), "subscribe without one"),
        ("g", "m", Pattern("weft.groups.x"), "subscribe without one"),
    ],
)
def test_who_cannot_join(name: str, member_name: str, pattern: Pattern, error: str) -> None:
    mesh = make(T)
    with pytest.raises(UsageError, match=error):
        mesh.join(1, name, member_name, pattern, 0.0)
    assert mesh.names() == []
    assert mesh.join(1, "g", "m", ALL, 0.0) == [], "the number is still free"


def test_too_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_MEMBERS_MAX", 2)
    mesh = make(T)
    mesh.join(1, "g", "m1", ALL, 0.0)
    mesh.join(2, "g", "m2", ALL, 0.0)
    with pytest.raises(UsageError, match=r"group g has too many members at this node \(limit 2\)"):
        mesh.join(3, "g", "m3", ALL, 0.0)
    mesh.join(3, "g", "m2", ALL, 0.0)


def test_too_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS_MAX", 1)
    mesh = make(T)
    mesh.join(1, "g", "m", ALL, 0.0)
    with pytest.raises(UsageError, match=r"too many groups \(group h, limit 1\)"):
        mesh.join(2, "h", "m", ALL, 0.0)
    with pytest.raises(UsageError, match=r"too many groups \(group h, limit 1\)"):
        mesh.move("h", [at(T, 1)], 0.0)
    hear(mesh, B, state(B, x=member()), place(T, 0, 1), group="h", offset=0, now_s=0.0)
    assert mesh.refused == 2
    assert mesh.names() == ["g"]


def test_too_many_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_POSITIONS_MAX", 2)
    monkeypatch.setattr(places, "GROUP_POSITIONS_MAX", 2)
    mesh = make(T)
    keys = [stream(f"plant.t{number}") for number in range(4)]
    mesh.move("g", [at(keys[0], 1), at(keys[1], 1)], 0.0)
    hear(mesh, B, place(keys[2], 0, 1), place(keys[0], 2, 5), offset=0, now_s=0.0)
    assert mesh.refused == 1
    assert mesh.positions("g") == [at(keys[0], 5), at(keys[1], 1)]
    with pytest.raises(UsageError, match=r"group g has positions in too many streams \(limit 2\)"):
        mesh.move("g", [at(keys[0], 9), at(keys[3], 9)], 0.0)
    assert mesh.positions("g") == [at(keys[0], 5), at(keys[1], 1)], "all of it or nothing"


def test_too_many_streams_for_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_HELD_MAX", 3)
    mesh = make(*(stream(f"plant.t{number}") for number in range(5)))
    mesh.join(1, "g", "m", ALL, 0.0)
    ((_, _, streams),) = assignments(mesh.tick(0.0))
    assert len(streams) == 3


def test_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MEMBERS_MAX", 1)
    mesh = make(T, lives=[B, C])
    hear(mesh, B, state(B, x=member()), offset=0, now_s=0.0)
    hear(mesh, C, state(C, x=member()), offset=0, now_s=0.0)
    hear(mesh, B, state(B, y=member()), offset=1, now_s=0.0)
    assert mesh.refused == 1
    assert [(each.node, each.name) for each in mesh.members("g")] == [(B, "y")]


def test_positions_are_said_in_batches_that_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_SAY_EVENTS_MAX", 4)
    mesh = make()
    effects = mesh.move("g", [at(stream(f"plant.t{number}"), 1) for number in range(10)], 0.0)
    assert [len(effect.events) for effect in effects if isinstance(effect, Say)] == [4, 4, 2]
    assert len(said(effects)) == 10


@pytest.mark.req("SEC-05")
def test_a_group_that_is_used_for_days_takes_no_more_memory() -> None:
    """Each second left an entry in the heap of what is due, for a week, behind that of a group that is idle."""
    mesh = make(T)
    mesh.join(1, "idle", "m", ALL, 0.0)
    mesh.tick(0.0)
    mesh.join(2, "g", "m", ALL, 1.0)
    ((_, generation, _),) = assignments(mesh.tick(1.0))
    for number in range(1, 1000):
        mesh.handled(2, [at(T, number)], generation, 2.0 * number)
        assert said(mesh.tick(2.0 * number + 1.0)) == [PlaceSaid(T, Place(0, number))]
    assert len(mesh._alarms) < 100


@pytest.mark.req("CON-01")
def test_what_failed_fits_into_batches_however_much_it_is_and_for_whatever_reasons() -> None:
    """A service that is down fails everything, in all streams at once. One batch for all of that ended the node."""
    keys = [stream(f"plant.t{number}") for number in range(32)]
    mesh = make(*keys)
    policy = GroupPolicy(max_deliveries=9, in_order=False)
    mesh.join(1, "g", "m", ALL, 0.0, window=4096, policy=policy)
    ((_, generation, _),) = assignments(mesh.tick(0.0))
    mesh.handled(1, [at(key, 0) for key in keys], generation, 0.0)
    for key in keys:
        nacks = [Nacked(*key, offset, None, f"{offset}".rjust(500)) for offset in range(1000)]
        mesh.settled(1, (), nacks, generation, 0.0)
    effects = [effect for number in range(40) for effect in mesh.tick(1.0 + number)]
    batches = [Batch.from_events(each.events) for each in effects if isinstance(each, Say)]
    assert max(len(each.data) for each in batches) < BATCH_BYTES_MAX / 2
    ledgers = {each.key: len(each.ledger.tries) for each in said(effects) if isinstance(each, LedgerSaid)}
    assert ledgers == dict.fromkeys(keys, 1000)


@pytest.mark.req("SEC-05")
def test_refusals_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that refused a window of 4,096 events at once held up the loop for seconds."""
    mesh = make(T)
    mesh.join(1, "g", "m", ALL, 0.0, window=4096)
    ((_, generation, _),) = assignments(mesh.tick(0.0))
    mesh.handled(1, [at(T, 0)], generation, 0.0)
    compared: list[object] = []
    monkeypatch.setattr(Nacked, "__eq__", lambda self, other: compared.append(other))
    effects = mesh.settled(1, (), [Nacked(*T, offset) for offset in range(100)], generation, 0.0)
    assert sum(isinstance(each, Refusal) for each in effects) == 100
    assert compared == []


@pytest.mark.req("SEC-05")
def test_what_failed_in_other_streams_is_not_looked_through_for_the_next_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred streams, in each of which 900 events had failed, held up each turn of the loop for three seconds."""
    keys = [stream(f"plant.t{number}") for number in range(4)]
    mesh = make(*keys)
    mesh.join(1, "g", "m", ALL, 0.0, window=100)
    ((_, generation, _),) = assignments(mesh.tick(0.0))
    mesh.handled(1, [at(key, 0) for key in keys], generation, 0.0)
    mesh.settled(1, (), [Nacked(*key, 5) for key in keys], generation, 0.0)
    found = mesh.hand(1, keys[0])
    assert found is not None
    settling, reader = found
    settling.next_run(reader, keys[0], 0, 9, 0.1)
    looked: list[Ledger] = []

    def tries(ledger: Ledger) -> dict[int, Try]:
        looked.append(ledger)
        return ledger._tries

    monkeypatch.setattr(Ledger, "tries", property(tries))
    assert settling.next_run(reader, keys[0], 0, 9, 0.1) == Run(0, 5, 0)
    assert {id(each) for each in looked} == {id(mesh._groups["g"].places.ledgers[keys[0]])}


@pytest.mark.req("SEC-05")
def test_very_many_streams_that_are_held_are_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """One event has all of them, and ten thousand took 20 ms to write."""
    monkeypatch.setattr(events, "PIECE_STREAMS", 2)
    written: list[list[StreamKey]] = [[]]

    def counted(key: StreamKey) -> str:
        written[-1].append(key)
        return text_of(key)

    monkeypatch.setattr(events, "text_of", counted)
    keys = [stream(f"plant.t{number}") for number in range(7)]
    mesh = make(*keys, lives=[B])
    mesh.join(1, "g", "m", ALL, 0.0)
    told: list[Said] = []
    while mesh.get_timer() == 0.0:
        told += said(mesh.tick(0.0))
        written.append([])
    assert told == [NodeSaid(A, {"m": member(*keys)})]
    assert max(map(len, written)) == 2 and sum(map(len, written)) == 7


@pytest.mark.req("SEC-05")
def test_what_is_wanted_while_the_mesh_is_told_is_told_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others cannot hear of a claim before it is said, whatever else of the group becomes durable."""
    monkeypatch.setattr(events, "PIECE_STREAMS", 2)
    mesh = make(*(stream(f"plant.t{number}") for number in range(5)), lives=[B])
    mesh.join(1, "g", "m", ALL, 0.0)
    first = mesh.tick(0.0)
    mesh.stream_known(T, 0.0)  # while it is being written
    late = [each for _ in range(20) for each in said(mesh.tick(0.0))]
    assert not said(first)
    assert [T in each.members["m"].held for each in late if isinstance(each, NodeSaid)] == [False, True]


@pytest.mark.req("SEC-05")
def test_nodes_that_are_new_are_not_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand that were heard of at once were compared with a thousand each."""
    mesh = make(T)
    counted: list[NodeId | None] = []

    def turn(_: Groups, without: NodeId | None = None) -> int:
        counted.append(without)
        return 1

    monkeypatch.setattr(Groups, "_turn", turn)
    for number in range(10):
        mesh.node_lives(NodeId(f"node-{number}"), ONE, True, 0.0)
    assert counted == []
    mesh.node_lives(NodeId("node-3"), ONE, False, 0.0)
    assert counted == [NodeId("node-3")]


def test_bad_events_are_counted_and_the_good_ones_beside_them_count() -> None:
    mesh = make(T, lives=[B])
    bad = [Event(b"{", 0, b"n:b"), Event(b"x", 0, b"p:plant.t@a/0:e1"), Event(b"", 0, None), state(C, x=member(T))]
    hear(mesh, B, *bad, state(B, x=member(T)), offset=0, now_s=0.0)
    assert mesh.refused == len(bad)
    assert mesh.holder("g", T) == (B, "x"), "a node speaks for itself only"


def test_a_topic_that_is_about_no_group_is_refused() -> None:
    mesh = make(T)
    hear(mesh, B, state(B, x=member()), group="-", offset=0, now_s=0.0)
    assert mesh.refused == 1
    assert mesh.names() == []
