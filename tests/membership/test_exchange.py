"""Who is told what, and how much of it at a time."""

from __future__ import annotations

from random import Random

import pytest

from weft.limits import GOSSIP_BYTES_MAX, GOSSIP_DIGESTS_MAX, GOSSIP_STATES_MAX
from weft.membership import Digest, Gossip, Liveness, NodeState, Send, Settings, size_of, spread_times
from weft.membership.exchange import GOSSIP_WINDOW, Exchange
from weft.membership.state import unknown
from weft.membership.table import Table
from weft.model import Epoch, NodeId, Pattern

ME, P, Q = NodeId("me"), NodeId("p"), NodeId("q")
LONG = tuple(Pattern(f"{number:03d}." + "x" * 250) for number in range(256))


def state(name: str, version: int = 1, liveness: Liveness = Liveness.ALIVE, *, large: bool = False) -> NodeState:
    return NodeState(NodeId(name), 1, version, Epoch(1), liveness, interest=LONG if large else ())


def exchange(*others: NodeState, fan_out: int = 3) -> tuple[Exchange, Table]:
    table = Table(state("me"))
    for other in others:
        table.merge(other, 0.0)
    return Exchange(table, Settings(gossip_fan_out=fan_out), Random(1)), table  # noqa: S311


def gossip(sends: list[Send]) -> Gossip:
    (send,) = sends
    assert isinstance(send.message, Gossip)
    return send.message


def linked(*others: NodeState) -> tuple[Exchange, Table]:
    """With a link to p, which has been told everything."""
    talk, table = exchange(*others)
    talk.open(P, ME)
    while talk.waiting:
        talk.flush()
    return talk, table


@pytest.mark.req("MSH-05")
def test_a_new_link_is_told_everything_in_short_and_this_node_in_full() -> None:
    talk, _ = exchange(state("x"), state("y", 4))
    assert gossip(talk.open(P, ME)) == Gossip((state("x").digest, state("y", 4).digest), (state("me"),))


@pytest.mark.parametrize(
    ("theirs", "answer"),
    [
        (state("x", 5).digest, None),
        (state("x", 4).digest, Gossip(states=(state("x", 5),), reply=True)),
        (unknown(NodeId("x")), Gossip(states=(state("x", 5),), reply=True)),
        (state("x", 6).digest, Gossip((state("x", 5).digest,), reply=True)),
        (state("z", 1).digest, Gossip((unknown(NodeId("z")),), reply=True)),
        (Digest(NodeId("x"), 2, 1, Liveness.ALIVE), Gossip((state("x", 5).digest,), reply=True)),
    ],
)
def test_only_what_differs_is_answered(theirs: Digest, answer: Gossip | None) -> None:
    talk, _ = linked(state("x", 5))
    sends = talk.answer(P, Gossip((theirs,), reply=True))
    assert [send.message for send in sends] == ([] if answer is None else [answer])


def test_liveness_alone_goes_as_a_digest() -> None:
    talk, _ = linked(state("x", 5, Liveness.SUSPECT))
    answer = gossip(talk.answer(P, Gossip((state("x", 5).digest,), reply=True)))
    assert answer == Gossip((state("x", 5, Liveness.SUSPECT).digest,), reply=True)


def test_whoever_asks_also_hears_what_changed_since_it_last_did() -> None:
    talk, table = linked(state("x"), state("y"))
    assert talk.answer(P, Gossip()) == []
    table.merge(state("y", 2), 0.0)
    assert gossip(talk.answer(P, Gossip())) == Gossip((state("y", 2).digest,), reply=True)
    assert talk.answer(P, Gossip()) == []


def test_nobody_talks_in_circles() -> None:
    """A peer that promises what it never sends is asked once per interval, and so is everybody else."""
    talk, _ = linked()
    talk.open(Q, ME)
    promise = Gossip((state("x", 9).digest,), reply=True)
    assert len(talk.answer(P, promise)) == 1
    assert talk.answer(P, promise) == talk.answer(Q, promise) == []
    talk.begin_round()
    assert len(talk.answer(Q, promise)) == 1


