"""Both dial: which connection stays, in every order in which the messages of the two can arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from weft.model import NodeId
from weft.transport.peers.election import Election
from weft.wire.mesh.lives import Life

Wire: TypeAlias = tuple[int, NodeId]  # a connection, and who receives

LOW, HIGH = NodeId("node-a"), NodeId("node-b")


@dataclass(eq=False)
class End:
    """One side's view of a connection."""

    peer: NodeId
    dialled_by_us: bool
    plain: bool = False
    incarnation: int = 1
    conn: int = 0
    over: bool = False
    life: Life | None = None


class Pair:
    """Two nodes and all messages between them. One message is delivered at a time, whichever the schedule says."""

    def __init__(self) -> None:
        self.elections = {LOW: Election[End](LOW), HIGH: Election[End](HIGH)}
        self.wires: dict[Wire, list[str]] = {}  # what is under way
        self.ends: dict[Wire, End] = {}
        self.told: dict[NodeId, list[str]] = {LOW: [], HIGH: []}
        self.replaced: dict[int, int] = {}  # which connection is to take the place of which

    def dial(
        self, conn: int, dialler: NodeId, *, plain: bool = False, incarnation: int = 1, life: Life | None = None
    ) -> None:
        """``incarnation`` and ``life``: of who is dialled."""
        for node in (LOW, HIGH):
            mine = node == dialler
            self.ends[conn, node] = End(_other(node), mine, plain, incarnation if mine else 1, conn)
            self.ends[conn, node].life = life if mine else None
        self._send(conn, _other(dialler), "hello")

    def choices(self) -> list[tuple[Wire, int]]:
        """What can arrive next: the first message of a connection, or its end, which may overtake the others."""
        firsts = [(wire, 0) for wire, messages in self.wires.items() if messages]
        ends = [(wire, messages.index("close")) for wire, messages in self.wires.items() if "close" in messages]
        return firsts + [(wire, at) for wire, at in ends if at]

    def deliver(self, wire: Wire, at: int) -> None:
        node = wire[1]
        message = self.wires[wire][at]
        del self.wires[wire][: at + 1]
        end = self.ends[wire]
        if end.over:
            return
        if message == "close":
            self._close(node, end, tell=False)
        elif end.dialled_by_us:
            self._at_dialler(node, end, message)
        else:
            self._at_responder(node, end, message)

    def lose_silently(self, conn: int, node: NodeId) -> None:
        """This side finds its connection broken, the other hears nothing of it."""
        self._close(node, self.ends[conn, node], tell=False)

    def settle(self) -> None:
        while choices := self.choices():
            self.deliver(*choices[0])

    def standing(self, node: NodeId) -> int | None:
        end = self.elections[node].standing(_other(node))
        return end.conn if end else None

    def _at_dialler(self, node: NodeId, end: End, message: str) -> None:
        election = self.elections[node]
        if message == "hello":
            if not election.on_hello(end, self.ends.get((self.replaced.get(end.conn, 0), node))):
                self._close(node, end)
            elif end.plain:
                self._commit(node, end)
            else:
                self._send(end.conn, _other(node), "commit")
        elif message == "committed":
            self._commit(node, end)

    def _at_responder(self, node: NodeId, end: End, message: str) -> None:
        if message == "hello":
            assert self.elections[node].on_hello(end)
            if not end.plain or self._commit(node, end):
                self._send(end.conn, _other(node), "hello")
        elif message == "commit" and self._commit(node, end):
            self._send(end.conn, _other(node), "committed")

    def _commit(self, node: NodeId, end: End) -> bool:
        losers = self.elections[node].on_commit(end)
        if losers is None:
            self._close(node, end)
            return False
        for loser in losers:
            self._close(node, loser)
        self.told[node].append(f"up {end.conn}")
        return True

    def _close(self, node: NodeId, end: End, tell: bool = True) -> None:
        end.over = True
        self.elections[node].on_closed(end)
        if f"up {end.conn}" in self.told[node]:
            self.told[node].append(f"down {end.conn}")
        if tell:
            self._send(end.conn, _other(node), "close")

    def _send(self, conn: int, to: NodeId, message: str) -> None:
        self.wires.setdefault((conn, to), []).append(message)


def _other(node: NodeId) -> NodeId:
    return LOW if node == HIGH else HIGH


def every_order(prepare: Callable[[Pair], None]) -> Iterator[Pair]:
    """The settled pair after each order of deliveries, by replaying every prefix of choices."""
    open_prefixes: list[list[int]] = [[]]
    while open_prefixes:
        prefix = open_prefixes.pop()
        pair = Pair()
        prepare(pair)
        for choice in prefix:
            pair.deliver(*pair.choices()[choice])
        while choices := pair.choices():
            open_prefixes.extend([*prefix, other] for other in range(1, len(choices)))
            prefix.append(0)
            pair.deliver(*choices[0])
        yield pair


def both_dial(pair: Pair, plain: bool = False) -> None:
    pair.dial(1, LOW, plain=plain)
    pair.dial(2, HIGH, plain=plain)


def later_dial(pair: Pair, dialler: NodeId) -> None:
    """There is a link that one side dialled; now the other dials too."""
    pair.dial(1, _other(dialler))
    pair.settle()
    pair.dial(2, dialler)


def two_addresses(pair: Pair, dialler: NodeId) -> None:
    """A node is dialled at two of its addresses."""
    pair.dial(1, dialler)
    pair.dial(2, dialler)


