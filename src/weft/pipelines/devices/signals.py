"""Signs of life from all sources: hellos and heartbeats of devices, and agents that advertise or deadvertise in Coaty.

Each becomes a ``Signal`` of a node. There are three sources:

- Topics of a gateway for EMM, ``weft.emm.hello`` and ``weft.emm.heartbeat``: datagrams that the gateway has
  authenticated and found to be new. Only nodes of the mesh can publish there. Their time is the device's own, capped at
  the arrival time.
- Topics of a bridge to Coaty: an agent says hello by advertising its identity. It leaves with a Deadvertise, either its
  own or the one that the broker sends as its last will.
- The table of good events that the pipeline ``packets`` writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, assert_never
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from weft.pipelines.coaty_topics import ADVERTISING, parse_mesh_topic
from weft.pipelines.derived_tables import MISDATED, Rejected, ddl
from weft.pipelines.devices.node_health import Kind, Protocol, Signal
from weft.wire import emm, emm_compact
from weft.wire.coaty import Advertise, BadCoatyMessage, CoreType, Deadvertise, EventType, decode_payload_untrusted
from weft.wire.datagram import DatagramProtocol, protocol_of_untrusted
from weft.wire.reject import BadPacket

DATAGRAMS: Final = ("weft.emm.hello", "weft.emm.heartbeat")
TOPICS: Final = rf"{ADVERTISING}|^({'|'.join(map(re.escape, DATAGRAMS))})$"

# ``data`` is a Signal of that node. Under the empty key it is a Rejected, or empty: then the row only tells the time.
SIGNALS: Final = pa.schema({"node_key": pa.string(), "at": pa.timestamp("us", "UTC"), "data": pa.binary()})
SIGNALS_DDL: Final = ddl({"node_key": "string", "at": "timestamp", "data": "binary"})
NO_NODE: Final = ""
IDENTITY: Final = ("topic", "origin", "epoch", "partition", "offset")
PACKET_KINDS: Final = {"hello": Kind.HELLO, "join": Kind.HELLO, "heartbeat": Kind.HEARTBEAT}

Found = list[tuple[Protocol, str, Signal]]

_SIGNAL: Final = msgspec.msgpack.Decoder(Signal)


def decode_signal(data: bytes) -> Signal:
    return _SIGNAL.decode(data)


def key_of(protocol: Protocol, node: str) -> str:
    return f"{protocol}/{node}"


def parse_key(key: str) -> tuple[Protocol, str]:
    protocol, _, node = key.partition("/")
    return Protocol(protocol), node


# --- events of the mesh --------------------------------------------------------------------------------------------


def read_events(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: events with ``timestamp_us`` and ``misdated``, to ``SIGNALS``.

    Each batch also gives the time of its newest event of any kind, so that time moves on while anything is received.
    """
    for batch in batches:
        heard = batch.filter(pc.match_substring_regex(batch.column("topic"), TOPICS))
        rows = [row for event in heard.to_pylist() for row in _rows_of(event)]
        dated = batch.column("timestamp_us").filter(pc.invert(batch.column("misdated")))
        if len(dated):
            rows.append({"node_key": NO_NODE, "at": pc.max(dated).as_py()})
        yield pa.RecordBatch.from_pylist(rows, SIGNALS)


def _rows_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    identity = {name: event[name] for name in IDENTITY}
    if event["misdated"]:
        return [_rejected_row(identity, None, MISDATED)]
    topic, at_us = event["topic"], event["timestamp_us"]
    try:
        if topic in DATAGRAMS:
            found = signals_of_datagram_untrusted(event["value"], at_us)
        else:
            message = "{topic}@{origin}/{partition}:e{epoch}:{offset}".format_map(identity)
            found = signals_of_coaty_untrusted(topic, event["value"], at_us, message)
    except (BadPacket, BadCoatyMessage) as error:
        return [_rejected_row(identity, at_us, str(error))]
    return [_row(protocol, node, signal) for protocol, node, signal in found]


def _row(protocol: Protocol, node: str, signal: Signal) -> dict[str, Any]:
    return {"node_key": key_of(protocol, node), "at": signal.at_us, "data": msgspec.msgpack.encode(signal)}


def _rejected_row(identity: Mapping[str, Any], timestamp_us: int | None, reason: str) -> dict[str, Any]:
    """A row without ``at``: with a time, Spark would drop it if it came late."""
    rejected = Rejected(**identity, timestamp_us=timestamp_us, rejected=reason)
    return {"node_key": NO_NODE, "data": msgspec.msgpack.encode(rejected)}


