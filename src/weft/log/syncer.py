"""The storage thread: it syncs over and over, as long as something is not durable.

Each round covers everything that was appended before it began. So the slower the disk, the more events share a sync.
``flush_wal`` releases the GIL, and the event loop goes on appending.

``SyncRounds`` decides, ``Syncer`` is the thread; a simulation runs the same rounds in virtual time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Protocol, TypeAlias

from weft.errors import StorageError
from weft.log.errors import DiskFull
from weft.log.log import Log

RETRY_S: Final = 0.2  # after a full disk, how long to wait before the next try
SETTLE_S: Final = 0.05  # how old the marks may be after a power cut; no receipt waits for them to be synced

OnDurable: TypeAlias = Callable[[int], None]
OnFailed: TypeAlias = Callable[[StorageError], None]


class SyncThread(Protocol):
    """What keeps a log synced."""

    def start(self) -> None: ...

    def wake(self) -> None:
        """Call this after appending."""

    def stop(self) -> None:
        """Sync the rest and end."""


MakeSyncer: TypeAlias = Callable[[Log, OnDurable, OnFailed], SyncThread]


class SyncRounds:
    """Calls ``on_durable(ticket)`` after every round, and ``on_failed(error)`` when the disk was full.

    Any other error is raised, because then the log cannot keep its promise.
    """

    def __init__(self, log: Log, on_durable: OnDurable, on_failed: OnFailed, settle_s: float) -> None:
        self._log = log
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._settle_s = settle_s
        self._settled = True
        self._settled_at_s = 0.0

    @property
    def has_work(self) -> bool:
        """Whether something is not durable."""
        return self._log.appended != self._log.synced

    @property
    def idle_s_max(self) -> float | None:
        """How long to wait for work before the next round begins without any; None: wait for work only."""
        return None if self._settled else self._settle_s

    def round(self, now_s: Callable[[], float]) -> float:
        """Sync, or settle the marks if there is nothing to sync. Return how long to rest then, whatever is appended
        meanwhile."""
        if not self.has_work:
            self._settle(now_s)
            return 0.0
        try:
            ticket = self._log.sync()
        except DiskFull as error:
            self._on_failed(error)
            return RETRY_S
        self._on_durable(ticket)
        self._settled = False
        if now_s() - self._settled_at_s >= self._settle_s:
            self._settle(now_s)
        return 0.0

    def _settle(self, now_s: Callable[[], float]) -> None:
        with contextlib.suppress(DiskFull):  # the next one will do
            self._log.settle()
        self._settled = True
        self._settled_at_s = now_s()


class Syncer:
    """Calls ``on_durable(ticket)`` from its thread after every round, and ``on_failed(error)`` when a round failed.

    If the disk is full, it tries again until there is room. Any other error ends the thread.
    """

    def __init__(self, log: Log, on_durable: OnDurable, on_failed: OnFailed) -> None:
        self._rounds = SyncRounds(log, on_durable, on_failed, SETTLE_S)
        self._on_failed = on_failed
        self._calls: SimpleQueue[None] = SimpleQueue()  # to wake the thread, with fewer switches than a condition
        self._stopping = False
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="weft-log-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        if self._calls.empty():  # otherwise it is still to take a call, and looks for work then
            self._calls.put(None)

    def stop(self) -> None:
        self._stopping = True
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._wait():
                rest_s = self._rounds.round(time.monotonic)
                if rest_s:
                    self._rest(rest_s)
        except StorageError as error:
            self._on_failed(error)

    def _wait(self) -> bool:
        """Wait for work; return False when there is none and none will come."""
        while not self._rounds.has_work and not self._stopping:
            if not self._was_called(self._rounds.idle_s_max):
                return True
        return self._rounds.has_work and not self._given_up

    def _rest(self, rest_s: float) -> None:
        """Rest, whatever is appended meanwhile. While the disk is full, ``stop`` must not wait for room."""
        end_s = time.monotonic() + rest_s
        while not self._stopping and self._was_called(max(end_s - time.monotonic(), 0)):
            pass
        self._given_up = self._stopping

    def _was_called(self, wait_s: float | None) -> bool:
        """Wait for a call; False: none came in this time. One that came during a round is still there."""
        try:
            self._calls.get(timeout=wait_s)
        except Empty:
            return False
        return True
