"""Streams of peers that have not said hello yet: few per certificate, so that silent ones keep nobody else out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from weft.transport.peers.dialler import ClosedHere
from weft.transport.peers.gate import Proof

GREETINGS_OF_NODE_MAX: Final = 16  # streams of one certificate: a link has two, and its replacement two more
GREETINGS_PLAIN_MAX: Final = 1024  # streams without certificates, from all nodes on this machine together


class Greetings:
    """Counts streams from their beginning to their hello, which has a deadline. After that, links are counted."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def waiting(self, proof: Proof | None) -> Iterator[None]:
        """Raise ClosedHere if the caller has too many already."""
        key, most = ("", GREETINGS_PLAIN_MAX) if proof is None else (proof.name, GREETINGS_OF_NODE_MAX)
        if self._waiting[key] >= most:
            raise ClosedHere("too many streams without a hello", limit=most)
        self._waiting[key] += 1
        try:
            yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
