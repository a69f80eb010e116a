"""Batches that were sent to a node that was lost before it acknowledged them. Pure.

They may be in that node's log. Only that node can tell, by producer and sequence. So they wait until it is back, in
order, and are sent to no other node, where they could be a second copy (SDK-01). Batches that wait too long are given
up, and their publishers get an error.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.client.chunk import Chunk


class InDoubt:
    """For each node id: the chunks that the node may have, in the order in which they were sent, and how long each
    waits."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._chunks: dict[str, dict[Chunk, float]] = {}  # with the time at which each is given up
        self._addresses: dict[str, str] = {}  # the address at which the node was last reached

    def add(self, node: str, address: str, chunks: Iterable[Chunk], now_s: float) -> None:
        """The link to this node broke with these chunks under way."""
        waiting = self._chunks.setdefault(node, {})
        waiting.update((chunk, now_s + self._timeout_s) for chunk in chunks)
        if not waiting:
            del self._chunks[node]
            return
        self._chunks[node] = dict(sorted(waiting.items(), key=lambda item: item[0].sequence))
        self._addresses[node] = address

    def take(self, node: str) -> list[Chunk]:
        """The node is back: take everything that waits for it, in order, to send it."""
        self._addresses.pop(node, None)
        return list(self._chunks.pop(node, {}))

    def expire(self, now_s: float) -> list[tuple[str, Chunk]]:
        """Remove what has waited too long, and return it with its node."""
        given_up = [
            (node, chunk)
            for node, chunks in self._chunks.items()
            for chunk, until_s in chunks.items()
            if until_s <= now_s
        ]
        for node, chunk in given_up:
            del self._chunks[node][chunk]
            if not self._chunks[node]:
                self.take(node)
        return given_up

    @property
    def next_expiry_s(self) -> float | None:
        return min((until_s for chunks in self._chunks.values() for until_s in chunks.values()), default=None)

    @property
    def nodes(self) -> dict[str, str]:
        """The nodes that are waited for, each with its last known address."""
        return dict(self._addresses)
