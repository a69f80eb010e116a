"""Decoding an Arrow column of datagrams into a table, for Spark and for busy gateways.

Every row says the same as ``parse_untrusted`` says of that datagram: its fields, or the reason it is rejected. Sealed
packets, values split over several TLVs, and packets with several strings or JSON objects go through that parser row by
row; everything else is numpy and Arrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.wire.columns import (
    REASON_NAMES,
    Block,
    Mask,
    Positions,
    binary_column,
    blocks,
    fixed_column,
    nullify,
    number_column,
)
from weft.wire.emm.canonical import canonical_prefix_bytes
from weft.wire.emm.columnar_walk import SLOTS, Walked, walk
from weft.wire.emm.fields import DEFAULT_RULES, SIZES, EventType, Field, Profile, Rules
from weft.wire.emm.packet import Packet
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.values import join_chunks
from weft.wire.reject import OK, BadPacket, Reject
from weft.wire.tlv import HEAD_BYTES

# ``event_name`` to ``json_value`` are the first data field of their type; ``value_count`` says how many there are.
# ``signed_bytes``: how many leading bytes of the datagram are its canonical bytes; null where their order differs.
SCHEMA = pa.schema(
    {
        "reject": pa.string(),
        "message_id": pa.uint32(),
        "flags": pa.uint8(),
        "event_type": pa.uint8(),
        "timestamp_s": pa.uint64(),
        "value_count": pa.int16(),
        "event_name": pa.string(),
        "int_value": pa.int32(),
        "float_value": pa.float32(),
        "binary_value": pa.binary(),
        "json_value": pa.string(),
        "node_id": pa.binary(SIZES[Field.NODE_ID]),
        "auth_key_id": pa.binary(SIZES[Field.AUTH_KEY_ID]),
        "signed_at_s": pa.uint64(),
        "public_key": pa.binary(SIZES[Field.PUBLIC_KEY]),
        "hmac": pa.binary(SIZES[Field.HMAC]),
        "signature": pa.binary(SIZES[Field.SIGNATURE]),
        "signed_bytes": pa.int32(),
    }
)
_FIXED = {
    "node_id": Field.NODE_ID,
    "auth_key_id": Field.AUTH_KEY_ID,
    "public_key": Field.PUBLIC_KEY,
    "hmac": Field.HMAC,
    "signature": Field.SIGNATURE,
}


class _Object(msgspec.Struct):
    """Any JSON object: what is in it is looked through and not kept."""


# The quick check sees neither bytes that are not UTF-8 nor numbers past a float's range; the other one is the parser's.
_check_object = msgspec.json.Decoder(_Object).decode
_check_json = msgspec.json.Decoder(dict[str, Any]).decode


def decode_column(datagrams: pa.Array | pa.ChunkedArray, rules: Rules = DEFAULT_RULES) -> pa.Table:
    """One row per datagram, as in ``SCHEMA``; ``reject`` is null for good packets, all else is null for bad ones."""
    return pa.Table.from_batches([_decode_block(block, rules) for block in blocks(datagrams)], SCHEMA)


def row_of(packet: Packet) -> dict[str, Any]:
    """The row of a good packet: what the columns mean, for the packets that are read one by one."""
    first: dict[int, Any] = {}
    for kind, value in packet.values:
        first.setdefault(kind, value)
    json_chunks = [field for field in packet.tlvs() if field.type == Field.JSON]
    return {
        "reject": None,
        "message_id": packet.message_id,
        "flags": packet.flags,
        "event_type": packet.event_type,
        "timestamp_s": packet.timestamp_s,
        "value_count": len(packet.values),
        "event_name": first.get(Field.STRING),
        "int_value": first.get(Field.INTEGER),
        "float_value": first.get(Field.FLOAT),
        "binary_value": first.get(Field.BINARY),
        "json_value": join_chunks(json_chunks)[0].value.decode() if json_chunks else None,
        "signed_at_s": packet.signed_at_s,
        "signed_bytes": canonical_prefix_bytes(packet),
        **{name: packet.fields.get(field) for name, field in _FIXED.items()},
    }


def _decode_block(block: Block, rules: Rules) -> pa.RecordBatch:
    walked = walk(block, rules)
    names = _values(block, walked, Field.STRING)
    texts = _values(block, walked, Field.JSON)
    _refuse_values(walked, names, texts)
    _refuse_by_rules(walked, rules)
    fast = _columns(block, walked, names, texts)
    by_hand = np.flatnonzero(walked.scalar & (walked.rejects == OK))
    return fast if not len(by_hand) else _replace_rows(fast, block, by_hand, rules)


def _values(block: Block, walked: Walked, field: Field) -> pa.Array:
    """The first value of a data type of varying size."""
    at = walked.positions[SLOTS[field]]
    valid = (at >= 0) & (walked.rejects == OK)
    return binary_column(block, at + HEAD_BYTES, block.data[at + 1].astype(np.int64), valid)


def _refuse_values(walked: Walked, names: pa.Array, texts: pa.Array) -> None:
    """Strings must be UTF-8, JSON must be an object in it; rows for the scalar parser are left to it."""
    try:
        names.cast(pa.string())
    except pa.ArrowInvalid:
        walked.refuse(_failing(names, bytes.decode) & ~walked.scalar, Reject.TLV_VALUE)
    if texts.null_count == len(texts):
        return
    if not _are_plain_objects(texts):
        walked.refuse(_failing(texts, _check_json) & ~walked.scalar, Reject.TLV_VALUE)


def _are_plain_objects(texts: pa.Array) -> bool:
    """Whether all are JSON objects for sure, as they mostly are; one by one takes three times as long."""
    try:
        texts.cast(pa.string())
        deque(map(_check_object, texts.drop_null().to_pylist()), maxlen=0)
    except (ValueError, RecursionError):
        return False
    letters = np.frombuffer(texts.buffers()[2], np.uint8)
    exponents = ((letters[1:] | 0x20) == ord("e")) & (letters[:-1] - np.uint8(ord("0")) < 10)
    return not exponents.any()


def _failing(values: pa.Array, check: Callable[[bytes], object]) -> Mask:
    """Rows whose value ``check`` refuses, one by one."""
    failing = np.zeros(len(values), np.bool_)
    for row, value in enumerate(values.to_pylist()):
        if value is not None:
            try:
                check(value)
            except (ValueError, RecursionError):  # UnicodeDecodeError and msgspec's errors are ValueErrors
                failing[row] = True
    return failing


def _refuse_by_rules(walked: Walked, rules: Rules) -> None:
    """What must hold for the packet as a whole (``parse._check_rules``)."""
    by_array = ~walked.scalar
    authenticated = walked.has(Field.HMAC) | walked.has(Field.SIGNATURE)
    named = walked.has(Field.NODE_ID)
    walked.refuse(authenticated & ~named & by_array, Reject.ANONYMOUS)
    is_event = walked.event_types == EventType.EVENT
    is_hello = walked.event_types == EventType.HELLO
    lacking = np.where(is_event, ~walked.has(Field.STRING), ~named)
    lacking |= is_hello & ~walked.has(Field.BINARY)
    lacking |= ~is_event & ~is_hello & ~walked.has(Field.TIMESTAMP)
    walked.refuse(lacking & by_array, Reject.MISSING_FIELD)
    if rules.profile == Profile.INTEROP_V1:
        complete = named & walked.has(Field.AUTH_KEY_ID) & authenticated
        walked.refuse(~complete & by_array, Reject.PROFILE)


def _columns(block: Block, walked: Walked, names: pa.Array, texts: pa.Array) -> pa.RecordBatch:
    good = walked.rejects == OK
    by_array = good & ~walked.scalar
    columns: dict[str, pa.Array] = {
        "reject": _reject_column(walked, good),
        "message_id": number_column(walked.message_ids, good, pa.uint32()),
        "flags": number_column(walked.flags, good, pa.uint8()),
        "event_type": number_column(walked.event_types, good, pa.uint8()),
        "timestamp_s": number_column(walked.timestamps_s, good, pa.uint64()),
        "value_count": number_column(walked.value_counts, good, pa.int16()),
        "event_name": nullify(names, by_array & walked.has(Field.STRING)).cast(pa.string()),
        "int_value": _number(block, walked, Field.INTEGER, ">i4", good, pa.int32()),
        "float_value": _number(block, walked, Field.FLOAT, ">f4", good, pa.float32()),
        "binary_value": _values(block, walked, Field.BINARY),
        "json_value": nullify(texts, by_array & walked.has(Field.JSON)).cast(pa.string()),
        "signed_at_s": _number(block, walked, Field.TIMESTAMP, ">u8", good, pa.uint64()),
        "signed_bytes": number_column(_signed_bytes(block, walked), good & ~walked.reorders, pa.int32()),
    }
    for name, field in _FIXED.items():
        at = walked.positions[SLOTS[field]]
        columns[name] = fixed_column(block, at + HEAD_BYTES, (at >= 0) & good, SIZES[field])
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _number(block: Block, walked: Walked, field: Field, dtype: str, good: Mask, kind: pa.DataType) -> pa.Array:
    at = walked.positions[SLOTS[field]]
    valid = (at >= 0) & good
    if not valid.any():
        return pa.nulls(len(at), kind)
    return number_column(block.gather(np.where(valid, at + HEAD_BYTES, 0), dtype), valid, kind)


def _signed_bytes(block: Block, walked: Walked) -> Positions:
    hmac_at = walked.positions[SLOTS[Field.HMAC]]
    signature_at = walked.positions[SLOTS[Field.SIGNATURE]]
    end = np.where(hmac_at >= 0, hmac_at, np.where(signature_at >= 0, signature_at, block.ends))
    return end - block.starts


def _reject_column(walked: Walked, good: Mask) -> pa.Array:
    if good.all():
        return pa.nulls(len(good), pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(walked.rejects, mask=good), REASON_NAMES).dictionary_decode()


def _replace_rows(fast: pa.RecordBatch, block: Block, rows: npt.NDArray[np.int64], rules: Rules) -> pa.RecordBatch:
    """Replace the arrays' results for ``rows`` by those of the scalar parser."""
    data = block.data.tobytes()
    by_hand: list[dict[str, Any]] = []
    for row in rows:
        try:
            by_hand.append(row_of(parse_untrusted(data[block.starts[row] : block.ends[row]], rules)))
        except BadPacket as error:
            by_hand.append({"reject": str(error.reason)})
    order = np.arange(len(block))
    order[rows] = len(block) + np.arange(len(rows))
    both = pa.concat_batches([fast, pa.RecordBatch.from_pylist(by_hand, SCHEMA)])
    return both.take(pa.array(order))
