"""Accepted EMM packets as rows of mesh events: topic, time, key, headers and payload."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.gateway.emm.rows import Accepted, Arrived, Header, same_text
from weft.gateway.emm.settings import Payload
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, Place, TopicMap
from weft.gateway.emm.values import ValueKind, payload_of, simple_payloads, simple_rows
from weft.model import Topic
from weft.wire.columns import Mask, Positions, hex_column, raw_bytes, uuid_column
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import EventType, Field, Packet, Verdict
from weft.wire.emm.judge_columns import JudgedRows

MESSAGE_ID_BYTES: Final = 4
US_PER_S: Final = 1_000_000
VERDICT_NAMES: Final = pa.array([str(verdict) for verdict in Verdict])
PLACES: Final = {EventType.HELLO: Place(HELLO_TOPIC, True), EventType.HEARTBEAT: Place(HEARTBEAT_TOPIC, True)}


class Taken(NamedTuple):
    """A packet that becomes an event."""

    arrived: Arrived
    packet: Packet
    verdict: Verdict


class _Contents(NamedTuple):
    """The contents of events: their names, payloads, and what these were."""

    names: pa.StringArray
    payloads: pa.BinaryArray
    kinds: pa.StringArray


class Acceptance:
    """Events go where ``topics`` says; hellos and heartbeats go to separate topics, as datagrams.

    ``of_packets`` and ``of_columns`` make the same rows; a test holds them against each other.
    """

    def __init__(self, topics: TopicMap, payload: Payload = Payload.VALUE) -> None:
        self._topics = topics
        self._payload = payload

    # --- one by one ----------------------------------------------------------------------------------------------

    def of_packets(self, taken: list[Taken], unix_s: float) -> tuple[Accepted, ...]:
        """Events together; hellos and heartbeats separately, for those that listen for them."""
        kinds = (EventType.EVENT, EventType.HELLO, EventType.HEARTBEAT)
        groups = ([each for each in taken if each.packet.event_type == kind] for kind in kinds)
        return tuple(self._rows(group, unix_s) for group in groups if group)

    def _rows(self, taken: list[Taken], unix_s: float) -> Accepted:
        packets = [each.packet for each in taken]
        places = [self._place(packet) for packet in packets]
        topics = list(dict.fromkeys(place.topic for place in places))
        contents = [self._content(each) for each in taken]
        nodes = [None if packet.node_id is None else str(packet.node_id) for packet in packets]
        columns: dict[Header, list[str | None]] = {
            Header.PROTOCOL: [str(DatagramProtocol.EMM)] * len(taken),
            Header.NODE_ID: nodes,
            Header.KEY_ID: [_hex(packet.fields.get(Field.AUTH_KEY_ID)) for packet in packets],
            Header.MESSAGE_ID: [f"{packet.message_id:08x}" for packet in packets],
            Header.VERDICT: [str(each.verdict) for each in taken],
            Header.SOURCE: [each.arrived.source for each in taken],
            Header.VALUE: [str(kind) for _, kind in contents],
            Header.EVENT: [
                None if place.tells else packet.event_name for place, packet in zip(places, packets, strict=True)
            ],
        }
        created_s = [min(packet.timestamp_s, int(unix_s)) for packet in packets]
        return Accepted(
            topics,
            np.array([topics.index(place.topic) for place in places], np.int32),
            np.array(created_s, np.int64) * US_PER_S,
            pa.array(nodes, pa.string()).cast(pa.binary()),
            pa.array([payload for payload, _ in contents], pa.binary()),
            {name: pa.array(values, pa.string()) for name, values in columns.items()},
        )

    def _place(self, packet: Packet) -> Place:
        place = PLACES.get(packet.kind)
        return self._topics.place(packet.event_name or "") if place is None else place

    def _content(self, each: Taken) -> tuple[bytes, ValueKind]:
        if each.packet.kind is EventType.EVENT and self._payload is Payload.VALUE:
            return payload_of(each.packet)
        return each.arrived.data, ValueKind.DATAGRAM

    # --- in columns ----------------------------------------------------------------------------------------------

    def of_columns(self, rows: JudgedRows, datagrams: pa.BinaryArray, unix_s: float) -> tuple[Accepted, ...]:
        """Rows for accepted packets, whose seals are open."""
        kinds = rows.columns.column("event_type").to_numpy(zero_copy_only=False)
        made = []
        for kind in (EventType.EVENT, *PLACES):
            chosen = np.flatnonzero(rows.accepted & (kinds == kind))
            if not len(chosen):
                continue
            if kind is EventType.EVENT:
                contents = self._contents(rows, chosen, datagrams)
                placed = self._placed(contents.names)
            else:
                contents = _Contents(pa.nulls(len(chosen), pa.string()), *_as_datagrams(datagrams, chosen))
                placed = [PLACES[kind].topic], np.zeros(len(chosen), np.int32), contents.names
            made.append(_accepted(rows, chosen, unix_s, contents, *placed))
        return tuple(made)

    def _placed(self, names: pa.StringArray) -> tuple[list[Topic], npt.NDArray[np.int32], pa.StringArray]:
        """Topics, the topic of each row, and the names that the topics do not show."""
        coded = names.dictionary_encode()
        known = coded.dictionary.to_pylist()
        places = [self._topics.place(name) for name in known]
        untold = [None if place.tells else name for name, place in zip(known, places, strict=True)]
        return (
            [place.topic for place in places],
            coded.indices.to_numpy(),
            pa.array(untold, pa.string()).take(coded.indices),
        )

    def _contents(self, rows: JudgedRows, chosen: Positions, datagrams: pa.BinaryArray) -> _Contents:
        columns = rows.chosen(chosen)
        contents = _Contents(columns.column("event_name"), *simple_payloads(columns))
        by_hand = ~simple_rows(columns)
        if by_hand.any():
            contents = _by_hand(rows, chosen, by_hand, contents)
        if self._payload is Payload.DATAGRAM:
            return _Contents(contents.names, *_as_datagrams(datagrams, chosen))
        return contents


def _by_hand(rows: JudgedRows, chosen: Positions, by_hand: Mask, contents: _Contents) -> _Contents:
    """Packets that were sealed, and those with several values, are read one by one and put in their places."""
    packets = [rows.opened.get(row) or rows.packet(row) for row in chosen[by_hand].tolist()]
    found = [(packet.event_name, *payload_of(packet)) for packet in packets]
    mask = pa.array(by_hand)
    return _Contents(
        *(
            pc.replace_with_mask(column, mask, pa.array(values, column.type))
            for column, values in zip(contents, zip(*found, strict=True), strict=True)
        )
    )


def _as_datagrams(datagrams: pa.BinaryArray, chosen: Positions) -> tuple[pa.BinaryArray, pa.StringArray]:
    return datagrams.take(pa.array(chosen)), same_text(ValueKind.DATAGRAM, len(chosen))


def _accepted(
    rows: JudgedRows,
    chosen: Positions,
    unix_s: float,
    contents: _Contents,
    topics: list[Topic],
    codes: npt.NDArray[np.int32],
    untold: pa.StringArray,
) -> Accepted:
    columns = rows.chosen(chosen)
    node_ids, key_ids = columns.column("node_id"), columns.column("auth_key_id")
    nodes = uuid_column(raw_bytes(node_ids), node_ids)
    numbers = columns.column("message_id").to_numpy().astype(">u4").view(np.uint8)
    headers = {
        Header.PROTOCOL: same_text(DatagramProtocol.EMM, len(chosen)),
        Header.NODE_ID: nodes,
        Header.KEY_ID: hex_column(raw_bytes(key_ids), key_ids),
        Header.MESSAGE_ID: hex_column(numbers.reshape(-1, MESSAGE_ID_BYTES)),
        Header.VERDICT: VERDICT_NAMES.take(pa.array(rows.verdicts[chosen])),
        Header.SOURCE: rows.sources if len(chosen) == len(rows) else rows.sources.take(pa.array(chosen)),
        Header.VALUE: contents.kinds,
    }
    if untold.null_count < len(untold):
        headers[Header.EVENT] = untold
    return Accepted(topics, codes, _times_us(columns, unix_s), nodes.cast(pa.binary()), contents.payloads, headers)


def _times_us(columns: pa.RecordBatch, unix_s: float) -> npt.NDArray[np.int64]:
    """When the events were created, as their packets say, but not later than now: a packet that was signed later may
    say anything."""
    created_s = np.minimum(columns.column("timestamp_s").to_numpy(), np.uint64(unix_s))
    times_us: npt.NDArray[np.int64] = created_s.astype(np.int64) * US_PER_S
    return times_us


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
