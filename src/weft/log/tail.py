"""Readers that wait for more without asking over and over: they are woken by the sync that brought it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from weft.limits import READ_BYTES_MAX
from weft.log.log import Advanced, Log
from weft.model import Batch, Epoch, Stream


class TailReader:
    """Reads one stream from an offset on, and waits at its end. For threads; ``with`` it, or ``close`` it."""

    def __init__(self, log: Log, stream: Stream, epoch: Epoch, first: int) -> None:
        self.next_offset = first
        self._log = log
        self._stream = stream
        self._epoch = epoch
        self._more = threading.Condition()
        self._closed = False
        log.on_synced(self._advanced)

    def read(self, timeout_s: float | None, bytes_max: int = READ_BYTES_MAX) -> list[bytes]:
        """The next stored batches; empty when the time is over, or the reader or the log is closed."""
        with self._more:
            self._more.wait_for(lambda: self._is_closed() or self._has_more(), timeout_s)
        while not self._is_closed() and self._has_more():
            batches = self._log.read(self._stream, self._epoch, self.next_offset, bytes_max=bytes_max)
            if batches:
                self.next_offset = Batch.read_stored(batches[-1]).end_offset
                return batches
            self.next_offset = self._durable()  # all up to there was taken by compaction
        return []

    def close(self) -> None:
        self._log.remove_on_synced(self._advanced)
        with self._more:
            self._closed = True
            self._more.notify_all()

    def _has_more(self) -> bool:
        return self._durable() > self.next_offset

    def _durable(self) -> int:
        return self._log.state(self._stream, self._epoch).durable

    def _is_closed(self) -> bool:
        return self._closed or self._log.closed

    def _advanced(self, advanced: Advanced) -> None:
        if (self._stream, self._epoch) in advanced:
            with self._more:
                self._more.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
