"""What nodes want: how many patterns are announced as a few, and a table of which nodes want a topic.

A node announces one list of patterns that covers all its subscriptions (``aggregate``). Patterns that others cover are
left out, which loses nothing. A list that is too long is widened step by step. Then the mesh sends this node more than
its subscribers want, never less, and the node's own trie drops the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from weft.errors import UsageError
from weft.limits import INTEREST_PATTERNS_MAX, MATCHES_KEPT_MAX
from weft.model import NodeId, Pattern, Topic, matches
from weft.model.topic import ONE, REST
from weft.routing.pieces import Pieces, in_pieces
from weft.routing.trie import Trie

Version: TypeAlias = tuple[int, int]  # incarnation, and version within it: how gossip orders the states of one node
Widening: TypeAlias = Callable[[Pattern], Iterator[Pattern]]
Wishes: TypeAlias = Mapping[Pattern, int]  # what is wanted, and since when, in microseconds since 1970

SINCE_EVER_US: Final = 0  # everything there is
SINCE_NEVER_US: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Interest:
    """Patterns in order, none of which covers another. ``widened``: they select more than the patterns from which they
    were made."""

    patterns: tuple[Pattern, ...]
    widened: bool


def aggregate(patterns: Iterable[Pattern], patterns_max: int = INTEREST_PATTERNS_MAX) -> Interest:
    """At most ``patterns_max`` patterns that cover all of ``patterns``. The same set gives the same result, in whatever
    order it comes.

    If that many suffice, they select exactly the same topics. Otherwise, patterns that differ in one token are merged
    (``line1.temp`` and ``line2.temp`` to ``*.temp``), then those that begin alike, the longest beginnings first (to
    ``plant.line1.>``). The largest groups are merged first: the next subscription will most likely look like them, and
    then it is covered already and need not be announced.
    """
    if patterns_max < 1:
        raise UsageError("interest needs room for a pattern", patterns_max=patterns_max)
    exact = _uncovered(patterns)
    told = exact
    for widening in _widenings(exact):
        if len(told) <= patterns_max:
            break
        told = _uncovered(_merged(told, widening, patterns_max))
    return Interest(tuple(sorted(told)), widened=told is not exact)


def without_covered(wishes: Wishes) -> dict[Pattern, int]:
    """The same wishes without the patterns that others cover. A covered pattern stays if it wants all past events and
    the wider pattern does not. If both want events since a time, the wider pattern gets the earlier time.
    """
    kept: dict[Pattern, int] = {}
    index: Trie[Pattern] = Trie()
    for pattern in sorted(wishes, key=lambda each: (wishes[each] > SINCE_EVER_US, _widest_first(each))):
        covering = index.covering(pattern)
        if not covering:
            index.add(pattern, pattern)
            kept[pattern] = wishes[pattern]
        elif all(kept[each] > SINCE_EVER_US for each in covering):
            kept.update({each: min(kept[each], wishes[pattern]) for each in covering})
    return kept


def since_of(patterns: Iterable[Pattern], wishes: Wishes) -> Pieces[dict[Pattern, int]]:
    """For patterns that cover all wishes: since when each of them wants events, which is the earliest time of the
    wishes that it covers."""
    found = dict.fromkeys(patterns, SINCE_NEVER_US)
    index: Trie[Pattern] = Trie()
    for pattern in found:
        index.add(pattern, pattern)
    for piece in in_pieces(wishes.items()):
        for pattern, since_us in piece:
            for each in index.covering(pattern):
                found[each] = min(found[each], since_us)
        yield
    return found


def begin_alike(patterns: Iterable[Pattern], patterns_max: int) -> Pieces[set[Pattern]]:
    """At most ``patterns_max`` patterns that cover all of ``patterns``. Each is cut after a number of tokens, which is
    as large as the bound allows.

    This is cheaper than ``aggregate``, but the result is wider. It is for long lists that come with a ``Summary``.
    """
    wide = set(patterns)
    for tokens_kept in reversed(range(max((each.count(".") + 1 for each in wide), default=0))):
        if len(wide) <= patterns_max:
            break
        wider: set[Pattern] = set()
        for piece in in_pieces(wide):
            wider.update(next(_with_open_end(tokens_kept, each), each) for each in piece)
            yield
        wide = wider
    return wide


def _uncovered(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns that no other one covers."""
    kept: list[Pattern] = []
    index: Trie[None] = Trie()
    for pattern in sorted(set(patterns), key=_widest_first):
        if not index.covering(pattern):
            index.add(pattern, None)
            kept.append(pattern)
    return kept


def _widest_first(pattern: Pattern) -> tuple[int, int, Pattern]:
    """A sort key that puts a pattern before all patterns that it covers: those are as long and more specific, or
    longer."""
    tokens = pattern.split(".")
    return len(tokens), -(tokens.count(ONE) + 2 * tokens.count(REST)), pattern


