"""Whether a node has heard everything it needs before one of its members begins with a stream.

Nodes publish what was handled as events, and events take time: on every hop they are written, synced and sent. A node
that begins too soon hands out events that others have already handled. So a node that wants a stream waits until

- its own statement that it wants the stream is durable: others cannot hear it sooner (``Group.is_durable``);
- everything that had arrived here by the end of ``settle_s`` is durable and read, however slow the disk is
  (``has_read``);
- it has heard as many events of every living node as that node claims in its gossiped state. A node that has just
  started, or was cut off, is behind at first (``caught_up_s``).

Each wait is bounded, so neither a full disk nor a node that claims too much can hold up others for long.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.model import Epoch, NodeId


class Hearing:
    """``arrived`` returns a mark after everything that this node has received so far. ``read`` returns the mark up to
    which that is durable and read. ``patience_s``: how long to wait for a node whose events we have not all heard."""

    def __init__(self, arrived: Callable[[], int], read: Callable[[], int], patience_s: float) -> None:
        self.mark = arrived
        self._read = read
        self._patience_s = patience_s
        self._said: dict[NodeId, tuple[Epoch, int]] = {}  # how many events about groups a node claims
        self._heard: dict[tuple[NodeId, Epoch], int] = {}  # how many of them have come here
        self._behind_s: dict[NodeId, float] = {}  # nodes of which we have not heard everything yet, and since when

    def has_read(self, mark: int) -> bool:
        return self._read() >= mark

    def lives(self, node: NodeId, epoch: Epoch, events: int, now_s: float) -> None:
        """Note how many events about groups a living node claims to have published."""
        self._said[node] = epoch, events
        self._compare(node, now_s)

    def gone(self, node: NodeId) -> None:
        self._said.pop(node, None)
        self._behind_s.pop(node, None)

    def heard(self, node: NodeId, epoch: Epoch, events: int, now_s: float) -> None:
        """Note that so many more events of a node have come here."""
        self._heard[node, epoch] = self._heard.get((node, epoch), 0) + events
        if node in self._behind_s:
            self._compare(node, now_s)

    def caught_up_s(self, now_s: float) -> float:
        """The time from which this node counts as up to date: it has heard every node, or has waited long enough for
        it. A time later than ``now_s`` means that it is not up to date yet."""
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
