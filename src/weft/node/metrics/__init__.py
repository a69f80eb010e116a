"""The node's metrics for Prometheus (docs/metrics.md): a file for each subject, with the names, labels and help of its
metrics and where their numbers come from.

The number of labels is bounded: peers beyond PEER_LABELS_MAX are counted together as ``other``, and so are groups.
"""

from weft.node.metrics.collector import DEFINITIONS, PEER_LABELS_MAX, REFUSAL_LABELS_MAX, Metrics
from weft.node.metrics.definition import Definition, Kind
from weft.node.metrics.mesh import GROUP_LABELS_MAX

__all__ = [
    "DEFINITIONS",
    "GROUP_LABELS_MAX",
    "PEER_LABELS_MAX",
    "REFUSAL_LABELS_MAX",
    "Definition",
    "Kind",
    "Metrics",
]
