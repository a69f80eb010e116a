"""Transcripts: what the nodes of a small mesh see, line by line. Times are left out; what matters is the order."""

from __future__ import annotations

from random import Random

import pytest

from tests.membership.world import Faults, World, edge_of
from weft.membership import (
    Dial,
    Effect,
    Gossip,
    HealthChanged,
    Leave,
    LinkUp,
    Liveness,
    MemberChanged,
    MemberForgotten,
    Members,
    Message,
    NodeState,
    PeerLeaves,
    Send,
    SetAddresses,
    SetInterest,
    Settings,
    Start,
    Stopped,
    Tick,
)
from weft.model import Epoch, NodeId, Pattern

A, B, C, D = (NodeId(name) for name in "abcd")


class Story:
    """A world that writes down what its nodes notice of each other."""

    def __init__(self, settings: Settings | None = None, faults: Faults | None = None) -> None:
        self.world = World(1, settings or Settings(), faults)
        self.world.on_effect = self._note
        self.lines: list[str] = []

    def chain(self) -> None:
        """a - b - c, settled."""
        self.world.start("a")
        self.world.start("b", ["a:1"])
        self.world.start("c", ["b:1"])
        self.told(3.0)

    def told(self, duration_s: float) -> list[str]:
        """What happens in the next seconds."""
        self.world.run(duration_s)
        lines, self.lines = self.lines, []
        return lines

    def _note(self, observer: NodeId, effect: Effect) -> None:
        match effect:
            case MemberChanged(before, after) if after.node_id != observer:
                line = _difference(before, after)
                if line:
                    self.lines.append(f"{observer}: {after.node_id} {line}")
            case MemberChanged(NodeState() as before, after) if after.incarnation > before.incarnation:
                self.lines.append(f"{observer}: refutes")
            case MemberForgotten(node_id):
                self.lines.append(f"{observer}: forgets {node_id}")
            case HealthChanged(peer, _, health):
                self.lines.append(f"{observer}: link to {peer} {health.value}")
            case Dial(address):
                self.lines.append(f"{observer}: dials {address}")
            case Stopped():
                self.lines.append(f"{observer}: stops")
            case _:
                pass


def _difference(before: NodeState | None, after: NodeState) -> str:
    if before is None or after.incarnation != before.incarnation or after.liveness != before.liveness:
        returned = "" if before is None or before.epoch == after.epoch else f" with epoch {after.epoch}"
        return after.liveness.name.lower() + returned
    if after.interest != before.interest:
        return f"wants {', '.join(after.interest)}"
    return f"is at {', '.join(after.addresses)}" if after.addresses != before.addresses else ""


@pytest.mark.req("MSH-05")
def test_joining_by_one_address() -> None:
    story = Story()
    story.world.start("a")
    story.world.start("b", ["a:1"])
    lines = story.told(1.0)
    assert lines[:3] == ["b: dials a:1", "a: link to b healthy", "b: link to a healthy"]
    assert sorted(lines[3:]) == ["a: b alive", "b: a alive"]
    story.world.start("c", ["b:1"])
    lines = story.told(1.0)
    assert lines[:3] == ["c: dials b:1", "b: link to c healthy", "c: link to b healthy"]
    assert sorted(lines[3:5]) == ["b: c alive", "c: b alive"]
    assert sorted(lines[5:]) == ["a: c alive", "c: a alive"], "they know each other through b"
    assert story.world.agrees()


@pytest.mark.req("MSH-05")
def test_a_new_subscription_and_a_new_address_cross_the_mesh() -> None:
    story = Story()
    story.chain()
    story.world.tell(A, SetInterest((Pattern("plant.>"), Pattern("office.*"))))
    assert story.told(0.3) == ["b: a wants plant.>, office.*", "c: a wants plant.>, office.*"]
    story.world.tell(C, SetAddresses(("c:1", "[::1]:7400")))
    assert story.told(0.3) == ["b: c is at c:1, [::1]:7400", "a: c is at c:1, [::1]:7400"]
    assert story.told(30.0) == [], "said once, known for good"


