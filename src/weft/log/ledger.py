"""The keeper of the promises: it knows what was promised, and writes each change to the store's file of marks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weft.limits import MIB
from weft.log.errors import DiskFull
from weft.log.promises import (
    Promised,
    Promises,
    Tally,
    encode_settled,
    encode_starts,
    encode_stream,
    encode_synced,
    settle,
)
from weft.log.store import Store

# The file is rewritten once it has grown by this much and has doubled, so rewriting never costs more than appending.
GROWTH_BYTES_MIN: Final = MIB


@dataclass(frozen=True, slots=True)
class Group:
    """What one sync makes durable."""

    ticket: int
    sequence: int
    tallies: list[Tally]
    named: Mapping[int, Promised]  # streams that are new
    ends: Mapping[int, int]


class Ledger:
    """``promises`` is what was found on opening; the file is rewritten at once."""

    def __init__(self, store: Store, promises: Promises) -> None:
        self._store = store
        self._promises = promises
        self._lock = threading.Lock()
        self._tidying = threading.Lock()  # taken first: its holder may replace the file
        promises.fingerprint = store.fingerprint()
        self._rewrite()

    def synced(self, group: Group) -> None:
        """Promise what a sync has made durable. When this returns, receipts may go out."""
        with self._lock:
            promises = self._promises
            data = encode_synced(group.sequence, group.tallies, group.ends.items())
            if group.named:
                data = b"".join([*(encode_stream(number, each) for number, each in group.named.items()), data])
            self._append(data)
            promises.streams.update(group.named)
            promises.sequence = group.sequence
            for tally in group.tallies:
                promises.tallies[tally.segment] = tally
            for number, end in group.ends.items():
                promises.streams[number].end = end

    def started(self, number: int, start: int) -> None:
        """Stop promising what retention deletes."""
        with self._lock:
            promised = self._promises.streams.get(number)
            if promised is not None and promised.start != start:  # None: a new stream, to be named with this start
                self._append(encode_starts([(number, start)]))
                promised.start = start

    def settled(self, segment: int) -> None:
        """Note that everything up to this segment is in table files."""
        with self._lock:
            fingerprint = self._store.fingerprint()
            self._append(encode_settled(segment, self._promises.epoch, fingerprint))
            settle(self._promises, segment, fingerprint)

    def tidy(self) -> None:
        """Rewrite the file if it has grown too long, and make sure that it survives a power cut."""
        with self._tidying:
            with self._lock:
                if self._grown > max(GROWTH_BYTES_MIN, self._size):
                    with contextlib.suppress(DiskFull):  # the long file says the same
                        self._rewrite()
            # Not under the lock: the event loop may be waiting for it, to promise what it has synced.
            self._store.settle_marks()

    def _append(self, data: bytes) -> None:
        self._store.append_marks(data)
        self._grown += len(data)

    def _rewrite(self) -> None:
        data = self._promises.encode()
        self._store.replace_marks(data)
        self._size = len(data)
        self._grown = 0
