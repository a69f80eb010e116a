"""Whether a node has heard what it has to have heard before one of its members begins with a stream.

What was handled is said as events, and events take their time: they are written, synced, sent, written and synced
again, on every hop. Who begins too soon hands out what others have handled. So a node that wants a stream waits until

- what it said itself, that it wants the stream, is durable: others cannot hear it sooner (``Group.is_durable``);
- all that had arrived here when ``settle_s`` was over is durable and read, however slow the disk is (``has_read``);
- it has heard as much of every living node as that node says, in its gossiped state, that there is. A node that has
  just started, or comes back from a split, is behind at first (``caught_up_s``).

Each has a bound, so that a full disk or a node that exaggerates holds up nobody for long.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.model import Epoch, NodeId


class Hearing:
    """``arrived``: a mark behind all that this node has got so far. ``read``: up to which mark it was made durable and
    read. ``patience_s``: how long a node that we are behind with is waited for."""

    def __init__(self, arrived: Callable[[], int], read: Callable[[], int], patience_s: float) -> None:
        self.mark = arrived
        self._read = read
        self._patience_s = patience_s
        self._said: dict[NodeId, tuple[Epoch, int]] = {}  # how many events about groups a living node has said
        self._heard: dict[tuple[NodeId, Epoch], int] = {}  # how many of them are here
        self._behind_s: dict[NodeId, float] = {}  # nodes of which some are not, and since when

    def has_read(self, mark: int) -> bool:
        return self._read() >= mark

    def lives(self, node: NodeId, epoch: Epoch, events: int, now_s: float) -> None:
        """A living node says that it has said so many events about groups."""
        self._said[node] = epoch, events
        self._compare(node, now_s)

    def gone(self, node: NodeId) -> None:
        self._said.pop(node, None)
        self._behind_s.pop(node, None)

    def heard(self, node: NodeId, epoch: Epoch, events: int, now_s: float) -> None:
        """So many more of them are here."""
        self._heard[node, epoch] = self._heard.get((node, epoch), 0) + events
        if node in self._behind_s:
            self._compare(node, now_s)

    def caught_up_s(self, now_s: float) -> float:
        """When everybody has been heard or been waited for long enough; not later than ``now_s``: so it is."""
        return max((since_s + self._patience_s for since_s in self._behind_s.values()), default=now_s)

    def _compare(self, node: NodeId, now_s: float) -> None:
        epoch, events = self._said[node]
        if self._heard.get((node, epoch), 0) >= events:
            self._behind_s.pop(node, None)
        else:
            self._behind_s.setdefault(node, now_s)


def hears_at_once() -> Hearing:
    """Of a node that is told everything the moment it is said."""
    return Hearing(lambda: 0, lambda: 0, 0.0)
