"""The storage thread: one sync for many appends, receipts after it, and what it does when a sync fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar
from unittest import mock

import pytest

from tests.log.laboratory import EPOCH, numbered, numbers, payloads, stream
from weft.errors import StorageError
from weft.log import Log, MemoryStore, open_store
from weft.log.errors import DiskFull
from weft.log.syncer import RETRY_S, Syncer, SyncRounds

TEMP = stream("plant.temp")
PATIENCE_S = 30
What = TypeVar("What")


class ScriptedStore(MemoryStore):
    """A store whose syncs wait for permission, or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Semaphore(0)
        self.permitted = threading.Semaphore(1 << 20)
        self.failures: list[StorageError] = []
        self.syncs = 0
        self.settled = threading.Event()

    def sync(self) -> None:
        self.entered.release()
        assert self.permitted.acquire(timeout=PATIENCE_S)
        if self.failures:
            raise self.failures.pop(0)
        self.syncs += 1
        super().sync()

    def settle_marks(self) -> None:
        super().settle_marks()
        self.settled.set()


class Watcher:
    """Waits for what a syncer reports."""

    def __init__(self, log: Log) -> None:
        self.durable: list[int] = []
        self.failed: list[StorageError] = []
        self._changed = threading.Condition()
        self.syncer = Syncer(log, self._on(self.durable), self._on(self.failed))

    def _on(self, told: list[What]) -> Callable[[What], None]:
        def tell(what: What) -> None:
            with self._changed:
                told.append(what)
                self._changed.notify_all()

        return tell

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S)


@pytest.fixture
def store() -> ScriptedStore:
    return ScriptedStore()


@pytest.fixture
def log(store: ScriptedStore) -> Log:
    return open_store(store, lambda: EPOCH)


@pytest.fixture
def watcher(log: Log) -> Watcher:
    return Watcher(log)


@pytest.mark.req("LOG-01")
def test_what_comes_during_a_sync_shares_the_next_one(log: Log, store: ScriptedStore, watcher: Watcher) -> None:
    while store.permitted.acquire(blocking=False):
        pass
    before = store.syncs
    first = log.append(TEMP, numbered(0, 1))
    store.entered = threading.Semaphore(0)
    watcher.syncer.start()
    assert store.entered.acquire(timeout=PATIENCE_S), "a sync has begun"
    last = [log.append(TEMP, numbered(number, 1)) for number in range(1, 50)][-1]
    watcher.syncer.wake()
    assert not watcher.durable
    store.permitted.release(10)
    watcher.wait_for(lambda: watcher.durable[-1:] == [last.ticket])
    watcher.syncer.stop()
    assert watcher.durable == [first.ticket, last.ticket]
    assert store.syncs - before == 2
    assert numbers(payloads(log, TEMP)) == list(range(50))


@pytest.mark.req("LOG-01")
def test_receipts_come_after_the_sync_that_covers_them(log: Log, store: ScriptedStore, watcher: Watcher) -> None:
    watcher.syncer.start()
    for number in range(200):
        ticket = log.append(TEMP, numbered(number, 1)).ticket
        watcher.syncer.wake()
        if number % 10 == 0:
            watcher.wait_for(lambda ticket=ticket: bool(watcher.durable) and watcher.durable[-1] >= ticket)  # type: ignore[misc]
            assert log.info(TEMP, EPOCH).end > number
    watcher.syncer.stop()
    assert watcher.durable == sorted(watcher.durable)
    assert not watcher.failed


def test_a_thread_that_is_called_very_often_during_a_sync_keeps_one_call(
    log: Log, store: ScriptedStore, watcher: Watcher
) -> None:
    """While there is always something to sync, the thread waits for no call, and takes none."""
    while store.permitted.acquire(blocking=False):
        pass
    log.append(TEMP, numbered(0, 1))
    store.entered = threading.Semaphore(0)
    watcher.syncer.start()
    assert store.entered.acquire(timeout=PATIENCE_S), "a sync has begun"
    for _ in range(1000):
        watcher.syncer.wake()
    assert watcher.syncer._calls.qsize() == 1
    store.permitted.release(10)
    watcher.syncer.stop()
    assert log.synced == log.appended


def test_stopping_syncs_what_is_left(log: Log, watcher: Watcher) -> None:
    watcher.syncer.start()
    tickets = [log.append(TEMP, numbered(number, 1)).ticket for number in range(20)]
    watcher.syncer.stop()
    assert watcher.durable[-1] == tickets[-1]
    assert log.synced == log.appended


