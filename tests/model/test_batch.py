"""Batches: made of events, lists and Arrow data; placed, cut, joined and read again."""

from __future__ import annotations

import json
import struct
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model import forge
from tests.model.strategies import COMPRESSIONS, EVENT_LISTS
from weft.errors import UsageError
from weft.limits import MIB
from weft.model import SCHEMA, Batch, Compression, Event
from weft.model.batch_header import HEADER_BYTES

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "model" / "batch.json").read_text())
PRODUCER = bytes(range(1, 17))
HELLO = [Event(b"one", 3, key=b"k"), Event(b"", 1, headers={"a": "b"}), Event(b"three", 2)]


def events_of(meaning: dict[str, Any]) -> list[Event]:
    return [
        Event(
            bytes.fromhex(event["payload"]),
            event["timestamp_us"],
            key=None if event["key"] is None else bytes.fromhex(event["key"]),
            headers=event["headers"],
        )
        for event in meaning["events"]
    ]


def taken_apart(data: bytes) -> dict[str, Any]:
    """A batch as struct, pyarrow and a CRC-32C of our own see it."""
    _, flags, _, crc, base_offset, count, body_bytes, least, greatest, producer, sequence = forge.HEADER.unpack_from(
        data
    )
    body = data[64:]
    assert len(body) == body_bytes
    assert crc == forge.crc32c_bit_by_bit(body + data[:4] + bytes(4) + data[8:64])
    compression = [None, "lz4", "zstd"][flags]
    if compression:
        body = pa.decompress(body[4:], struct.unpack_from("<I", body)[0], codec=compression, asbytes=True)
    rows = pa.ipc.read_record_batch(body, forge.SCHEMA)
    assert rows.num_rows == count
    return {
        "base_offset": base_offset,
        "producer": producer.hex() if any(producer) else None,
        "sequence": sequence,
        "compression": compression,
        "timestamp_us_min": least,
        "timestamp_us_max": greatest,
        "events": [
            {
                "timestamp_us": row["timestamp"],
                "key": None if row["key"] is None else row["key"].hex(),
                "headers": None if row["headers"] is None else dict(row["headers"]),
                "payload": row["payload"].hex(),
            }
            for row in rows.to_pylist()
        ],
    }


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_are_read(vector: dict[str, Any]) -> None:
    data, meaning = bytes.fromhex(vector["hex"]), vector["meaning"]
    assert taken_apart(data) == meaning, "the vector itself"
    for batch in (Batch.read_untrusted(data), Batch.read_stored(data)):
        assert list(batch) == events_of(meaning)
        assert len(batch) == len(meaning["events"])
        assert batch.base_offset == meaning["base_offset"]
        assert batch.producer == (bytes.fromhex(meaning["producer"]) if meaning["producer"] else None)
        assert batch.sequence == meaning["sequence"]
        assert batch.compression == meaning["compression"]
        assert (batch.timestamp_us_min, batch.timestamp_us_max) == (
            meaning["timestamp_us_min"],
            meaning["timestamp_us_max"],
        )
        assert batch.intact
        assert batch.data == data


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_are_written(vector: dict[str, Any]) -> None:
    meaning = vector["meaning"]
    producer = bytes.fromhex(meaning["producer"]) if meaning["producer"] else None
    batch = Batch.from_events(
        events_of(meaning), producer=producer, sequence=meaning["sequence"], compression=meaning["compression"]
    ).with_base_offset(meaning["base_offset"])
    assert taken_apart(batch.data) == meaning


@given(EVENT_LISTS, COMPRESSIONS)
@settings(max_examples=200)
def test_events_come_back_as_they_were(events: list[Event], compression: Compression) -> None:
    batch = Batch.from_events(events, producer=PRODUCER, sequence=5, compression=compression)
    for again in (batch, Batch.read_untrusted(batch.data), Batch.read_stored(batch.data)):
        assert list(again) == events
        assert again.timestamp_us_min == min(event.timestamp_us for event in events)
        assert again.timestamp_us_max == max(event.timestamp_us for event in events)
        assert (again.producer, again.sequence) == (PRODUCER, 5)
        assert again.record_batch.schema == SCHEMA
        again.record_batch.validate(full=True)


@given(EVENT_LISTS)
def test_every_way_in_makes_the_same_batch(events: list[Event]) -> None:
    batch = Batch.from_events(events)
    columns = Batch.from_columns(
        [event.payload for event in events],
        [event.timestamp_us for event in events],
        [event.key for event in events],
        [event.headers for event in events],
    )
    assert list(columns) == events
    assert list(Batch.from_arrow(batch.record_batch)) == events
    assert list(Batch.from_arrow(pa.Table.from_batches([batch.record_batch]))) == events


def test_columns_are_arrow() -> None:
    batch = Batch.from_events(HELLO)
    assert batch.timestamps.equals(pa.array([3, 1, 2], pa.int64()))
    assert batch.keys.equals(pa.array([b"k", None, None], pa.binary()))
    assert batch.headers.to_pylist() == [None, [("a", "b")], None]
    assert batch.payloads.equals(pa.array([b"one", b"", b"three"], pa.binary()))


def test_one_timestamp_is_for_all() -> None:
    batch = Batch.from_columns([b"a", b"b"], 7)
    assert list(batch) == [Event(b"a", 7), Event(b"b", 7)]


def test_lists_may_be_other_sequences() -> None:
    class Kind(StrEnum):
        READING = "reading"

    headers = MappingProxyType({"kind": Kind.READING})
    batch = Batch.from_columns((b"a", b"b"), (1, 2), (None, b"k"), (headers, None))
    assert list(batch) == [Event(b"a", 1, headers={"kind": "reading"}), Event(b"b", 2, key=b"k")]