def _widenings(patterns: Iterable[Pattern]) -> Iterator[Widening]:
    """The ways to widen, from the smallest loss to ``>`` for everything."""
    yield _with_one_token_open
    tokens_max = max((pattern.count(".") + 1 for pattern in patterns), default=0)
    for tokens_kept in reversed(range(tokens_max)):
        yield partial(_with_open_end, tokens_kept)


def _with_one_token_open(pattern: Pattern) -> Iterator[Pattern]:
    tokens = pattern.split(".")
    for place, token in enumerate(tokens):
        if token not in (ONE, REST):
            yield Pattern(".".join([*tokens[:place], ONE, *tokens[place + 1 :]]))


def _with_open_end(tokens_kept: int, pattern: Pattern) -> Iterator[Pattern]:
    tokens = pattern.split(".")
    if len(tokens) > tokens_kept:
        yield Pattern(".".join([*tokens[:tokens_kept], REST]))


def _merged(patterns: list[Pattern], widening: Widening, patterns_max: int) -> set[Pattern]:
    """``patterns`` with groups of two or more replaced by their wider pattern, until few enough are left."""
    groups: dict[Pattern, list[Pattern]] = defaultdict(list)
    for pattern in patterns:
        for wide in widening(pattern):
            groups[wide].append(pattern)
    left = set(patterns)
    for wide, group in sorted(groups.items(), key=lambda item: -len(item[1])):  # equal sizes: as in `patterns`
        if len(left) <= patterns_max:
            break
        still = left.intersection(group)  # a larger group may have taken some of them
        if len(still) > 1:
            left -= still
            left.add(wide)
    return left


class Selecting(Protocol):
    """Says more exactly which topics a list of patterns means (``Summary``)."""

    def may_select(self, topic: Topic) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Told:
    version: Version
    patterns: tuple[Pattern, ...]
    summary: Selecting | None
    since_us: Wishes


class InterestTable:
    """Which node wants what, as far as gossip knows.

    It holds members only: ``remove`` also forgets a node's version, so membership must not bring dead nodes back.
    """

    def __init__(self) -> None:
        self._told: dict[NodeId, _Told] = {}
        self._trie: Trie[NodeId] = Trie()
        self._kept: dict[Topic, frozenset[NodeId]] = {}  # cached answers, until something changes

    def update(
        self,
        node: NodeId,
        version: Version,
        patterns: Iterable[Pattern],
        summary: Selecting | None = None,
        since_us: Wishes = MappingProxyType({}),
    ) -> bool:
        """Take over everything that ``node`` wants; return whether that changes anything. A version that is not newer
        is ignored.

        With a summary, the node wants what a pattern selects and the summary does not rule out. Patterns that are not
        in ``since_us`` are wanted since ever.
        """
        known = self._told.get(node)
        if known is not None and version <= known.version:
            return False
        told = _Told(version, tuple(dict.fromkeys(patterns)), summary, since_us)
        self._replace(node, known, told)
        self._told[node] = told
        return True

    def remove(self, node: NodeId) -> bool:
        """Forget a node; return whether there was anything to forget."""
        known = self._told.pop(node, None)
        if known is None:
            return False
        self._replace(node, known, None)
        return True

    def patterns(self) -> Mapping[NodeId, tuple[Pattern, ...]]:
        """All patterns by node. Without summaries, two tables with the same patterns route alike."""
        return {node: told.patterns for node, told in self._told.items()}

    def who(self, topic: Topic) -> frozenset[NodeId]:
        """The nodes that want ``topic``, and rarely one that does not, because its summary gives a false positive."""
        answer = self._kept.get(topic)
        if answer is None:
            answer = frozenset(node for node in self._trie.match(topic) if self._may_want(node, topic))
            if len(self._kept) >= MATCHES_KEPT_MAX:
                self._kept.clear()
            self._kept[topic] = answer
        return answer

    def since(self, node: NodeId, topic: Topic) -> int:
        """Since when a node wants ``topic``. This looks at all its patterns."""
        told = self._told[node]
        since_us = (told.since_us.get(each, SINCE_EVER_US) for each in told.patterns if matches(each, topic))
        return min(since_us, default=SINCE_EVER_US)

    def _may_want(self, node: NodeId, topic: Topic) -> bool:
        summary = self._told[node].summary
        return summary is None or summary.may_select(topic)

    def _replace(self, node: NodeId, old: _Told | None, new: _Told | None) -> None:
        """Change only what differs, so that unchanged interest keeps the cached answers."""
        before, after = (() if each is None else each.patterns for each in (old, new))
        if before != after or (old and old.summary) != (new and new.summary):
            self._kept.clear()
        for pattern in set(before).difference(after):
            self._trie.remove(pattern, node)
        for pattern in after:
            self._trie.add(pattern, node)
