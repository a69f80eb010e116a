"""For testing what is built on Weft, and Weft itself.

- ``mesh`` and ``blocking_mesh``: a few real nodes in this process, on loopback, with faults to throw at them
  (docs/testing-with-weft.md).
- ``sim``: a whole mesh in virtual time, with every fault that a seed brings (docs/simulation.md).

>>> with blocking_mesh(nodes=2) as mesh, mesh.client("n0") as one, mesh.client("n1") as other:  # doctest: +SKIP
...     with other.subscribe("plant.>", start="earliest") as events:
...         one.publish("plant.line1.temp", "21.5")
...         assert next(iter(events)).payload == b"21.5"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.testing.live_blocking import BlockingMesh
    from weft.testing.live_mesh import Mesh

__all__ = ["blocking_mesh", "mesh"]


def mesh(
    nodes: int | Sequence[str] = 3,
    links: str | Iterable[tuple[str, str]] = "full",
    settings: Mapping[str, object] | None = None,
) -> Mesh:
    """A mesh to enter with ``async with``; see ``Mesh``."""
    from weft.testing.live_mesh import Mesh  # with gRPC and all its parts; the simulation needs none of it

    return Mesh(nodes, links, settings)


def blocking_mesh(
    nodes: int | Sequence[str] = 3,
    links: str | Iterable[tuple[str, str]] = "full",
    settings: Mapping[str, object] | None = None,
) -> BlockingMesh:
    """A mesh to enter with ``with``; see ``BlockingMesh``."""
    from weft.testing.live_blocking import BlockingMesh

    return BlockingMesh(nodes, links, settings)
