"""Trees are shortest, the same everywhere, and lead to the interested and to nobody else."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model import NodeId, Pattern, Topic
from weft.routing import InterestTable, Topology

Links = dict[NodeId, list[NodeId]]


def linked(*pairs: str) -> Links:
    """``linked("ab", "bc", "d")``: nodes a to d, links a-b and b-c."""
    links: Links = {NodeId(node): [] for pair in pairs for node in pair}
    for pair in pairs:
        for one, other in combinations(pair, 2):
            links[NodeId(one)].append(NodeId(other))
            links[NodeId(other)].append(NodeId(one))
    return links


@st.composite
def graphs(draw: st.DrawFn) -> Links:
    """Up to nine nodes, any links between them: connected or not."""
    nodes = draw(st.lists(st.sampled_from("abcdefghi"), min_size=1, unique=True))
    edges = ["".join(pair) for pair in combinations(nodes, 2)]
    return linked(*nodes, *draw(st.lists(st.sampled_from(edges), unique=True) if edges else st.just([])))


def shortest_paths(links: Links, origin: NodeId) -> dict[NodeId, tuple[NodeId, ...]]:
    """The definition: of all paths without a repeated node the shortest, of those the first in order of node ids."""
    best: dict[NodeId, tuple[NodeId, ...]] = {}
    paths: list[tuple[NodeId, ...]] = [(origin,)]
    while paths:  # paths of one length at a time, so that nothing longer replaces what is found
        for path in sorted(paths):
            best.setdefault(path[-1], path)
        paths = [
            (*path, node)
            for path in paths
            if len(path) == len(best[path[-1]])
            for node in links[path[-1]]
            if node not in path
        ]
    return best


@given(graphs())
@settings(max_examples=300)
@pytest.mark.req("MSH-02")
def test_paths_are_the_shortest_and_first(links: Links) -> None:
    topology = Topology(links)
    for origin in links:
        best = shortest_paths(links, origin)
        for node in links:
            path = best.get(node)
            assert topology.path(origin, node) == path
            assert topology.parent(origin, node) == (path[-2] if path and len(path) > 1 else None)
            assert topology.children(origin, node) == tuple(
                sorted(other for other in best if best[other][:-1] == path and other != origin)
            )


@given(graphs(), st.data())
@pytest.mark.req("MSH-02")
def test_events_reach_the_interested_and_the_nodes_on_the_way_once(links: Links, data: st.DataObject) -> None:
    """Each node decides by its own view, which holds the same links in another order."""
    nodes = st.sampled_from(sorted(links))
    origin, interested = data.draw(nodes), data.draw(st.frozensets(nodes))
    shuffler = data.draw(st.randoms(use_true_random=True))
    views = {node: Topology(shuffled(links, shuffler)) for node in links}
    reached: Counter[NodeId] = Counter([origin])
    on_the_way = [origin]
    while on_the_way:
        here = on_the_way.pop()
        for hop in views[here].next_hops(origin, here, interested):
            assert hop in links[here], "events go over links"
            assert views[hop].parent(origin, hop) == here, "the child looks for them where they come from"
            reached[hop] += 1
            assert reached[hop] == 1, "no loop, and no second copy"
            on_the_way.append(hop)
    best = shortest_paths(links, origin)
    assert set(reached) == {origin}.union(*(best[node] for node in interested if node in best))


def shuffled(links: Links, shuffler: random.Random) -> Links:
    items = [(node, shuffler.sample(neighbours, len(neighbours))) for node, neighbours in links.items()]
    shuffler.shuffle(items)
    return dict(items)


@pytest.mark.req("MSH-02")
def test_a_partition_has_no_path_across() -> None:
    topology = Topology(linked("ab", "bc", "xy"))
    a, c, x, y = map(NodeId, "acxy")
    assert topology.path(a, c) == ("a", "b", "c")
    assert topology.path(a, x) is None
    assert topology.parent(a, x) is None
    assert topology.children(a, x) == (), "x passes nothing on of an origin that does not reach it"
    assert topology.next_hops(a, a, {x, y}) == ()
    assert topology.next_hops(a, x, {y}) == ()


def test_nodes_that_are_not_in_the_view() -> None:
    topology, a, ghost = Topology(linked("ab")), NodeId("a"), NodeId("ghost")
    assert topology.path(a, ghost) is None
    assert topology.path(ghost, a) is None
    assert topology.path(ghost, ghost) is None
    assert topology.children(ghost, a) == ()
    assert topology.next_hops(a, a, {ghost}) == ()
    assert topology.path(a, a) == (a,)


@pytest.mark.req("MSH-02", "SEC-06")
def test_a_link_needs_both_ends() -> None:
    a, b, c = map(NodeId, "abc")
    topology = Topology({a: [b, c, a], b: [a, a], c: []})
    assert topology.path(a, b) == (a, b)
    assert topology.path(a, c) is None, "c does not know of it"
    assert topology.children(a, a) == (b,), "once, and not to itself"


def test_a_ring_with_a_cut_turns_round() -> None:
    ring, cut = Topology(linked("ab", "bc", "cd", "de", "ae")), Topology(linked("bc", "cd", "de", "ae"))
    a, b = map(NodeId, "ab")
    assert ring.path(a, b) == ("a", "b")
    assert cut.path(a, b) == ("a", "e", "d", "c", "b")
    assert cut.next_hops(a, NodeId("d"), {b}) == ("c",)


def test_a_view_without_a_difference_keeps_its_trees() -> None:
    links = linked("ab", "bc")
    topology = Topology(links)
    same = {node: list(reversed(neighbours)) for node, neighbours in reversed(links.items())}
    assert topology.updated(same) is topology
    one_sided = same | {NodeId("a"): [NodeId("b"), NodeId("c")]}
    assert topology.updated(one_sided) is topology, "c does not name a"
    assert topology.updated(linked("ab", "bc", "ac")).path(NodeId("a"), NodeId("c")) == ("a", "c")


def test_a_view_goes_at_once_when_it_is_replaced() -> None:
    """What it has computed must not wait for the garbage collector, which some turn off."""
    gc.disable()
    try:
        topology = Topology(linked("ab"))
        topology.children(NodeId("a"), NodeId("a"))
        gone = weakref.ref(topology)
        trees = weakref.ref(topology._parents)
        del topology
        assert gone() is None
        assert trees() is None
    finally:
        gc.enable()


@pytest.mark.req("MSH-02")
def test_interest_and_trees_together() -> None:
    """A chain a-b-c with a spur b-d: what c alone wants passes b and spares d."""
    topology, interest = Topology(linked("ab", "bc", "bd")), InterestTable()
    a, b, c, d = map(NodeId, "abcd")
    interest.update(c, (1, 1), [Pattern("plant.*.temp")])
    interest.update(d, (1, 1), [Pattern("office.>")])
    wanted, unwanted = Topic("plant.line1.temp"), Topic("plant.line1.pressure")
    assert topology.next_hops(a, a, interest.who(wanted)) == (b,)
    assert topology.next_hops(a, b, interest.who(wanted)) == (c,)
    assert topology.next_hops(a, c, interest.who(wanted)) == ()
    assert topology.next_hops(a, a, interest.who(unwanted)) == ()
