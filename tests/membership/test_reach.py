"""Who can be reached over the links that nodes tell of."""

from __future__ import annotations

import pytest

from weft.membership import Liveness, NodeState
from weft.membership.reach import Reach, reachable
from weft.membership.table import Table
from weft.model import Epoch, NodeId

ME = NodeId("a")


def state(name: str, neighbours: str, liveness: Liveness = Liveness.ALIVE, version: int = 1) -> NodeState:
    return NodeState(NodeId(name), 1, version, Epoch(1), liveness, neighbours=tuple(map(NodeId, neighbours)))


@pytest.mark.parametrize(
    ("links", "dead", "found"),
    [
        ({"a": ""}, "", "a"),
        ({"a": "b", "b": "a"}, "", "ab"),
        ({"a": "b", "b": "ac", "c": "b"}, "", "abc"),
        ({"a": "b", "b": ""}, "", "a"),  # only one end names the link
        ({"a": "", "b": "a"}, "", "a"),
        ({"a": "b", "b": "ac", "c": ""}, "", "ab"),
        ({"a": "b", "b": "ac", "c": "b"}, "b", "a"),  # no way through the dead
        ({"a": "bd", "b": "ac", "c": "bd", "d": "ac"}, "b", "acd"),
        ({"a": "bz", "b": "a"}, "", "ab"),  # z is nobody we know
        ({"a": "b", "b": "a", "c": "d", "d": "c"}, "", "ab"),
    ],
)
def test_reachable(links: dict[str, str], dead: str, found: str) -> None:
    states = {
        NodeId(name): state(name, neighbours, Liveness.DEAD if name in dead else Liveness.ALIVE)
        for name, neighbours in links.items()
    }
    assert reachable(ME, states) == set(found)


def test_out_of_reach_has_to_last() -> None:
    table = Table(state("a", "b"))
    for other in (state("b", "ac"), state("c", "b"), state("d", "e"), state("e", "d", Liveness.SUSPECT)):
        table.merge(other, 0.0)
    reach = Reach(ME)
    assert reach.lost(table, 10.0, now_s=0.0) == []
    table.merge(state("b", "a", version=2), 4.0)
    assert reach.lost(table, 10.0, now_s=4.0) == []
    assert reach.lost(table, 10.0, now_s=10.0) == ["d", "e"]
    table.merge(state("b", "ac", version=3), 12.0)
    assert reach.lost(table, 10.0, now_s=12.0) == ["d", "e"], "c is back in time"
    table.merge(state("b", "a", version=4), 13.0)
    assert "c" not in reach.lost(table, 10.0, now_s=22.0), "and its time begins anew"
    assert "c" in reach.lost(table, 10.0, now_s=32.0)
