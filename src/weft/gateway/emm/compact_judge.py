"""EMM-C datagrams of a gateway: judged by ``wire.emm_compact``, then turned into events.

Notifications become events on ``notification.<priority>``, commands on ``command.<name>``; heartbeats and joins go
where EMM's heartbeats and hellos go. A gateway executes no command (EMC-07): it tells the mesh that a known node gave
it, and sends it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.gateway.emm.accepting import US_PER_S
from weft.gateway.emm.names import NameRights
from weft.gateway.emm.rows import Accepted, Arrived, Header, Judged, Rejected, rejected, same_text
from weft.gateway.emm.settings import Payload
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, TopicMap
from weft.gateway.emm.values import ValueKind
from weft.model import Topic
from weft.model.traces import SPAN_ID_MAX, SpanRef
from weft.wire.columns import Positions, hex_column, numbers, raw_bytes, uuid_column
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm_compact import (
    Command,
    EventType,
    FieldType,
    KeyRing,
    PayloadEncoding,
    Proof,
    content_untrusted,
    decode_untrusted,
    find,
)
from weft.wire.emm_compact.judge_columns import ColumnJudge, JudgedRows
from weft.wire.reject import BadPacket
from weft.wire.seen import Seen

NUMBER_BYTES: Final = 6  # event id, epoch and offset
TOPIC_OF: Final = {EventType.HEARTBEAT: HEARTBEAT_TOPIC, EventType.JOIN: HELLO_TOPIC}
RAW: Final = bytes((PayloadEncoding.RAW,))


class CompactJudge:
    """Like ``EmmJudge``. Accepted packets are also in ``Judged.compact``, as they came."""

    def __init__(
        self, ring: KeyRing, seen: Seen, topics: TopicMap, names: NameRights, payload: Payload = Payload.VALUE
    ) -> None:
        self._judge = ColumnJudge(ring, seen=seen)
        self._topics = topics
        self._names = names
        self._payload = payload

    def trust_changed(self, ring: KeyRing) -> None:
        self._judge.use(ring)

    def sort_out(self, arrived: Sequence[Arrived], unix_s: float) -> Judged:
        """Judge each datagram; raise nothing, whatever the bytes."""
        rows = self._judge.sift(_datagrams(arrived), unix_s)
        return Judged(
            self._of_kinds(rows, arrived, (EventType.NOTIFICATION, EventType.HEARTBEAT), Proof.GROUP, unix_s),
            rejected(arrived, rows.codes),
            _chosen(arrived, rows.waiting),
            _chosen(arrived, rows.accepted),
        )

    def verify(self, waiting: Sequence[Arrived], unix_s: float) -> Judged:
        """Check the signatures of what ``sort_out`` left waiting. A command is refused if its parameters cannot be
        read, or if its sender may not use its name here; it is sent on all the same, because others decide for
        themselves."""
        rows = self._judge.verify(_datagrams(waiting), unix_s)
        joins = self._of_kinds(rows, waiting, (EventType.JOIN,), Proof.SENDER, unix_s)
        commands, refused = self._commands(rows, waiting, unix_s)
        return Judged(
            joins + commands, rejected(waiting, rows.codes) + refused, compact=_chosen(waiting, rows.accepted)
        )

    # --- notifications, heartbeats, joins ----------------------------------------------------------------------------

    def _of_kinds(
        self,
        rows: JudgedRows,
        arrived: Sequence[Arrived],
        kinds: Sequence[EventType],
        proof: Proof,
        unix_s: float,
    ) -> tuple[Accepted, ...]:
        accepted = []
        for kind in kinds:
            chosen = np.flatnonzero(rows.accepted & (rows.types == kind))
            if len(chosen):
                some = [arrived[row] for row in chosen.tolist()]
                accepted.append(self._of_kind(rows, some, chosen, kind, proof, unix_s))
        return tuple(accepted)

    def _of_kind(
        self,
        rows: JudgedRows,
        arrived: Sequence[Arrived],
        chosen: Positions,
        kind: EventType,
        proof: Proof,
        unix_s: float,
    ) -> Accepted:
        columns = rows.columns.take(pa.array(chosen))
        notified = kind is EventType.NOTIFICATION
        topics, codes = self._placed(columns.column("priority")) if notified else _in_one(TOPIC_OF[kind], len(chosen))
        if notified and self._payload is Payload.VALUE:
            payloads, kinds = columns.column("message"), columns.column("format")
        else:
            payloads, kinds = _datagrams(arrived), same_text(ValueKind.DATAGRAM, len(chosen))
        headers = _headers(columns, arrived, proof) | {Header.VALUE: kinds}
        times_us = self._times_us(rows, chosen, unix_s)
        return Accepted(topics, codes, times_us, headers[Header.NODE_ID].cast(pa.binary()), payloads, headers)

    def _placed(self, priorities: pa.StringArray) -> tuple[list[Topic], npt.NDArray[np.int32]]:
        coded = priorities.dictionary_encode()
        names = (f"notification.{priority}" for priority in coded.dictionary.to_pylist())
        return [self._topics.place(name).topic for name in names], coded.indices.to_numpy()

    def _times_us(self, rows: JudgedRows, chosen: Positions, unix_s: float) -> npt.NDArray[np.int64]:
        made_s = unix_s - np.maximum(self._judge.ages_s(rows, unix_s)[chosen], 0)
        times_us: npt.NDArray[np.int64] = (made_s * US_PER_S).astype(np.int64)
        return times_us

    # --- commands ----------------------------------------------------------------------------------------------------

    def _commands(
        self, rows: JudgedRows, arrived: Sequence[Arrived], unix_s: float
    ) -> tuple[tuple[Accepted, ...], tuple[Rejected, ...]]:
        """Commands are few, so they are read one by one."""
        read: list[tuple[int, Command, bytes]] = []
        refused = []
        for row in np.flatnonzero(rows.accepted & (rows.types == EventType.COMMAND)).tolist():
            body = decode_untrusted(arrived[row].data).body
            assert isinstance(body, Command), "as its type says"
            try:
                self._names.check_command(_name(body), body)
                read.append((row, body, content_untrusted(body.parameters, body.more)))
            except BadPacket as error:
                refused.append(Rejected(arrived[row].data, arrived[row].source, error.reason))
        return ((self._of_commands(rows, arrived, read, unix_s),) if read else ()), tuple(refused)

    def _of_commands(
        self, rows: JudgedRows, arrived: Sequence[Arrived], read: Sequence[tuple[int, Command, bytes]], unix_s: float
    ) -> Accepted:
        chosen = np.array([row for row, _, _ in read])
        some = [arrived[row] for row, _, _ in read]
        names = [_name(body) for _, body, _ in read]
        places = [self._topics.place(name) for name in names]
        topics = list(dict.fromkeys(place.topic for place in places))
        if self._payload is Payload.VALUE:
            payloads = pa.array([content for _, _, content in read], pa.binary())
            kinds = pa.array([str(_kind(body)) for _, body, _ in read], pa.string())
        else:
            payloads, kinds = _datagrams(some), same_text(ValueKind.DATAGRAM, len(read))
        untold = [None if place.tells else name for name, place in zip(names, places, strict=True)]
        headers = _headers(rows.columns.take(pa.array(chosen)), some, Proof.SENDER) | {
            Header.VALUE: kinds,
            Header.EVENT: pa.array(untold, pa.string()),
            Header.TRACE_ID: pa.array([_text(_trace_id(body)) for _, body, _ in read], pa.string()),
            Header.TRACEPARENT: pa.array([_traceparent(_trace_id(body)) for _, body, _ in read], pa.string()),
        }
        codes = np.array([topics.index(place.topic) for place in places], np.int32)
        times_us = self._times_us(rows, chosen, unix_s)
        return Accepted(topics, codes, times_us, headers[Header.NODE_ID].cast(pa.binary()), payloads, headers)


def _headers(columns: pa.RecordBatch, arrived: Sequence[Arrived], proof: Proof) -> dict[Header, pa.StringArray]:
    node_ids = columns.column("node_id")
    return {
        Header.PROTOCOL: same_text(DatagramProtocol.EMM_COMPACT, len(arrived)),
        Header.NODE_ID: uuid_column(raw_bytes(node_ids), node_ids),
        Header.MESSAGE_ID: hex_column(_triples(columns)),
        Header.VERDICT: same_text(proof.value, len(arrived)),
        Header.SOURCE: pa.array([each.source for each in arrived], pa.string()),
    }


def _name(body: Command) -> str:
    return f"command.{body.name}"


def _kind(body: Command) -> ValueKind:
    """Text if the body names an encoding, else bytes."""
    encoding = find(body.more, FieldType.PAYLOAD_ENCODING)
    return ValueKind.BINARY if encoding in (None, RAW) else ValueKind.STRING


def _trace_id(body: Command) -> UUID | None:
    value = find(body.more, FieldType.TRACE_ID)
    return None if value is None else UUID(bytes=value)


def _text(trace_id: UUID | None) -> str | None:
    return None if trace_id is None else str(trace_id)


def _traceparent(trace_id: UUID | None) -> str | None:
    """The device's trace continues in the mesh. The device names a trace and no span, so the last half of the trace's
    id stands for the span.
    """
    if trace_id is None or not trace_id.int:
        return None
    return SpanRef(trace_id.int, trace_id.int & SPAN_ID_MAX or 1).traceparent


def _in_one(topic: Topic, count: int) -> tuple[list[Topic], npt.NDArray[np.int32]]:
    return [topic], np.zeros(count, np.int32)


def _chosen(arrived: Sequence[Arrived], rows: npt.NDArray[np.bool_]) -> tuple[Arrived, ...]:
    return tuple(arrived[row] for row in np.flatnonzero(rows).tolist())


def _datagrams(arrived: Sequence[Arrived]) -> pa.BinaryArray:
    return pa.array([each.data for each in arrived], pa.binary())


def _triples(columns: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """Event id, epoch and offset as they are on the wire."""
    parts = [numbers(columns.column(name)) for name in ("event_id", "epoch", "offset")]
    triples: npt.NDArray[np.uint8] = np.column_stack(parts).astype(">u2").view(np.uint8).reshape(-1, NUMBER_BYTES)
    return triples
