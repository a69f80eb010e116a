"""Devices and other protocols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.gateway import BridgeFigures, CompactFigures, RequestFigures
from weft.node.figures import NodeFigures
from weft.node.metrics.definition import Definition, Kind, family, single

DATAGRAMS: Final = Definition(
    "weft_datagrams_total", Kind.COUNTER, "EMM and EMM-C datagrams of devices, by what became of them.", ("fate",)
)
DATAGRAMS_REJECTED: Final = Definition(
    "weft_datagrams_rejected_total", Kind.COUNTER, "Those that were refused, by reason.", ("reason",)
)
COMPACT_NEIGHBOURS: Final = Definition(
    "weft_emm_c_neighbours", Kind.GAUGE, "EMM-C nodes that have a relationship with this one."
)
COMPACT_SLOWDOWNS: Final = Definition(
    "weft_emm_c_slowdowns_total",
    Kind.COUNTER,
    "How often the rate to an EMM-C neighbour was halved because of congestion.",
)
COATY_IN: Final = Definition(
    "weft_coaty_in_events_total",
    Kind.COUNTER,
    "Events of a Coaty namespace, by what became of them on the way into the mesh.",
    ("fate",),
)
COATY_OUT: Final = Definition(
    "weft_coaty_out_events_total",
    Kind.COUNTER,
    "Events of the mesh for a Coaty namespace, by what became of them.",
    ("fate",),
)
COATY_NEIGHBOURS: Final = Definition("weft_coaty_neighbours", Kind.GAUGE, "Coaty agents that are connected.")
COATY_BRIDGES: Final = Definition(
    "weft_coaty_bridges", Kind.GAUGE, "Other bridges of this mesh that share the work with this node."
)
COATY_TOPICS: Final = Definition("weft_coaty_topics", Kind.GAUGE, "Topics of Floodsub that are listened to.")
COATY_TOPICS_REFUSED: Final = Definition(
    "weft_coaty_topics_refused", Kind.GAUGE, "Topics that agents want and that are not learned: there are too many."
)
COATY_QUESTIONS: Final = Definition(
    "weft_coaty_questions", Kind.GAUGE, "Questions of the mesh whose answers are awaited."
)
COATY_HELD: Final = Definition(
    "weft_coaty_held_events", Kind.GAUGE, "Events left to other bridges that the mesh does not have yet."
)
COATY_FORGOTTEN: Final = Definition(
    "weft_coaty_held_forgotten_total", Kind.COUNTER, "Those that could not be held on to: there were too many."
)
COATY_CONNECTIONS_REFUSED: Final = Definition(
    "weft_coaty_connections_refused_total", Kind.COUNTER, "Connections of agents that were one too many."
)
COATY_DISTRUSTED: Final = Definition(
    "weft_coaty_distrusted_total", Kind.COUNTER, "Messages of agents without a valid signature."
)
EXMP_CONNECTIONS: Final = Definition("weft_exmp_connections", Kind.GAUGE, "EXMP connections that are open.")
EXMP_CONNECTIONS_REFUSED: Final = Definition(
    "weft_exmp_connections_refused_total", Kind.COUNTER, "EXMP connections that were one too many."
)
EXMP_CONNECTIONS_ENDED: Final = Definition(
    "weft_exmp_connections_ended_total",
    Kind.COUNTER,
    "EXMP connections that ended, by how: `error-sent` for clients that broke the protocol.",
    ("end",),
)
EXMP_REQUESTS: Final = Definition(
    "weft_exmp_requests_total",
    Kind.COUNTER,
    "EXMP requests answered, by operation, and by `success` or the code of the failure.",
    ("operation", "outcome"),
)
EXMP_RECEIVED: Final = Definition(
    "weft_exmp_received_bytes_total", Kind.COUNTER, "Bytes of EXMP messages from clients."
)
EXMP_SENT: Final = Definition("weft_exmp_sent_bytes_total", Kind.COUNTER, "Bytes of EXMP messages to clients.")
EXMP_SUBSCRIPTIONS: Final = Definition(
    "weft_exmp_subscriptions", Kind.GAUGE, "Subscriptions of EXMP clients that are open."
)


def of_devices(figures: NodeFigures) -> Iterator[Metric]:
    yield family(DATAGRAMS, [((fate,), count) for fate, count in figures.datagrams.items()])
    yield family(DATAGRAMS_REJECTED, [((reason,), count) for reason, count in figures.datagrams_rejected.items()])
    if figures.compact is not None:
        yield from of_compact(figures.compact)


def of_compact(figures: CompactFigures) -> Iterator[Metric]:
    yield single(COMPACT_NEIGHBOURS, figures.neighbours)
    yield single(COMPACT_SLOWDOWNS, figures.slowdowns)


def of_coaty(figures: BridgeFigures) -> Iterator[Metric]:
    yield family(COATY_IN, [((fate,), count) for fate, count in figures.events_in.items()])
    yield family(COATY_OUT, [((fate,), count) for fate, count in figures.events_out.items()])
    yield single(COATY_NEIGHBOURS, figures.neighbours)
    yield single(COATY_BRIDGES, figures.bridges)
    yield single(COATY_TOPICS, figures.topics)
    yield single(COATY_TOPICS_REFUSED, figures.topics_refused)
    yield single(COATY_QUESTIONS, figures.questions)
    yield single(COATY_HELD, figures.held)
    yield single(COATY_FORGOTTEN, figures.held_forgotten)
    yield single(COATY_CONNECTIONS_REFUSED, figures.connections_refused)
    yield single(COATY_DISTRUSTED, figures.distrusted)


def of_exmp(figures: RequestFigures) -> Iterator[Metric]:
    yield single(EXMP_CONNECTIONS, figures.connections)
    yield single(EXMP_CONNECTIONS_REFUSED, figures.connections_refused)
    yield family(EXMP_CONNECTIONS_ENDED, [((end,), count) for end, count in figures.connections_ended.items()])
    yield family(EXMP_REQUESTS, list(figures.requests.items()))
    yield single(EXMP_RECEIVED, figures.bytes_received)
    yield single(EXMP_SENT, figures.bytes_sent)
    yield single(EXMP_SUBSCRIPTIONS, figures.subscriptions)
