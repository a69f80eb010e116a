"""Which subscribers want a topic: an index from patterns to values (subscribers, peers, nodes) that gives the same
answers as ``matches``.

Patterns are kept as a tree in which each token, including wildcards, is an edge. A topic is looked up level by level:
from every node reached so far, go to the child for the topic's token and to the child for ``*``; a child for ``>`` has
matched already. So a look-up follows a pattern only as far as it agrees with the topic. Patterns that differ from the
topic early cost nothing, even if there are a million of them. A look-up visits each distinct beginning of a pattern
that matches the beginning of the topic: at most two to the power of the topic's tokens, and in practice a handful.

Answers are cached until a pattern is added or removed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from weft.limits import MATCHES_KEPT_MAX
from weft.model import Pattern, Topic
from weft.model.topic import ONE, REST

MATCHES_KEPT_VALUES_MAX: Final = 1024  # in one cached answer, enough for a mesh of 1,000 nodes; 32 MiB in all at worst
V = TypeVar("V", bound=Hashable)
K = TypeVar("K")
W = TypeVar("W")

NO_LITERAL: Final = ""  # never a token, so no child has this name


class _Node(Generic[V]):
    """The place where a pattern's tokens lead. Values are the keys of a dict, used as a set that keeps the order of
    arrival, so that answers do not depend on the seed of Python's hashes."""

    __slots__ = ("children", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] = {}
        self.values: dict[V, None] = {}


class Trie(Generic[V]):
    """A set of (pattern, value) pairs that finds the values for a topic."""

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        self._kept: dict[Topic, tuple[V, ...]] = {}
        self._pairs = 0
        self.nodes_visited = 0  # by all look-ups so far; cached answers visit none

    def __len__(self) -> int:
        return self._pairs

    def add(self, pattern: Pattern, value: V) -> bool:
        """Add a pair; return whether it is new."""
        node = self._root
        for token in pattern.split("."):
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = _Node()
            node = child
        if value in node.values:
            return False
        node.values[value] = None
        self._pairs += 1
        self._kept.clear()
        return True

    def remove(self, pattern: Pattern, value: V) -> bool:
        """Remove a pair, and the nodes that lead nowhere without it. Return whether the pair was there."""
        tokens = pattern.split(".")
        path = [self._root]
        for token in tokens:
            child = path[-1].children.get(token)
            if child is None:
                return False
            path.append(child)
        if value not in path[-1].values:
            return False
        _discard(path[-1].values, value)
        while tokens and not path[-1].values and not path[-1].children:
            path.pop()
            _discard(path[-1].children, tokens.pop())
        self._pairs -= 1
        self._kept.clear()
        return True

    def match(self, topic: Topic) -> tuple[V, ...]:
        """Each value with a pattern that matches ``topic``, once. The order is the same after the same calls."""
        answer = self._kept.get(topic)
        if answer is None:
            found, ends = self._walk(topic.split("."))
            answer = _union([*found, *(node.values for node in ends)])
            self._keep(topic, answer)
        return answer

    def covering(self, pattern: Pattern) -> tuple[V, ...]:
        """Each value with a pattern that covers ``pattern``, once."""
        tokens = [NO_LITERAL if token == ONE else token for token in pattern.split(".")]
        if tokens[-1] != REST:
            found, ends = self._walk(tokens)
            return _union([*found, *(node.values for node in ends)])
        found, ends = self._walk(tokens[:-1])
        return _union([*found, *(node.children[REST].values for node in ends if REST in node.children)])

    def _walk(self, tokens: list[str]) -> tuple[list[dict[V, None]], list[_Node[V]]]:
        """The values of all ``>`` along the way, and the nodes reached by the last token."""
        found: list[dict[V, None]] = []
        level = [self._root]
        visited = 0
        for token in tokens:
            visited += len(level)
            following: list[_Node[V]] = []
            for node in level:
                children = node.children
                if (rest := children.get(REST)) is not None:
                    found.append(rest.values)
                if (child := children.get(token)) is not None:
                    following.append(child)
                if (child := children.get(ONE)) is not None:
                    following.append(child)
            level = following
        self.nodes_visited += visited + len(level)
        return found, level

    def _keep(self, topic: Topic, answer: tuple[V, ...]) -> None:
        if len(answer) > MATCHES_KEPT_VALUES_MAX:
            return
        if len(self._kept) >= MATCHES_KEPT_MAX:
            self._kept.clear()  # topics in use are soon cached again, and only they matter
        self._kept[topic] = answer


def _discard(entries: dict[K, W], key: K) -> None:
    del entries[key]
    if not entries:
        entries.clear()  # frees the memory of deleted entries, which `del` does not


def _union(sets: Iterable[dict[V, None]]) -> tuple[V, ...]:
    merged: dict[V, None] = {}
    for values in sets:
        merged.update(values)
    return tuple(merged)
