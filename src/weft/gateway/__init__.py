"""Other protocols joined to the mesh, one folder each.

A gateway lives inside a node and reaches the mesh as the services for clients do: through ``MeshNode``
(``weft.port.node``), which the node hands over. There is no way round the checks: who may publish or
subscribe to what is asked of the same rights, and a receipt means the same as everywhere.

The node (``weft.node.gateways``) makes those that its configuration names, starts them once it is ready for clients,
and closes them when it has drained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

__all__ = ["DatagramGateway", "Gateway"]


class Gateway(Protocol):
    """``start`` raises WeftError if it cannot listen; ``close`` may be called without ``start``, and more than once."""

    @property
    def listeners(self) -> Sequence[str]:
        """Protocol and address of each, for ``weft status``: ``exmp 127.0.0.1:5040``."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class DatagramGateway(Gateway, Protocol):
    """One that knows what became of each datagram."""

    def fates(self) -> Mapping[str, int]: ...

    def rejected(self) -> Mapping[str, int]:
        """By reason."""
