"""The mesh for tests without asyncio. It runs in its own thread, on the kind of event loop that ``weft up`` uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import uvloop

from weft.client import blocking as sdk
from weft.client.loop_thread import LoopThread
from weft.model import NodeId
from weft.testing.live_mesh import SETTLE_TIMEOUT_S, Mesh


class BlockingMesh:
    """Like ``Mesh``, but for ``with``. Its clients come from ``weft.sync``."""

    def __init__(
        self,
        nodes: int | Sequence[str] = 3,
        links: str | Iterable[tuple[str, str]] = "full",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._mesh = Mesh(nodes, links, settings)
        self._thread: LoopThread

    def __enter__(self) -> Self:
        self._thread = LoopThread(self._stop, uvloop.new_event_loop)
        try:
            self._thread.run(self._mesh.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        try:
            self._thread.run(self._mesh.__aexit__(None, None, None))
        finally:
            self._thread.stop()

    @property
    def names(self) -> tuple[NodeId, ...]:
        return self._mesh.names

    def address(self, name: str) -> str:
        return self._mesh.address(name)

    def client(self, *names: str) -> sdk.Client:
        """A blocking client of these nodes, or of all: ``with mesh.client() as client``."""
        return sdk.connect([self.address(name) for name in names or self.names], insecure=True)

    def settled(self, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
        self._thread.run(self._mesh.settled(timeout_s))

    def cut(self, one: str, other: str) -> None:
        self._thread.call(self._mesh.cut, one, other)

    def heal(self) -> None:
        self._thread.call(self._mesh.heal)

    def stop(self, name: str) -> None:
        self._thread.run(self._mesh.stop(name))

    def kill(self, name: str) -> None:
        self._thread.run(self._mesh.kill(name))

    def lose_disk(self, name: str) -> None:
        self._thread.run(self._mesh.lose_disk(name))

    def restart(self, name: str) -> None:
        self._thread.run(self._mesh.restart(name))
