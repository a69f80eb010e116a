"""How nodes come to know the same API keys: news goes to all peers at once, and comparing finds what got lost.

- A node sends every statement that is new to it on to every other peer.
- Every round, and on a new link, a node tells a peer the digest of all it knows. If the peer's differs, it answers with
  the digests of its buckets. The first node sends what it has in some buckets that differ, and asks for what the peer
  has there; the answer ends with the digest of everything. The two go on until the digests are equal, or until nothing
  more is accepted (a node that believes only some makers never gets there).

So one message is under way between two nodes at a time, and each is bounded. This only decides: no clock, no sockets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from weft.chance import Chance
from weft.limits import KIB
from weft.model import NodeId
from weft.security.key_statements import SignedText, Statement
from weft.security.mesh_keys import MeshKeys

TALK_BYTES_MAX: Final = 160 * KIB  # of statements in one message; the largest one takes 56
TALK_STATEMENTS_MAX: Final = 64  # the same by number: a peer checks them in about 10 ms


@dataclass(frozen=True, slots=True)
class KeyTalk:
    """One message. Empty fields are not sent."""

    summary: bytes = b""  # the digest of all that the sender knows
    buckets: tuple[bytes, ...] = ()  # the digests of its buckets
    statements: tuple[SignedText, ...] = ()
    asked: tuple[int, ...] = ()  # the receiver should send what it has in these buckets
    took: bool = False  # the message that this answers brought something new

    @property
    def size_bytes(self) -> int:
        """Estimated, on the wire."""
        texts = sum(len(each.body) + len(each.signature) + 16 for each in self.statements)
        chains = sum(map(len, {each.chain for each in self.statements}))
        return 64 + len(self.summary) + 10 * len(self.buckets) + 3 * len(self.asked) + texts + chains


@dataclass(frozen=True, slots=True)
class SendTalk:
    peer: NodeId
    talk: KeyTalk


class KeyExchange:
    def __init__(self, keys: MeshKeys, chance: Chance) -> None:
        self._keys = keys
        self._chance = chance
        self._peers: dict[NodeId, None] = {}

    @property
    def peers(self) -> list[NodeId]:
        return list(self._peers)

    def link_up(self, peer: NodeId) -> list[SendTalk]:
        self._peers[peer] = None
        return [SendTalk(peer, KeyTalk(summary=self._keys.summary()))]

    def link_down(self, peer: NodeId) -> None:
        self._peers.pop(peer, None)

    def begin_round(self) -> list[SendTalk]:
        """Compare with one peer, a different one each time."""
        if not self._peers:
            return []
        peer = self.peers[int(self._chance.random() * len(self._peers))]
        return [SendTalk(peer, KeyTalk(summary=self._keys.summary()))]

    def spread(self, news: Sequence[Statement], source: NodeId | None) -> list[SendTalk]:
        """Spread what this node has just learned, from ``source`` or by itself."""
        talks = [KeyTalk(statements=each) for each in _portions(news)]
        return [SendTalk(peer, talk) for talk in talks for peer in self._peers if peer != source]

    def agrees(self, talk: KeyTalk) -> bool:
        """The peer knows what we know."""
        return talk.summary == self._keys.summary()

    def answer(self, peer: NodeId, talk: KeyTalk, took: bool) -> list[SendTalk]:
        """Call this after the statements have been merged; ``took``: some of them were new."""
        if talk.asked:
            return self._answer_asked(peer, talk, took)
        if talk.buckets:
            return self._answer_buckets(peer, talk.buckets)
        # A digest after statements is worth an answer only if there was progress: otherwise the two would never stop.
        goes_on = took or talk.took or not talk.statements
        if talk.summary and goes_on and not self.agrees(talk):
            return [SendTalk(peer, KeyTalk(buckets=self._keys.digests()))]
        return []

    def _answer_buckets(self, peer: NodeId, theirs: tuple[bytes, ...]) -> list[SendTalk]:
        """What we have where we differ, as much as fits into one message, and the question what they have there."""
        differing = [
            number
            for number, (mine, other) in enumerate(zip(self._keys.digests(), theirs, strict=True))
            if mine != other
        ]
        if not differing:
            return []
        # Begin with any of them: statements that a peer refuses must not block the rest.
        first = int(self._chance.random() * len(differing))
        asked, statements = self._fill(differing[first:] + differing[:first])
        return _talks(peer, statements, asked=asked)

    def _answer_asked(self, peer: NodeId, talk: KeyTalk, took: bool) -> list[SendTalk]:
        brought = {each.mark for each in talk.statements}
        _, statements = self._fill(talk.asked, brought)
        return _talks(peer, statements, summary=self._keys.summary(), took=took)

    def _fill(
        self, buckets: Iterable[int], without: set[bytes] | None = None
    ) -> tuple[tuple[int, ...], list[Statement]]:
        """As many whole buckets as fit into one message, but at least one."""
        taken: list[int] = []
        statements: list[Statement] = []
        size = 0
        for number in buckets:
            more = [each for each in self._keys.bucket(number) if without is None or each.mark not in without]
            more_size = sum(each.size_bytes for each in more)
            too_much = size + more_size > TALK_BYTES_MAX or len(statements) + len(more) > TALK_STATEMENTS_MAX
            if statements and too_much:
                break
            taken.append(number)
            statements += more
            size += more_size
        return tuple(taken), statements


def _talks(
    peer: NodeId,
    statements: Sequence[Statement],
    *,
    summary: bytes = b"",
    asked: tuple[int, ...] = (),
    took: bool = False,
) -> list[SendTalk]:
    """One message, or several if one bucket has more than that; the last one says the rest."""
    *before, last = list(_portions(statements)) or [()]
    talks = [KeyTalk(statements=each) for each in before]
    talks.append(KeyTalk(summary=summary, statements=last, asked=asked, took=took))
    return [SendTalk(peer, talk) for talk in talks]


def _portions(statements: Sequence[Statement]) -> Iterable[tuple[SignedText, ...]]:
    portion: list[SignedText] = []
    size = 0
    for each in statements:
        if portion and (len(portion) == TALK_STATEMENTS_MAX or size + each.size_bytes > TALK_BYTES_MAX):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(each.text)
        size += each.size_bytes
    if portion:
        yield tuple(portion)
