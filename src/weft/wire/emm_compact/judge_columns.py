"""``judge`` for a block of EMM-C datagrams at once: the same questions in the same order, each asked of all rows.

Group HMACs are computed one by one and compared all at once. Signatures wait for ``verify``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.wire.columns import Bytes, Mask, Positions, numbers, valid
from weft.wire.emm_compact.auth import KeyRing, verify_untrusted
from weft.wire.emm_compact.columnar import SIGNATURE_SIZES, decode_column
from weft.wire.emm_compact.header import HEADER_BYTES, TYPE_MASK
from weft.wire.emm_compact.judge import (
    DEFAULT_TERMS,
    GROUPED,
    MARK_BYTES,
    SIGNATURE_IN_MARK,
    TRIPLE_AT,
    TRIPLE_BYTES,
    Epochs,
    Terms,
)
from weft.wire.emm_compact.numbering import EPOCHS
from weft.wire.emm_compact.packet import SIGNATURE_AT, decode_untrusted
from weft.wire.hmacs import DIGEST_BYTES, Prepared, digests, prepared
from weft.wire.judged import JudgedBlock
from weft.wire.reject import CODES, BadPacket, Reject
from weft.wire.seen import Seen

NO_TYPE: Final = -1  # of rows that were refused for their form
SIZE_BY_TYPE: Final = SIGNATURE_SIZES.astype(np.int64)

Times = float | npt.NDArray[np.float64]


class JudgedRows(JudgedBlock):
    """A block of EMM-C. ``types`` are event types."""

    def __init__(self, datagrams: pa.BinaryArray) -> None:
        super().__init__(datagrams, decode_column(datagrams))
        self._bytes = np.frombuffer(self._data, np.uint8)
        self.types = np.full(len(datagrams), NO_TYPE, np.int8)
        good = self.good
        self.types[good] = (self._bytes[self._offsets[:-1][good]] & TYPE_MASK).astype(np.int8)

    @cached_property
    def marks(self) -> Bytes:
        """``judge.replay_mark`` of each row; zeros for rows that are malformed."""
        marks = np.zeros((len(self), MARK_BYTES), np.uint8)
        for kind in np.unique(self.types[self.types != NO_TYPE]).tolist():
            rows, size = np.flatnonzero(self.types == kind), int(SIZE_BY_TYPE[kind])
            marks[rows, :TRIPLE_BYTES] = self._at(rows, TRIPLE_AT, TRIPLE_BYTES)
            marks[rows, SIGNATURE_IN_MARK : SIGNATURE_IN_MARK + size] = self._at(rows, SIGNATURE_AT, size)
        return marks

    def signed(self, rows: Positions) -> list[bytes]:
        """What the signatures of these rows cover: header and body (EMC-05)."""
        data = self._data
        begins, ends = self._offsets[rows], self._offsets[rows + 1]
        bodies = begins + SIGNATURE_AT + SIZE_BY_TYPE[self.types[rows]]
        return [
            data[begin : begin + HEADER_BYTES] + data[body:end]
            for begin, body, end in zip(begins.tolist(), bodies.tolist(), ends.tolist(), strict=True)
        ]

    def tags(self, rows: Positions) -> tuple[Bytes, Bytes]:
        """The group HMACs of these rows, and which of their bytes count: heartbeats have half of them."""
        counts = np.where(np.arange(DIGEST_BYTES) < SIZE_BY_TYPE[self.types[rows]][:, None], 0xFF, 0).astype(np.uint8)
        found = self.marks[rows, SIGNATURE_IN_MARK : SIGNATURE_IN_MARK + DIGEST_BYTES]
        return found, counts

    def _at(self, rows: Positions, at: int, size: int) -> Bytes:
        """The same bytes of each row, which are well formed."""
        found: Bytes = self._bytes[(self._offsets[rows] + at)[:, None] + np.arange(size)]
        return found


class ColumnJudge:
    """``seen`` remembers accepted packets; without it, the caller must find replays (``JudgedRows.marks``)."""

    def __init__(self, ring: KeyRing, terms: Terms = DEFAULT_TERMS, *, seen: Seen | None = None) -> None:
        self._terms = terms
        self._seen = seen
        self.use(ring)

    def use(self, ring: KeyRing) -> None:
        """Believe these keys from now on."""
        self._ring = ring
        self._group_keys: list[Prepared] = [prepared(key) for key in reversed(ring.group_keys)]  # newest first

    def sift(self, datagrams: pa.BinaryArray, now_s: Times) -> JudgedRows:
        """``Judge.sift`` for each row; raise nothing, whatever the bytes. ``now_s``: one for all rows, or one each."""
        rows = JudgedRows(datagrams)
        self._check_fresh(rows, now_s)
        candidates = np.flatnonzero(rows.good)
        grouped = np.isin(rows.types, [int(kind) for kind in GROUPED])
        self._check_group(rows, np.flatnonzero(grouped & rows.good))
        self._admit(rows, candidates, grouped, now_s)
        rows.waiting = rows.good & ~grouped
        return rows

    def verify(self, datagrams: pa.BinaryArray, now_s: float) -> JudgedRows:
        """``Judge.verify`` of each: packets that ``sift`` left waiting."""
        rows = JudgedRows(datagrams)
        self._check_fresh(rows, now_s)
        candidates = np.flatnonzero(rows.good)
        for row in candidates.tolist():
            try:
                verify_untrusted(decode_untrusted(rows.datagram(row)), self._ring)
            except BadPacket as error:
                rows.refuse_row(row, error.reason)
        self._admit(rows, candidates, np.ones(len(rows), np.bool_), now_s)
        return rows

    # --- the questions -----------------------------------------------------------------------------------------------

    def ages_s(self, rows: JudgedRows, now_s: Times) -> npt.NDArray[np.float64]:
        """By their epochs, which wrap around: the nearest one counts, half of them ahead of now, half behind."""
        if self._terms.epochs is Epochs.ANY:
            return np.zeros(len(rows))
        tick_s = self._terms.tick_s
        ticks = np.floor(np.asarray(now_s) / tick_s) - numbers(rows.columns.column("epoch"))
        ages: npt.NDArray[np.float64] = ((ticks + EPOCHS // 2) % EPOCHS - EPOCHS // 2) * tick_s
        return ages

    def _check_fresh(self, rows: JudgedRows, now_s: Times) -> None:
        ages_s = self.ages_s(rows, now_s)
        rows.refuse(ages_s > self._terms.seen_s, Reject.STALE)
        rows.refuse(-ages_s > self._terms.skew_s_max, Reject.FUTURE)
        hints = rows.columns.column("expiry_s")
        if hints.null_count < len(hints):
            rows.refuse(valid(hints) & (ages_s > numbers(hints)), Reject.EXPIRED)

    def _check_group(self, rows: JudgedRows, checked: Positions) -> None:
        """Any of the group keys will do; packets that the newest did not make are tried with the one before."""
        if not len(checked):
            return
        if not self._group_keys:
            rows.codes[checked] = CODES[Reject.UNKNOWN_KEY]
            return
        messages = rows.signed(checked)
        tags, counts = rows.tags(checked)
        left = np.arange(len(checked))
        for key in self._group_keys:
            made = b"".join(digests((key, messages[place]) for place in left.tolist()))
            differs = (np.frombuffer(made, np.uint8).reshape(-1, DIGEST_BYTES) ^ tags[left]) & counts[left]
            left = left[np.bitwise_or.reduce(differs, axis=1) != 0]
            if not len(left):
                return
        rows.codes[checked[left]] = CODES[Reject.BAD_HMAC]

    def _admit(self, rows: JudgedRows, candidates: Positions, marking: Mask, now_s: Times) -> None:
        """Refuse what was seen before, whatever else is wrong with it, and mark what is proven of the rest."""
        if self._seen is None or not len(candidates):
            return
        assert isinstance(now_s, float | int), "a memory has one clock"
        hashes = self._seen.hashes(rows.marks[candidates]).tolist()
        proven = (marking & rows.good)[candidates]
        for place in self._seen.admit(hashes, None if proven.all() else proven.tolist(), now_s):
            rows.codes[candidates[place]] = CODES[Reject.REPLAY]