def test_a_change_is_passed_on_to_about_log_n_peers_and_not_back() -> None:
    talk, table = exchange(*(state(f"n{number:02d}") for number in range(62)))
    peers = [NodeId(f"n{number:02d}") for number in range(62)]
    for peer in peers:
        talk.open(peer, ME)
    while talk.waiting:
        talk.flush()
    before, after = table.states[NodeId("n07")], state("n07", 2)
    table.merge(after, 0.0)
    talk.spread(before, after, source=peers[7])
    sends: list[Send] = []
    while talk.waiting:
        batch = talk.flush()
        assert len(batch) <= 3, "fan-out"
        sends += batch
    assert len({send.peer for send in sends}) == len(sends) == spread_times(63, 2) == 12
    assert peers[7] not in {send.peer for send in sends}
    assert {send.message for send in sends} == {Gossip(states=(after,), reply=True)}


def test_a_suspect_is_the_first_to_hear_of_it() -> None:
    talk, table = linked(state("p"), state("q"))
    before, after = state("p"), state("p", liveness=Liveness.SUSPECT)
    table.keep(after, 0.0)
    talk.spread(before, after, source=None)
    assert talk.flush() == [Send(P, Gossip((after.digest,), reply=True))]


def test_a_node_that_changes_twice_is_told_once() -> None:
    talk, table = linked(state("x"))
    for version in (2, 3):
        table.merge(state("x", version), 0.0)
        talk.spread(state("x", version - 1), state("x", version), source=Q)
    assert talk.flush() == [Send(P, Gossip(states=(state("x", 3),), reply=True))]
    assert talk.flush() == []


def test_what_a_peer_turns_out_to_have_it_is_not_told() -> None:
    talk, table = linked(state("x"))
    table.merge(state("x", 2), 0.0)
    talk.spread(state("x"), state("x", 2), source=Q)
    talk.answer(P, Gossip(states=(state("x", 2),), reply=True))
    assert talk.flush() == []


@pytest.mark.req("NFR-03")
@pytest.mark.parametrize("large", [False, True])
def test_messages_are_bounded_and_the_rest_follows(large: bool) -> None:
    others = [state(f"n{number:04d}", large=large) for number in range(300)]
    talk, _ = exchange(*others)
    talk.open(P, ME)
    asked = Gossip(tuple(unknown(other.node_id) for other in others), reply=True)
    messages = [gossip(talk.answer(P, asked))]
    while talk.waiting:
        messages.append(gossip(talk.flush()))
    for message in messages:
        assert size_of(message) <= GOSSIP_BYTES_MAX
        assert len(message.states) <= GOSSIP_STATES_MAX
        assert len(message.digests) <= GOSSIP_DIGESTS_MAX
    assert {one.node_id for message in messages for one in message.states} == {other.node_id for other in others}
    assert len(messages) > 300 / GOSSIP_STATES_MAX


def test_a_window_comes_by_every_node() -> None:
    others = [state(f"n{number:04d}") for number in range(100)]
    talk, table = linked(*others)
    seen: list[NodeId] = []
    rounds = -(-len(table.order) // GOSSIP_WINDOW)
    for _ in range(rounds):
        digests = gossip(talk.begin_round()).digests
        assert len(digests) <= GOSSIP_WINDOW
        seen += [digest.node_id for digest in digests]
    assert seen == table.order


def test_two_that_differ_about_how_a_node_is_do_not_talk_in_circles() -> None:
    """A peer that does not believe an unsigned goodbye says so with each answer, and would be answered for ever."""
    talk, _ = linked(state("x", 5, Liveness.LEFT))
    doubt = Gossip((state("x", 5, Liveness.SUSPECT).digest,), reply=True)
    assert gossip(talk.answer(P, doubt)) == Gossip((state("x", 5, Liveness.LEFT).digest,), reply=True)
    assert talk.answer(P, doubt) == []
    talk.begin_round()
    assert talk.answer(P, doubt) != [], "once per interval"