def test_a_crash_is_noticed_by_the_neighbour_and_believed_after_a_while() -> None:
    story = Story()
    story.chain()
    story.world.crash(C)
    assert story.told(4.0) == ["b: link to c disconnected", "b: c suspect", "a: c suspect"]
    dead = story.told(8.0)
    assert sorted(dead) == ["a: c dead", "b: c dead"]


def test_a_suspect_that_is_alive_refutes() -> None:
    """The link between b and c breaks in a ring of four. Neither can reach the other, or a common friend."""
    story = Story()
    for name, seed in (("a", []), ("b", ["a:1"]), ("c", ["b:1"]), ("d", ["c:1", "a:1"])):
        story.world.start(name, seed)
    story.told(3.0)
    story.world.cut_edges([edge_of(B, C)])
    lines = story.told(10.0)
    assert lines[:2] in (
        ["b: link to c disconnected", "c: link to b disconnected"],
        ["c: link to b disconnected", "b: link to c disconnected"],
    )
    assert "b: c suspect" in lines
    assert "c: b suspect" in lines
    assert {"b: refutes", "c: refutes"} <= set(lines)
    assert not [line for line in lines if line.endswith("dead")]
    assert story.world.agrees()


def test_a_common_friend_saves_it_from_suspicion() -> None:
    """The link between b and c breaks in a triangle: a pings each for the other."""
    story = Story()
    for name, seed in (("a", []), ("b", ["a:1"]), ("c", ["a:1", "b:1"])):
        story.world.start(name, seed)
    story.told(3.0)
    story.world.cut_edges([edge_of(B, C)])
    assert sorted(story.told(10.0)) == ["b: link to c disconnected", "c: link to b disconnected"]


@pytest.mark.req("PL-03")
def test_a_connection_that_goes_silent_is_unhealthy_after_three_heartbeats() -> None:
    story = Story(Settings(heartbeat_interval_s=2.0), Faults(silent=1.0))
    story.world.start("a")
    story.world.start("b", ["a:1"])
    story.told(3.0)
    story.world.cut_edges([edge_of(A, B)])
    lines = [line for line in story.told(9.0) if "link" in line]
    assert sorted(lines) == ["a: link to b unhealthy", "b: link to a unhealthy"]
    assert story.world.nodes[A].members.own.neighbours == (), "nothing is routed over it"
    story.world.cut.clear()
    lines = [line for line in story.told(3.0) if "link to b" in line]
    assert lines == ["a: link to b disconnected", "a: link to b healthy"]


def test_leaving_is_said_not_found_out() -> None:
    story = Story()
    story.chain()
    story.world.tell(C, Leave())
    assert story.told(3.0) == ["c: stops", "b: c left", "a: c left", "b: link to c disconnected"]
    assert story.told(30.0) == []


@pytest.mark.req("PL-03", "OPS-02")
def test_a_goodbye_on_the_link_is_believed_at_once_and_only_of_that_life() -> None:
    story = Story()
    story.chain()
    incarnation = story.world.nodes[C].members.own.incarnation
    story.world.tell(B, PeerLeaves(C, incarnation - 1))
    assert story.told(0.0) == []
    story.world.crash(C)
    story.world.tell(B, PeerLeaves(C, incarnation))
    lines = story.told(30.0)
    assert lines[0] == "b: c left"
    assert [line for line in lines if ": c " in line] == ["b: c left", "a: c left"]


def test_a_goodbye_that_was_meant_for_an_earlier_life_is_refuted() -> None:
    story = Story()
    story.chain()
    story.world.tell(B, PeerLeaves(C, story.world.nodes[C].members.own.incarnation))
    lines = story.told(3.0)
    assert {"b: c left", "c: refutes", "b: c alive"} <= set(lines)