def signals_of_datagram_untrusted(datagram: bytes, at_us: int) -> Found:
    """The signals in an EMM or EMM-C datagram that a gateway accepted; raise only BadPacket."""
    protocol = protocol_of_untrusted(datagram)
    match protocol:
        case DatagramProtocol.EMM:
            return _signals_of_emm(emm.parse_untrusted(datagram), at_us)
        case DatagramProtocol.EMM_COMPACT:
            return _signals_of_compact(emm_compact.decode_untrusted(datagram), at_us)
        case _:
            assert_never(protocol)


def _signals_of_emm(packet: emm.Packet, at_us: int) -> Found:
    kinds = {emm.EventType.HELLO: Kind.HELLO, emm.EventType.HEARTBEAT: Kind.HEARTBEAT}
    if packet.kind not in kinds:
        return []
    assert packet.node_id is not None, "the parser refuses hellos and heartbeats of nobody"
    return [(Protocol.EMM, str(packet.node_id), Signal(at_us, f"{packet.message_id:08x}", kinds[packet.kind]))]


def _signals_of_compact(packet: emm_compact.Packet, at_us: int) -> Found:
    header, body = packet.header, packet.body
    message = f"{header.event_id}.{header.epoch}.{header.offset}"
    match body:
        case emm_compact.Heartbeat():
            hops = body.propagation.hops
            signal = Signal(at_us, message, Kind.HEARTBEAT, uptime_s=body.uptime_s, hops=hops)
        case emm_compact.Join():
            signal = Signal(at_us, message, Kind.HELLO, interval_s=float(body.heartbeat_interval_s))
        case _:
            return []
    return [(Protocol.EMM_COMPACT, str(UUID(bytes=body.node_id)), signal)]


def signals_of_coaty_untrusted(topic: str, payload: bytes, at_us: int, message: str) -> Found:
    """The signals in an Advertise or Deadvertise event; raise only BadCoatyMessage.

    A Deadvertise names objects of any kind. Objects that are not agents were never alive here, so they cannot die.
    """
    place = parse_mesh_topic(topic)
    if place is None or place.event not in (EventType.ADVERTISE, EventType.DEADVERTISE):
        return []
    match decode_payload_untrusted(place.event, payload).data:
        case Advertise(object=published) if published["coreType"] == CoreType.IDENTITY:
            return [(Protocol.COATY, published["objectId"], Signal(at_us, message, Kind.HELLO))]
        case Deadvertise(object_ids=object_ids):
            return [(Protocol.COATY, each, Signal(at_us, message, Kind.BYE)) for each in dict.fromkeys(object_ids)]
        case _:
            return []


# --- the table of packets ------------------------------------------------------------------------------------------


def read_packets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: rows of ``packet.schema.EVENTS`` with times in microseconds (``arrived_us``, ``created_us``)
    and ``misdated``, to ``SIGNALS``."""
    for batch in batches:
        rows = [row for packet in batch.to_pylist() for row in _rows_of_packet(packet)]
        yield pa.RecordBatch.from_pylist(rows, SIGNALS)


def _rows_of_packet(packet: dict[str, Any]) -> list[dict[str, Any]]:
    if packet["kind"] not in PACKET_KINDS or packet["node_id"] is None:
        return []
    identity = {name: packet[name] for name in IDENTITY}
    if packet["misdated"]:
        return [_rejected_row(identity, None, MISDATED)]
    arrived_us, created_us = packet["arrived_us"], packet["created_us"]
    at_us = created_us if arrived_us is None else arrived_us
    if at_us is None:
        return [_rejected_row(identity, None, "nobody wrote down when this packet came")]
    fields = _fields(packet["fields"])
    signal = Signal(
        at_us,
        f"{packet['message_id']:x}",
        PACKET_KINDS[packet["kind"]],
        interval_s=_number(fields, "heartbeat-interval"),
        uptime_s=_whole(_number(fields, "uptime")),
        hops=_whole(_number(fields.get("propagation-map"), "hops")),
        delay_us=None if arrived_us is None or created_us is None else arrived_us - created_us,
    )
    return [_row(Protocol(packet["protocol"]), packet["node_id"], signal)]


def _fields(text: str | None) -> Mapping[str, Any]:
    fields = msgspec.json.decode(text) if text else {}
    return fields if isinstance(fields, dict) else {}  # a list: an EMM packet with many values, none of them ours


def _number(fields: object, name: str) -> float | None:
    value = fields.get(name) if isinstance(fields, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
