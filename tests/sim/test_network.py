"""The simulated network keeps the promises of a connection, and no others."""

from __future__ import annotations

from functools import partial

from weft.model import NodeId
from weft.testing.sim.network import QUEUE_FRAMES_MAX, Lane, Network, edge_of
from weft.testing.sim.schedule import Schedule, chance_of

A, B = NodeId("a"), NodeId("b")


class Ends:
    """Two nodes that write down what they are told."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.network = Network(self.schedule, chance_of(1, "test"), self)
        self.running = {A, B}
        self.heard: list[tuple[str, NodeId, NodeId]] = []
        self.frames: list[int] = []

    def is_running(self, node: NodeId) -> bool:
        return node in self.running

    def link_up(self, node: NodeId, peer: NodeId) -> None:
        self.heard.append(("up", node, peer))

    def link_down(self, node: NodeId, peer: NodeId) -> None:
        self.heard.append(("down", node, peer))

    def frames_dropped(self, node: NodeId, peer: NodeId) -> None:
        self.heard.append(("dropped", node, peer))

    def send(self, number: int, lane: Lane = Lane.DATA, *, copies: int = 0) -> None:
        self.network.send(A, B, lane, partial(self.frames.append, number), copies=copies)


def connected() -> Ends:
    ends = Ends()
    ends.network.dial(A, B)
    ends.schedule.run(5.0)
    assert sorted(ends.heard) == [("up", A, B), ("up", B, A)]
    ends.heard.clear()
    return ends


def test_frames_of_events_arrive_in_order_whatever_their_delays() -> None:
    ends = connected()
    ends.network.conditions.delay_s_max = 3.0
    for number in range(50):
        ends.send(number)
    ends.schedule.run(10.0)
    assert ends.frames == list(range(50))


def test_gossip_may_be_lost_repeated_and_overtaken() -> None:
    ends = connected()
    conditions = ends.network.conditions
    conditions.delay_s_max, conditions.loss, conditions.duplication, conditions.reordering = 1.0, 0.3, 0.3, 0.5
    for number in range(100):
        ends.send(number, Lane.CONTROL)
    ends.schedule.run(10.0)
    assert len(set(ends.frames)) < 100
    assert len(ends.frames) > len(set(ends.frames))
    assert ends.frames != sorted(ends.frames)


def test_a_break_loses_what_is_under_way_and_both_ends_hear_of_it_and_of_the_next_connection() -> None:
    ends = connected()
    ends.send(1)
    ends.network.break_link(ends.network.links[edge_of(A, B)])
    ends.send(2)
    ends.schedule.run(10.0)
    assert ends.frames == []
    assert [kind for kind, node, _ in ends.heard if node == A] == ["down", "up"]
    assert [kind for kind, node, _ in ends.heard if node == B] == ["down", "up"]
    ends.send(3)
    ends.schedule.run(1.0)
    assert ends.frames == [3]


def test_nobody_hears_from_who_is_gone_and_nothing_connects_over_a_cut() -> None:
    ends = connected()
    ends.running.discard(A)
    ends.network.gone(A)
    ends.schedule.run(10.0)
    assert ends.heard == [("down", B, A)]
    ends.heard.clear()
    ends.running.add(A)
    ends.network.cut([edge_of(A, B)])
    ends.schedule.run(10.0)
    assert ends.heard == []
    ends.network.heal()
    ends.schedule.run(10.0)
    assert sorted(ends.heard) == [("up", A, B), ("up", B, A)]


def test_a_full_queue_throws_copies_away_and_says_so_once() -> None:
    ends = connected()
    ends.network.links[edge_of(A, B)].slow_s = 0.1
    for number in range(QUEUE_FRAMES_MAX + 10):
        ends.send(number, copies=1)
    ends.send(1000)  # an acknowledgement is small, and never thrown away
    ends.schedule.run(30.0)
    assert ends.frames == [*range(QUEUE_FRAMES_MAX), 1000]
    assert ends.heard == [("dropped", A, B)]
