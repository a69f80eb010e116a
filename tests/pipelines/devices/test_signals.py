"""Signs of life from datagrams, from Coaty, and from the table of packets."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.coaty_events import advertise, coaty_object, deadvertise, identity, uuid
from tests.pipelines.emm_datagrams import (
    DEVICE,
    SIGNER,
    compact_heartbeat,
    compact_join,
    compact_notification,
    emm_event,
    emm_heartbeat,
    emm_hello,
)
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC
from weft.pipelines.derived_tables import MISDATED, Rejected
from weft.pipelines.devices.node_health import US, Kind, Protocol, Signal
from weft.pipelines.devices.signals import (
    DATAGRAMS,
    NO_NODE,
    decode_signal,
    key_of,
    parse_key,
    read_events,
    read_packets,
    signals_of_coaty_untrusted,
    signals_of_datagram_untrusted,
)
from weft.pipelines.packet.judging import Means, judge_one
from weft.pipelines.packet.keys import Keys
from weft.pipelines.packet.marks import Hasher
from weft.pipelines.packet.schema import EVENTS
from weft.wire import emm, emm_compact
from weft.wire.coaty import BadCoatyMessage
from weft.wire.emm_compact import judge as compact_judge
from weft.wire.emm_compact.judge import Epochs
from weft.wire.reject import BadPacket

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_US = round(NOON.timestamp() * US)
NODE = str(DEVICE)
ADV, DAD = "coaty.plant.ADV.Identity", "coaty.plant.DAD"
RING = emm_compact.KeyRing(group_keys=(SIGNER.group_key,), by_node_id={DEVICE.bytes: (SIGNER.public_key,)})
MEANS = Means(
    Keys(ring=RING), emm.Terms(unsigned_allowed=True), Hasher(bytes(32)), compact_judge.Terms(epochs=Epochs.ANY)
)


def decode_rejected(data: bytes) -> Rejected:
    return msgspec.msgpack.decode(data, type=Rejected)


def test_these_are_the_topics_of_the_gateway() -> None:
    assert set(DATAGRAMS) == {HELLO_TOPIC, HEARTBEAT_TOPIC}


# --- datagrams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("datagram", "protocol", "signal"),
    [
        (emm_hello(0xAB, 5), Protocol.EMM, Signal(9, "000000ab", Kind.HELLO)),
        (emm_heartbeat(7, 5), Protocol.EMM, Signal(9, "00000007", Kind.HEARTBEAT)),
        (compact_heartbeat(3, 60, hops=2), Protocol.EMM_COMPACT, Signal(9, "3.7.0", Kind.HEARTBEAT, None, 60, 2)),
        (compact_join(4, 15), Protocol.EMM_COMPACT, Signal(9, "4.7.0", Kind.HELLO, 15.0)),
    ],
)
def test_datagrams_tell_of_their_node(datagram: bytes, protocol: Protocol, signal: Signal) -> None:
    assert signals_of_datagram_untrusted(datagram, 9) == [(protocol, NODE, signal)]


@pytest.mark.parametrize("datagram", [emm_event(1, 5), compact_notification(1)])
def test_other_datagrams_are_no_signs_of_life(datagram: bytes) -> None:
    assert signals_of_datagram_untrusted(datagram, 9) == []


@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda rest: emm_heartbeat(1, 5)[:20] + rest))
def test_any_bytes_are_a_datagram_or_not(data: bytes) -> None:
    with suppress(BadPacket):
        signals_of_datagram_untrusted(data, 9)


# --- Coaty -------------------------------------------------------------------------------------------------------


def test_an_agent_says_hello_by_its_identity_and_leaves_by_a_deadvertise() -> None:
    assert signals_of_coaty_untrusted(ADV, advertise(identity(uuid(1))), 9, "m") == [
        (Protocol.COATY, uuid(1), Signal(9, "m", Kind.HELLO))
    ]
    assert signals_of_coaty_untrusted(DAD, deadvertise(uuid(1), uuid(2), uuid(1)), 9, "m") == [
        (Protocol.COATY, uuid(1), Signal(9, "m", Kind.BYE)),
        (Protocol.COATY, uuid(2), Signal(9, "m", Kind.BYE)),
    ]


def test_other_objects_and_events_are_no_signs_of_life() -> None:
    assert signals_of_coaty_untrusted(ADV, advertise(coaty_object(uuid(1))), 9, "m") == []
    assert signals_of_coaty_untrusted("coaty.plant.CHN.x", b"\xff", 9, "m") == []


@given(st.sampled_from([ADV, DAD]), st.binary(max_size=60))
def test_any_bytes_are_an_event_or_not(topic: str, payload: bytes) -> None:
    with suppress(BadCoatyMessage):
        signals_of_coaty_untrusted(topic, payload, 9, "m")


# --- events of the mesh ------------------------------------------------------------------------------------------


def event(topic: str, value: bytes, after_s: float = 0, *, misdated: bool = False) -> dict[str, Any]:
    at_us = 1 << 62 if misdated else NOON_US + round(after_s * US)
    where = {"origin": "n0", "epoch": 1, "partition": 0, "offset": 5}
    return {"topic": topic, "value": value, "timestamp_us": at_us, "misdated": misdated, **where}


EVENT_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "origin": pa.string(),
        "epoch": pa.int64(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "value": pa.binary(),
        "timestamp_us": pa.int64(),
        "misdated": pa.bool_(),
    }
)


def rows_of(*events: dict[str, Any]) -> list[dict[str, Any]]:
    (batch,) = read_events([pa.RecordBatch.from_pylist(list(events), EVENT_SCHEMA)])
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_signals_are_found_by_their_node_and_time() -> None:
    first, second, tick = rows_of(event(HELLO_TOPIC, emm_hello(1, 5)), event(DAD, deadvertise(uuid(1)), 3))
    assert parse_key(first["node_key"]) == (Protocol.EMM, NODE)
    assert (first["at"], decode_signal(first["data"]).at_us) == (NOON, NOON_US)
    assert (second["node_key"], second["at"]) == (key_of(Protocol.COATY, uuid(1)), NOON + timedelta(seconds=3))
    assert decode_signal(second["data"]).message == f"{DAD}@n0/0:e1:5"
    assert tick == {"node_key": NO_NODE, "at": NOON + timedelta(seconds=3), "data": None}


def test_time_goes_on_by_events_of_any_kind_but_not_by_impossible_ones() -> None:
    assert rows_of(event("plant.temp", b"\xff", 7)) == [
        {"node_key": NO_NODE, "at": NOON + timedelta(seconds=7), "data": None}
    ]
    (row,) = rows_of(event(HEARTBEAT_TOPIC, emm_heartbeat(1, 5), misdated=True))
    assert (row["node_key"], row["at"]) == (NO_NODE, None)
    assert (decode_rejected(row["data"]).rejected, decode_rejected(row["data"]).timestamp_us) == (MISDATED, None)
    assert rows_of() == []


@pytest.mark.parametrize(
    ("topic", "value", "reason"),
    [(HEARTBEAT_TOPIC, b"", "empty datagram"), (HELLO_TOPIC, b"\x99", "neither EMM"), (DAD, b"{", "not JSON")],
)
def test_bad_events_are_rejected_with_their_place_and_reason(topic: str, value: bytes, reason: str) -> None:
    row, tick = rows_of(event(topic, value))
    rejected = decode_rejected(row["data"])
    assert (row["node_key"], row["at"], tick["at"]) == (NO_NODE, None, NOON)
    assert (rejected.topic, rejected.origin, rejected.epoch, rejected.offset) == (topic, "n0", 1, 5)
    assert (rejected.timestamp_us, reason in rejected.rejected) == (NOON_US, True)


# --- the table of packets ----------------------------------------------------------------------------------------


def packet(datagram: bytes, arrived_us: int | None, *, misdated: bool = False) -> dict[str, Any]:
    """The row that ``packets`` itself makes of a datagram."""
    judged = judge_one(datagram, arrived_us, b"", MEANS)
    assert "reason" not in judged, judged
    where = {"topic": "raw", "origin": "n0", "epoch": 1, "partition": 0, "offset": 5}
    times = {"arrived_us": arrived_us, "created_us": judged.get("created_at"), "misdated": misdated}
    said = {name: judged.get(name) for name in ("protocol", "kind", "node_id", "message_id", "fields")}
    assert said.keys() | where.keys() <= set(EVENTS.names)
    return {**where, **said, **times}


def rows_in(*packets: dict[str, Any]) -> list[dict[str, Any]]:
    (batch,) = read_packets([pa.RecordBatch.from_pylist(list(packets))])
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def signals_in(*packets: dict[str, Any]) -> list[tuple[Protocol, str, Signal]]:
    return [(*parse_key(row["node_key"]), decode_signal(row["data"])) for row in rows_in(*packets)]


def test_packets_tell_what_their_datagrams_do_and_how_long_they_took() -> None:
    created_s = round(NOON.timestamp())
    arrived_us = NOON_US + 2 * US
    assert signals_in(
        packet(emm_heartbeat(0xAB, created_s), arrived_us),
        packet(emm_hello(0xAC, created_s), None),
        packet(compact_heartbeat(3, 60, hops=2), arrived_us),
        packet(compact_join(4, 15), arrived_us),
    ) == [
        (Protocol.EMM, NODE, Signal(arrived_us, "ab", Kind.HEARTBEAT, delay_us=2 * US)),
        (Protocol.EMM, NODE, Signal(NOON_US, "ac", Kind.HELLO)),
        (Protocol.EMM_COMPACT, NODE, Signal(arrived_us, "300070000", Kind.HEARTBEAT, uptime_s=60, hops=2)),
        (Protocol.EMM_COMPACT, NODE, Signal(arrived_us, "400070000", Kind.HELLO, interval_s=15.0)),
    ]


def test_packets_of_other_kinds_and_of_nobody_tell_nothing() -> None:
    heartbeat = packet(emm_heartbeat(1, round(NOON.timestamp())), NOON_US)
    assert rows_in(packet(emm_event(1, round(NOON.timestamp())), NOON_US), {**heartbeat, "node_id": None}) == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (packet(compact_heartbeat(3, 60), None), "when this packet came"),
        (packet(compact_heartbeat(3, 60), 1 << 60, misdated=True), MISDATED),
    ],
)
def test_a_packet_of_no_possible_time_is_rejected(bad: dict[str, Any], reason: str) -> None:
    (row,) = rows_in(bad)
    assert (row["node_key"], row["at"]) == (NO_NODE, None)
    assert reason in decode_rejected(row["data"]).rejected
