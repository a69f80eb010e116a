"""Other protocols joined to the mesh, one folder each.

A gateway lives inside a node and reaches the mesh like the services for clients: through ``MeshNode``
(``weft.port.node``), which the node hands over. It cannot go round the checks: the same rights decide who may publish
or subscribe, and a receipt means the same as everywhere.

The node (``weft.node.gateways``) makes the gateways that its configuration names, starts them once it is ready for
clients, and closes them when it has drained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

__all__ = ["BridgeFigures", "BridgeGateway", "DatagramGateway", "Gateway", "RequestFigures", "RequestGateway"]


class Gateway(Protocol):
    """``start`` raises WeftError if it cannot listen; ``close`` may be called without ``start``, and more than once."""

    @property
    def listeners(self) -> Sequence[str]:
        """Protocol and address of each, for ``weft status``: ``exmp 127.0.0.1:5040``."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CompactFigures:
    """The figures of the gateway for datagrams as an EMM-C node."""

    neighbours: int = 0
    slowdowns: int = 0  # times that the rate to one of them was halved, since the start


@runtime_checkable
class DatagramGateway(Gateway, Protocol):
    """A gateway that knows what became of each datagram."""

    def fates(self) -> Mapping[str, int]: ...

    def rejected(self) -> Mapping[str, int]:
        """By reason."""

    def compact_figures(self) -> CompactFigures: ...


@dataclass(frozen=True, slots=True)
class BridgeFigures:
    """What a bridge to Coaty has counted since its start, and its current state."""

    events_in: Mapping[str, int] = field(default_factory=dict)  # from the namespace, by what became of them
    events_out: Mapping[str, int] = field(default_factory=dict)  # to the namespace, by what became of them
    neighbours: int = 0
    bridges: int = 0  # others on the same island
    topics: int = 0  # how many it is subscribed to
    held: int = 0  # events left to other bridges, which the mesh does not have yet
    held_forgotten: int = 0
    questions: int = 0  # from the mesh, waiting for their answers
    topics_refused: int = 0
    connections_refused: int = 0
    distrusted: int = 0


@runtime_checkable
class BridgeGateway(Gateway, Protocol):
    def bridge_figures(self) -> BridgeFigures: ...


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """What the gateway for EXMP has counted since its start, and its current state."""

    connections: int = 0
    connections_refused: int = 0  # surplus ones
    connections_ended: Mapping[str, int] = field(default_factory=dict)  # by the way they ended
    requests: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by operation and outcome
    bytes_received: int = 0
    bytes_sent: int = 0
    subscriptions: int = 0


@runtime_checkable
class RequestGateway(Gateway, Protocol):
    """A gateway whose clients send requests."""

    def request_figures(self) -> RequestFigures: ...
