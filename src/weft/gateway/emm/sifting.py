"""A block of EMM datagrams while it is judged: what the codec says of each, and for what some have been refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.gateway.emm.rows import Arrived, Bytes, Rejected, raw_bytes
from weft.wire.columns import BLOCK_ROWS
from weft.wire.emm import Rules, Verdict
from weft.wire.emm.columnar import decode_column
from weft.wire.emm.replay import stand_in
from weft.wire.reject import Reject

Mask = npt.NDArray[np.bool_]
Verdicts = npt.NDArray[np.int8]  # places in VERDICTS

NODE_ID_BYTES: Final = 16
KEY_ID_BYTES: Final = 4
OK: Final = -1
Sender = tuple[bytes, bytes | None]  # node id, auth key id
REASONS: Final = tuple(Reject)
CODES: Final = {reason: code for code, reason in enumerate(REASONS)}
REASON_NAMES: Final = pa.array([str(reason) for reason in REASONS])
VERDICTS: Final = tuple(Verdict)
VERIFIED, UNVERIFIED_IDENTITY, UNSIGNED = (
    VERDICTS.index(verdict) for verdict in (Verdict.VERIFIED, Verdict.UNVERIFIED_IDENTITY, Verdict.UNSIGNED)
)


class Sifted:
    """Rows, in the order in which they arrived."""

    def __init__(self, arrived: Sequence[Arrived], rules: Rules) -> None:
        assert 0 < len(arrived) <= BLOCK_ROWS, "one block of the codec"
        self.arrived = arrived
        self.columns: pa.RecordBatch
        table = decode_column(pa.array([data for data, _ in arrived], pa.binary()), rules)
        (self.columns,) = table.to_batches()
        self.codes = np.full(len(arrived), OK, np.int8)
        rejects = self.columns.column("reject")
        if rejects.null_count < len(rejects):
            known = pc.index_in(rejects, REASON_NAMES)
            self.codes = known.fill_null(OK).to_numpy(zero_copy_only=False).astype(np.int8)

    @property
    def good(self) -> Mask:
        good: Mask = self.codes == OK
        return good

    def has(self, name: str) -> Mask:
        column = self.columns.column(name)
        if not column.null_count:
            return np.ones(len(column), np.bool_)
        valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
        return valid

    def numbers(self, name: str) -> npt.NDArray[np.uint64]:
        """Zero where there is none."""
        column = self.columns.column(name)
        if column.null_count:
            column = column.fill_null(0)
        values: npt.NDArray[np.uint64] = column.to_numpy(zero_copy_only=False).astype(np.uint64)
        return values

    def refuse(self, rows: Mask, reason: Reject) -> None:
        """Unless something else was wrong with them before."""
        self.codes[rows & self.good] = CODES[reason]

    def refuse_row(self, row: int, reason: Reject) -> None:
        if self.codes[row] == OK:
            self.codes[row] = CODES[reason]

    def senders_of(self, rows: npt.NDArray[np.int64]) -> list[Sender]:
        """Node id and key id of rows that are authenticated, which have a node id (EMM-16). One sender's rows share one
        tuple: there are many more packets than senders."""
        chosen = self.chosen(rows)
        key_ids = chosen.column("auth_key_id")
        # node id:16 key id:4 whether there is one:1
        labels = np.zeros((len(rows), NODE_ID_BYTES + KEY_ID_BYTES + 1), np.uint8)
        labels[:, :NODE_ID_BYTES] = raw_bytes(chosen.column("node_id"), NODE_ID_BYTES)
        labels[:, NODE_ID_BYTES:-1] = raw_bytes(key_ids, KEY_ID_BYTES)
        labels[:, -1] = 1 if not key_ids.null_count else key_ids.is_valid().to_numpy(zero_copy_only=False)
        cells: list[bytes] = labels.view(f"V{labels.shape[1]}").ravel().tolist()
        known = {cell: (cell[:NODE_ID_BYTES], cell[NODE_ID_BYTES:-1] if cell[-1] else None) for cell in set(cells)}
        return [known[cell] for cell in cells]

    def senders(self, verdicts: Verdicts) -> Bytes:
        """``wire.emm.replay_sender`` of each row (EMM-19); anything for rows that were refused."""
        senders = raw_bytes(self.columns.column("node_id"), NODE_ID_BYTES)
        unproven = np.flatnonzero((verdicts != VERIFIED) & self.good).tolist()
        if unproven:
            senders, keys = senders.copy(), self.columns.column("public_key")
            for row in unproven:
                signed = verdicts[row] == UNVERIFIED_IDENTITY
                known = keys[row].as_py() if signed else self.arrived[row].source.encode()
                senders[row] = np.frombuffer(stand_in(known), np.uint8)
        return senders

    def chosen(self, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The columns of these rows, which are in order and none twice."""
        return self.columns if len(rows) == len(self.arrived) else self.columns.take(pa.array(rows))

    def rejected(self) -> tuple[Rejected, ...]:
        return rejected(self.arrived, self.codes)

    def take(self, rows: Iterable[int]) -> tuple[Arrived, ...]:
        return tuple(self.arrived[row] for row in rows)


def rejected(arrived: Sequence[Arrived], codes: npt.NDArray[np.int8]) -> tuple[Rejected, ...]:
    """The rows with a code, and what it means."""
    rows = np.flatnonzero(codes != OK).tolist()
    return tuple(Rejected(arrived[row].data, arrived[row].source, REASONS[codes[row]]) for row in rows)
