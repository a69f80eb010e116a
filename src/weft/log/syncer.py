"""The storage thread: sync over and over, as long as there is something that is not durable.

Each round covers all that was appended before it began, however much came meanwhile; so the slower the disk, the more
events share a sync. ``flush_wal`` lets go of the GIL, and the event loop goes on appending.

``SyncRounds`` decides and ``Syncer`` is its thread; a simulation has the same rounds in virtual time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from weft.errors import StorageError
from weft.log.errors import DiskFull
from weft.log.log import Log

RETRY_S: Final = 0.2  # after a full disk, how long to wait before the next try
SETTLE_S: Final = (
    0.05  # how far the marks may be behind the log after a power cut; syncing them costs no receipt its time
)

OnDurable: TypeAlias = Callable[[int], None]
OnFailed: TypeAlias = Callable[[StorageError], None]


class SyncThread(Protocol):
    """What keeps a log synced."""

    def start(self) -> None: ...

    def wake(self) -> None:
        """Something was appended."""

    def stop(self) -> None:
        """Sync what is left and end."""


MakeSyncer: TypeAlias = Callable[[Log, OnDurable, OnFailed], SyncThread]


class SyncRounds:
    """``on_durable(ticket)`` is called after every round, ``on_failed(error)`` when the disk was full.

    Any other error is raised: the log cannot keep its promise.
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
        """Something is not durable."""
        return self._log.appended != self._log.synced

    @property
    def idle_s_max(self) -> float | None:
        """Without work, how long until the next round all the same; None: there need not be one."""
        return None if self._settled else self._settle_s

    def round(self, now_s: Callable[[], float]) -> float:
        """Sync, or settle where there is nothing to sync; how long to rest then, whatever is appended meanwhile."""
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
    """``on_durable(ticket)`` is called from the thread after every round, ``on_failed(error)`` when one did not work.

    A full disk is tried again until there is room. Any other error ends the thread.
    """

    def __init__(self, log: Log, on_durable: OnDurable, on_failed: OnFailed) -> None:
        self._rounds = SyncRounds(log, on_durable, on_failed, SETTLE_S)
        self._on_failed = on_failed
        self._wake = threading.Condition()
        self._stopping = False
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="weft-log-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        with self._wake:
            self._wake.notify()

    def stop(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify()
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
        """Until there is work; False when there is none and none will come."""
        with self._wake:
            while not self._rounds.has_work and not self._stopping:
                if not self._wake.wait(self._rounds.idle_s_max):
                    return True
            return self._rounds.has_work and not self._given_up

    def _rest(self, rest_s: float) -> None:
        """Whatever is appended meanwhile. Who stops while the disk is full cannot wait for room."""
        with self._wake:
            self._given_up = self._wake.wait_for(lambda: self._stopping, rest_s)
