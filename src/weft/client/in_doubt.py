"""Batches that were sent to a node which then was gone before it acknowledged them. Pure.

They may be in that node's log. Only that node can tell, by producer and sequence, so they wait for it, in order, and go
nowhere else: anywhere else they could be there twice (SDK-01). Who waits too long is given up and told so.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.client.chunk import Chunk


class InDoubt:
    """Per node id, what it may have, in the order it was sent, and until when it is waited for."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._chunks: dict[str, dict[Chunk, float]] = {}  # to the time it is given up
        self._addresses: dict[str, str] = {}  # where the node was reached

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
        """Everything for this node, in order: it is there again, and whoever takes this sends it."""
        self._addresses.pop(node, None)
        return list(self._chunks.pop(node, {}))

    def expire(self, now_s: float) -> list[tuple[str, Chunk]]:
        """What has waited too long, with the node it waited for; it is not kept any more."""
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
