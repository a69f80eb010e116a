"""Another node that runs with our own id: a copied data directory, most likely (SEC-07).

Both give offsets in the same streams, so promises of one can be mistaken for those of the other. The one that was
started later stops. The other goes on, and is not ready for traffic until that has happened.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from structlog.stdlib import BoundLogger

from weft.errors import StorageError
from weft.model import NodeId
from weft.wire.mesh.lives import Life

TWIN_FRESH_S: Final = 60.0  # since its last sign: a twin that still runs gives another sign within this time

ADVICE: Final = (
    "two nodes must not share a data directory or a copy of one; start the second with a directory of its own, "
    "a token and another --node-id"
)


class TwinFound(StorageError):
    """This node was started while another one with its id was running, so its log is no longer the only one of that
    name."""


class TwinWatch:
    """``failed`` ends the node; ``now_s`` is a monotonic clock."""

    def __init__(
        self,
        node_id: NodeId,
        own: Life,
        now_s: Callable[[], float],
        logger: BoundLogger,
        failed: Callable[[StorageError], None],
    ) -> None:
        self._node_id = node_id
        self._own = own
        self._now_s = now_s
        self._logger = logger
        self._failed = failed
        self._last: tuple[float, Life] | None = None

    def found(self, twin: Life, told_by: str) -> None:
        """The twin has proved that it exists; ``told_by`` says by whom, or from where."""
        self._last = self._now_s(), twin
        stops = "this one" if self._own > twin else "the other one"
        self._logger.error(
            "twin_found",
            id=self._node_id,
            twin_started=_moment(twin),
            this_started=_moment(self._own),
            told_by=told_by,
            stops=stops,
            advice=ADVICE,
        )
        if self._own > twin:
            self._failed(TwinFound(f"{self._sentence(twin)}, earlier than this one, which stops: {ADVICE}"))

    def reason(self) -> str | None:
        """Why this node is not ready, if it has heard of a twin recently."""
        if self._last is None or self._now_s() - self._last[0] > TWIN_FRESH_S:
            return None
        return f"{self._sentence(self._last[1])}: {ADVICE}"

    def _sentence(self, twin: Life) -> str:
        return f"another node runs with the id {self._node_id}; it was started at {_moment(twin)}"


def _moment(life: Life) -> str:
    try:
        return datetime.fromtimestamp(life.started_ms / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a node with our key may name any number
        return f"{life.started_ms} ms"
