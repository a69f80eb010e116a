"""One packet as a row: the verdict of the judges in ``wire.emm`` and ``wire.emm_compact``, and the packet's content.

Replays are found elsewhere, where earlier packets are known (``packet.state``); the row has the mark for that. A packet
that cannot be unsealed has still been seen, so it counts for replays. ``packet.decoding`` does the same for columns.
"""

from __future__ import annotations

from typing import Any, Final, assert_never
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.pipelines.packet.keys import Keys
from weft.pipelines.packet.marks import TAG_EMM, TAG_EMM_COMPACT, Hasher, Words
from weft.pipelines.packet.schema import Verdict
from weft.wire import emm, emm_compact
from weft.wire.datagram import DatagramProtocol, protocol_of_untrusted
from weft.wire.emm import judge_columns as emm_columns
from weft.wire.emm.fields import FLAGS_SEALED, Field
from weft.wire.emm.judge import UNKNOWN_S
from weft.wire.emm.values import join_chunks
from weft.wire.emm_compact import judge as compact_judge
from weft.wire.emm_compact import judge_columns as compact_columns
from weft.wire.emm_compact.codes import Format, label
from weft.wire.recent import NoMarks
from weft.wire.reject import BadPacket

US_PER_S: Final = 1_000_000
TIME_S_MAX: Final = 253_402_300_799  # the last second of the year 9999: nothing can represent later times
SEEN_S_MAX: Final = 1 << 42  # later times are capped to this, so that microseconds fit 63 bits

_VALUE_COLUMNS: Final = {
    int(Field.STRING): "event_name",
    int(Field.INTEGER): "int_value",
    int(Field.FLOAT): "float_value",
    int(Field.BINARY): "binary_value",
    int(Field.JSON): "json_value",
}
Times = npt.NDArray[np.int64]
_encode_json = msgspec.json.Encoder().encode


class Means:
    """Everything needed to judge packets; ``hasher`` makes the marks by which replays are recognised."""

    def __init__(
        self,
        keys: Keys,
        terms: emm.Terms,
        hasher: Hasher,
        compact_terms: compact_judge.Terms = compact_judge.DEFAULT_TERMS,
    ) -> None:
        self.hasher = hasher
        self.rules = terms.rules
        self.emm = emm.Judge(keys.trust, terms, marks=NoMarks(), find_key=keys.seals.get)
        self.emm_columns = emm_columns.ColumnJudge(keys.trust, terms, hmac_keys=keys.hmac_keys)
        self.compact = compact_judge.Judge(keys.ring, compact_terms, marks=NoMarks())
        self.compact_columns = compact_columns.ColumnJudge(keys.ring, compact_terms)

    def marks(self, words: Words, tag: int, seen_at_us: Times) -> dict[str, pa.Array]:
        """``MARKS`` of admitted packets of one protocol."""
        high, low = self.hasher.hash(words, np.array([tag], np.uint64))
        return {
            "admitted": pa.array(np.ones(len(words), np.bool_)),
            "hash_high": pa.array(high),
            "hash_low": pa.array(low),
            "seen_at_us": pa.array(seen_at_us),
        }


def judge_one(datagram: bytes, arrived_us: int | None, source: bytes, means: Means) -> dict[str, Any]:
    """Make one row: ``CONTENT``, ``REFUSAL`` and ``MARKS`` as far as they are known, and ``mark`` and ``tag`` to hash.

    It never raises because of the datagram's content: the row says what is wrong with it.
    """
    row: dict[str, Any] = {"admitted": False}
    try:
        protocol = protocol_of_untrusted(datagram)
        row["protocol"] = str(protocol)
        match protocol:
            case DatagramProtocol.EMM:
                _judge_emm(row, datagram, arrived_us, source, means.emm)
            case DatagramProtocol.EMM_COMPACT:
                _judge_compact(row, datagram, arrived_us, means.compact)
            case _:
                assert_never(protocol)
    except BadPacket as refusal:
        row["reason"], row["detail"] = str(refusal.reason), str(refusal)
    return row


# --- EMM ---------------------------------------------------------------------------------------------------------


def _judge_emm(row: dict[str, Any], datagram: bytes, arrived_us: int | None, source: bytes, judge: emm.Judge) -> None:
    packet = judge.parse(datagram)
    row |= _emm_head(packet)
    admitted = judge.admit(packet, source, _arrived_s(arrived_us))
    fresh_at_us = min(packet.fresh_at_s, SEEN_S_MAX) * US_PER_S
    row |= {
        "verdict": str(admitted.verdict),
        "admitted": True,
        "mark": admitted.mark,
        "tag": TAG_EMM,
        "seen_at_us": fresh_at_us if arrived_us is None else max(arrived_us, fresh_at_us),
    }
    row |= _value_columns(judge.open(admitted).packet)


