"""Pings, directly and through others."""

from __future__ import annotations

from random import Random

import pytest

from weft.membership import Ping, PingFor, Pong, Send, Settings
from weft.membership.prober import PROBE_RELAYS_MAX, Prober
from weft.model import NodeId

B, C, D, X = (NodeId(name) for name in "bcdx")


def prober(*helpers: NodeId) -> Prober:
    chance = Random(1)  # noqa: S311
    return Prober(Settings(probe_helpers=2), chance, lambda _target: list(helpers))


def test_whoever_answers_is_left_alone() -> None:
    probes = prober(C)
    assert probes.begin([B], 0.0) == [Send(B, Ping(1))]
    assert probes.get_timer() == 0.5
    assert probes.on_pong(B, Pong(1, B, 1)) == []
    assert probes.get_timer() is None
    assert probes.on_time(9.0) == ([], [])


def test_then_others_are_asked_then_it_has_failed() -> None:
    probes = prober(C, D, X)
    probes.begin([B], 0.0)
    sends, failed = probes.on_time(0.5)
    assert len(sends) == 2
    assert all(send.message == PingFor(1, B) and send.peer in (C, D, X) for send in sends)
    assert failed == []
    assert probes.get_timer() == 1.0
    assert probes.on_time(1.0) == ([], [B])
    assert probes.get_timer() is None


def test_the_answer_may_come_through_another() -> None:
    probes = prober(C)
    probes.begin([B], 0.0)
    probes.on_time(0.5)
    probes.on_pong(C, Pong(1, B, 1))
    assert probes.on_time(1.0) == ([], [])


def test_a_pong_of_somebody_else_proves_nothing() -> None:
    probes = prober()
    probes.begin([B], 0.0)
    probes.on_pong(C, Pong(1, C, 1))
    probes.on_pong(C, Pong(99, B, 1))
    assert probes.on_time(1.0) == ([], [B])


def test_a_broken_link_leaves_only_the_others_to_ask() -> None:
    probes = prober(C)
    assert probes.lost(B, 0.0) == [Send(C, PingFor(1, B))]
    assert probes.on_time(1.0) == ([], [B])
    probes.lost(B, 2.0)
    probes.found(B)  # it dialled again
    assert probes.on_time(3.0) == ([], [])


def test_pinging_for_another() -> None:
    probes = prober()
    assert probes.on_ping_for(C, PingFor(77, B), linked=True, now_s=0.0) == [Send(B, Ping(1))]
    assert probes.on_pong(D, Pong(1, B, 4)) == [], "not from whom it was asked"
    assert probes.on_pong(B, Pong(1, B, 4)) == [Send(C, Pong(77, B, 4))]
    assert probes.on_pong(B, Pong(1, B, 4)) == [], "once"
    assert probes.on_ping_for(C, PingFor(78, X), linked=False, now_s=0.0) == []


def test_pings_for_others_are_bounded_and_forgotten_in_time() -> None:
    probes = prober()
    served = [probes.on_ping_for(C, PingFor(n, B), linked=True, now_s=0.0) for n in range(PROBE_RELAYS_MAX + 1)]
    assert [len(sends) for sends in served] == [1] * PROBE_RELAYS_MAX + [0]
    probes.begin([], 1.0)
    assert probes.on_ping_for(C, PingFor(5, B), linked=True, now_s=1.0) != []


def test_everybody_comes_once_before_anybody_comes_twice() -> None:
    probes = prober()
    peers = [NodeId(f"n{number}") for number in range(7)]
    rounds = [[probes.begin(peers, 0.0)[0].peer for _ in peers] for _ in range(3)]
    assert all(sorted(turn) == peers for turn in rounds)
    assert rounds[0] != rounds[1], "in an order nobody can foresee"


class Searched(list[NodeId]):
    """How often somebody looks through all of it."""

    searches = 0

    def __contains__(self, peer: object) -> bool:
        self.searches += 1
        return super().__contains__(peer)


@pytest.mark.req("SEC-05")
def test_peers_are_not_looked_through_for_each_of_them() -> None:
    """With a thousand links, that took 20 ms each second."""
    probes, peers = prober(), Searched([B, C, D])
    probed = {probes.begin(peers, float(second))[0].peer for second in range(3)}
    assert probed == {B, C, D}
    assert peers.searches == 0
