"""A column of datagrams into columns of fields, many at a time, for Spark and for captures.

``packet.decode_untrusted`` is the definition: each row gets what it would get there, or the reason for refusing it.
The header and notifications, which are nearly all traffic, are read with numpy and Arrow. Two things go row by row,
because C code behind Python beats numpy at them: whether a JSON message is JSON, and the fields of commands, heartbeats
and joins.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.limits import EMC_PACKET_BYTES_MAX
from weft.wire.columns import REASON_NAMES, Block, Mask, Positions, binary_column, blocks, nullify, number_column
from weft.wire.emm_compact.body import NOTIFICATION_HEAD_BYTES, expiry_s_of, node_id_of
from weft.wire.emm_compact.codes import PRIORITY_BASE, EventType, FieldType, Format, Priority, label
from weft.wire.emm_compact.columnar_text import not_text
from weft.wire.emm_compact.header import HEADER_BYTES, RESERVED_BIT, TYPE_MASK, URGENT_BIT, VERSION, VERSION_SHIFT
from weft.wire.emm_compact.packet import SIGNATURE_AT, SIGNATURE_BYTES, body_at, decode_untrusted
from weft.wire.emm_compact.text import is_json
from weft.wire.emm_compact.values import NODE_ID_BYTES
from weft.wire.reject import BadPacket, Reject

# A refused row has nothing but ``reject``. Notifications alone have priority, format and message; a node id and an
# expiry hint are there when the packet has them.
SCHEMA: Final = pa.schema(
    {
        "reject": pa.string(),
        "event_id": pa.uint16(),
        "epoch": pa.uint16(),
        "offset": pa.uint16(),
        "urgent": pa.bool_(),
        "type": pa.string(),
        "signature": pa.binary(),
        "priority": pa.string(),
        "format": pa.string(),
        "message": pa.binary(),
        "node_id": pa.binary(NODE_ID_BYTES),
        "expiry_s": pa.uint8(),
    }
)

Codes = npt.NDArray[np.int8]
Heads = npt.NDArray[np.uint64]  # eight header bytes as one number each

GOOD: Final = 0
CODES: Final = {reason: code for code, reason in enumerate(Reject, start=1)}

TYPE_NAMES: Final = pa.array([label(code) for code in EventType])
PRIORITY_NAMES: Final = pa.array([label(code) for code in Priority])
FORMAT_NAMES: Final = pa.array([label(code) for code in Format])

PRIORITY_FIRST: Final = np.uint8(PRIORITY_BASE + min(Priority))
FORMAT_FIRST: Final = np.uint8(min(Format))
SIGNATURE_SIZES: Final = np.array([SIGNATURE_BYTES[event_type] for event_type in EventType])
NOTIFICATION_AT: Final = body_at(EventType.NOTIFICATION)
MESSAGE_AT: Final = NOTIFICATION_AT + NOTIFICATION_HEAD_BYTES


def decode_column(datagrams: pa.Array | pa.ChunkedArray) -> pa.Table:
    """One row per datagram, as in ``SCHEMA``; a null counts as an empty datagram. No bytes in it raise anything."""
    return pa.Table.from_batches([_decode_block(block) for block in blocks(datagrams)], SCHEMA)


def _decode_block(block: Block) -> pa.RecordBatch:
    sizes = block.ends - block.starts
    heads = block.gather(block.starts, ">u8").astype(np.uint64)
    reasons = _header_reasons(heads, sizes)
    types = (heads >> 56 & TYPE_MASK).astype(np.int8)

    # Bytes behind the end of a short row belong to its neighbour or the padding; such rows are refused for their size.
    priorities = block.data[block.starts + NOTIFICATION_AT] - PRIORITY_FIRST
    formats = block.data[block.starts + NOTIFICATION_AT + 1] - FORMAT_FIRST
    others = (reasons == GOOD) & (types != EventType.NOTIFICATION)
    notifications = (reasons == GOOD) & (types == EventType.NOTIFICATION)
    reasons[notifications] = _notification_reasons(block, sizes, priorities, formats)[notifications]
    notifications &= reasons == GOOD
    messages = _messages(block, notifications)
    _refuse_messages(block, messages, reasons, notifications, formats)
    node_ids, expiries = _decode_one_by_one(block, others, reasons)

    good = reasons == GOOD
    notifications &= good
    columns = {
        "reject": _names(REASON_NAMES, reasons - 1, ~good),
        "event_id": number_column(heads >> 40 & 0xFFFF, good, pa.uint16()),
        "epoch": number_column(heads >> 24 & 0xFFFF, good, pa.uint16()),
        "offset": number_column(heads >> 8 & 0xFFFF, good, pa.uint16()),
        "urgent": number_column(heads >> 56 & URGENT_BIT != 0, good, pa.bool_()),
        "type": _names(TYPE_NAMES, types, good),
        "signature": binary_column(block, block.starts + SIGNATURE_AT, SIGNATURE_SIZES[types & 0b11], good),
        "priority": _names(PRIORITY_NAMES, priorities, notifications),
        "format": _names(FORMAT_NAMES, formats, notifications),
        "message": nullify(messages, notifications),
        "node_id": node_ids,
        "expiry_s": expiries,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _header_reasons(heads: Heads, sizes: Positions) -> Codes:
    """What is wrong with each header, in the order of ``header.decode_untrusted``."""
    first = heads >> 56
    return _first_of(
        (sizes < HEADER_BYTES, Reject.TRUNCATED),
        (sizes > EMC_PACKET_BYTES_MAX, Reject.OVERSIZE),
        (first >> VERSION_SHIFT != VERSION, Reject.VERSION),
        (first & RESERVED_BIT != 0, Reject.RESERVED_FLAGS),
        (first & TYPE_MASK > EventType.JOIN, Reject.EVENT_TYPE),
        (sizes - HEADER_BYTES != (heads & 0xFF).astype(np.int64), Reject.LENGTH_MISMATCH),
    )


def _notification_reasons(
    block: Block, sizes: Positions, priorities: npt.NDArray[np.uint8], formats: npt.NDArray[np.uint8]
) -> Codes:
    """What is wrong with each row if it is a notification with a good header, up to its message."""
    signature_types = block.data[block.starts + HEADER_BYTES]
    signature_sizes = block.data[block.starts + HEADER_BYTES + 1]
    return _first_of(
        ((sizes == HEADER_BYTES) | (signature_types != FieldType.SIGNATURE), Reject.UNSIGNED),
        (sizes == HEADER_BYTES + 1, Reject.TLV_OVERRUN),
        (signature_sizes != SIGNATURE_BYTES[EventType.NOTIFICATION], Reject.TLV_SIZE),
        (sizes < NOTIFICATION_AT, Reject.TLV_OVERRUN),
        (sizes < MESSAGE_AT, Reject.MISSING_FIELD),
        ((priorities >= len(Priority)) | (formats >= len(Format)), Reject.TLV_VALUE),
    )


def _first_of(*checks: tuple[Mask, Reject]) -> Codes:
    """For each row the code of the first reason that applies, or GOOD."""
    reasons = np.zeros(len(checks[0][0]), np.int8)
    for applies, reason in reversed(checks):
        reasons[applies] = CODES[reason]
    return reasons


def _refuse_messages(
    block: Block, messages: pa.Array, reasons: Codes, rows: Mask, formats: npt.NDArray[np.uint8]
) -> None:
    """Refuse those of ``rows`` whose messages do not have their formats (``text.check_message_untrusted``)."""
    texts = rows & (formats == Format.PLAIN_TEXT - FORMAT_FIRST)
    if texts.any():
        only_texts = messages if (texts == rows).all() else _messages(block, texts)
        reasons[not_text(only_texts)] = CODES[Reject.TLV_VALUE]
    jsons = np.flatnonzero(rows & (formats == Format.JSON - FORMAT_FIRST))
    for row, message in zip(jsons, messages.take(pa.array(jsons)).to_pylist(), strict=True):
        if not is_json(message):
            reasons[row] = CODES[Reject.TLV_VALUE]


def _messages(block: Block, rows: Mask) -> pa.Array:
    """The messages of ``rows``, which are notifications; null elsewhere."""
    at = block.starts + MESSAGE_AT
    return binary_column(block, at, block.ends - at, rows)


def _decode_one_by_one(block: Block, rows: Mask, reasons: Codes) -> tuple[pa.Array, pa.Array]:
    """Node ids and expiry hints of ``rows``, which are no notifications; refuses what the scalar decoder refuses."""
    node_type, expiry_type = SCHEMA.field("node_id").type, SCHEMA.field("expiry_s").type
    if not rows.any():
        return pa.nulls(len(block), node_type), pa.nulls(len(block), expiry_type)
    node_ids: list[bytes | None] = [None] * len(block)
    expiries: list[int | None] = [None] * len(block)
    data = block.data.tobytes()
    for row in np.flatnonzero(rows):
        try:
            body = decode_untrusted(data[block.starts[row] : block.ends[row]]).body
            node_ids[row], expiries[row] = node_id_of(body), expiry_s_of(body)
        except BadPacket as refusal:
            reasons[row] = CODES[refusal.reason]
    return pa.array(node_ids, node_type), pa.array(expiries, expiry_type)


def _names(names: pa.Array, places: npt.NDArray[Any], rows: Mask) -> pa.Array:
    """For each of ``rows`` the name at its place; null elsewhere."""
    if not rows.any():
        return pa.nulls(len(rows), pa.string())
    indices = number_column(places, rows, pa.int8())
    return pa.DictionaryArray.from_arrays(indices, names).dictionary_decode()
