"""Whether a node has heard everything it needs before one of its members begins with a stream.

What was handled is published as events, and events take time: on every hop they are written, synced and sent. A node
that begins too soon hands out what others have handled. So a node that wants a stream waits until

- its own statement that it wants the stream is durable: others cannot hear it sooner (``Group.is_durable``);
- everything that had arrived here when ``settle_s`` was over is durable and read, however slow the disk is
  (``has_read``);
- it has heard as many events of every living node as that node claims in its gossiped state. A node that has just
  started, or was cut off, is behind at first (``caught_up_s``).

Each wait is bounded, so that a full disk or a node that claims too much holds up nobody for long.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.model import Epoch, NodeId


class Hearing:
    """``arrived``: a mark behind everything that this node has got so far. ``read``: the mark up to which it is durable
    and read. ``patience_s``: how long to wait for a node whose events we have not all heard."""

    def __init__(self, arrived: Callable[[], int], read: Callable[[], int], patience_s: float) -> None:
        self.mark = arrived
        self._read = read
        self._patience_s = patience_s
        self._said: dict[NodeId, tuple[Epoch, int]] = {}  # how many events about groups a node claims
        self._heard: dict[tuple[NodeId, Epoch], int] = {}  # how many of them have come here
        self._behind_s: dict[NodeId, float] = {}  # nodes that we are behind with, and since when

    def has_read(self, mark: int) -> bool:
        return self._read() >= mark

    def lives(self, node: NodeId, epoch: Epoch, events: int, now_s: float) -> None:
        """A living node claims to have said so many events about groups."""
        self._said[node] = epoch, events
        self._compare(node, now_s)

    def gone(self, node: NodeId) -> None:
        self._said.pop(node, None)
        self._behind_s.pop(node, None)

    def heard(self, node: NodeId, epoch: Epoch, events: int, now_s: float) -> None:
        """So many more of its events have come here."""
        self._heard[node, epoch] = self._heard.get((node, epoch), 0) + events
        if node in self._behind_s:
            self._compare(node, now_s)

    def caught_up_s(self, now_s: float) -> float:
        """When everybody had been heard, or waited for long enough. If it is not later than ``now_s``, this node is up
        to date."""
        return max((since_s + self._patience_s for since_s in self._behind_s.values()), default=now_s)

    def _compare(self, node: NodeId, now_s: float) -> None:
        epoch, events = self._said[node]
        if self._heard.get((node, epoch), 0) >= events:
            self._behind_s.pop(node, None)
        else:
            self._behind_s.setdefault(node, now_s)


def hears_at_once() -> Hearing:
    """For a node that hears everything the moment it is said."""
    return Hearing(lambda: 0, lambda: 0, 0.0)
