"""Datagrams of one block while they are judged: what the judges of both header formats keep of each row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.wire.columns import BLOCK_ROWS, REASON_NAMES, Mask, side_by_side
from weft.wire.reject import CODES, OK, Reject


class JudgedBlock:
    """Datagrams in the order in which they arrived: what the codec found in each, and how it was judged.

    ``columns`` are the codec's. ``codes`` are places in ``REASONS``, or ``OK``; ``waiting`` are rows whose signature is
    still to be checked.
    """

    def __init__(self, datagrams: pa.BinaryArray, decoded: pa.Table) -> None:
        assert 0 < len(datagrams) <= BLOCK_ROWS, "one block of the codec"
        self.columns: pa.RecordBatch
        (self.columns,) = decoded.to_batches()
        self.codes = np.full(len(datagrams), OK, np.int8)
        self.waiting = np.zeros(len(datagrams), np.bool_)
        rejects = self.columns.column("reject")
        if rejects.null_count < len(rejects):
            known = pc.index_in(rejects, REASON_NAMES)
            self.codes = known.fill_null(OK).to_numpy(zero_copy_only=False).astype(np.int8)
        self._data, self._offsets = side_by_side(datagrams)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def good(self) -> Mask:
        """Not refused so far."""
        good: Mask = self.codes == OK
        return good

    @property
    def accepted(self) -> Mask:
        """Good, and nothing more to ask."""
        return self.good & ~self.waiting

    def datagram(self, row: int) -> bytes:
        return self._data[self._offsets[row] : self._offsets[row + 1]]

    def refuse(self, rows: Mask, reason: Reject) -> None:
        """Unless something else was wrong with them before."""
        self.codes[rows & self.good] = CODES[reason]

    def refuse_row(self, row: int, reason: Reject) -> None:
        if self.codes[row] == OK:
            self.codes[row] = CODES[reason]
