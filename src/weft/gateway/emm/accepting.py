"""Good EMM packets as rows of mesh events: topic, time, key, headers and payload."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.gateway.emm.rows import Accepted, Header, hex_column, raw_bytes, same_text, uuid_column
from weft.gateway.emm.sifting import KEY_ID_BYTES, NODE_ID_BYTES, Mask, Sifted
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, TopicMap
from weft.gateway.emm.values import ValueKind, payload_of, simple_payloads, simple_rows
from weft.model import Topic
from weft.wire import emm
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm import EventType, Rules, Verdict
from weft.wire.emm.fields import DEFAULT_RULES
from weft.wire.reject import BadPacket

MESSAGE_ID_BYTES: Final = 4
US_PER_S: Final = 1_000_000
VERDICT_NAMES: Final = pa.array([str(verdict) for verdict in Verdict])

Numbers = npt.NDArray[np.int64]


class Payload(StrEnum):
    """What the payload of a mesh event is."""

    VALUE = "value"  # the event's value: see ``values``
    DATAGRAM = "datagram"  # the packet as it came, with its signature


class _Contents(NamedTuple):
    """Of events: their names, payloads and what these were."""

    names: pa.StringArray
    payloads: pa.BinaryArray
    kinds: pa.StringArray


class Acceptance:
    """Events go where ``topics`` says; hellos and heartbeats to topics of their own, as datagrams."""

    def __init__(self, topics: TopicMap, payload: Payload = Payload.VALUE, rules: Rules = DEFAULT_RULES) -> None:
        self.topics = topics
        self.payload = payload
        self._rules = rules

    def accepted(
        self, rows: Sifted, ready: Mask, verdicts: npt.NDArray[np.int8], unix_s: float
    ) -> tuple[Accepted, ...]:
        """The packets of ``ready`` rows. One that cannot be opened is refused, which ``rows`` then says."""
        kinds = rows.numbers("event_type")
        made = []
        events = np.flatnonzero(ready & (kinds == EventType.EVENT))
        if len(events):
            contents = self._contents(rows, events)
            opened = rows.good[events]
            if not opened.all():
                events, contents = events[opened], _Contents(*(each.filter(pa.array(opened)) for each in contents))
            if len(events):
                made.append(_accepted(rows, events, verdicts, unix_s, contents, *self._placed(contents.names)))
        for kind, topic in ((EventType.HELLO, HELLO_TOPIC), (EventType.HEARTBEAT, HEARTBEAT_TOPIC)):
            told = np.flatnonzero(ready & (kinds == kind))
            if len(told):
                names = pa.nulls(len(told), pa.string())
                contents = _Contents(names, *_datagrams(rows, told))
                made.append(_accepted(rows, told, verdicts, unix_s, contents, [topic], np.zeros(len(told), np.int32)))
        return tuple(made)

    def _placed(self, names: pa.StringArray) -> tuple[list[Topic], npt.NDArray[np.int32], pa.StringArray]:
        """Topics, which of them each row goes to, and the names that their topics do not tell."""
        coded = names.dictionary_encode()
        known = coded.dictionary.to_pylist()
        places = [self.topics.place(name) for name in known]
        untold = [None if place.tells else name for name, place in zip(known, places, strict=True)]
        return (
            [place.topic for place in places],
            coded.indices.to_numpy(),
            pa.array(untold, pa.string()).take(coded.indices),
        )

    def _contents(self, rows: Sifted, chosen: Numbers) -> _Contents:
        columns = rows.chosen(chosen)
        contents = _Contents(columns.column("event_name"), *simple_payloads(columns))
        by_hand = ~simple_rows(columns)
        if by_hand.any():
            contents = self._opened(rows, chosen, by_hand, contents)
        if self.payload is Payload.DATAGRAM:
            return _Contents(contents.names, *_datagrams(rows, chosen))
        return contents

    def _opened(self, rows: Sifted, chosen: Numbers, by_hand: Mask, contents: _Contents) -> _Contents:
        """Sealed packets and those of several values are read one by one and put in their places."""
        found = [self._open(rows, row) for row in chosen[by_hand].tolist()]
        mask = pa.array(by_hand)
        return _Contents(
            *(
                pc.replace_with_mask(column, mask, pa.array(values, column.type))
                for column, values in zip(contents, zip(*found, strict=True), strict=True)
            )
        )

    def _open(self, rows: Sifted, row: int) -> tuple[str, bytes, str]:
        try:
            packet = emm.parse_untrusted(rows.arrived[row].data, self._rules)
            opened = emm.unseal_untrusted(packet, rules=self._rules)
        except BadPacket as error:
            rows.refuse_row(row, error.reason)
            return "", b"", ValueKind.NONE
        name = opened.event_name
        assert name is not None, "the codec sees to it that an event has a name, sealed or not"
        return name, *payload_of(opened)


def _datagrams(rows: Sifted, chosen: Numbers) -> tuple[pa.BinaryArray, pa.StringArray]:
    datagrams = pa.array([rows.arrived[row].data for row in chosen.tolist()], pa.binary())
    return datagrams, same_text(ValueKind.DATAGRAM, len(chosen))


def _accepted(
    rows: Sifted,
    chosen: Numbers,
    verdicts: npt.NDArray[np.int8],
    unix_s: float,
    contents: _Contents,
    topics: list[Topic],
    codes: npt.NDArray[np.int32],
    untold: pa.StringArray | None = None,
) -> Accepted:
    columns = rows.chosen(chosen)
    node_ids, key_ids = columns.column("node_id"), columns.column("auth_key_id")
    nodes = uuid_column(raw_bytes(node_ids, NODE_ID_BYTES), node_ids)
    numbers = columns.column("message_id").to_numpy().astype(">u4").view(np.uint8)
    headers = {
        Header.PROTOCOL: same_text(DatagramProtocol.EMM, len(chosen)),
        Header.NODE_ID: nodes,
        Header.KEY_ID: hex_column(raw_bytes(key_ids, KEY_ID_BYTES), key_ids),
        Header.MESSAGE_ID: hex_column(numbers.reshape(-1, MESSAGE_ID_BYTES)),
        Header.VERDICT: VERDICT_NAMES.take(pa.array(verdicts[chosen])),
        Header.SOURCE: pa.array([rows.arrived[row].source for row in chosen.tolist()], pa.string()),
        Header.VALUE: contents.kinds,
    }
    if untold is not None and untold.null_count < len(untold):
        headers[Header.EVENT] = untold
    return Accepted(topics, codes, _times_us(columns, unix_s), nodes.cast(pa.binary()), contents.payloads, headers)


def _times_us(columns: pa.RecordBatch, unix_s: float) -> npt.NDArray[np.int64]:
    """When the events were created, as their packets say; a packet that was signed later may say anything, so not
    after now."""
    created_s = np.minimum(columns.column("timestamp_s").to_numpy(), np.uint64(unix_s))
    times_us: npt.NDArray[np.int64] = created_s.astype(np.int64) * US_PER_S
    return times_us
