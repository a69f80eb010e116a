"""Packets are recognised for as long as they could come back, and memory is bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.wire.seen import GENERATIONS, SALT_BYTES, Seen

SALT = bytes(range(1, SALT_BYTES + 1))
PACKETS = st.tuples(st.sampled_from([b"a" * 16, b"b" * 16]), st.integers(0, 9))


def hashes(seen: Seen, packets: list[tuple[bytes, int]]) -> list[int]:
    marks = b"".join(sender + number.to_bytes(4, "little") for sender, number in packets)
    made: list[int] = seen.hashes(np.frombuffer(marks, np.uint8).reshape(-1, 20)).tolist()
    return made


@pytest.mark.req("EMM-19")
@settings(max_examples=50)
@given(st.lists(st.lists(PACKETS, min_size=1, max_size=20), max_size=6))
def test_it_equals_a_set_of_pairs(blocks: list[list[tuple[bytes, int]]]) -> None:
    seen, known = Seen(SALT), set()
    for block in blocks:
        expected = []
        for place, packet in enumerate(block):
            if packet in known:
                expected.append(place)
            known.add(packet)
        assert seen.admit(hashes(seen, block), None, 100.0) == expected
    assert len(seen) == len(known)


@pytest.mark.req("EMM-19")
def test_an_entry_lives_as_long_as_its_packet_could_be_fresh_and_not_for_ever() -> None:
    seen = Seen(SALT, window_s=300, skew_s_max=120)
    seen.admit([1], None, 1000.0)
    for now_s in range(1001, 1420, 20):  # others come meanwhile, so generations pass
        seen.admit([now_s], None, float(now_s))
    assert 1 in seen
    for now_s in range(1500, 2500, 50):
        seen.admit([now_s], None, float(now_s))
    assert 1 not in seen


@pytest.mark.req("EMM-19")
def test_a_clock_that_was_set_back_for_a_moment_has_nothing_forgotten_too_soon() -> None:
    seen = Seen(SALT, window_s=300, skew_s_max=120)
    seen.admit([1], None, 1000.0)
    seen.admit([2], None, 500.0)
    seen.admit([3], None, 1145.0)  # a new generation
    assert 1 in seen


def test_when_there_is_no_room_the_oldest_go_and_are_counted() -> None:
    seen = Seen(SALT, entries_max=40)
    for value in range(200):
        assert seen.admit([value], None, 5.0) == []
    assert len(seen) <= 40
    assert seen.evicted == 200 - len(seen)
    assert 199 in seen
    assert 0 not in seen


def test_hashes_differ_where_anything_differs() -> None:
    seen = Seen(SALT)
    packets = [(bytes([a]) * 8 + bytes([b]) * 8, number) for a in range(8) for b in range(8) for number in range(64)]
    assert len(set(hashes(seen, packets))) == len(packets)
    assert hashes(seen, packets[:3]) != hashes(Seen(b"\x09" * SALT_BYTES), packets[:3])
    assert GENERATIONS > 1