def test_a_sync_does_not_wait_for_marks_that_are_on_their_way_to_the_disk(log: Log, store: ScriptedStore) -> None:
    """The event loop syncs what is small by itself: it must not stand still for a file that no receipt needs."""
    begun, over = threading.Event(), threading.Event()

    def slowly() -> None:
        begun.set()
        assert over.wait(PATIENCE_S)

    log.append(TEMP, numbered(0, 1))
    log.sync()
    with mock.patch.object(store, "settle_marks", slowly):
        settling = threading.Thread(target=log.settle)
        settling.start()
        assert begun.wait(PATIENCE_S)
        ticket = log.append(TEMP, numbered(1, 1)).ticket
        syncing = threading.Thread(target=log.sync)
        syncing.start()
        syncing.join(PATIENCE_S)
        has_synced = log.synced == ticket
        over.set()
        settling.join()
        syncing.join()
    assert has_synced


def test_an_idle_syncer_makes_the_marks_durable(log: Log, store: ScriptedStore, watcher: Watcher) -> None:
    watcher.syncer.start()
    for number in range(3):
        log.append(TEMP, numbered(number, 1))
        watcher.syncer.wake()
        watcher.wait_for(lambda: log.synced == log.appended)
    store.settled.clear()
    log.append(TEMP, numbered(3, 1))
    watcher.syncer.wake()
    assert store.settled.wait(PATIENCE_S), "without another append"
    watcher.syncer.stop()
    assert not store.unsettled_marks


@pytest.mark.req("LOG-01")
def test_a_full_disk_is_tried_again(log: Log, store: ScriptedStore, watcher: Watcher) -> None:
    store.failures = [DiskFull("no room"), DiskFull("still no room")]
    ticket = log.append(TEMP, numbered(0, 3)).ticket
    watcher.syncer.start()
    watcher.wait_for(lambda: watcher.durable == [ticket])
    assert [str(error) for error in watcher.failed] == ["no room", "still no room"]
    watcher.syncer.stop()
    assert numbers(payloads(log, TEMP)) == [0, 1, 2], "what failed first was covered in the end"


def test_who_stops_while_the_disk_is_full_does_not_wait_for_room(
    log: Log, store: ScriptedStore, watcher: Watcher
) -> None:
    store.failures = [DiskFull("no room") for _ in range(10_000)]
    log.append(TEMP, numbered(0, 1))
    watcher.syncer.start()
    watcher.wait_for(lambda: bool(watcher.failed))
    watcher.syncer.stop()
    assert not watcher.durable


@pytest.mark.req("LOG-01")
def test_any_other_failure_ends_it(log: Log, store: ScriptedStore, watcher: Watcher) -> None:
    store.failures = [StorageError("the disk has gone")]
    log.append(TEMP, numbered(0, 1))
    watcher.syncer.start()
    watcher.wait_for(lambda: bool(watcher.failed))
    watcher.syncer.stop()
    assert [str(error) for error in watcher.failed] == ["the disk has gone"]
    assert not watcher.durable
    assert log.info(TEMP, EPOCH).end == 0, "nothing of it was ever handed out"


# --- the rounds, without their thread --------------------------------------------------------------------------------


def unexpected(what: object) -> None:
    pytest.fail(f"{what}")


def test_the_marks_are_settled_after_a_sync_or_when_there_is_nothing_to_sync(log: Log) -> None:
    durable: list[int] = []
    rounds = SyncRounds(log, durable.append, unexpected, settle_s=1.0)
    assert rounds.idle_s_max is None
    log.append(TEMP, numbered(0, 1))
    assert rounds.has_work
    assert rounds.round(lambda: 10.0) == 0.0
    assert rounds.idle_s_max is None, "the marks were last settled long ago, so they went with this sync"
    last = log.append(TEMP, numbered(1, 1))
    assert rounds.round(lambda: 10.5) == 0.0
    assert rounds.idle_s_max == 1.0, "they are not settled with every sync"
    assert not rounds.has_work
    rounds.round(lambda: 11.5)
    assert rounds.idle_s_max is None
    assert durable == [last.ticket - 1, last.ticket]


def test_a_round_that_meets_a_full_disk_rests_and_tries_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    durable: list[int] = []
    failed: list[StorageError] = []
    rounds = SyncRounds(log, durable.append, failed.append, settle_s=1.0)
    ticket = log.append(TEMP, numbered(0, 1)).ticket
    full = DiskFull("no room", need=1, have=0)
    with monkeypatch.context() as patch:
        patch.setattr(log.store, "sync", mock.Mock(side_effect=full))
        assert rounds.round(lambda: 1.0) == RETRY_S
    assert (failed, durable) == ([full], [])
    assert rounds.has_work
    assert rounds.round(lambda: 2.0) == 0.0
    assert durable == [ticket]


def test_a_round_raises_what_nobody_can_mend(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = SyncRounds(log, unexpected, unexpected, settle_s=1.0)
    log.append(TEMP, numbered(0, 1))
    monkeypatch.setattr(log.store, "sync", mock.Mock(side_effect=StorageError("worn out")))
    with pytest.raises(StorageError, match="worn out"):
        rounds.round(lambda: 1.0)
