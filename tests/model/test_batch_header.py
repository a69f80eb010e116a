"""Headers that are refused, rule by rule. Checksums are right unless they are the point."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.model import forge
from tests.model.forge import THREE, THREE_HEAD
from tests.model.refusal import BY_PYARROW, GOOD, refusal
from weft.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, OFFSET_MAX
from weft.model import Batch, Event
from weft.model.batch_header import HEADER_BYTES, SEQUENCE_MAX, header_without_producer


def test_the_batch_that_is_spoilt_below_is_good() -> None:
    assert list(Batch.read_untrusted(GOOD)) == [
        Event(b"one", 7, key=b"k", headers={"a": "b", "c": "dé"}),
        Event(b"", 5),
        Event(b"three", 9, key=b"", headers={}),
    ]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"version": 0}, "unknown format version (at 0, version 0)"),
        ({"version": 2}, "unknown format version (at 0, version 2)"),
        ({"flags": 3}, "unknown codec or flags (at 1, flags 0x3)"),
        ({"flags": 4}, "unknown codec or flags (at 1, flags 0x4)"),
        ({"flags": 0x80}, "unknown codec or flags (at 1, flags 0x80)"),
        ({"zero": 1}, "reserved bytes are not zero"),
        ({"body_bytes": 671}, "not the length the header says (at 20, need 671, have 672)"),
        ({"body_bytes": 0xFFFFFFFF}, "not the length the header says"),
        ({"count": 0}, "impossible number of events (at 16, count 0"),
        ({"count": BATCH_EVENTS_MAX + 1}, "impossible number of events (at 16, count 1000001, limit 1000000)"),
        ({"count": 2}, "not as many rows as the header says (need 2, have 3)"),
        ({"base_offset": OFFSET_MAX - 2}, "offsets run past their limit"),
        ({"base_offset": (1 << 64) - 1}, "offsets run past their limit"),
        ({"timestamp_min": 10}, "least timestamp after the greatest"),
        ({"timestamp_min": 4}, "timestamps are not in the range of the header"),
        ({"timestamp_max": 10}, "timestamps are not in the range of the header"),
        ({"sequence": 1}, "a sequence without a producer (at 56, sequence 1)"),
    ],
    ids=str,
)
def test_headers_that_are_refused(wrong: dict[str, Any], fault: str) -> None:
    assert fault in refusal(THREE.batch(replace(THREE_HEAD, **wrong)))


@pytest.mark.parametrize("size", [0, 1, 63, 64])
def test_too_short_for_a_batch(size: int) -> None:
    assert f"not the size of a batch (bytes {size}" in refusal(GOOD[:size])


def test_too_long_for_a_batch() -> None:
    data = forge.seal(THREE_HEAD, bytes(BATCH_BYTES_MAX - 63))
    assert "not the size of a batch (bytes 16777217" in refusal(data)


@pytest.mark.parametrize("data", [GOOD, BY_PYARROW])
def test_nothing_may_follow_or_be_missing(data: bytes) -> None:
    assert "not the length the header says" in refusal(data + b"\0")
    assert "not the length the header says" in refusal(data[:-1])
    assert "body is not as long as stated" in refusal(forge.reseal(data + bytes(8)))
    assert "body is not as long as stated" in refusal(forge.reseal(data[:-8]))


@pytest.mark.parametrize("data", [GOOD, BY_PYARROW])
def test_every_flipped_bit_is_noticed(data: bytes) -> None:
    for at in range(len(data)):
        spoilt = bytearray(data)
        spoilt[at] ^= 1 << at % 8
        assert refusal(bytes(spoilt))


def test_the_checksum_covers_body_and_header() -> None:
    body = GOOD[64:]
    wrong = google_crc32c.value(body)  # of the body alone
    assert "checksum does not fit (at 4)" in refusal(GOOD[:4] + struct.pack("<I", wrong) + GOOD[8:])


@pytest.mark.req("SEC-03")
@given(st.binary(min_size=16, max_size=16), st.integers(0, SEQUENCE_MAX), st.integers(0, 1000), st.binary(max_size=400))
def test_a_batch_can_do_without_its_producer(producer: bytes, sequence: int, offset: int, payload: bytes) -> None:
    """The checksum is mended without a look at the body; the result is that of building it anew."""
    assume(any(producer))
    made = Batch.from_columns([payload], 7, producer=producer, sequence=sequence).with_base_offset(offset)
    plain = Batch.from_columns([payload], 7).with_base_offset(offset)
    assert header_without_producer(made.data) + made.data[HEADER_BYTES:] == plain.data
    assert Batch.read_untrusted(plain.data).producer is None
