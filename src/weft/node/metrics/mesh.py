"""The nodes of the mesh, clients that are connected, and groups of readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.node.figures import OTHER, GroupFigures, NodeFigures
from weft.node.metrics.definition import Definition, Kind, family, single

GROUP_LABELS_MAX: Final = 256  # for the same reasons as PEER_LABELS_MAX

MEMBERS: Final = Definition("weft_members", Kind.GAUGE, "Nodes known, this one included, by liveness.", ("liveness",))
IN_VAIN: Final = Definition(
    "weft_events_in_vain_total",
    Kind.COUNTER,
    "Events copied here from other nodes, which nobody here or behind wants.",
)
CLIENTS: Final = Definition("weft_clients", Kind.GAUGE, "Client streams that are open.")
SUBSCRIPTIONS: Final = Definition("weft_subscriptions", Kind.GAUGE, "Subscriptions that are open.")
HELD: Final = Definition("weft_held_bytes", Kind.GAUGE, "Memory held for callers: not yet synced, or not yet taken.")
GROUP_MEMBERS: Final = Definition("weft_group_members", Kind.GAUGE, "Members of the group on this node.", ("group",))
GROUP_LAG_EVENTS: Final = Definition(
    "weft_group_lag_events", Kind.GAUGE, "Events that the group has not handled yet.", ("group",)
)
GROUP_LAG_S: Final = Definition(
    "weft_group_lag_seconds", Kind.GAUGE, "Age of the oldest event that the group has not handled yet.", ("group",)
)
GROUP_REDELIVERIES: Final = Definition(
    "weft_group_redeliveries_total", Kind.COUNTER, "Events given out again by this node, after they failed.", ("group",)
)
GROUP_DEAD_LETTERS: Final = Definition(
    "weft_group_dead_letters_total", Kind.COUNTER, "Events put aside as dead letters by this node.", ("group",)
)


def of_mesh(figures: NodeFigures) -> Iterator[Metric]:
    yield family(MEMBERS, [((liveness,), count) for liveness, count in figures.members.items()])
    yield single(IN_VAIN, figures.events_in_vain)
    yield single(CLIENTS, figures.clients)
    yield single(SUBSCRIPTIONS, figures.subscriptions)
    yield single(HELD, figures.held_bytes)
    groups = bounded_groups(figures.groups)
    yield family(GROUP_MEMBERS, [((each.group,), each.members) for each in groups])
    yield family(GROUP_LAG_EVENTS, [((each.group,), each.lag_events) for each in groups])
    yield family(GROUP_LAG_S, [((each.group,), each.lag_s) for each in groups])
    yield family(GROUP_REDELIVERIES, [((each.group,), each.redelivered) for each in groups])
    yield family(GROUP_DEAD_LETTERS, [((each.group,), each.dead_letters) for each in groups])


def bounded_groups(groups: Iterable[GroupFigures]) -> list[GroupFigures]:
    """Sort groups by name. Those beyond the bound become one, with the sums of their numbers and the longest lag."""
    ordered = sorted(groups, key=lambda each: each.group)
    rest = ordered[GROUP_LABELS_MAX:]
    if not rest:
        return ordered
    joined = GroupFigures(
        OTHER,
        sum(each.members for each in rest),
        sum(each.lag_events for each in rest),
        max(each.lag_s for each in rest),
        sum(each.redelivered for each in rest),
        sum(each.dead_letters for each in rest),
    )
    return [*ordered[:GROUP_LABELS_MAX], joined]
