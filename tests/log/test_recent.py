"""The last batches in memory: what is read from there is what the store has, and there is never too much of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.laboratory import EPOCH, batch, numbered, payloads, settle, stream
from weft.limits import MIB
from weft.log import Log, MemoryStore, open_store
from weft.log.compaction import compact
from weft.log.recent import ENTRY_BYTES, Recent

TEMP = stream("plant.temp")


@pytest.fixture
def log() -> Log:
    return open_store(MemoryStore(), lambda: EPOCH)


def refuse_the_store(log: Log, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log.store, "scan_holding", lambda *arguments: pytest.fail("the store was asked"))


@pytest.mark.req("LOG-02")
def test_who_follows_a_stream_does_not_ask_the_store(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_the_store(log, monkeypatch)
    at = 0
    for number in range(0, 30, 3):
        sent = numbered(number, 3)
        log.append(TEMP, sent)
        assert log.read(TEMP, EPOCH, at) == [], "not durable yet"
        log.sync()
        assert log.read(TEMP, EPOCH, at) == [sent.with_base_offset(at).data]
        at += 3
    assert len(log.read(TEMP, EPOCH, 0)) == 10
    assert len(log.read(TEMP, EPOCH, 0, end=7)) == 3
    assert len(log.read(TEMP, EPOCH, 0, bytes_max=1)) == 1


def test_in_the_middle_of_a_batch_the_store_is_asked(log: Log) -> None:
    log.append(TEMP, numbered(0, 3))
    log.sync()
    assert log.read(TEMP, EPOCH, 1) == log.read(TEMP, EPOCH, 0)


@pytest.mark.req("LOG-07")
def test_what_compaction_took_is_not_read_any_more(log: Log) -> None:
    log.append(TEMP, batch(b"old", b"older", keys=[b"a", b"b"]))
    log.append(TEMP, batch(b"new", keys=[b"a"]))
    settle(log)
    assert payloads(log, TEMP) == [b"old", b"older", b"new"]
    assert compact(log, log.state(TEMP, EPOCH), 0) is not None
    assert payloads(log, TEMP) == [b"older", b"new"]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2 * MIB) | st.integers(0, 100)), max_size=30),
    st.integers(0, 4 * MIB),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_it_holds_the_last_ones_that_fit(added: list[tuple[int, int]], bytes_max: int, forgotten: list[int]) -> None:
    recent = Recent(bytes_max)
    kept: list[tuple[int, int, bytes]] = []
    for number, (stream_id, size) in enumerate(added):
        data = bytes(size)
        recent.add(stream_id, number, number + 1, data)
        kept.append((stream_id, number, data))
        while sum(len(each) + ENTRY_BYTES for _, _, each in kept) > bytes_max:
            del kept[0]
        if number in forgotten:
            recent.forget(stream_id)
            kept = [each for each in kept if each[0] != stream_id]
        found = [
            (each, first, data)
            for first in range(number + 1)
            for each in (1, 2, 3)
            for data in recent.read(each, first, first + 1, 0)
        ]
        assert found == kept
