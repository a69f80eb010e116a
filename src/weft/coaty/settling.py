"""When an agent's publications may go out: not before its neighbours know it, and join events first (COA-07). Pure.

Floodsub sends only to neighbours that have said what they want, and a new peer has heard nothing yet. So everything
that is published while an agent starts waits until it has started and no neighbour has changed its subscriptions for a
second. Without neighbours that is one second; if subscriptions keep changing, it is SETTLING_S_MAX at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError
from weft.limits import MIB

COATY_SETTLING_S: Final = 1.0  # the document's second (COA-07)
COATY_SETTLING_S_MAX: Final = 10.0  # neighbours that come and go without end do not keep an agent silent
COATY_DEFERRED_BYTES_MAX: Final = 16 * MIB  # published before the agent may speak


@dataclass(frozen=True, slots=True)
class Publication:
    """One message for one Floodsub topic."""

    topic: str
    payload: bytes
    seqno: bytes | None = None  # of the Floodsub message; None: by chance


class Settling:
    """``publish`` gives back what may go out now; ``settled_at_s`` says when to ask ``settle`` for the rest."""

    def __init__(self, join: Iterable[Publication]) -> None:
        self._deferred = list(join)
        self._deferred_bytes = 0
        self._started_s: float | None = None
        self._until_s: float | None = None
        self.is_settled = False

    @property
    def settled_at_s(self) -> float | None:
        """None: not started yet, or over."""
        return None if self.is_settled else self._until_s

    def started(self, now_s: float) -> None:
        self._started_s = now_s
        self._until_s = now_s + COATY_SETTLING_S

    def changed(self, now_s: float) -> None:
        """A neighbour said what it wants, and may not have said everything."""
        if self._started_s is not None:
            self._until_s = min(now_s + COATY_SETTLING_S, self._started_s + COATY_SETTLING_S_MAX)

    def publish(self, publication: Publication) -> list[Publication]:
        if self.is_settled:
            return [publication]
        size = len(publication.payload)
        if self._deferred_bytes + size > COATY_DEFERRED_BYTES_MAX:
            raise UsageError(
                "too much was published before the agent was ready for it: wait for `agent.ready()`",
                limit=COATY_DEFERRED_BYTES_MAX,
            )
        self._deferred_bytes += size
        self._deferred.append(publication)
        return []

    def settle(self, now_s: float) -> list[Publication]:
        """All that was deferred, in order and once it is time; join events are its beginning."""
        if self.is_settled or self._until_s is None or now_s < self._until_s:
            return []
        self.is_settled = True
        deferred, self._deferred = self._deferred, []
        return deferred
