"""The links to peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.node.figures import OTHER, PeerFigures
from weft.node.metrics.definition import Definition, Kind, family

QUANTILES: Final = (0.5, 0.95)


def _of_peer(name: str, kind: Kind, text: str) -> Definition:
    return Definition(name, kind, text, ("peer",))


STATE: Final = _of_peer(
    "weft_connection_state", Kind.GAUGE, "The link: 0 down, 1 connecting, 2 connected but unhealthy, 3 connected."
)
RECONNECTS: Final = _of_peer("weft_reconnects_total", Kind.COUNTER, "Links that came back after they were lost.")
BYTES_SENT: Final = _of_peer("weft_bytes_sent_total", Kind.COUNTER, "Bytes of messages sent to the peer.")
BYTES_RECEIVED: Final = _of_peer("weft_bytes_received_total", Kind.COUNTER, "Bytes of messages from the peer.")
MESSAGES_SENT: Final = _of_peer("weft_messages_sent_total", Kind.COUNTER, "Messages sent to the peer.")
MESSAGES_RECEIVED: Final = _of_peer("weft_messages_received_total", Kind.COUNTER, "Messages from the peer.")
QUEUE_DEPTH: Final = _of_peer("weft_queue_depth", Kind.GAUGE, "Frames that wait to be sent.")
DROPS: Final = _of_peer("weft_drops_total", Kind.COUNTER, "Frames dropped from a full queue; the log still has them.")
RTT: Final = _of_peer("weft_rtt_ms", Kind.GAUGE, "The last round trip of a heartbeat, in milliseconds.")
PEER_REFUSED: Final = Definition(
    "weft_peer_refused_total",
    Kind.COUNTER,
    "What the peer brought and was not taken, by reason.",
    ("peer", "reason"),
)
SEND_LATENCY: Final = Definition(
    "weft_send_latency_ms",
    Kind.GAUGE,
    "From the queue to the socket, in milliseconds: quantiles of the last frames.",
    ("peer", "quantile"),
)


def of_peers(named: Mapping[str, PeerFigures], others: PeerFigures) -> Iterator[Metric]:
    """``others``: all peers beyond the bound."""
    everybody = [*named.items(), (OTHER, others)]
    counted: list[tuple[Definition, Callable[[PeerFigures], int]]] = [
        (RECONNECTS, lambda peer: peer.reconnects),
        (BYTES_SENT, lambda peer: peer.bytes_sent),
        (BYTES_RECEIVED, lambda peer: peer.bytes_received),
        (MESSAGES_SENT, lambda peer: peer.messages_sent),
        (MESSAGES_RECEIVED, lambda peer: peer.messages_received),
        (DROPS, lambda peer: peer.drops),
    ]
    for definition, number in counted:
        yield family(definition, [((name,), number(peer)) for name, peer in everybody])
    yield family(
        PEER_REFUSED,
        [((name, fault), count) for name, peer in everybody for fault, count in list(peer.refused.items())],
    )
    # The last state, or a median, of unrelated peers would mean nothing, so this is only for named ones.
    yield family(STATE, [((name,), peer.state) for name, peer in named.items()])
    yield family(QUEUE_DEPTH, [((name,), peer.queue_depth) for name, peer in named.items()])
    yield family(RTT, [((name,), peer.rtt_ms) for name, peer in named.items() if peer.rtt_ms is not None])
    yield family(
        SEND_LATENCY,
        [
            ((name, str(share)), value)
            for name, peer in named.items()
            for share in QUANTILES
            if (value := peer.send_latency_ms.quantile(share)) is not None
        ],
    )
