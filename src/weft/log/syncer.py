"""The storage thread: sync over and over, as long as there is something that is not durable.

Each round covers all that was appended before it began, however much came meanwhile; so the slower the disk, the more
events share a sync. ``flush_wal`` lets go of the GIL, and the event loop goes on appending.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from weft.errors import StorageError
from weft.log.errors import DiskFull
from weft.log.log import Log

RETRY_S: Final = 0.2  # after a full disk, how long to wait before the next try
SETTLE_S: Final = (
    0.05  # how far the marks may be behind the log after a power cut; syncing them costs no receipt its time
)


class Syncer:
    """``on_durable(ticket)`` is called from the thread after every round, ``on_failed(error)`` when one did not work.

    A full disk is tried again until there is room. Any other error ends the thread: the log cannot keep its promise.
    """

    def __init__(self, log: Log, on_durable: Callable[[int], None], on_failed: Callable[[StorageError], None]) -> None:
        self._log = log
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._wake = threading.Condition()
        self._stopping = False
        self._given_up = False
        self._settled = True
        self._settled_at_s = 0.0
        self._thread = threading.Thread(target=self._run, name="weft-log-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something was appended."""
        with self._wake:
            self._wake.notify()

    def stop(self) -> None:
        """Sync what is left and end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._wait():
                self._round()
        except StorageError as error:
            self._on_failed(error)

    def _round(self) -> None:
        if self._log.appended == self._log.synced:
            self._settle()
            return
        try:
            ticket = self._log.sync()
        except DiskFull as error:
            self._on_failed(error)
            self._pause()
            return
        self._on_durable(ticket)
        self._settled = False
        if time.monotonic() - self._settled_at_s >= SETTLE_S:
            self._settle()

    def _wait(self) -> bool:
        """Until there is work; False when there is none and none will come."""
        with self._wake:
            while self._log.appended == self._log.synced and not self._stopping:
                if not self._wake.wait(None if self._settled else SETTLE_S):
                    return True
            return self._log.appended != self._log.synced and not self._given_up

    def _settle(self) -> None:
        with contextlib.suppress(DiskFull):  # the next one will do
            self._log.settle()
        self._settled = True
        self._settled_at_s = time.monotonic()

    def _pause(self) -> None:
        """Wait a little, whatever is appended meanwhile. Who stops while the disk is full cannot wait for room."""
        with self._wake:
            self._given_up = self._wake.wait_for(lambda: self._stopping, RETRY_S)
