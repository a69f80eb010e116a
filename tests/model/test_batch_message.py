"""Arrow messages that are refused: metadata that lies, buffers that do not hold what they should."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.model import forge
from tests.model.forge import THREE, THREE_HEAD, Columns, Head, Metadata, int32s
from tests.model.refusal import GOOD, refusal
from weft.limits import EVENT_PAYLOAD_BYTES_MAX
from weft.model import Batch
from weft.model.batch_message import BATCH_METADATA_BYTES_MAX


def rebuilt(change: Callable[[Metadata], Metadata]) -> bytes:
    return THREE.batch(THREE_HEAD, change(THREE.metadata()))


def with_node(index: int, length: int, nulls: int) -> Callable[[Metadata], Metadata]:
    def change(metadata: Metadata) -> Metadata:
        nodes = [*metadata.nodes]
        nodes[index] = (length, nulls)
        return replace(metadata, nodes=nodes)

    return change


def with_buffer(index: int, offset: int, length: int) -> Callable[[Metadata], Metadata]:
    def change(metadata: Metadata) -> Metadata:
        buffers = [*metadata.buffers]
        buffers[index] = (offset, length)
        return replace(metadata, buffers=buffers)

    return change


def having(*names: str) -> Callable[[Metadata], Metadata]:
    return lambda metadata: replace(metadata, has=frozenset(names))


def lacking(*names: str) -> Callable[[Metadata], Metadata]:
    return lambda metadata: replace(metadata, lacks=frozenset(names))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda metadata: replace(metadata, version=3), "not a message of Arrow metadata version 5"),
        (lambda metadata: replace(metadata, kind=1), "message is not a record batch (kind 1)"),  # Schema
        (lambda metadata: replace(metadata, kind=2), "message is not a record batch (kind 2)"),  # DictionaryBatch
        (lambda metadata: replace(metadata, kind=4), "message is not a record batch (kind 4)"),  # Tensor
        (lambda metadata: replace(metadata, body_bytes=len(THREE.body) - 8), "body is not as long as stated"),
        (lambda metadata: replace(metadata, body_bytes=-1), "body is not as long as stated"),
        (lambda metadata: replace(metadata, body_bytes=1 << 62), "body is not as long as stated"),
        (lambda metadata: replace(metadata, rows=4), "not as many rows as the header says (need 3, have 4)"),
        (lambda metadata: replace(metadata, rows=-3), "not as many rows as the header says"),
        (lambda metadata: replace(metadata, rows=1 << 62), "not as many rows as the header says"),
        (lambda metadata: replace(metadata, nodes=metadata.nodes[:-1]), "not the columns of a batch"),
        (lambda metadata: replace(metadata, nodes=[*metadata.nodes, (3, 0)]), "not the columns of a batch"),
        (lambda metadata: replace(metadata, buffers=metadata.buffers[:-1]), "not the columns of a batch"),
        (lambda metadata: replace(metadata, buffers=[*metadata.buffers, (0, 0)]), "not the columns of a batch"),
        (having("custom"), "message has metadata of its own"),
        (having("compression"), "compressed or variadic buffers"),
        (having("variadic"), "compressed or variadic buffers"),
        (having("more"), "table with unknown fields"),
        (lacking("version"), "not a message of Arrow metadata version 5"),
        (lacking("kind"), "message is not a record batch (kind 0)"),
        (lacking("header"), "message without a record batch or a body"),
        (lacking("body"), "message without a record batch or a body"),
        (lacking("length"), "record batch without rows or columns"),
        (lacking("nodes"), "record batch without rows or columns"),
        (lacking("buffers"), "record batch without rows or columns"),
        (with_node(0, 2, 0), "columns differ in length"),
        (with_node(0, 3, 1), "nulls in a column that cannot have any"),  # a null timestamp
        (with_node(1, 3, 4), "nulls in a column that cannot have any"),  # more null keys than events
        (with_node(1, 3, -1), "nulls in a column that cannot have any"),
        (with_node(2, 1 << 40, 1), "columns differ in length"),
        (with_node(3, 1 << 40, 0), "columns differ in length"),
        (with_node(3, 2, 1), "nulls in a column that cannot have any"),  # a null entry
        (with_node(4, 2, 1), "nulls in a column that cannot have any"),  # a null name
        (with_node(5, 2, 1), "nulls in a column that cannot have any"),  # a null value
        (with_node(6, 3, 1), "nulls in a column that cannot have any"),  # a null payload
        (with_node(6, -1, 0), "columns differ in length"),
        (with_buffer(1, 0, 1 << 40), "buffer is at an impossible place"),
        (with_buffer(1, 0, -8), "buffer is at an impossible place"),
        (with_buffer(1, -8, 24), "buffer is at an impossible place"),
        (with_buffer(1, 1 << 62, 8), "buffer is at an impossible place"),
        (with_buffer(3, 4, 16), "buffer is at an impossible place"),  # inside of the one before
        (with_buffer(16, len(THREE.body) - 4, 4), "buffer is at an impossible place"),  # not aligned
        (with_buffer(16, 0, 8), "buffer is at an impossible place"),  # the timestamps once more
        (with_buffer(16, len(THREE.body) - 8, 9), "buffer is at an impossible place"),
        (with_buffer(16, len(THREE.body), 1), "buffer is at an impossible place"),
    ],
)
def test_metadata_that_is_refused(change: Callable[[Metadata], Metadata], fault: str) -> None:
    assert fault in refusal(rebuilt(change))


def test_more_headers_than_the_body_can_hold() -> None:
    def change(metadata: Metadata) -> Metadata:
        entries = [(1 << 40, 0)] * 3
        return replace(metadata, nodes=[*metadata.nodes[:3], *entries, metadata.nodes[6]])

    assert "more headers than there is room for" in refusal(rebuilt(change))


@pytest.mark.parametrize(
    ("at", "number"),
    [
        (0, 0xFFFFFFFF),
        (0, 1 << 20),
        (24, 0x80000000),
        (24, 0x7FFFFFFF),
        (28, 0xFFFFFF00),
        (68, 1 << 16),
        (80, 0xFFFFFFF0),
    ],
)
def test_metadata_that_points_outside_of_itself(at: int, number: int) -> None:
    metadata = bytearray(THREE.metadata().pack())
    struct.pack_into("<I", metadata, at, number)
    assert "metadata points outside of itself" in refusal(
        forge.seal(THREE_HEAD, forge.message(bytes(metadata), THREE.body))
    )


@pytest.mark.parametrize("vtable_bytes", [0, 3, 5, 13, 0xFFFF])
def test_impossible_vtables(vtable_bytes: int) -> None:
    metadata = bytearray(THREE.metadata().pack())
    struct.pack_into("<H", metadata, 4, vtable_bytes)
    assert "table with unknown fields" in refusal(forge.seal(THREE_HEAD, forge.message(bytes(metadata), THREE.body)))


@pytest.mark.parametrize(
    ("prefix", "fault"),
    [
        (b"", "message is cut off"),
        (b"\xff\xff\xff\xff", "message is cut off"),
        (struct.pack("<Ii", 0, 512), "not an Arrow message"),
        (struct.pack("<Ii", 512, 0), "not an Arrow message"),  # as before Arrow 0.15: no continuation
        (struct.pack("<Ii", 0xFFFFFFFF, 0), "impossible length of metadata"),
        (struct.pack("<Ii", 0xFFFFFFFF, -8), "impossible length of metadata"),
        (struct.pack("<Ii", 0xFFFFFFFF, 508), "impossible length of metadata"),
        (struct.pack("<Ii", 0xFFFFFFFF, 1 << 30), "impossible length of metadata"),
        (struct.pack("<Ii", 0xFFFFFFFF, BATCH_METADATA_BYTES_MAX + 8), "impossible length of metadata"),
    ],
)
def test_impossible_beginnings_of_a_message(prefix: bytes, fault: str) -> None:
    rest = GOOD[64 + 8 :] + bytes(BATCH_METADATA_BYTES_MAX + 16) if len(prefix) == 8 else b"x"
    assert fault in refusal(forge.seal(THREE_HEAD, prefix + rest))


def test_metadata_of_other_schemas_and_kinds_by_pyarrow() -> None:
    one = Head(count=1)
    schema = pa.schema([("timestamp", pa.int64()), ("payload", pa.binary())])
    rows = pa.RecordBatch.from_arrays([pa.array([0]), pa.array([b"a"])], schema=schema)
    assert "not the columns of a batch" in refusal(forge.seal(one, rows.serialize().to_pybytes()))
    assert "message is not a record batch (kind 1)" in refusal(forge.seal(one, schema.serialize().to_pybytes()))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_buffers_compressed_by_arrow(codec: str) -> None:
    rows = Batch.read_untrusted(GOOD).record_batch
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(rows)
    reader = pa.BufferReader(sink.getvalue())
    pa.ipc.read_message(reader)  # the schema
    body = pa.ipc.read_message(reader).serialize().to_pybytes()
    assert pa.ipc.read_record_batch(body, rows.schema).equals(rows), "Arrow would take it"
    assert "compressed or variadic buffers" in refusal(forge.seal(THREE_HEAD, body))


# --- what is in the buffers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "buffer", "fault"),
    [
        (forge.TIMES, struct.pack("<2q", 7, 5), "too small"),
        (forge.KEY_VALIDITY, b"\x07", "null_count"),  # three keys, where the node says one is null
        (forge.KEY_VALIDITY, b"", "too small"),
        (forge.KEY_OFFSETS, int32s(0, 1, 0, 1), "non-monotonic"),
        (forge.KEY_OFFSETS, int32s(0, 1, 1, 2), ""),
        (forge.KEY_OFFSETS, int32s(-1, 1, 1, 1), "negative"),
        (forge.KEY_OFFSETS, int32s(0, 1, 1), ""),
        (forge.KEY_OFFSETS, b"", ""),
        (forge.KEY_DATA, b"", ""),
        (forge.MAP_VALIDITY, b"\x00", "null_count"),
        (forge.MAP_OFFSETS, int32s(0, 2, 1, 2), "non-monotonic"),
        (forge.MAP_OFFSETS, int32s(0, 2, 2, 3), ""),
        (forge.MAP_OFFSETS, int32s(0, 2, 1 << 30, 1 << 30), ""),
        (forge.MAP_OFFSETS, int32s(0, 2), ""),
        (forge.NAME_OFFSETS, int32s(0, 2, 1), "non-monotonic"),
        (forge.NAME_OFFSETS, int32s(0, 1, 3), ""),
        (forge.NAME_OFFSETS, int32s(0, 1), ""),
        (forge.NAME_DATA, b"a\xff", "Invalid UTF8"),
        (forge.NAME_DATA, b"\xc3\xa9", "Invalid UTF8"),  # one character cut in two
        (forge.NAME_DATA, b"aa", "header given twice (event 0)"),
        (forge.VALUE_OFFSETS, int32s(0, 5, 4), "out of bounds"),
        (forge.VALUE_OFFSETS, int32s(0, 3, 4), "Invalid UTF8"),
        (forge.VALUE_DATA, b"b\xed\xa0\x80", "Invalid UTF8"),  # a surrogate
        (forge.PAYLOAD_OFFSETS, int32s(0, 3, 2, 8), "non-monotonic"),
        (forge.PAYLOAD_OFFSETS, int32s(0, 3, 3, 9), ""),
        (forge.PAYLOAD_OFFSETS, int32s(0, 3, 3, -1), ""),
        (forge.PAYLOAD_OFFSETS, int32s(0, 3, 3), ""),
        (forge.PAYLOAD_DATA, b"onethre", ""),
    ],
)
def test_buffers_that_arrow_or_we_refuse(index: int, buffer: bytes, fault: str) -> None:
    why = refusal(THREE.spoilt(index, buffer).batch(THREE_HEAD))
    assert fault in why
    assert "Arrow refuses the message" in why or "header given twice" in why


@pytest.mark.parametrize(
    ("index", "buffer"),
    [
        (forge.PAYLOAD_VALIDITY, b"\x00"),  # Arrow does not look at it where a node says: no nulls
        (forge.PAYLOAD_DATA, b"onethree-and-more"),
        (forge.KEY_DATA, b"kk"),
    ],
)
def test_bytes_that_belong_to_nothing_change_nothing(index: int, buffer: bytes) -> None:
    assert list(Batch.read_untrusted(THREE.spoilt(index, buffer).batch(THREE_HEAD))) == list(Batch.read_untrusted(GOOD))


def event_with(key: bytes | None, headers: list[tuple[bytes, bytes]], payload: bytes = b"p") -> bytes:
    """One event, by hand: the builder would refuse these."""
    names, values = [name for name, _ in headers], [value for _, value in headers]

    def texts(items: list[bytes]) -> list[bytes]:
        ends = [sum(map(len, items[:count])) for count in range(len(items) + 1)]
        return [b"", int32s(*ends), b"".join(items)]

    buffers = [b"", bytes(8), b"\0", int32s(0, len(key or b"")), key or b"", b"\0", int32s(0, len(headers)), b""]
    buffers += [*texts(names), *texts(values), b"", int32s(0, len(payload)), payload]
    return Columns(1, len(headers), buffers, int(key is None), int(not headers)).batch(Head())


@pytest.mark.parametrize(
    ("key", "headers", "fault"),
    [
        (bytes(4097), [], "key too long (event 0, have 4097, limit 4096)"),
        (None, [(b"%d" % number, b"") for number in range(65)], "too many headers (event 0, have 65, limit 64)"),
        (None, [(b"n" * 256, b"")], "header name too long (event 0, have 256, limit 255)"),
        (None, [(b"n", b"v" * 4097)], "header value too long (event 0, have 4097, limit 4096)"),
        (b"", [(b"n", b"1"), (b"m", b""), (b"n", b"2")], "header given twice (event 0)"),
    ],
    ids=["key", "headers", "name", "value", "twice"],
)
def test_events_over_their_bounds(key: bytes | None, headers: list[tuple[bytes, bytes]], fault: str) -> None:
    assert fault in refusal(event_with(key, headers))


def test_payloads_over_their_bound() -> None:
    fault = f"payload too long (event 0, have {EVENT_PAYLOAD_BYTES_MAX + 1}, limit {EVENT_PAYLOAD_BYTES_MAX})"
    assert fault in refusal(event_with(None, [], bytes(EVENT_PAYLOAD_BYTES_MAX + 1)))
    assert len(Batch.read_untrusted(event_with(None, [], bytes(EVENT_PAYLOAD_BYTES_MAX)))) == 1


def test_events_at_their_bounds() -> None:
    headers = [(b"%0255d" % number, b"v" * 4096) for number in range(64)]
    (event,) = Batch.read_untrusted(event_with(bytes(4096), headers))
    assert event.key == bytes(4096)
    assert event.headers is not None
    assert len(event.headers) == 64
