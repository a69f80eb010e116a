"""Nodes compare what they know of keys until they know the same: over lost messages, splits, and with those who lie."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from tests.security.stated import made, record, revoked, statement
from weft.model import NodeId
from weft.security.key_exchange import TALK_BYTES_MAX, TALK_STATEMENTS_MAX, KeyExchange, KeyTalk, SendTalk
from weft.security.key_statements import SignedText, Statement, read_body_untrusted
from weft.security.mesh_keys import MeshKeys

NOW_S = 1_000.0


class Mesh:
    """Nodes whose messages arrive in any order, or not at all; links come and go. One seed, one story."""

    def __init__(self, seed: int, count: int) -> None:
        self.chance = Random(seed)  # noqa: S311
        self.names = [NodeId(f"n{number}") for number in range(count)]
        self.known = {name: MeshKeys() for name in self.names}
        self.exchanges = {name: KeyExchange(self.known[name], self.chance) for name in self.names}
        self.links: set[frozenset[NodeId]] = set()
        self.under_way: deque[tuple[NodeId, SendTalk]] = deque()
        self.delivered = 0
        self.refusing: dict[NodeId, set[str]] = {}  # whose statements a node does not believe

    def link(self, one: NodeId, other: NodeId) -> None:
        self.links.add(frozenset((one, other)))
        self._send(one, self.exchanges[one].link_up(other))
        self._send(other, self.exchanges[other].link_up(one))

    def cut(self, one: NodeId, other: NodeId) -> None:
        self.links.discard(frozenset((one, other)))
        self.exchanges[one].link_down(other)
        self.exchanges[other].link_down(one)

    def say(self, name: NodeId, what: Statement) -> None:
        self.known[name].merge(what, NOW_S)
        self._send(name, self.exchanges[name].spread([what], None))

    def _send(self, source: NodeId, sends: list[SendTalk]) -> None:
        for each in sends:
            assert len(each.talk.statements) <= TALK_STATEMENTS_MAX
            assert sum(len(text.body) for text in each.talk.statements) <= TALK_BYTES_MAX
            self.under_way.append((source, each))

    def deliver(self, *, lossy: bool = False) -> None:
        """Until nobody says anything more; in any order, some twice and some never if the links are lossy."""
        while self.under_way:
            if lossy:
                self.under_way.rotate(self.chance.randrange(len(self.under_way)))
            source, send = self.under_way.popleft()
            if frozenset((source, send.peer)) not in self.links or (lossy and self.chance.random() < 0.3):
                continue
            self.delivered += 1
            self._take(source, send.peer, send.talk)
            if lossy and self.chance.random() < 0.1:
                self._take(source, send.peer, send.talk)

    def _take(self, source: NodeId, target: NodeId, talk: KeyTalk) -> None:
        known, exchange = self.known[target], self.exchanges[target]
        before = known.marks.copy()
        for text in talk.statements:
            said = read_body_untrusted(text.body)
            if said.signer not in self.refusing.get(target, ()):
                known.merge(Statement(said, text, 0), NOW_S)
        news = [each for each in known.statements() if each.mark not in before]
        self._send(target, exchange.spread(news, source))
        self._send(target, exchange.answer(source, talk, bool(news)))

    def rounds(self, count: int) -> None:
        for _ in range(count):
            for name in self.names:
                self._send(name, self.exchanges[name].begin_round())
            self.deliver()

    @property
    def agree(self) -> bool:
        return len({known.summary() for known in self.known.values()}) == 1


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize("seed", range(30))
def test_after_splits_and_losses_all_know_the_same_and_revoked_keys_are_gone(seed: int) -> None:
    mesh = Mesh(seed, 7)
    chance = mesh.chance
    gone: set[str] = set()
    keys = [record(number) for number in range(40)]
    for key in keys:
        for _ in range(3):  # whatever happens to links meanwhile
            one, other = chance.sample(mesh.names, 2)
            mesh.link(one, other) if chance.random() < 0.6 else mesh.cut(one, other)
        maker = chance.choice(mesh.names)
        mesh.say(maker, statement(made(key, maker, chance.randrange(100))))
        if chance.random() < 0.5:
            name, id_ = chance.choice([(name, id_) for name in mesh.names for id_ in mesh.known[name].ids()])
            victim = next(each for each in keys if each.id == id_)
            mesh.say(name, statement(revoked(victim, name)))
            gone.add(id_)
        mesh.deliver(lossy=True)
    for one, other in zip(mesh.names, mesh.names[1:], strict=False):
        mesh.link(one, other)  # healed: a chain at least
    mesh.deliver()
    mesh.rounds(20)
    assert mesh.agree
    for known in mesh.known.values():
        assert set(known.ids()) == {key.id for key in keys} - gone
        assert known.revoked_count == len(gone)


def test_what_is_new_goes_to_everybody_at_once() -> None:
    mesh = Mesh(1, 5)
    for one, other in zip(mesh.names, mesh.names[1:], strict=False):
        mesh.link(one, other)
    mesh.deliver()
    mesh.say(mesh.names[0], statement(made(record(1), "n0")))
    before = mesh.delivered
    mesh.deliver()
    assert mesh.agree and mesh.delivered - before == 4, "once over each link, without waiting for a round"
    mesh.rounds(1)
    assert mesh.delivered - before == 4 + 5, "who knows the same is not answered"


@pytest.mark.req("SEC-03")
def test_a_node_that_joins_gets_thousands_of_keys_in_portions() -> None:
    mesh = Mesh(1, 2)
    here, there = mesh.names
    for number in range(3000):
        mesh.known[here].merge(statement(made(record(number))), NOW_S)
    for number in range(2900, 3100):
        mesh.known[there].merge(statement(revoked(record(number))), NOW_S)
    mesh.link(here, there)
    mesh.deliver()
    assert mesh.agree and len(mesh.known[there]) == 2900
    assert mesh.delivered < 400, "a few for each portion"


@pytest.mark.req("SEC-06")
def test_one_bucket_with_everything_in_it_still_comes_in_portions() -> None:
    """A bad node can choose what it says, so that all of it falls into one bucket."""
    mesh = Mesh(1, 2)
    here, there = mesh.names
    crowd = [each for number in range(40_000) if (each := statement(made(record(number)))).slot.bucket == 7]
    assert len(crowd) > 2 * TALK_STATEMENTS_MAX
    for each in crowd:
        mesh.known[here].merge(each, NOW_S)
    mesh.link(here, there)
    mesh.deliver()
    assert mesh.agree


def test_nodes_that_never_agree_stop_talking_and_pass_on_the_rest() -> None:
    mesh = Mesh(1, 2)
    here, there = mesh.names
    mesh.refusing[there] = {"liar"}
    for number in range(300):
        mesh.known[here].merge(statement(made(record(number), "liar")), NOW_S)
    mesh.known[here].merge(statement(made(record(1000), "honest")), NOW_S)
    mesh.link(here, there)
    mesh.deliver()  # it ends
    mesh.rounds(60)
    assert list(mesh.known[there].ids()) == [record(1000).id], "not held up by what is refused again and again"


def test_nothing_is_said_to_nobody() -> None:
    exchange = KeyExchange(MeshKeys(), Random(1))  # noqa: S311
    assert exchange.begin_round() == []
    assert exchange.spread([statement(made(record(1)))], None) == []
    assert exchange.answer(NodeId("x"), KeyTalk(statements=(SignedText(b"", b"", b""),)), took=False) == []
