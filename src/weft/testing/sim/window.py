"""PL-04: what a node has sent to its peers and is not acknowledged, held against the bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from weft.core.messages import Copy
from weft.model import NodeId, Position
from weft.testing.sim.schedule import Violation
from weft.testing.sim.truth import StreamKey

WINDOWS_MAX: Final = 4


@dataclass(slots=True)
class Flying:
    """Copies under way to one peer: per stream, where each batch ends and its bytes."""

    batches: dict[StreamKey, list[tuple[int, int]]] = field(default_factory=dict)
    progress_s: float = 0.0  # when something was last acknowledged, or nothing was under way

    @property
    def bytes(self) -> int:
        return sum(size for batches in self.batches.values() for _, size in batches)


class Window:
    """What has not been acknowledged for ``timeout_s`` may be sent again, and no longer counts.

    Nor does what a node has sent of streams that it no longer serves, as routes come and go. That is not to be seen
    from here, so the bound is a few windows.
    """

    def __init__(self, me: NodeId, bytes_max: int, timeout_s: float) -> None:
        self._me = me
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s
        self._flying: defaultdict[NodeId, Flying] = defaultdict(Flying)

    def clear(self) -> None:
        self._flying.clear()

    def forget(self, peer: NodeId) -> None:
        self._flying.pop(peer, None)

    def sent(self, peer: NodeId, copies: Iterable[Copy], now_s: float) -> None:
        flying = self._flying[peer]
        if not flying.bytes or now_s - flying.progress_s >= self._timeout_s:
            flying.batches.clear()
            flying.progress_s = now_s
        largest = 0
        for copy in copies:
            batches = flying.batches.setdefault((copy.stream, copy.epoch), [])
            # What is sent again replaces what was sent before.
            batches[:] = [each for each in batches if each[0] < copy.batch.end_offset]
            batches.append((copy.batch.end_offset, len(copy.batch.data)))
            largest = max(largest, len(copy.batch.data))
        if flying.bytes > WINDOWS_MAX * self._bytes_max + largest:
            raise Violation(f"{self._me} has {flying.bytes} bytes under way to {peer}; the window is {self._bytes_max}")

    def acked(self, peer: NodeId, positions: Iterable[Position], now_s: float) -> None:
        flying = self._flying[peer]
        for position in positions:
            batches = flying.batches.get((position.stream, position.epoch), [])
            left = [each for each in batches if each[0] > position.offset]
            if len(left) < len(batches):
                batches[:] = left
                flying.progress_s = now_s

    def resumed(self, peer: NodeId, origins: Iterable[NodeId]) -> None:
        """The peer has told what it has of these origins' streams, or left: nothing of them counts as under way."""
        flying = self._flying[peer]
        for key in [key for key in flying.batches if key[0].origin in origins]:
            del flying.batches[key]
