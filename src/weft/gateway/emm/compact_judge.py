"""Taking in EMM-C datagrams in bulk, as ``judge`` does with EMM: cheap questions first, group HMACs together.

Notifications become events on ``notification.<priority>``, heartbeats and joins go where EMM's heartbeats and hellos
go. Commands are for nodes that have handlers for them (EMC-07): a gateway has none and passes them over.
"""

from __future__ import annotations

from collections.abc import Sequence
from hmac import compare_digest
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.gateway.emm.accepting import US_PER_S, Payload
from weft.gateway.emm.hmacs import Prepared, digests, prepared
from weft.gateway.emm.rows import (
    Accepted,
    Arrived,
    Header,
    Judged,
    Rejected,
    hex_column,
    raw_bytes,
    same_text,
    uuid_column,
)
from weft.gateway.emm.seen import Hashes, Seen
from weft.gateway.emm.sifting import CODES, NODE_ID_BYTES, OK, REASON_NAMES, Mask, rejected
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, TopicMap
from weft.gateway.emm.values import ValueKind
from weft.limits import CLOCK_SKEW_S_MAX, REPLAY_WINDOW_S
from weft.model import Topic
from weft.wire import emm_compact
from weft.wire.columns import BLOCK_ROWS
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm_compact import SIGNATURE_BYTES, EventType, KeyRing, Proof
from weft.wire.emm_compact.codes import label
from weft.wire.emm_compact.columnar import decode_column
from weft.wire.emm_compact.header import HEADER_BYTES
from weft.wire.emm_compact.numbering import EPOCHS, TICK_S
from weft.wire.emm_compact.packet import SIGNATURE_AT, body_at
from weft.wire.reject import BadPacket, Reject

NUMBER_BYTES: Final = 6  # event id, epoch and offset
SENDER_BYTES: Final = 16  # of the signature: the shortest has no more
TYPES: Final = {label(kind): kind for kind in EventType}
TOPIC_OF: Final = {EventType.HEARTBEAT: HEARTBEAT_TOPIC, EventType.JOIN: HELLO_TOPIC}


class CompactJudge:
    """As ``Judge``. ``ignored`` counts commands."""

    def __init__(self, ring: KeyRing, seen: Seen, topics: TopicMap, payload: Payload = Payload.VALUE) -> None:
        self.ignored = 0
        self._seen = seen
        self._topics = topics
        self._payload = payload
        self.trust_changed(ring)

    def trust_changed(self, ring: KeyRing) -> None:
        self._ring = ring
        self._group_keys: list[Prepared] = [prepared(key) for key in reversed(ring.group_keys)]  # newest first

    def sort_out(self, arrived: Sequence[Arrived], unix_s: float) -> Judged:
        """What is to be thought of each datagram; raise nothing, whatever the bytes."""
        rows = _Rows(arrived)
        ages = rows.ages(unix_s)
        rows.refuse((ages > REPLAY_WINDOW_S / TICK_S), Reject.STALE)
        rows.refuse(ages < -CLOCK_SKEW_S_MAX / TICK_S, Reject.FUTURE)
        commands = rows.good & (rows.types == EventType.COMMAND)
        self.ignored += int(commands.sum())
        grouped = rows.good & np.isin(rows.types, (EventType.NOTIFICATION, EventType.HEARTBEAT))
        self._check_group(rows, np.flatnonzero(grouped))
        joins = np.flatnonzero(rows.good & (rows.types == EventType.JOIN))
        hashes = self._hashes(rows)
        known = [row for row, value in zip(joins.tolist(), hashes[joins].tolist(), strict=True) if value in self._seen]
        for row in known:
            rows.codes[row] = CODES[Reject.REPLAY]
        waiting = tuple(arrived[row] for row in joins.tolist() if rows.codes[row] == OK)
        return self._judged(rows, grouped & rows.good, Proof.GROUP, hashes, unix_s, waiting)

    def verify(self, waiting: Sequence[Arrived], unix_s: float) -> Judged:
        """Check the signatures of what ``sort_out`` left waiting."""
        rows = _Rows(waiting)
        for row in np.flatnonzero(rows.good).tolist():
            try:
                emm_compact.verify_untrusted(emm_compact.decode_untrusted(waiting[row].data), self._ring)
            except BadPacket as error:
                rows.codes[row] = CODES[error.reason]
        return self._judged(rows, rows.good, Proof.SENDER, self._hashes(rows), unix_s, ())

    def _hashes(self, rows: _Rows) -> Hashes:
        """Of triple and signature (EMC-13)."""
        senders = np.zeros((len(rows.arrived), SENDER_BYTES), np.uint8)
        for row in np.flatnonzero(rows.good).tolist():
            part = rows.arrived[row].data[SIGNATURE_AT : SIGNATURE_AT + SENDER_BYTES]
            senders[row] = np.frombuffer(part, np.uint8)
        return self._seen.hashes(senders, rows.numbers())

    def _check_group(self, rows: _Rows, checked: npt.NDArray[np.int64]) -> None:
        """Any of the group keys will do; packets that the newest did not make are tried with the one before."""
        if not self._group_keys:
            rows.codes[checked] = CODES[Reject.UNKNOWN_KEY]
            return
        left = checked.tolist()
        for key in self._group_keys:
            made = digests((key, rows.signed(row)) for row in left)
            left = [row for row, code in zip(left, made, strict=True) if not rows.has_tag(row, code)]
            if not left:
                return
        rows.codes[left] = CODES[Reject.BAD_HMAC]

    def _judged(
        self, rows: _Rows, ready: Mask, proof: Proof, hashes: Hashes, unix_s: float, waiting: tuple[Arrived, ...]
    ) -> Judged:
        taken = np.flatnonzero(ready)
        for place in self._seen.admit(hashes[taken].tolist(), unix_s):
            rows.codes[taken[place]] = CODES[Reject.REPLAY]
        accepted = []
        for kind in (EventType.NOTIFICATION, EventType.HEARTBEAT, EventType.JOIN):
            chosen = np.flatnonzero(ready & rows.good & (rows.types == kind))
            if len(chosen):
                accepted.append(self._accepted(rows, chosen, kind, proof, unix_s))
        return Judged(tuple(accepted), rows.rejected(), waiting)

    def _accepted(
        self, rows: _Rows, chosen: npt.NDArray[np.int64], kind: EventType, proof: Proof, unix_s: float
    ) -> Accepted:
        columns = rows.columns.take(pa.array(chosen))
        numbers = rows.numbers()[chosen].astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - NUMBER_BYTES :]
        node_ids = columns.column("node_id")
        nodes = uuid_column(raw_bytes(node_ids, NODE_ID_BYTES), node_ids)
        notified = kind is EventType.NOTIFICATION
        topics, codes = self._placed(columns.column("priority")) if notified else ([TOPIC_OF[kind]], None)
        if notified and self._payload is Payload.VALUE:
            payloads, kinds = columns.column("message"), columns.column("format")
        else:
            payloads = pa.array([rows.arrived[row].data for row in chosen.tolist()], pa.binary())
            kinds = same_text(ValueKind.DATAGRAM, len(chosen))
        headers = {
            Header.PROTOCOL: same_text(DatagramProtocol.EMM_COMPACT, len(chosen)),
            Header.NODE_ID: nodes,
            Header.MESSAGE_ID: hex_column(np.ascontiguousarray(numbers)),
            Header.VERDICT: same_text(proof.value, len(chosen)),
            Header.SOURCE: pa.array([rows.arrived[row].source for row in chosen.tolist()], pa.string()),
            Header.VALUE: kinds,
        }
        times_us = ((unix_s - np.maximum(rows.ages(unix_s)[chosen], 0) * TICK_S) * US_PER_S).astype(np.int64)
        codes = np.zeros(len(chosen), np.int32) if codes is None else codes
        return Accepted(topics, codes, times_us, nodes.cast(pa.binary()), payloads, headers)

    def _placed(self, priorities: pa.StringArray) -> tuple[list[Topic], npt.NDArray[np.int32]]:
        coded = priorities.dictionary_encode()
        names = (f"notification.{priority}" for priority in coded.dictionary.to_pylist())
        return [self._topics.place(name).topic for name in names], coded.indices.to_numpy()