@pytest.mark.req("PL-03", "OPS-02")
def test_a_goodbye_goes_to_every_neighbour() -> None:
    """Other changes go to a few, who pass them on."""
    own = NodeState(A, 1, 1, Epoch(1))
    members = Members(own, Settings(gossip_fan_out=16), Random(1))  # noqa: S311
    members.step(Start(), 0.0)
    peers = {NodeId(f"peer-{number}") for number in range(16)}
    for peer in peers:
        members.step(LinkUp(peer), 0.0)
    members.step(Leave(), 0.1)
    effects = members.step(Tick(), 0.2)
    told = {each.peer for each in effects if isinstance(each, Send) and _tells_that_it_left(each.message)}
    assert told == peers
    assert effects[-1] == Stopped()


def _tells_that_it_left(message: Message) -> bool:
    states = message.states if isinstance(message, Gossip) else ()
    return any((state.node_id, state.liveness) == (A, Liveness.LEFT) for state in states)


def test_a_node_alone_stops_at_once() -> None:
    story = Story()
    story.world.start("a")
    story.world.tell(A, Leave())
    assert story.told(0.0) == ["a: stops"]
    assert story.world.nodes[A].members.get_timer() is None


@pytest.mark.req("PL-03", "PL-07")
def test_leaving_does_not_take_forever() -> None:
    """Time passes and nobody lets the node tell more than two peers of eight."""
    own = NodeState(A, 1, 1, Epoch(1))
    members = Members(own, Settings(gossip_fan_out=1, leave_timeout_s=2.0, spread_multiplier=3), Random(1))  # noqa: S311
    members.step(Start(), 0.0)
    for number in range(8):
        members.step(LinkUp(NodeId(f"peer-{number}")), 0.0)
    assert Stopped() not in members.step(Leave(), 1.0)
    assert Stopped() not in members.step(Tick(), 1.1)
    assert members.step(Tick(), 3.0)[-1] == Stopped()
    assert members.step(LinkUp(NodeId("e")), 3.1) == []


@pytest.mark.req("MSH-05")
def test_returning_with_its_disk() -> None:
    story = Story()
    story.chain()
    story.world.crash(C)
    story.told(20.0)
    story.world.start("c", ["b:1"])
    lines = story.told(3.0)
    assert {"b: c alive", "a: c alive", "c: a alive", "c: b alive"} <= set(lines)
    assert "c: refutes" not in lines, "it remembered its incarnation"
    assert story.world.agrees()


def test_returning_without_its_disk() -> None:
    """A new epoch; the mesh remembers a higher incarnation, which it steps over."""
    story = Story()
    story.chain()
    for _ in range(2):
        story.world.crash(C)
        story.world.start("c", ["b:1"])
        story.told(3.0)
    story.world.crash(C)
    story.told(20.0)
    story.world.start("c", ["b:1"], incarnation=1, epoch=2)
    lines = story.told(3.0)
    assert "c: refutes" in lines
    assert {"b: c alive with epoch 2", "a: c alive with epoch 2"} <= set(lines)
    assert story.world.agrees()


def test_the_dead_are_forgotten_and_old_gossip_does_not_bring_them_back() -> None:
    """a is cut off before c dies and comes back after b has forgotten c; a still believes c alive."""
    story = Story(Settings(dead_retention_s=10.0, unreachable_s=3600.0))
    story.chain()
    story.world.cut_edges([edge_of(A, B)])
    story.world.crash(C)
    lines = story.told(40.0)
    assert "b: forgets c" in lines
    assert C in story.world.view(A)
    story.world.cut.clear()
    lines = story.told(60.0)
    assert [line for line in lines if line.startswith("b: c")] == []
    assert [line for line in lines if line.startswith("a: c")] == ["a: c suspect", "a: c dead"]
    assert "a: forgets c" in lines
    assert story.world.agrees()


def test_without_any_link_it_dials_whomever_it_knows() -> None:
    story = Story()
    story.chain()
    story.world.crash(B)
    lines = story.told(30.0)
    assert "a: dials c:1" in lines
    assert "c: dials a:1" in lines
    assert story.world.agrees()
    assert set(story.world.view(A)) == {A, C}
