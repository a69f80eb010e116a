"""The Arrow message in a batch: pyarrow writes and reads it, but we check it here before pyarrow sees it.

It is one encapsulated IPC message of kind RecordBatch, metadata version 5, without a schema message (the schema is
fixed, see batch_schema) and without Arrow's own buffer compression (a batch is compressed as a whole)::

    0xFFFFFFFF:u32 metadata_bytes:i32 metadata:flatbuffer body

pyarrow believes several numbers in the metadata: for example, it allocates a compressed buffer by the length that the
metadata claims. So the metadata is read here first (batch_metadata), and only the content that our schema allows is let
through, with buffers that lie in the body one behind the other. Then pyarrow checks what the buffers hold
(``validate(full=True)``): that offsets are ordered and in range, that text is UTF-8, that null counts are true.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from weft.limits import EVENT_PAYLOAD_BYTES_MAX, KIB
from weft.model import batch_metadata
from weft.model.batch_header import TIMESTAMPS_AT, BadBatch
from weft.model.batch_schema import SCHEMA, find_excess, time_range

BATCH_METADATA_BYTES_MAX: Final = 2 * KIB  # Arrow's own writer needs 472 for our schema; other writers pad differently
PREFIX: Final = struct.Struct("<Ii")
CONTINUATION: Final = 0xFFFFFFFF
ALIGNMENT_BYTES: Final = 8  # Arrow's: of the body in the message, and of every buffer in the body
ENTRIES: Final = 3  # the node of the entries of headers
TIMES_OFFSET: Final = 2  # in Numbers.buffers: where the timestamps are in the body
ENTRY_BYTES_MIN: Final = 8  # an offset for its name, and one for its value
REASON_CHARACTERS_MAX: Final = 200


def write(rows: pa.RecordBatch) -> pa.Buffer:
    """Make the message for rows that have SCHEMA."""
    return rows.serialize()


def read(message: pa.Buffer) -> pa.RecordBatch:
    """Read the rows of a message that is known to be valid. Nothing is copied."""
    return pa.ipc.read_record_batch(message, SCHEMA)


def read_untrusted(message: pa.Buffer, count: int, timestamp_us_min: int, timestamp_us_max: int) -> pa.RecordBatch:
    """Read the rows of a message from outside. Check everything, including the count and the times; raise only
    BadBatch."""
    stated = _check_untrusted(message, count)
    try:
        rows = pa.ipc.read_record_batch(message, SCHEMA)
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0][:REASON_CHARACTERS_MAX]
        raise BadBatch("Arrow refuses the message", reason=reason) from None
    # Looking at a column through pyarrow costs more than validating all of them. So what the metadata answers is not
    # asked again, and timestamps are read where they are.
    if _may_exceed(stated, count) and (fault := find_excess(rows)):
        raise BadBatch(fault.what, **fault.facts)
    times = np.frombuffer(message, np.int64, count, message.size - stated.body_bytes + stated.buffers[TIMES_OFFSET])
    if time_range(times) != (timestamp_us_min, timestamp_us_max):
        raise BadBatch("timestamps are not in the range of the header", at=TIMESTAMPS_AT)
    return rows


def _may_exceed(stated: batch_metadata.Numbers, count: int) -> bool:
    """Whether any event could exceed its bounds: that takes keys, headers or a long payload."""
    key_nulls, header_nulls = stated.nodes[3], stated.nodes[5]
    return key_nulls < count or header_nulls < count or stated.buffers[-1] > EVENT_PAYLOAD_BYTES_MAX


def _check_untrusted(message: pa.Buffer, count: int) -> batch_metadata.Numbers:
    """Check that the metadata states ``count`` rows of our schema within the message; BadBatch if not."""
    if message.size < PREFIX.size:
        raise BadBatch("message is cut off", need=PREFIX.size, have=message.size)
    continuation, metadata_bytes = PREFIX.unpack_from(message)
    body_bytes = message.size - PREFIX.size - metadata_bytes
    if continuation != CONTINUATION:
        raise BadBatch("not an Arrow message", at=0)
    if not 0 < metadata_bytes <= BATCH_METADATA_BYTES_MAX or metadata_bytes % ALIGNMENT_BYTES or body_bytes < 0:
        raise BadBatch("impossible length of metadata", at=4, need=metadata_bytes, limit=BATCH_METADATA_BYTES_MAX)
    stated = batch_metadata.read_untrusted(message.slice(PREFIX.size, metadata_bytes).to_pybytes())
    if stated.body_bytes != body_bytes:
        raise BadBatch("body is not as long as stated", need=stated.body_bytes, have=body_bytes)
    if stated.rows != count:
        raise BadBatch("not as many rows as the header says", need=count, have=stated.rows)
    _check_nodes(stated.nodes, count, body_bytes)
    _check_buffers(stated.buffers, body_bytes)
    return stated


def _check_nodes(nodes: tuple[int, ...], count: int, body_bytes: int) -> None:
    lengths, nulls = nodes[::2], nodes[1::2]
    entries = lengths[ENTRIES]
    if lengths != (count, count, count, entries, entries, entries, count):
        raise BadBatch("columns differ in length", lengths=lengths)
    if not 0 <= entries <= body_bytes // ENTRY_BYTES_MIN:
        raise BadBatch("more headers than there is room for", have=entries, limit=body_bytes // ENTRY_BYTES_MIN)
    _, keys, headers, *_ = nulls
    if nulls != (0, keys, headers, 0, 0, 0, 0) or not 0 <= keys <= count or not 0 <= headers <= count:
        raise BadBatch("nulls in a column that cannot have any", nulls=nulls)


def _check_buffers(buffers: tuple[int, ...], body_bytes: int) -> None:
    end = 0
    for offset, length in zip(buffers[::2], buffers[1::2], strict=True):
        if not length:
            continue
        if offset < end or offset % ALIGNMENT_BYTES or not 0 < length <= body_bytes - offset:
            raise BadBatch("buffer is at an impossible place", offset=offset, length=length, least=end, end=body_bytes)
        end = offset + length
