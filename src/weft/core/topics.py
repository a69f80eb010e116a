"""Topics below ``weft.`` belong to the mesh itself. A pattern selects them only if it names that first token.

So ``>`` means every event of every user and nothing else; ``weft.>`` selects the mesh's own events. Events whose time
has not come (``weft.later.>``) stay at their node: no pattern selects them.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from weft.model import Pattern, Topic, matches, parse_pattern
from weft.model.key_value import KEY_VALUES, KV_PREFIX
from weft.model.later import LATER_PREFIX
from weft.routing import Trie

OWN_TOKEN: Final = "weft"  # noqa: S105  of topics, no secret
GROUPS_PREFIX: Final = "weft.groups."
GROUPS: Final = parse_pattern("weft.groups.>")
DEAD_PREFIX: Final = "weft.dead."
DEAD: Final = parse_pattern("weft.dead.>")  # events that a group's members could not handle
PLAIN_PREFIX: Final = "weft.plain."
EVERYWHERE_PREFIXES: Final = (GROUPS_PREFIX, DEAD_PREFIX, KV_PREFIX)  # every node has these
EVERYWHERE: Final = (GROUPS, DEAD, KEY_VALUES)  # the same as patterns

V = TypeVar("V", bound=str | int)


def is_own(name: Topic | Pattern) -> bool:
    """Whether a topic belongs to the mesh itself, or a pattern selects such topics."""
    return name.split(".", 1)[0] == OWN_TOKEN


def selects(pattern: Pattern, topic: Topic) -> bool:
    return matches(pattern, topic) and is_own(pattern) == is_own(topic) and not topic.startswith(LATER_PREFIX)


class Selection(Generic[V]):
    """Finds who selected a topic, by the rule of ``selects``, with one trie for the mesh's own topics and one for all
    others."""

    def __init__(self) -> None:
        self._users: Trie[V] = Trie()
        self._own: Trie[V] = Trie()

    def add(self, pattern: Pattern, value: V) -> bool:
        return self._trie(pattern).add(pattern, value)

    def remove(self, pattern: Pattern, value: V) -> bool:
        return self._trie(pattern).remove(pattern, value)

    def match(self, topic: Topic) -> tuple[V, ...]:
        return () if topic.startswith(LATER_PREFIX) else self._trie(topic).match(topic)

    def _trie(self, name: Topic | Pattern) -> Trie[V]:
        return self._own if is_own(name) else self._users