# --- offsets -------------------------------------------------------------------------------------------------------


@pytest.mark.req("MSH-01")
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_placing_changes_the_offset_and_nothing_else(compression: Compression) -> None:
    batch = Batch.from_events(HELLO * 20, producer=PRODUCER, sequence=9, compression=compression)
    for unplaced in (batch, Batch.read_untrusted(batch.data), Batch.read_stored(batch.data)):
        placed = unplaced.with_base_offset(1234)
        assert placed.data[HEADER_BYTES:] == batch.data[HEADER_BYTES:]
        again = Batch.read_untrusted(placed.data)
        assert (again.base_offset, again.end_offset) == (1234, 1294)
        assert (again.producer, again.sequence) == (PRODUCER, 9)
        assert list(again) == list(placed) == HELLO * 20
        assert placed.with_base_offset(0) == batch
    assert batch.base_offset == 0


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_producer_takes_over_a_batch_as_it_is(compression: Compression) -> None:
    batch = Batch.from_events(HELLO, compression=compression).with_base_offset(77)
    sent = batch.with_producer(bytes(range(16)), 5)
    assert sent == Batch.from_events(HELLO, producer=bytes(range(16)), sequence=5, compression=compression)
    assert Batch.read_untrusted(sent.data).sequence == 5


def test_a_producer_has_an_id_of_16_bytes() -> None:
    with pytest.raises(UsageError, match="16 bytes"):
        Batch.from_events(HELLO).with_producer(b"short", 1)


@pytest.mark.parametrize("offset", [-1, (1 << 63) - 3, 1 << 64])
def test_offsets_out_of_range(offset: int) -> None:
    with pytest.raises(UsageError, match="offset out of range"):
        Batch.from_events(HELLO).with_base_offset(offset)


@pytest.mark.req("MSH-01")
def test_the_last_offset_there_is() -> None:
    batch = Batch.from_events(HELLO).with_base_offset((1 << 63) - 1 - 3)
    assert Batch.read_untrusted(batch.data).end_offset == (1 << 63) - 1


@given(EVENT_LISTS, st.integers(0, 1000), st.integers(-3, 15), st.integers(-3, 15))
def test_parts_are_those_of_a_list(events: list[Event], base: int, first: int, end: int) -> None:
    batch = Batch.from_events(events, producer=PRODUCER, sequence=1).with_base_offset(base)
    expected = events[max(first, 0) : max(end, 0)]
    assert batch.rows(base + first, base + end).num_rows == len(expected)
    assert batch.events_from(base + first) == events[max(first, 0) :]
    if not expected:
        with pytest.raises(UsageError, match="no events there"):
            batch.slice(base + first, base + end)
        return
    part = Batch.read_untrusted(batch.slice(base + first, base + end).data)
    assert list(part) == expected
    assert part.base_offset == base + max(first, 0)
    assert part.producer is None, "a part is not what the producer sent"


@given(st.lists(EVENT_LISTS, min_size=1, max_size=4), COMPRESSIONS)
def test_joined_batches_hold_all_events_in_order(lists: list[list[Event]], compression: Compression) -> None:
    batches = [Batch.from_events(events, producer=PRODUCER, compression=compression) for events in lists]
    everything = [event for events in lists for event in events]
    joined = Batch.concat(batches, compression=compression)
    assert list(Batch.read_untrusted(joined.data)) == everything
    assert (joined.base_offset, joined.producer) == (0, None)

    offset, placed = 500, []
    for batch in batches:
        placed.append(batch.with_base_offset(offset))
        offset = placed[-1].end_offset
    joined = Batch.concat(placed)
    assert (joined.base_offset, joined.end_offset) == (500, offset)
    assert joined.events_from(0) == everything


def test_gaps_are_not_joined_over() -> None:
    one, two = Batch.from_events(HELLO).with_base_offset(10), Batch.from_events(HELLO)
    for following in (12, 14, 0):
        with pytest.raises(UsageError, match="do not adjoin"):
            Batch.concat([one, two.with_base_offset(following)])
    with pytest.raises(UsageError, match="at least one event"):
        Batch.concat([])


def test_what_does_not_fit_is_not_joined() -> None:
    half = Batch.from_columns([bytes(9 * MIB)], 0)
    for batches in ([half, half], [half] * 5):
        with pytest.raises(UsageError, match="too much for one batch"):
            Batch.concat(batches)


# --- equality, damage ----------------------------------------------------------------------------------------------


def test_batches_are_values() -> None:
    batch = Batch.from_events(HELLO)
    assert batch == Batch.read_stored(batch.data)
    assert hash(batch) == hash(Batch.read_stored(batch.data))
    assert batch != batch.with_base_offset(1)
    assert batch != batch.data
    assert repr(batch) == f"<Batch of 3 from 0, {len(batch.data)} bytes, compression None>"


def test_a_damaged_stored_batch_is_known_by_its_checksum() -> None:
    data = Batch.from_events(HELLO).with_base_offset(5).data
    assert Batch.read_stored(data).intact
    for at in (4, 8, 31, HEADER_BYTES, len(data) - 1):
        spoilt = bytearray(data)
        spoilt[at] ^= 0x80
        assert not Batch.read_stored(bytes(spoilt)).intact


def test_compression_that_gains_too_little_is_left_out() -> None:
    noise = np.random.default_rng(1).bytes(10_000)
    assert Batch.from_columns([noise] * 2, 0, compression="zstd").compression == "zstd"
    assert Batch.from_columns([noise], 0, compression="zstd").compression is None
    assert Batch.from_columns([noise], 0, compression="lz4").compression is None