class _Rows:
    """A block of EMM-C datagrams while it is judged."""

    def __init__(self, arrived: Sequence[Arrived]) -> None:
        assert 0 < len(arrived) <= BLOCK_ROWS, "one block of the codec"
        self.arrived = arrived
        self.columns: pa.RecordBatch
        (self.columns,) = decode_column(pa.array([data for data, _ in arrived], pa.binary())).to_batches()
        known = pc.index_in(self.columns.column("reject"), REASON_NAMES)
        self.codes = known.fill_null(OK).to_numpy(zero_copy_only=False).astype(np.int8)
        self.types = np.array([TYPES.get(name, -1) for name in self.columns.column("type").to_pylist()], np.int8)

    @property
    def good(self) -> Mask:
        good: Mask = self.codes == OK
        return good

    def refuse(self, rows: Mask, reason: Reject) -> None:
        self.codes[rows & self.good] = CODES[reason]

    def numbers(self) -> npt.NDArray[np.uint64]:
        """Event id, epoch and offset as one number."""
        event_ids, epochs, offsets = (self._column(name) for name in ("event_id", "epoch", "offset"))
        return event_ids << np.uint64(32) | epochs << np.uint64(16) | offsets

    def ages(self, unix_s: float) -> npt.NDArray[np.float64]:
        """In ticks. The epoch wraps around, so what is nearest counts: half of that ahead of now, half behind."""
        ticks = int(unix_s / TICK_S) - self._column("epoch").astype(np.int64)
        return ((ticks + EPOCHS // 2) % EPOCHS - EPOCHS // 2).astype(np.float64)

    def signed(self, row: int) -> bytes:
        data = self.arrived[row].data
        return data[:HEADER_BYTES] + data[body_at(EventType(self.types[row])) :]

    def has_tag(self, row: int, code: bytes) -> bool:
        size = SIGNATURE_BYTES[EventType(self.types[row])]
        return compare_digest(self.arrived[row].data[SIGNATURE_AT : SIGNATURE_AT + size], code[:size])

    def rejected(self) -> tuple[Rejected, ...]:
        return rejected(self.arrived, self.codes)

    def _column(self, name: str) -> npt.NDArray[np.uint64]:
        values: npt.NDArray[np.uint64] = self.columns.column(name).fill_null(0).to_numpy().astype(np.uint64)
        return values
