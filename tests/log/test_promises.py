"""The record of what was promised: what is written is read, what a power cut tears is not taken for damage, and damage
is never taken for anything else."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.log.laboratory import stream
from tests.model.strategies import EPOCHS, OFFSETS, STREAMS
from weft.log.errors import DiskFull
from weft.log.ledger import Group, Ledger
from weft.log.memory_store import MemoryStore
from weft.log.promises import (
    Promised,
    Promises,
    Tally,
    decode,
    encode_settled,
    encode_starts,
    encode_stream,
    encode_synced,
)
from weft.model import Epoch

U64 = st.integers(0, (1 << 64) - 1)
NUMBERS = st.integers(1, 1 << 40)
PROMISED = st.builds(Promised, STREAMS, EPOCHS, OFFSETS, OFFSETS)
TALLIES = st.builds(Tally, st.integers(6, (1 << 32) - 1), U64, U64)
PROMISES = st.builds(
    Promises,
    st.dictionaries(NUMBERS, PROMISED, max_size=5),
    st.lists(TALLIES, max_size=4).map(lambda tallies: {each.segment: each for each in tallies}),
    U64,
    st.integers(0, 5),
    U64,
    st.binary(max_size=30),
)
SAMPLE = Promises(
    {1: Promised(stream("a"), Epoch(3), 0, 10), 2: Promised(stream("b"), Epoch(4), 5, 7)},
    {2: Tally(2, 4, 99)},
    sequence=17,
    settled=1,
    epoch=3,
    fingerprint=b"books",
)


@given(PROMISES)
def test_what_is_written_is_read(promises: Promises) -> None:
    assert decode(promises.encode()) == promises


def test_records_add_up() -> None:
    data = b"".join(
        (
            Promises().encode(),
            encode_stream(1, Promised(stream("a"), Epoch(3), 2, 2)),
            encode_synced(5, [Tally(1, 2, 3)], [(1, 4)]),
            encode_stream(2, Promised(stream("b"), Epoch(3), 0, 0)),
            encode_synced(9, [Tally(1, 5, 6), Tally(2, 1, 1)], [(1, 8), (2, 3)]),
            encode_starts([(1, 6)]),
            encode_settled(1, 3, b"books"),
        )
    )
    assert decode(data) == Promises(
        {1: Promised(stream("a"), Epoch(3), 6, 8), 2: Promised(stream("b"), Epoch(3), 0, 3)},
        {2: Tally(2, 1, 1)},
        sequence=9,
        settled=1,
        epoch=3,
        fingerprint=b"books",
    )


# --- torn, and damaged -------------------------------------------------------------------------------------------

FIRST, LAST = SAMPLE.encode(), encode_synced(20, [], [(1, 12), (2, 9)])


@pytest.mark.req("LOG-01")
@pytest.mark.parametrize("kept", range(1, len(LAST)))
def test_a_record_that_is_cut_off_was_never_promised(kept: int) -> None:
    found = decode(FIRST + LAST[:kept])
    assert (found.torn_at, found.damaged_at) == (len(FIRST), None)
    assert found.streams == SAMPLE.streams


@pytest.mark.req("LOG-01")
def test_zeros_at_the_end_are_a_tear() -> None:
    """Some file systems extend a file before its data is on the disk."""
    found = decode(FIRST + bytes(100))
    assert (found.torn_at, found.damaged_at, found.streams) == (len(FIRST), None, SAMPLE.streams)


@pytest.mark.parametrize("data", [bytes(1), bytes(100), FIRST[:5], b"\xff" * 40])
def test_a_file_that_does_not_begin_with_a_record_is_damaged(data: bytes) -> None:
    assert decode(data).damaged_at == 0


@pytest.mark.req("LOG-01")
@given(st.integers(0, len(FIRST + LAST) * 8 - 1))
def test_no_flipped_bit_goes_unnoticed(bit: int) -> None:
    data = bytearray(FIRST + LAST)
    data[bit // 8] ^= 1 << bit % 8
    found = decode(bytes(data))
    if found.damaged_at is None:
        assert found.torn_at == len(FIRST), "only a length that points behind the end looks like a tear"
        assert found.streams == SAMPLE.streams
    else:
        assert found.damaged_at <= bit // 8


def test_what_stands_behind_damage_is_taken_all_the_same() -> None:
    middle = bytearray(encode_synced(18, [], [(1, 11)]))
    middle[-1] ^= 1
    found = decode(FIRST + bytes(middle) + LAST)
    assert found.damaged_at == len(FIRST)
    assert [each.end for each in found.streams.values()] == [12, 9]


def test_ends_of_a_stream_whose_name_is_damaged() -> None:
    name = bytearray(encode_stream(3, Promised(stream("c"), Epoch(3), 0, 0)))
    name[10] ^= 1
    found = decode(FIRST + bytes(name) + encode_synced(21, [], [(1, 12), (3, 8), (2, 9)]))
    assert found.damaged_at == len(FIRST)
    assert {number: each.end for number, each in found.streams.items()} == {1: 12, 2: 9}


@given(st.binary(max_size=200), st.booleans())
@example(encode_stream(1, Promised(stream("a"), Epoch(3), 2, 2))[:8] + b"\1\x96\xc0\xc0\xc0\xc0\xc0\xc0", True)
def test_any_bytes_are_read_or_damaged(data: bytes, behind_a_record: bool) -> None:
    found = decode((FIRST if behind_a_record else b"") + data)
    if data:
        assert found.damaged_at is not None or found.torn_at is not None
    if behind_a_record:
        assert set(found.streams) >= set(SAMPLE.streams)


# --- the ledger --------------------------------------------------------------------------------------------------


def named(topic: str) -> Promised:
    return Promised(stream(topic), Epoch(1), 0, 0)


def test_the_ledger_writes_what_it_knows() -> None:
    store = MemoryStore()
    ledger = Ledger(store, Promises(epoch=1))
    ledger.synced(Group(1, 4, [Tally(1, 1, 7)], {1: named("a")}, {1: 5}))
    ledger.synced(Group(2, 6, [Tally(1, 2, 9)], {2: named("b")}, {1: 6, 2: 1}))
    ledger.started(1, 2)
    ledger.started(3, 9)  # not named yet: its start comes with its name
    expected = Promises(
        {1: Promised(stream("a"), Epoch(1), 2, 6), 2: Promised(stream("b"), Epoch(1), 0, 1)},
        {1: Tally(1, 2, 9)},
        sequence=6,
        epoch=1,
    )
    assert decode(store.read_marks() or b"") == expected
    ledger.settled(1)
    ledger.tidy()
    expected.settled, expected.tallies = 1, {}
    assert decode(store.read_marks() or b"") == expected
    assert not store.unsettled_marks


def test_the_file_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.log.ledger.GROWTH_BYTES_MIN", 4096)
    store = MemoryStore()
    ledger = Ledger(store, Promises(epoch=1))
    ledger.synced(Group(1, 1, [], {1: named("a")}, {1: 1}))
    for end in range(2, 1000):
        ledger.synced(Group(end, end, [], {}, {1: end}))
        ledger.tidy()
        assert len(store.read_marks() or b"") < 4500
    assert decode(store.read_marks() or b"").streams[1].end == 999


def test_a_sync_that_could_not_be_noted_is_not_promised() -> None:
    class FullStore(MemoryStore):
        def append_marks(self, data: bytes) -> None:
            raise DiskFull("no room for the marks")

    store = FullStore()
    ledger = Ledger(store, Promises(epoch=1))
    with pytest.raises(DiskFull):
        ledger.synced(Group(1, 1, [Tally(1, 1, 1)], {1: named("a")}, {1: 1}))
    ledger.tidy()
    assert decode(store.read_marks() or b"") == Promises(epoch=1)
