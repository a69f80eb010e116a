"""Which lives of its peers a node has recently heard of, and which of them are twins (SEC-07;
``weft.wire.mesh.lives``).

This only keeps books; the caller acts. It must pass in only what was said over a link to a node with that id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from weft.model import NodeId
from weft.wire.mesh.lives import Heard, Life, OtherLife

LIFE_KEPT_S: Final = 600.0  # after the last hello of a life; a twin that was refused dials again within a minute
LIVES_OF_NODE_MAX: Final = 4  # a node that starts again and again has many lives; only the last ones are kept
LIVES_NODES_MAX: Final = 4096  # as many as there may be members; nodes whose last hello is oldest are forgotten first


@dataclass(slots=True)
class _Lives:
    """The lives of one node; the one that said hello last comes last."""

    said_s: dict[Life, float] = field(default_factory=dict)
    heard: dict[Life, Heard] = field(default_factory=dict)
    twins: bool = False


class PeerLives:
    def __init__(self) -> None:
        self._nodes: dict[NodeId, _Lives] = {}

    def hear(self, node_id: NodeId, life: Life, heard: Heard | None, now_s: float) -> bool:
        """A life of a node said hello. Return True if this shows, for the first time, that two lives run at once."""
        lives = self._nodes.pop(node_id, None) or _Lives()
        self._nodes[node_id] = lives
        _prune(lives, now_s)
        latest = next(reversed(lives.said_s), None)
        # This life said hello before. Then another one did, and now it is this one again: so both are running.
        found = not lives.twins and life in lives.said_s and latest != life
        lives.twins = lives.twins or found
        lives.said_s.pop(life, None)
        lives.said_s[life] = now_s
        if heard is not None:
            lives.heard[life] = heard
        while len(lives.said_s) > LIVES_OF_NODE_MAX:
            _drop(lives, next(iter(lives.said_s)))
        if len(self._nodes) > LIVES_NODES_MAX:
            del self._nodes[next(iter(self._nodes))]
        return found

    def linked(self, node_id: NodeId, life: Life, now_s: float) -> None:
        """There is a link to this life, so it is remembered without saying hello."""
        lives = self._nodes.get(node_id)
        if lives is not None and life in lives.said_s:
            lives.said_s[life] = now_s

    def are_twins(self, node_id: NodeId) -> bool:
        lives = self._nodes.get(node_id)
        return lives is not None and lives.twins

    def other_than(self, node_id: NodeId, life: Life | None, now_s: float) -> OtherLife | None:
        """What to tell a life about another life with its id: preferably one that has heard of it, otherwise the last
        one."""
        lives = self._nodes.get(node_id)
        if lives is None:
            return None
        _prune(lives, now_s)
        others = [each for each in lives.said_s if each != life]
        if not others:
            return None
        aware = [each for each in others if life and each in lives.heard and lives.heard[each].run == life.run]
        chosen = (aware or others)[-1]
        return OtherLife(chosen, lives.heard.get(chosen))


def _prune(lives: _Lives, now_s: float) -> None:
    for life in [life for life, said_s in lives.said_s.items() if now_s - said_s > LIFE_KEPT_S]:
        _drop(lives, life)
    if len(lives.said_s) < 2:
        lives.twins = False


def _drop(lives: _Lives, life: Life) -> None:
    del lives.said_s[life]
    lives.heard.pop(life, None)
