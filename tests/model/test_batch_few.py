"""A few events as a batch without pyarrow: the same bytes, and the same judgement of bytes from outside."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Mapping

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.limits import EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN, KIB
from weft.model import Batch, batch_few, batch_message
from weft.model.batch import few_bytes
from weft.model.batch_columns import rows_of_lists
from weft.model.batch_few import FEW_MAX, SMALL_BYTES_MAX, Few, few_of
from weft.model.batch_header import HEADER_BYTES, BadBatch, BatchHeader, Codec

TIMES = st.integers(EVENT_TIMESTAMP_US_MIN, EVENT_TIMESTAMP_US_MAX)
HEADERS = st.dictionaries(st.text(st.characters(max_codepoint=126), max_size=6), st.text("abc", max_size=6), max_size=3)


@st.composite
def columns(draw: st.DrawFn) -> Few:
    count = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=count, max_size=count))

    keys = draw(st.none() | st.just(True)) and column(st.none() | st.binary(max_size=9))
    headers = draw(st.none() | st.just(True)) and column(st.none() | HEADERS)
    few = few_of(column(st.binary(max_size=20)), column(TIMES), keys, headers)  # type: ignore[arg-type]
    assert few is not None
    return few


def slowly(few: Few) -> bytes:
    """By pyarrow."""
    rows = rows_of_lists(few.payloads, few.timestamps_us, few.keys, few.headers)
    return bytes(batch_message.write(rows))


def sealed(message: bytes, count: int, times: tuple[int, int]) -> bytes:
    head = BatchHeader(Codec.NONE, 0, count, len(message), *times, None, 0)
    return head.pack(int(google_crc32c.value(message))) + message


@given(columns())
def test_the_bytes_are_those_that_pyarrow_writes(few: Few) -> None:
    message = batch_few.write(few)
    assert message == slowly(few)
    again = batch_few.read_untrusted(message, len(few.payloads))
    assert again is not None
    assert (list(again.payloads), list(again.timestamps_us)) == (list(few.payloads), list(few.timestamps_us))
    assert (again.keys, again.headers) == (few.keys, few.headers)


@given(columns())
def test_both_ways_give_the_same_events(few: Few) -> None:
    batch = Batch.from_columns(*few)
    slow = Batch.read_stored(batch.data)
    assert list(batch) == list(slow)
    assert batch.record_batch.equals(slow.record_batch)
    for first in (0, 1, len(batch), len(batch) + 5):
        assert batch.events_from(first) == list(batch)[first:]


@given(st.lists(st.binary(max_size=20), max_size=FEW_MAX + 1), st.data())
def test_the_bytes_of_a_batch_without_the_batch(payloads: list[bytes], data: st.DataObject) -> None:
    times = data.draw(st.lists(TIMES, min_size=len(payloads), max_size=len(payloads)))
    found = few_bytes(payloads, times, b"p" * 16, 7)
    if not 1 <= len(payloads) <= FEW_MAX:
        assert found == b""
    else:
        assert found == Batch.from_columns(payloads, times, producer=b"p" * 16, sequence=7).data


@pytest.mark.parametrize(
    ("payloads", "times"),
    [
        (["text"], [1]),
        ([b"x"], ["now"]),
        ([b"x"], [EVENT_TIMESTAMP_US_MAX + 1]),
        ([b"x", b"y"], [1, EVENT_TIMESTAMP_US_MIN - 1]),
        ([bytes(SMALL_BYTES_MAX)], [1]),
    ],
)
def test_what_is_not_a_few_good_events_has_no_bytes(payloads: list[bytes], times: list[int]) -> None:
    assert few_bytes(payloads, times, b"p" * 16, 7) == b""


@given(columns(), st.data())
def test_damaged_messages_are_judged_as_pyarrow_judges_them(few: Few, data: st.DataObject) -> None:
    """What is read the quick way was good for pyarrow, too, and is the same."""
    message = bytearray(batch_few.write(few))
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    count, times = len(few.payloads), few.time_range
    read = batch_few.read_untrusted(bytes(message), count)
    assert read is None or batch_few.write(read) == bytes(message), "what is read is what would have been written"
    if read is not None and read.time_range == times:
        rows = batch_message.read_untrusted(pa.py_buffer(bytes(message)), count, *times)
        assert rows.column(3).to_pylist() == list(read.payloads)
        assert rows.column(1).to_pylist() == list(read.keys or [None] * count)
    with_crc = sealed(bytes(message), count, times)
    try:
        batch = Batch.read_untrusted(with_crc)
    except BadBatch:
        return
    assert list(batch) == list(Batch.read_stored(with_crc))


@given(columns())
def test_no_bit_of_a_message_goes_unread(few: Few) -> None:
    """Whatever changes is noticed, or is in what was read."""
    message = batch_few.write(few)
    for at in range(len(message)):
        changed = bytes([*message[:at], message[at] ^ 1, *message[at + 1 :]])
        read = batch_few.read_untrusted(changed, len(few.payloads))
        assert read is None or batch_few.write(read) == changed
    for cut in (message[:-1], message + b"\0", message + bytes(8)):
        assert batch_few.read_untrusted(cut, len(few.payloads)) is None


@pytest.mark.req("SEC-05")
def test_pieces_that_overlap_are_not_taken_out() -> None:
    """Each of three thousand header names claims the same 32 KiB: a hundred megabytes out of a small message."""
    data, none = bytes(32 * KIB), struct.pack("<2i", 0, 0)
    buffers = [b""] * 17
    buffers[1], buffers[6], buffers[15] = bytes(8), struct.pack("<2i", 0, 1), none
    buffers[9], buffers[10], buffers[12] = struct.pack("<6144i", *[0, len(data)] * 3072), data, none
    message = batch_few._message(1, buffers, (1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0))
    assert len(message) <= SMALL_BYTES_MAX
    tracemalloc.start()
    try:
        assert batch_few.read_untrusted(message, 1) is None
        assert tracemalloc.get_traced_memory()[1] < 16 * len(message)
    finally:
        tracemalloc.stop()
    with pytest.raises(BadBatch):
        Batch.read_untrusted(sealed(message, 1, (0, 0)))


def _buffer(data: bytes) -> object:
    import pyarrow as pa

    return pa.py_buffer(data)


TOO_MUCH: list[tuple[str, Mapping[str, object]]] = [
    ("too many", {"payloads": [b"x"] * (FEW_MAX + 1)}),
    ("too large", {"payloads": [bytes(SMALL_BYTES_MAX + 1)]}),
]


@pytest.mark.parametrize(("name", "given_columns"), TOO_MUCH, ids=[name for name, _ in TOO_MUCH])
def test_more_than_a_few_go_to_pyarrow(name: str, given_columns: Mapping[str, list[bytes]]) -> None:
    payloads = given_columns["payloads"]
    assert few_of(payloads, 7, None, None) is None
    batch = Batch.from_columns(payloads, 7)
    assert batch.few is None
    assert [event.payload for event in batch] == payloads


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"payloads": ["text"], "timestamps_us": [1]}, "payload must be bytes, not str"),
        ({"payloads": [b"x"], "timestamps_us": ["now"]}, "timestamp must be an int"),
        ({"payloads": [b"x"], "timestamps_us": [1 << 63]}, "does not fit 64 bits"),
        ({"payloads": [b"x"], "timestamps_us": [1, 2]}, "differ in number"),
        ({"payloads": [b"x"], "timestamps_us": [1], "keys": ["k"]}, "key must be bytes"),
        ({"payloads": [b"x"], "timestamps_us": [1], "keys": [b"k" * 5000]}, "key too long"),
        ({"payloads": [b"x"], "timestamps_us": [1], "headers": [{"a": 1}]}, "must be str"),
        ({"payloads": [b"x"], "timestamps_us": [1], "headers": [{"a" * 256: ""}]}, "header name too long"),
        ({"payloads": [b"x"], "timestamps_us": [1], "headers": [{"a": "b" * 5000}]}, "header value too long"),
        ({"payloads": [b"x"], "timestamps_us": [1], "headers": [dict.fromkeys(map(str, range(65)), "")]}, "too many"),
        ({"payloads": [], "timestamps_us": []}, "at least one event"),
    ],
)
def test_mistakes_are_named_as_for_many_events(columns: dict[str, list[object]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Batch.from_columns(**columns)  # type: ignore[arg-type]


def test_a_header_in_another_script_is_kept() -> None:
    (event,) = Batch.read_untrusted(Batch.from_columns([b"x"], 1, None, [{"name": "Grüße"}]).data)
    assert event.headers == {"name": "Grüße"}


def test_a_batch_of_one_is_small() -> None:
    assert len(Batch.from_columns([b"x" * 100], 1).data) == HEADER_BYTES + 8 + 472 + 64 + 104
