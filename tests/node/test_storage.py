"""How the loop hears of syncs: by the thread, or by its own hand when a small write meets a quick disk."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.node.raw_client import batch_of
from weft.core.messages import Synced
from weft.errors import StorageError
from weft.log import Log, MemoryStore, open_store
from weft.log.errors import DiskFull
from weft.log.syncer import Syncer
from weft.model import Epoch, NodeId, Stream, Topic
from weft.node import storage as room
from weft.node.storage import Storage

STREAM = Stream(Topic("plant.t"), NodeId("a"), 0)


class Bench:
    """A storage on a log in memory, what it said, and in which threads the syncs were."""

    def __init__(self, inline: bool) -> None:
        self.log: Log = open_store(MemoryStore(), lambda: Epoch(1))
        self.said: list[Synced] = []
        self.failures: list[StorageError] = []
        self.threads: list[str] = []
        self.times_s: list[float] = []
        self.changed = asyncio.Event()
        self._sync = self.log.store.sync
        self.log.store.sync = self._noting_sync  # type: ignore[method-assign]
        self.trouble: Callable[[], None] = lambda: None
        self.storage = Storage(
            self.log, self._synced, self._failed, self.times_s.append, inline, time.monotonic, Syncer
        )
        self.storage.start()

    def _noting_sync(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.trouble()
        self._sync()

    def _synced(self, synced: Synced) -> None:
        self.said.append(synced)
        self.changed.set()

    def _failed(self, error: StorageError) -> None:
        self.failures.append(error)
        self.changed.set()

    def append(self, payload: bytes = b"x") -> int:
        return self.log.append(STREAM, batch_of(payload)).ticket

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@contextmanager
def stuck(bench: Bench) -> Iterator[None]:
    """The thread is in the middle of a sync for as long as this lasts."""
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        leave.wait(30)

    bench.trouble = wait
    bench.append()
    bench.storage.wake_thread()
    assert entered.wait(30)
    bench.trouble = lambda: None
    try:
        yield
    finally:
        leave.set()


async def test_all_that_several_syncs_brought_is_told_at_once() -> None:
    bench = Bench(inline=False)
    last = 0
    for _ in range(5):  # the loop does not turn meanwhile
        last = bench.append()
        bench.storage.wake()
        while bench.log.synced < last:
            pass
    await bench.until(lambda: bench.said and bench.said[-1].ticket == last)
    assert len(bench.said) <= 2  # the thread may have been between its sync and saying so
    assert bench.said[0].advanced == {(STREAM, 1): 5}
    assert set(bench.threads) == {"weft-log-sync"}
    await bench.storage.close()


async def test_a_small_write_is_synced_by_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "QUICK_SYNC_S", 1000.0)

    bench = Bench(inline=True)
    for _ in range(3):
        ticket = bench.append()
        bench.storage.wake()
        assert bench.said[-1] == Synced(ticket, {(STREAM, Epoch(1)): ticket})
    assert bench.threads == ["MainThread"] * 3
    assert len(bench.times_s) == 3
    await bench.storage.close()


async def test_the_marks_follow_a_sync_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(inline=True)
    settled = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(bench.log, "settle", lambda: loop.call_soon_threadsafe(settled.set))
    bench.append()
    bench.storage.wake()
    await asyncio.wait_for(settled.wait(), 30)
    await bench.storage.close()


async def test_a_big_write_is_the_threads() -> None:
    bench = Bench(inline=True)
    bench.append(bytes(room.SMALL_BYTES))
    bench.storage.wake()
    await bench.until(lambda: bench.said)
    assert bench.threads == ["weft-log-sync"]
    await bench.storage.close()


class Disk:
    """A clock, and a disk that takes a while by it."""

    def __init__(self, bench: Bench) -> None:
        self.now_s = 100.0
        self.takes_s = 0.0
        bench.storage._now_s = lambda: self.now_s
        bench.trouble = self._take

    def _take(self) -> None:
        self.now_s += self.takes_s


async def test_a_slow_disk_is_left_to_the_thread_for_longer_and_longer() -> None:
    bench = Bench(inline=True)
    disk = Disk(bench)
    disk.takes_s = 2 * room.QUICK_SYNC_S
    in_thread_s = []
    for _ in range(3):
        begun_s, before = disk.now_s, len(bench.threads)
        while "MainThread" not in bench.threads[before:]:
            disk.now_s += 0.25
            bench.append()
            bench.storage.wake()
            await bench.storage.wait_synced()
        in_thread_s.append(disk.now_s - begun_s)
    assert in_thread_s[1:] == pytest.approx([room.SLOW_PAUSE_S, 2 * room.SLOW_PAUSE_S], abs=0.3)
    await bench.storage.close()


async def test_a_slow_sync_among_quick_ones_changes_nothing() -> None:
    """Once, the disk takes a hundred times as long as it may."""

    bench = Bench(inline=True)
    disk = Disk(bench)
    for number in range(room.AVERAGED + 2):
        disk.takes_s = 100 * room.QUICK_SYNC_S if number == room.AVERAGED else 0.0
        bench.append()
        bench.storage.wake()
    assert set(bench.threads) == {"MainThread"}
    await bench.storage.close()


async def test_the_loop_does_not_wait_for_a_thread_that_is_at_it() -> None:
    bench = Bench(inline=True)
    with stuck(bench):
        ticket = bench.append()
        bench.storage.wake()
        assert bench.said == []
    await bench.until(lambda: bench.said and bench.said[-1].ticket == ticket)
    assert set(bench.threads) == {"weft-log-sync"}
    await bench.storage.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_a_full_disk_is_tried_again(inline: bool) -> None:
    bench = Bench(inline)
    tries = iter(range(3))

    def full() -> None:
        if next(tries, None) is not None:
            raise DiskFull("no room")

    bench.trouble = full
    ticket = bench.append()
    bench.storage.wake()
    await bench.until(lambda: bench.said)
    assert bench.said[-1].ticket == ticket
    assert bench.storage.disk_full is None
    assert bench.failures == []
    await bench.storage.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_a_log_that_fails_is_told(inline: bool) -> None:
    bench = Bench(inline)

    def fire() -> None:
        raise StorageError("on fire")

    bench.trouble = fire
    bench.append()
    bench.storage.wake()
    await bench.until(lambda: bench.failures)
    assert [error.what for error in bench.failures] == ["on fire"]
    assert bench.said == []
    bench.trouble = lambda: None
    await bench.storage.close()


async def test_closing_syncs_what_is_left_and_tells() -> None:
    bench = Bench(inline=False)
    ticket = bench.append()
    await bench.storage.close()
    assert bench.said[-1].ticket == ticket
    assert bench.log.closed


async def test_waiting_until_everything_is_durable_and_told() -> None:
    bench = Bench(inline=False)
    ticket = bench.append()
    bench.storage.wake()
    await asyncio.wait_for(bench.storage.wait_synced(), 30)
    assert bench.said[-1].ticket == ticket
    await bench.storage.close()
