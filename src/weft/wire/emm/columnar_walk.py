"""The parser's checks on a whole block of datagrams at once, in the parser's order (see ``parse``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.wire.columns import Block, Mask, Positions
from weft.wire.emm.fields import (
    ANY_SIZE,
    DATA_LAST,
    EVENT_TYPES,
    FLAGS_KNOWN,
    FLAGS_SEALED,
    HEADER_BYTES,
    NEXT_RANK_BY_TYPE,
    RANK_BY_TYPE,
    SINGLETON_FIRST,
    SINGLETON_LAST,
    SIZE_BY_TYPE,
    VERSION,
    Field,
    Rules,
)
from weft.wire.reject import CODES, OK, Reject
from weft.wire.tlv import CHUNK_BYTES_MAX, HEAD_BYTES

# Where the position of each known field is kept; the last slot takes what is not remembered.
SLOTS = {field: slot for slot, field in enumerate(Field)}
_FORGET = len(SLOTS)
_KNOWN_EVENT = np.isin(np.arange(256), list(EVENT_TYPES))

# What the two head bytes of a field (type, length) say, in one look-up: the rank, the lowest rank that may follow, the
# slot, and these bits.
_RANK_MASK, _NEXT_SHIFT, _SLOT_SHIFT, _SLOT_MASK = 0x1FF, 9, 18, 0xF
_DATA, _SINGLETON, _MISSIZED, _REORDERS, _SCALAR, _CHECKED = (1 << bit for bit in range(22, 28))


def _describe_head(kind: int, size: int) -> int:
    is_data = 0 < kind <= DATA_LAST
    head = RANK_BY_TYPE[kind] | NEXT_RANK_BY_TYPE[kind] << _NEXT_SHIFT
    head |= SLOTS.get(kind, _FORGET) << _SLOT_SHIFT  # type: ignore[call-overload]
    head |= _DATA * is_data
    head |= _SINGLETON * (SINGLETON_FIRST <= kind <= SINGLETON_LAST)
    head |= _MISSIZED * (SIZE_BY_TYPE[kind] not in (ANY_SIZE, size))
    # Wire order and canonical order may differ (see ``canonical``).
    head |= _REORDERS * (kind in (Field.PUBLIC_KEY, Field.ENCRYPTION) or kind > SINGLETON_LAST)
    head |= _SCALAR * (kind == Field.ENCRYPTION or (is_data and size == CHUNK_BYTES_MAX))
    head |= _CHECKED * (kind in (Field.STRING, Field.JSON))  # only the first one's content is looked at here
    return int(head)


_HEADS = np.array([_describe_head(word >> 8, word & 0xFF) for word in range(1 << 16)], np.int32)


@dataclass(frozen=True, slots=True)
class Walked:
    """What the walk found out about each row. ``rejects`` holds codes (``REASONS``) or ``OK``."""

    message_ids: npt.NDArray[np.uint32]
    flags: npt.NDArray[np.uint8]
    event_types: npt.NDArray[np.uint8]
    timestamps_s: npt.NDArray[np.uint64]
    rejects: npt.NDArray[np.int8]
    positions: Positions  # [slot, row]: where the first field of that type begins, -1 without one
    value_counts: npt.NDArray[np.int32]
    reorders: Mask  # canonical bytes are not a prefix of the packet
    scalar: Mask  # needs the scalar parser: sealed, split values, several strings or JSON objects

    def has(self, field: Field) -> Mask:
        present: Mask = self.positions[SLOTS[field]] >= 0
        return present

    def refuse(self, rows: Mask, reason: Reject) -> None:
        """Reject ``rows`` unless something else was wrong with them before."""
        self.rejects[rows & (self.rejects == OK)] = CODES[reason]

    def finish(self, rows: Positions, found: npt.NDArray[np.int32], values: npt.NDArray[np.int32]) -> None:
        """Write down what the fields of ``rows`` amount to, once their last one is read."""
        self.reorders[rows] = (found & _REORDERS) != 0
        self.scalar[rows] |= (found & _SCALAR) != 0
        self.value_counts[rows] = values


def walk(block: Block, rules: Rules) -> Walked:
    walked = _read_headers(block, rules)
    _read_fields(block, rules, walked)
    return walked


def _read_headers(block: Block, rules: Rules) -> Walked:
    rows = len(block)
    sizes = block.ends - block.starts
    short = sizes < HEADER_BYTES
    at = np.where(short, 0, block.starts)  # short rows are rejected; reading row 0's bytes for them does no harm
    data = block.data
    flags = data[at + 5]
    event_types = data[at + 6]
    lengths = block.gather(at + 15, ">u2").astype(np.int64)
    walked = Walked(
        message_ids=block.gather(at + 1, ">u4").astype(np.uint32),
        flags=flags,
        event_types=event_types,
        timestamps_s=block.gather(at + 7, ">u8").astype(np.uint64),
        rejects=np.full(rows, OK, np.int8),
        positions=np.full((len(SLOTS) + 1, rows), -1, np.int64),
        value_counts=np.zeros(rows, np.int32),
        reorders=np.zeros(rows, np.bool_),
        scalar=(flags & FLAGS_SEALED) != 0,
    )
    walked.refuse(short, Reject.TRUNCATED)
    walked.refuse(data[at] != VERSION, Reject.VERSION)
    walked.refuse((sizes > rules.packet_bytes_max) | (lengths > rules.payload_bytes_max), Reject.OVERSIZE)
    walked.refuse(flags > FLAGS_KNOWN, Reject.RESERVED_FLAGS)
    walked.refuse(sizes != lengths + HEADER_BYTES, Reject.LENGTH_MISMATCH)
    walked.refuse(~_KNOWN_EVENT[event_types], Reject.EVENT_TYPE)
    return walked


def _read_fields(block: Block, rules: Rules, walked: Walked) -> None:
    """Take the k-th field of every row in step k; rows leave when they end or fail."""
    positions = walked.positions.reshape(-1)
    rows = np.flatnonzero(walked.rejects == OK)
    at = block.starts[rows] + HEADER_BYTES
    ends = block.ends[rows]
    rank_min = np.zeros(len(rows), np.int32)
    found = np.zeros(len(rows), np.int32)  # the bits of all heads so far
    values = np.zeros(len(rows), np.int32)
    for step in range(rules.tlvs_max + 1):
        going = at < ends
        if not going.all():
            done = ~going
            walked.finish(rows[done], found[done], values[done])
            rows, at, ends, rank_min, found, values = _keep(going, rows, at, ends, rank_min, found, values)
        if not len(rows):
            return
        heads = _HEADS[block.gather(at, ">u2")]
        next_at = at + HEAD_BYTES + block.data[at + 1]
        wrong = _refuse_fields(walked, rows, heads, next_at > ends, rank_min, too_many=step == rules.tlvs_max)
        if wrong is not None:
            rows, at, ends, rank_min, found, values, heads, next_at = _keep(
                ~wrong, rows, at, ends, rank_min, found, values, heads, next_at
            )
        repeats = ((heads & _RANK_MASK) == rank_min) & ((heads & _DATA) != 0)
        slots = (heads >> _SLOT_SHIFT) & _SLOT_MASK
        if repeats.any():
            slots[repeats] = _FORGET
            found[repeats & ((heads & _CHECKED) != 0)] |= _SCALAR
        positions[slots * len(block) + rows] = at
        found |= heads
        values += (heads & _DATA) != 0
        rank_min = (heads >> _NEXT_SHIFT) & _RANK_MASK
        at = next_at


def _refuse_fields(
    walked: Walked,
    rows: Positions,
    heads: npt.NDArray[np.int32],
    overruns: Mask,
    rank_min: npt.NDArray[np.int32],
    *,
    too_many: bool,
) -> Mask | None:
    """Reject the rows whose field at this step is wrong, for the first reason in the parser's order."""
    misplaced = (heads & _RANK_MASK) < rank_min
    wrong: Mask = overruns | misplaced | ((heads & _MISSIZED) != 0) | too_many
    if not wrong.any():
        return None
    codes = np.full(len(rows), CODES[Reject.TLV_SIZE], np.int8)
    seen_before = walked.positions[(heads >> _SLOT_SHIFT) & _SLOT_MASK, rows] >= 0
    codes[misplaced] = CODES[Reject.TLV_ORDER]
    codes[misplaced & seen_before & ((heads & _SINGLETON) != 0)] = CODES[Reject.TLV_DUPLICATE]
    if too_many:
        codes[:] = CODES[Reject.TLV_COUNT]
    codes[overruns] = CODES[Reject.TLV_OVERRUN]
    walked.rejects[rows[wrong]] = codes[wrong]
    return wrong


def _keep(rows: Mask, *arrays: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    return tuple(array[rows] for array in arrays)
