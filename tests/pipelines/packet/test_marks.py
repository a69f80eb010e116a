"""The hash that packets are recognised by."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.pipelines.packet.marks import (
    MARK_BYTES,
    TAG_EMM,
    TAG_EMM_COMPACT,
    Hasher,
    words_of,
)
from weft.wire import emm

ONE, OTHER = Hasher(b"1" * 32), Hasher(b"2" * 32)
marks = st.binary(min_size=MARK_BYTES, max_size=MARK_BYTES)


def hashed(hasher: Hasher, *given_marks: bytes, tag: int = TAG_EMM) -> list[tuple[int, int]]:
    high, low = hasher.hash(words_of(list(given_marks)), np.array([tag], np.uint64))
    return list(zip(high.tolist(), low.tolist(), strict=True))


@given(st.lists(marks, unique=True, max_size=20))
def test_different_marks_have_different_hashes_in_both_halves(found: list[bytes]) -> None:
    hashes = hashed(ONE, *found)
    assert len({high for high, _ in hashes}) == len({low for _, low in hashes}) == len(found)


@given(marks, st.integers(0, MARK_BYTES * 8 - 1))
def test_any_bit_changes_all_four_parts(mark: bytes, bit: int) -> None:
    changed = bytearray(mark)
    changed[bit // 8] ^= 1 << bit % 8
    (one, other) = hashed(ONE, mark, bytes(changed))
    for half, changed_half in zip(one, other, strict=True):
        assert half >> 32 != changed_half >> 32
        assert half & 0xFFFFFFFF != changed_half & 0xFFFFFFFF


@given(marks)
def test_key_and_protocol_matter(mark: bytes) -> None:
    assert hashed(ONE, mark) != hashed(OTHER, mark)
    assert hashed(ONE, mark) != hashed(ONE, mark, tag=TAG_EMM_COMPACT)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**32 - 1))
def test_missing_columns_are_zeros(sender: bytes, message_id: int) -> None:
    words = words_of([emm.replay_mark(sender, message_id)])
    assert [int(half[0]) for half in ONE.hash(words[:, :5], np.array([TAG_EMM], np.uint64))] == list(
        hashed(ONE, emm.replay_mark(sender, message_id))[0]
    )


def test_tags_for_each_row() -> None:
    high, low = ONE.hash(words_of([bytes(MARK_BYTES)] * 2), np.array([TAG_EMM, TAG_EMM_COMPACT], np.uint64))
    assert (high[0], low[0]) != (high[1], low[1])
    assert hashed(ONE, bytes(MARK_BYTES), tag=TAG_EMM_COMPACT) == [(int(high[1]), int(low[1]))]