def everybody_twice(pair: Pair) -> None:
    pair.dial(1, LOW)
    pair.dial(2, HIGH)
    pair.dial(3, HIGH)


def renewed(pair: Pair, dialler: NodeId, crossed: bool = False) -> None:
    """A link stands, and whoever dialled it makes another to take its place; the peer may dial meanwhile."""
    pair.dial(1, dialler)
    pair.settle()
    pair.replaced[2] = 1
    pair.dial(2, dialler)
    if crossed:
        pair.dial(3, _other(dialler))


def dialler_of(pair: Pair, conn: int) -> NodeId:
    return LOW if pair.ends[conn, LOW].dialled_by_us else HIGH


def check(pair: Pair) -> None:
    """Both have the same link, and were told of it alternately."""
    standing = pair.standing(LOW)
    assert standing is not None
    assert standing == pair.standing(HIGH), pair.told
    for told in pair.told.values():
        kinds = [each.split()[0] for each in told]
        assert kinds == ["up", "down"] * (len(kinds) // 2) + ["up"], told
        assert told[-1] == f"up {standing}"
        assert len(told) <= 3, "at most one change of links"


@pytest.mark.req("PL-01")
@pytest.mark.parametrize("plain", [False, True])
def test_the_connection_dialled_by_the_higher_id_stays(plain: bool) -> None:
    orders = 0
    for pair in every_order(lambda pair: both_dial(pair, plain)):
        check(pair)
        assert dialler_of(pair, pair.standing(LOW) or 0) == HIGH
        orders += 1
    assert orders > 10, "the two did cross"


@pytest.mark.req("PL-01")
def test_a_later_dial_of_the_higher_id_takes_over_and_one_of_the_lower_does_not() -> None:
    for dialler, stays in ((HIGH, 2), (LOW, 1)):
        for pair in every_order(lambda pair, dialler=dialler: later_dial(pair, dialler)):  # type: ignore[misc]
            check(pair)
            assert pair.standing(LOW) == stays


@pytest.mark.req("PL-01")
@pytest.mark.parametrize("dialler", [LOW, HIGH])
def test_two_addresses_of_one_node_make_one_link(dialler: NodeId) -> None:
    for pair in every_order(lambda pair: two_addresses(pair, dialler)):
        check(pair)


@pytest.mark.req("PL-01")
def test_three_dials_at_once_make_one_link() -> None:
    for pair in every_order(everybody_twice):
        check(pair)
        assert dialler_of(pair, pair.standing(LOW) or 0) == HIGH


@pytest.mark.req("PL-01")
@pytest.mark.parametrize("first", [LOW, HIGH])
@pytest.mark.parametrize("second", [LOW, HIGH])
def test_who_lost_a_connection_unseen_gets_a_new_one(first: NodeId, second: NodeId) -> None:
    """Half-open: one side still believes in the old connection when the other dials anew."""

    def half_open(pair: Pair) -> None:
        pair.dial(1, first)
        pair.settle()
        pair.lose_silently(1, second)
        pair.dial(2, second)

    for pair in every_order(half_open):
        assert pair.standing(LOW) == pair.standing(HIGH) == 2, pair.told


@pytest.mark.req("PL-01")
@pytest.mark.parametrize("first", [LOW, HIGH])
@pytest.mark.parametrize("change", [{"incarnation": 2}, {"life": Life(1, b"later" * 3)}], ids=["incarnation", "life"])
def test_a_node_that_was_started_anew_replaces_its_old_link(first: NodeId, change: dict[str, Any]) -> None:
    """We still believe in the link to its former life, and are the one who dials."""

    def restarted(pair: Pair) -> None:
        pair.dial(1, first)
        pair.settle()
        pair.lose_silently(1, LOW)
        pair.dial(2, HIGH, **change)

    for pair in every_order(restarted):
        assert pair.standing(LOW) == pair.standing(HIGH) == 2, pair.told


def test_a_plain_peer_that_dials_again_replaces_its_own_dial_and_yields_to_ours() -> None:
    pair = Pair()
    pair.dial(1, LOW, plain=True)
    pair.settle()
    pair.lose_silently(1, LOW)
    pair.dial(2, LOW, plain=True)
    pair.settle()
    assert pair.standing(HIGH) == 2
    pair.dial(3, HIGH, plain=True)
    pair.settle()
    assert pair.standing(HIGH) == 3
    pair.dial(4, LOW, plain=True)
    pair.settle()
    assert pair.standing(HIGH) == 3


def test_nothing_is_kept_of_connections_that_are_gone() -> None:
    pair = Pair()
    both_dial(pair)
    pair.settle()
    for node in (LOW, HIGH):
        pair.lose_silently(pair.standing(node) or 0, node)
        assert pair.standing(node) is None
        assert not pair.elections[node]._contests


@pytest.mark.req("SEC-01")
@pytest.mark.parametrize("dialler", [LOW, HIGH])
def test_a_new_connection_takes_the_place_of_the_old_one(dialler: NodeId) -> None:
    for pair in every_order(lambda pair: renewed(pair, dialler)):
        check(pair)
        assert pair.standing(LOW) == 2


@pytest.mark.req("SEC-01", "PL-01")
@pytest.mark.parametrize("dialler", [LOW, HIGH])
def test_two_nodes_agree_when_one_renews_while_the_other_dials(dialler: NodeId) -> None:
    for pair in every_order(lambda pair: renewed(pair, dialler, crossed=True)):
        assert pair.standing(LOW) is not None
        assert pair.standing(LOW) == pair.standing(HIGH), pair.told
