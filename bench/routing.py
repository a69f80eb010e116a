"""Rates of routing on one core: look-ups among subscriptions that do not match, and trees of a mesh of 1,000 nodes.

.venv/bin/python -m bench.routing
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from itertools import cycle

from bench.harness import Case, measure, report

from weft.limits import MATCHES_KEPT_MAX
from weft.model import NodeId, Pattern, Topic
from weft.routing import InterestTable, Topology, Trie, aggregate

MATCHING = (
    *("plant.*.temp", "*.*.temp", "plant.>", "plant.*.>", "plant.*.*"),
    *(">", "*.>", "*.*.>", "*.*.*", "plant.*.temp"),
)
STRANGERS = ("site{}.line.temp", "plant.line{}.temp", "plant.*.sensor{}", "*.area{}.>", "plant.line.part{}.>")
NODES = 1000
NODE_LINKS = (1, 7, 31)  # to the nodes that many places on, round a ring, and so as many back


def lookup_cases() -> list[Case]:
    cases = []
    # More topics than answers are kept for, so that each one is looked up.
    topics = cycle([Topic(f"plant.machine{number}.temp") for number in range(MATCHES_KEPT_MAX + 1000)])
    for strangers in (1, 1_000, 1_000_000):
        trie = _trie(strangers)
        before = trie.nodes_visited
        assert len(trie.match(next(topics))) == len(MATCHING)
        note = f"{trie.nodes_visited - before} nodes visited"
        name = f"match 10 beside {strangers:,} that do not"
        cases.append(Case(name, lambda trie=trie: trie.match(next(topics)), unit="topics", note=note))  # type: ignore[misc]

    def come_and_go() -> None:
        trie.add(Pattern("plant.line.new"), 0)
        trie.remove(Pattern("plant.line.new"), 0)

    return [
        *cases,
        Case("the same, a hot topic", lambda: trie.match(Topic("plant.hot.temp")), unit="topics"),
        Case("subscribe and unsubscribe beside those", come_and_go, unit="pairs"),
    ]


def _trie(strangers: int) -> Trie[int]:
    trie: Trie[int] = Trie()
    for number, pattern in enumerate(MATCHING):
        trie.add(Pattern(pattern), number)
    for number in range(strangers):
        trie.add(Pattern(STRANGERS[number % len(STRANGERS)].format(number)), -number)
    return trie


def interest_cases() -> list[Case]:
    table = InterestTable()
    for number in range(NODES):
        patterns = [Pattern(f"plant{number}.>"), Pattern(f"*.alarm.{number % 10}"), Pattern("mesh.>")]
        table.update(NodeId(f"node-{number:04}"), (1, 1), patterns)
    some = [Pattern(f"tenant{number % 7}.device{number}.{number % 3}.cmd") for number in range(10_000)]
    return [
        Case("who of 1,000 nodes: 101 are", lambda: table.who(Topic("plant7.alarm.3")), unit="topics"),
        Case("who of 1,000 nodes: all are", lambda: table.who(Topic("mesh.news")), unit="topics"),
        Case("aggregate 200 patterns", lambda: aggregate(some[:200]), 200, "patterns", note="none is widened"),
        Case("aggregate 10,000 patterns", lambda: aggregate(some), 10_000, "patterns", note="widened to 256 or fewer"),
    ]


def tree_cases() -> list[Case]:
    names = [NodeId(f"node-{number:04}") for number in range(NODES)]
    links: dict[NodeId, Iterable[NodeId]] = {
        node: [names[(number + step * sign) % NODES] for step in NODE_LINKS for sign in (1, -1)]
        for number, node in enumerate(names)
    }
    topology, me = Topology(links), names[500]
    origins, others = cycle(names), cycle(names)
    few, everybody = frozenset(names[::100]), frozenset(names)
    return [
        Case("read the links of 1,000 nodes", lambda: Topology(links), unit="views"),
        Case("a tree of 1,000 nodes", lambda: topology.path(next(origins), me), unit="trees"),
        Case("next hops, 10 interested", lambda: topology.next_hops(next(others), me, few), unit="events"),
        Case("next hops, all interested", lambda: topology.next_hops(next(others), me, everybody), unit="events"),
        Case("next hops at the origin, all interested", lambda: topology.next_hops(me, me, everybody), unit="events"),
    ]


def main() -> None:
    gc.disable()  # building a million nodes would have it walk them over and over
    cases = [*lookup_cases(), *interest_cases(), *tree_cases()]
    gc.freeze()
    gc.enable()
    measure(cases)
    report(cases, "routing")


if __name__ == "__main__":
    main()
