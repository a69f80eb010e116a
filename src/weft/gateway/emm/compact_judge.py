"""EMM-C datagrams of a gateway: judged by ``wire.emm_compact``, then made events.

Notifications become events on ``notification.<priority>``, heartbeats and joins go where EMM's heartbeats and hellos
go. Commands are for nodes that have handlers for them (EMC-07): a gateway has none and passes them over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.gateway.emm.accepting import US_PER_S
from weft.gateway.emm.rows import Accepted, Arrived, Header, Judged, rejected, same_text
from weft.gateway.emm.settings import Payload
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, TopicMap
from weft.gateway.emm.values import ValueKind
from weft.model import Topic
from weft.wire.columns import Positions, hex_column, numbers, raw_bytes, uuid_column
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm_compact import EventType, KeyRing, Proof
from weft.wire.emm_compact.judge_columns import ColumnJudge, JudgedRows
from weft.wire.seen import Seen

NUMBER_BYTES: Final = 6  # event id, epoch and offset
TOPIC_OF: Final = {EventType.HEARTBEAT: HEARTBEAT_TOPIC, EventType.JOIN: HELLO_TOPIC}


class CompactJudge:
    """As ``EmmJudge``. ``ignored`` counts commands."""

    def __init__(self, ring: KeyRing, seen: Seen, topics: TopicMap, payload: Payload = Payload.VALUE) -> None:
        self.ignored = 0
        self._judge = ColumnJudge(ring, seen=seen)
        self._topics = topics
        self._payload = payload

    def trust_changed(self, ring: KeyRing) -> None:
        self._judge.use(ring)

    def sort_out(self, arrived: Sequence[Arrived], unix_s: float) -> Judged:
        """What is to be thought of each datagram; raise nothing, whatever the bytes."""
        rows = self._judge.sift(_datagrams(arrived), unix_s)
        commands = rows.waiting & (rows.types == EventType.COMMAND)
        self.ignored += int(commands.sum())
        waiting = tuple(arrived[row] for row in np.flatnonzero(rows.waiting & ~commands).tolist())
        return Judged(self._accepted(rows, arrived, Proof.GROUP, unix_s), rejected(arrived, rows.codes), waiting)

    def verify(self, waiting: Sequence[Arrived], unix_s: float) -> Judged:
        """Check the signatures of what ``sort_out`` left waiting."""
        rows = self._judge.verify(_datagrams(waiting), unix_s)
        return Judged(self._accepted(rows, waiting, Proof.SENDER, unix_s), rejected(waiting, rows.codes))

    def _accepted(
        self, rows: JudgedRows, arrived: Sequence[Arrived], proof: Proof, unix_s: float
    ) -> tuple[Accepted, ...]:
        accepted = []
        for kind in (EventType.NOTIFICATION, EventType.HEARTBEAT, EventType.JOIN):
            chosen = np.flatnonzero(rows.accepted & (rows.types == kind))
            if len(chosen):
                accepted.append(
                    self._of_kind(rows, [arrived[row] for row in chosen.tolist()], chosen, kind, proof, unix_s)
                )
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
        node_ids = columns.column("node_id")
        nodes = uuid_column(raw_bytes(node_ids), node_ids)
        notified = kind is EventType.NOTIFICATION
        topics, codes = self._placed(columns.column("priority")) if notified else _in_one(TOPIC_OF[kind], len(chosen))
        if notified and self._payload is Payload.VALUE:
            payloads, kinds = columns.column("message"), columns.column("format")
        else:
            payloads, kinds = _datagrams(arrived), same_text(ValueKind.DATAGRAM, len(chosen))
        headers = {
            Header.PROTOCOL: same_text(DatagramProtocol.EMM_COMPACT, len(chosen)),
            Header.NODE_ID: nodes,
            Header.MESSAGE_ID: hex_column(_triples(columns)),
            Header.VERDICT: same_text(proof.value, len(chosen)),
            Header.SOURCE: pa.array([source for _, source in arrived], pa.string()),
            Header.VALUE: kinds,
        }
        made_s = unix_s - np.maximum(self._judge.ages_s(rows, unix_s)[chosen], 0)
        times_us = (made_s * US_PER_S).astype(np.int64)
        return Accepted(topics, codes, times_us, nodes.cast(pa.binary()), payloads, headers)

    def _placed(self, priorities: pa.StringArray) -> tuple[list[Topic], npt.NDArray[np.int32]]:
        coded = priorities.dictionary_encode()
        names = (f"notification.{priority}" for priority in coded.dictionary.to_pylist())
        return [self._topics.place(name).topic for name in names], coded.indices.to_numpy()


def _in_one(topic: Topic, count: int) -> tuple[list[Topic], npt.NDArray[np.int32]]:
    return [topic], np.zeros(count, np.int32)


def _datagrams(arrived: Sequence[Arrived]) -> pa.BinaryArray:
    return pa.array([data for data, _ in arrived], pa.binary())


def _triples(columns: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """Event id, epoch and offset as they are on the wire."""
    parts = [numbers(columns.column(name)) for name in ("event_id", "epoch", "offset")]
    triples: npt.NDArray[np.uint8] = np.column_stack(parts).astype(">u2").view(np.uint8).reshape(-1, NUMBER_BYTES)
    return triples
