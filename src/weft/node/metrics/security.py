"""Refusals, certificates and API keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.node.figures import NodeFigures
from weft.node.metrics.definition import Definition, Kind, family, single

REFUSALS: Final = Definition(
    "weft_refusals_total",
    Kind.COUNTER,
    "Calls, links and connections refused for reasons of security, by cause.",
    ("cause",),
)
CONNECTIONS_REFUSED: Final = Definition(
    "weft_connections_refused_total",
    Kind.COUNTER,
    "Connections refused or closed before anybody knew whose they are, by port and reason.",
    ("port", "reason"),
)
CERTIFICATE_EXPIRES: Final = Definition(
    "weft_certificate_expires_seconds", Kind.GAUGE, "Until the node's certificate ends; renewed with a third left."
)
CERTIFICATE_RENEWALS: Final = Definition(
    "weft_certificate_renewals_total", Kind.COUNTER, "New certificates since the start."
)
CERTIFICATE_FAILURES: Final = Definition(
    "weft_certificate_failures_total", Kind.COUNTER, "Renewals that failed; they are tried again."
)
API_KEYS: Final = Definition(
    "weft_api_keys", Kind.GAUGE, "API keys of the mesh that this node knows: good or revoked.", ("state",)
)


def of_security(figures: NodeFigures) -> Iterator[Metric]:
    yield family(REFUSALS, [((cause,), count) for cause, count in figures.refusals.items()])
    yield family(CONNECTIONS_REFUSED, list(figures.turned_away.items()))
    if figures.certificate_expires_s is not None:
        yield single(CERTIFICATE_EXPIRES, figures.certificate_expires_s)
        yield single(CERTIFICATE_RENEWALS, figures.certificate_renewals)
        yield single(CERTIFICATE_FAILURES, figures.certificate_failures)
    if figures.keys is not None:
        yield family(API_KEYS, [((state,), count) for state, count in figures.keys.items()])
