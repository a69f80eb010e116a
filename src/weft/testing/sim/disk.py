"""A node's disk, and the thread that syncs it, in virtual time: the real rounds, at moments that chance picks."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from weft.errors import StorageError
from weft.log import Log, MemoryStore
from weft.log.errors import DiskFull
from weft.log.memory_store import UNLIMITED
from weft.log.syncer import OnDurable, OnFailed, SyncRounds
from weft.testing.sim.loop import SimLoop

WORN_OUT: Final = "the disk no longer writes"


class SimStore(MemoryStore):
    """``refuses``: it takes what is written, and has no room when that is synced. ``worn_out``: it never syncs."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = False
        self.worn_out = False
        self.refusals = 0

    def sync(self) -> None:
        if self.worn_out:
            raise StorageError(WORN_OUT)
        if self.refuses:
            self.refusals += 1
            raise DiskFull("no room for a sync", need=1, have=0)
        super().sync()

    def fill(self) -> None:
        self.disk_bytes_max = self.disk_bytes()

    def make_room(self) -> None:
        self.disk_bytes_max = UNLIMITED
        self.refuses = False

    def mend(self) -> None:
        """Nobody starts a node on a disk that is full or worn out."""
        self.make_room()
        self.worn_out = False


@dataclass(slots=True)
class Disk:
    """``sync_s_max``: how long a sync may take. ``inline``: the node found it quick when it started."""

    sync_s_max: float
    settle_s: float
    inline: bool
    store: SimStore


class SimSyncer:
    """SyncThread. A sync makes things durable at some moment, and is heard of at a later one; a crash may come in
    between."""

    def __init__(
        self, loop: SimLoop, chance: Random, disk: Disk, log: Log, on_durable: OnDurable, on_failed: OnFailed
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._disk = disk
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._rounds = SyncRounds(log, self._durable, on_failed, disk.settle_s)
        self._busy = False  # a round is about to come, whatever is appended meanwhile
        self._idle = 0  # counts times without work; a round that was planned in one of them is for that one
        self._untold: int | None = None  # what the last round made durable
        self._over = False

    def start(self) -> None:
        pass

    def wake(self) -> None:
        if not self._busy and not self._over and self._rounds.has_work:
            self._begin(0.0)

    def stop(self) -> None:
        """As a thread does that is joined: at once, here."""
        self._tell()
        self._busy = True
        while self._rounds.has_work and not self._over:
            if self._round():
                break  # who stops while the disk is full cannot wait for room
            self._tell()
        self._over = True

    def _begin(self, rest_s: float) -> None:
        self._busy = True
        self._idle += 1
        self._loop.plan(rest_s + self._chance.random() * self._disk.sync_s_max, self._work)

    def _work(self) -> None:
        if self._over:
            return
        rest_s = self._round()
        if self._untold is not None:
            self._loop.plan(self._chance.random() * self._disk.sync_s_max, self._go_on)
        else:
            self._next(rest_s)

    def _go_on(self) -> None:
        if not self._over:
            self._tell()
            self._next(0.0)

    def _next(self, rest_s: float) -> None:
        self._busy = False
        if self._rounds.has_work:
            self._begin(rest_s)
        elif (idle_s := self._rounds.idle_s_max) is not None:
            self._loop.plan(idle_s, lambda idle=self._idle: self._settle(idle))  # type: ignore[misc]

    def _settle(self, idle: int) -> None:
        if not self._busy and not self._over and idle == self._idle:
            self._round()

    def _round(self) -> float:
        try:
            return self._rounds.round(self._loop.time)
        except StorageError as error:
            self._over = True
            self._on_failed(error)
            return 0.0

    def _durable(self, ticket: int) -> None:
        self._untold = ticket

    def _tell(self) -> None:
        if self._untold is not None:
            ticket, self._untold = self._untold, None
            self._on_durable(ticket)
