"""The log of a running node, the thread that syncs it, and how the event loop hears of a sync.

The thread syncs over and over as long as there is something to sync. However many syncs pass while the loop is busy,
the loop is woken once, and gets everything that they made durable together.

If the disk is quick, the loop itself syncs small writes: that saves two thread switches, and what comes meanwhile waits
in the sockets and shares the next write. Big writes are left to the thread, so that the loop can take more of them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.core.messages import StreamKey, Synced
from weft.errors import StorageError
from weft.limits import KIB
from weft.log import Log, open_log
from weft.log.errors import DiskFull
from weft.log.log import Advanced
from weft.log.syncer import SETTLE_S, MakeSyncer
from weft.model import Epoch

SMALL_BYTES: Final = 4 * KIB  # one block of the disk: writing more takes longer than a thread switch
QUICK_SYNC_S: Final = 0.001  # how long the loop may stand still, on average
AVERAGED: Final = 8  # syncs
SLOW_S: Final = 4 * QUICK_SYNC_S  # a sync counts as no slower than this: every disk is slow now and then
SLOW_PAUSE_S: Final = 1.0  # after slow syncs, the loop leaves them to the thread for so long; if the next one is slow,
SLOW_PAUSE_S_MAX: Final = 60.0  # for twice as long, and so on, up to this


def mint_epoch() -> Epoch:
    """Milliseconds since 1970: later than the epoch of every log that this node has lost before."""
    return Epoch(time.time_ns() // 1_000_000)


def open_node_log(path: Path, segment_bytes: int, disk_reserve_bytes: int, prepared_bytes: int) -> Log:
    """Like ``open_log``. LogDamaged says what is gone; ``weft log check`` and ``weft log repair`` help."""
    return open_log(
        path,
        mint_epoch,
        segment_bytes=segment_bytes,
        disk_reserve_bytes=disk_reserve_bytes,
        prepared_bytes=prepared_bytes,
    )


class Storage:
    """Calls ``on_synced`` on the loop after a sync, and ``on_failed`` when the log can no longer keep its promise.

    ``on_sync_time`` gets the seconds that each sync took, in the thread that did it. ``disk_full``: the error of the
    last sync. ``inline``: the loop syncs small writes. ``now_s`` is a monotonic clock, and ``make_syncer`` makes the
    thread; a simulation replaces both.
    """

    def __init__(
        self,
        log: Log,
        on_synced: Callable[[Synced], None],
        on_failed: Callable[[StorageError], None],
        on_sync_time: Callable[[float], None],
        inline: bool,
        now_s: Callable[[], float],
        make_syncer: MakeSyncer,
    ) -> None:
        self.log = log
        self.disk_full: DiskFull | None = None
        self._loop = asyncio.get_running_loop()
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._on_sync_time = on_sync_time
        self._syncer = make_syncer(log, self._durable, self._failed)
        self._lock = threading.Lock()  # guards what the thread leaves for the loop
        self._advanced: dict[StreamKey, int] = {}
        self._ticket = 0
        self._posted = False  # the loop was woken, and has not looked yet
        self._begun_s: float | None = None  # when the current sync began; None: the thread has nothing to do
        self._told = asyncio.Event()
        self._inline = inline
        self._now_s = now_s
        self._inline_from_s = 0.0
        self._average_s = QUICK_SYNC_S  # of the loop's own syncs; the first one decides
        self._pause_s = SLOW_PAUSE_S
        self._settle_timer: asyncio.TimerHandle | None = None
        self._settling: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.log.on_synced(self._note)
        self._syncer.start()

    def wake(self) -> None:
        """Get everything synced that was appended. Call this on the loop."""
        if self.log.appended == self.log.synced:
            return
        if self._inline and self._begun_s is None and self.log.unsynced_bytes <= SMALL_BYTES:
            now_s = self._now_s()
            if now_s >= self._inline_from_s:
                self._sync_inline(now_s)
                return
        self.wake_thread()

    def wake_thread(self) -> None:
        """Do the same from any thread."""
        if self.log.appended != self.log.synced:
            if self._begun_s is None:
                self._begun_s = self._now_s()
            self._syncer.wake()

    def _sync_inline(self, now_s: float) -> None:
        try:
            ticket = self.log.sync()
        except DiskFull:
            self.wake_thread()  # which tries again until there is room
            return
        except StorageError as error:
            self._on_failed(error)
            return
        taken_s = self._now_s() - now_s
        self._on_sync_time(taken_s)
        self._judge_disk(now_s, taken_s)
        with self._lock:
            self._ticket = ticket
            self._posted = True
            self.disk_full = None
        if self._settle_timer is None:
            self._settle_timer = self._loop.call_later(SETTLE_S, self._begin_settling)
        self._tell()

    def _judge_disk(self, now_s: float, taken_s: float) -> None:
        """Decide whether the loop may wait for the next sync, too."""
        self._average_s += (min(taken_s, SLOW_S) - self._average_s) / AVERAGED
        if self._average_s > QUICK_SYNC_S:
            self._average_s = QUICK_SYNC_S
            self._inline_from_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, SLOW_PAUSE_S_MAX)
        else:
            self._pause_s = SLOW_PAUSE_S

    def _begin_settling(self) -> None:
        self._settle_timer = None
        if self._settling is not None and not self._settling.done():
            self._settle_timer = self._loop.call_later(SETTLE_S, self._begin_settling)  # for what came since it began
            return
        self._settling = self._loop.create_task(self._settle())

    async def _settle(self) -> None:
        """Make the marks durable, too, as the thread does after its own syncs. Nobody waits for that."""
        try:
            await asyncio.to_thread(self.log.settle)
        except DiskFull:
            pass  # the next one will do
        except StorageError as error:
            self._on_failed(error)

    async def wait_synced(self) -> None:
        """Wait until everything appended is durable and reported."""
        while self.log.appended != self.log.synced or self._posted:
            self._told.clear()
            await self._told.wait()

    async def close(self) -> None:
        """Sync the rest, end the thread, close the log. What the last sync made durable is still reported."""
        await asyncio.to_thread(self._syncer.stop)
        if self._settle_timer is not None:
            self._settle_timer.cancel()  # closing the log settles
        if self._settling is not None:
            await self._settling  # not cancelled: its thread uses what is closed next
        self._tell()
        self.log.remove_on_synced(self._note)
        await asyncio.to_thread(self.log.close)

    # --- in the syncing thread -----------------------------------------------------------------------------------

    def _note(self, advanced: Advanced) -> None:
        with self._lock:
            self._advanced.update(advanced)

    def _durable(self, ticket: int) -> None:
        now_s = self._now_s()
        if self._begun_s is not None:
            self._on_sync_time(now_s - self._begun_s)
        self._begun_s = None if ticket == self.log.appended else now_s  # the next one begins at once
        with self._lock:
            self._ticket = ticket
            self.disk_full = None
            if self._posted:
                return
            self._posted = True
        self._loop.call_soon_threadsafe(self._tell)

    def _failed(self, error: StorageError) -> None:
        if isinstance(error, DiskFull):
            self.disk_full = error
        else:
            self._loop.call_soon_threadsafe(self._on_failed, error)

    # --- on the loop ---------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        with self._lock:
            if not self._posted:
                return
            self._posted = False
            ticket, advanced = self._ticket, self._advanced
            self._advanced = {}
        self._on_synced(Synced(ticket, advanced))
        self._told.set()