def _arrived_s(arrived_us: int | None) -> float:
    return UNKNOWN_S if arrived_us is None else arrived_us / US_PER_S


def _emm_head(packet: emm.Packet) -> dict[str, Any]:
    key_id = packet.fields.get(Field.AUTH_KEY_ID)
    node_id = packet.node_id
    return {
        "kind": packet.kind.name.lower(),
        "urgent": packet.urgent,
        "node_id": None if node_id is None else str(node_id),
        "key_id": None if key_id is None else key_id.hex(),
        "message_id": packet.message_id,
        "created_at": _time_us(packet.timestamp_s),
        "signed_at": None if packet.signed_at_s is None else _time_us(packet.signed_at_s),
    }


def _value_columns(packet: emm.Packet) -> dict[str, Any]:
    """The first value of each type, and all of them as JSON if there are more."""
    first: dict[str, Any] = {}
    for kind, value in packet.values:
        name = _VALUE_COLUMNS[kind]
        if name not in first:
            first[name] = _json_text(packet, value) if kind == Field.JSON else value
    if len(first) < len(packet.values):
        first["fields"] = fields_json(packet)
    return first


def _json_text(packet: emm.Packet, value: Any) -> str:
    """The first JSON object as text: exactly as the sender wrote it, unless it was inside a seal."""
    if packet.flags & FLAGS_SEALED:
        return _encode_json(value).decode()
    return join_chunks([field for field in packet.tlvs() if field.type == Field.JSON])[0].value.decode()


def fields_json(packet: emm.Packet) -> str:
    """All values in wire order: ``[{"string": "plant.temp"}, {"integer": 7}, {"integer": 8}]``."""
    return _encode_json([{Field(kind).name.lower(): _plain(value)} for kind, value in packet.values]).decode()


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _time_us(time_s: int) -> int | None:
    return time_s * US_PER_S if time_s <= TIME_S_MAX else None


# --- EMM-C -------------------------------------------------------------------------------------------------------


def _judge_compact(row: dict[str, Any], datagram: bytes, arrived_us: int | None, judge: compact_judge.Judge) -> None:
    packet = emm_compact.decode_untrusted(datagram)
    header, body = packet.header, packet.body
    node_id = emm_compact.node_id_of(body)
    row |= {
        "kind": label(header.type),
        "urgent": header.urgent,
        "node_id": None if node_id is None else str(UUID(bytes=node_id)),
        "message_id": header.event_id << 32 | header.epoch << 16 | header.offset,
    }
    admitted = judge.admit(packet, _arrived_s(arrived_us))
    row["verdict"] = str(_VERDICTS[admitted.proof])
    row |= _compact_columns(packet)
    if arrived_us is None:
        row["late"] = True  # it has no time of its own, and its arrival time is unknown
        return
    row |= {
        "admitted": True,
        "mark": admitted.mark,
        "tag": TAG_EMM_COMPACT,
        "seen_at_us": max(arrived_us, round(admitted.fresh_at_s * US_PER_S)),
    }


_VERDICTS: Final = {emm_compact.Proof.GROUP: Verdict.GROUP, emm_compact.Proof.SENDER: Verdict.VERIFIED}


def _compact_columns(packet: emm_compact.Packet) -> dict[str, Any]:
    body = packet.body
    match body:
        case emm_compact.Notification():
            return {"priority": label(body.priority), "format": label(body.format), **_message(body)}
        case emm_compact.Command():
            return {"event_name": body.name, "binary_value": body.parameters, "fields": _compact_fields(packet)}
        case emm_compact.Heartbeat() | emm_compact.Join():
            return {"fields": _compact_fields(packet)}
        case _:
            assert_never(body)


def _message(body: emm_compact.Notification) -> dict[str, Any]:
    match body.format:
        case Format.PLAIN_TEXT:
            return {"text_value": body.message.decode()}
        case Format.JSON:
            return {"json_value": body.message.decode()}
        case _:
            return {"binary_value": body.message}


def _compact_fields(packet: emm_compact.Packet) -> str:
    """Fields by the names that ``weft packet decode`` shows: ``{"uptime": 3600}``; repeated fields as a list."""
    named: dict[str, list[Any]] = {}
    for each in emm_compact.to_document_untrusted(packet.raw)["body"]["fields"]:
        named.setdefault(each["field"], []).append(each["value"])
    return _encode_json({name: found if len(found) > 1 else found[0] for name, found in named.items()}).decode()
