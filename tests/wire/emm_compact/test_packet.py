"""Whole packets: anything decodes or is refused, what decodes encodes again, what cannot be sent is not built."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.emm_compact.packets import DATAGRAMS, HEARTBEAT, JOIN, NODE, assemble, datagrams, mutated
from weft.errors import UsageError
from weft.wire.emm_compact import (
    SIGNATURE_BYTES,
    Body,
    Command,
    Ecn,
    EventDigest,
    EventType,
    Field,
    Format,
    Header,
    Heartbeat,
    Join,
    Notification,
    Packet,
    Priority,
    PropagationMap,
    RateSignal,
    SupportedTypes,
    decode_untrusted,
    encode,
    find,
    node_id_of,
)
from weft.wire.emm_compact.codes import FieldType
from weft.wire.reject import BadPacket

NODE_ID = bytes.fromhex(NODE[4:])
NOTE = Notification(Priority.INFO, Format.PLAIN_TEXT, b"hello")
BEAT = Heartbeat(NODE_ID, 1, EventDigest(), RateSignal(Ecn.NOT_ECT, 0, 0), PropagationMap(0, 0, bytes(4)))
JOINING = Join(NODE_ID, SupportedTypes.NOTIFICATION, 10, 30, b"")


def build(body: Body) -> Packet:
    return encode(Header(body.TYPE, 1, 2, 3), bytes(SIGNATURE_BYTES[body.TYPE]), body)


@given(st.binary(max_size=600) | mutated())
@settings(max_examples=300)
@pytest.mark.req("EMC-01", "EMC-05", "EMC-10")
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        packet = decode_untrusted(data)
    except BadPacket:
        return
    assert packet.raw == data


@given(datagrams())
@settings(max_examples=300)
@pytest.mark.req("EMC-01", "EMC-06", "EMC-07", "EMC-08", "EMC-09", "EMC-10")
def test_what_decodes_encodes_again(data: bytes) -> None:
    packet = decode_untrusted(data)
    again = encode(packet.header, packet.signature, packet.body)
    # Our order of fields is our own, so bytes may differ; their number and their meaning may not.
    assert len(again.raw) == len(data)
    assert (again.header, again.signature, again.body) == (packet.header, packet.signature, packet.body)
    assert encode(again.header, again.signature, again.body) == again


@pytest.mark.req("EMC-08")
def test_heartbeat_fields_come_in_any_order() -> None:
    bodies = {repr(decode_untrusted(assemble("22", *order)).body) for order in permutations(HEARTBEAT)}
    assert len(bodies) == 1


@pytest.mark.req("EMC-09")
def test_join_fields_come_in_any_order() -> None:
    bodies = {repr(decode_untrusted(assemble("23", *order)).body) for order in permutations(JOIN)}
    assert len(bodies) == 1


@pytest.mark.req("EMC-05")
def test_signed_bytes_leave_out_the_signature_field_only() -> None:
    for name, size in [("notification-text", 32), ("command-node-id", 64), ("heartbeat", 16), ("join", 64)]:
        data = DATAGRAMS[name]
        assert decode_untrusted(data).signed == data[:8] + data[8 + 2 + size :]


def test_the_sender_a_body_names() -> None:
    assert node_id_of(decode_untrusted(DATAGRAMS["notification-text"]).body) is None
    assert node_id_of(decode_untrusted(DATAGRAMS["command-fingerprint"]).body) is None
    for name in ("command-node-id", "heartbeat", "join"):
        assert node_id_of(decode_untrusted(DATAGRAMS[name]).body) == NODE_ID


def test_further_fields_are_found_by_type() -> None:
    body = decode_untrusted(DATAGRAMS["command-every-field"]).body
    assert isinstance(body, Command)
    assert find(body.more, FieldType.EXPIRY_HINT) == b"\x3c"
    assert find(body.more, FieldType.UPTIME) is None


@pytest.mark.req("EMC-01")
def test_the_largest_packet_that_can_be_built() -> None:
    room = 255 - 2 - 32 - 2
    assert len(build(Notification(Priority.INFO, Format.BINARY, bytes(room))).raw) == 8 + 255
    with pytest.raises(UsageError, match=r"payload is too long \(need 256, limit 255\)"):
        build(Notification(Priority.INFO, Format.BINARY, bytes(room + 1)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Header(EventType.JOIN, 65536, 0, 0), "event_id does not fit"),
        (lambda: Header(EventType.JOIN, 0, -1, 0), "epoch does not fit"),
        (lambda: Header(EventType.JOIN, 0, 0, 65536), "offset does not fit"),
        (lambda: encode(Header(EventType.JOIN, 1, 2, 3), bytes(32), NOTE), "different types"),
        (lambda: encode(Header(EventType.NOTIFICATION, 1, 2, 3), bytes(64), NOTE), "need 32, have 64"),
        (lambda: build(Notification(Priority.INFO, Format.PLAIN_TEXT, b"\x1f")), "control character"),
        (lambda: build(Notification(Priority.INFO, Format.JSON, b"{")), "not JSON"),
        (lambda: build(Command("", b"")), "wrong size"),
        (lambda: build(Command("\ud800", b"")), "command name cannot be written"),
        (lambda: build(Command("stop", bytes(256))), "field is too long"),
        (lambda: build(Command("stop", b"", (Field(0x100, b""),))), "one byte"),
        (lambda: build(Command("stop", b"", (Field(FieldType.COMMAND_NAME, b"go"),))), "occurs twice"),
        (lambda: build(Command("stop", b"", (Field(FieldType.SIGNATURE, b""),))), "second signature"),
        (lambda: build(replace_field(BEAT, node_id=bytes(15))), "wrong size"),
        (lambda: build(replace_field(BEAT, uptime_s=1 << 32)), "uptime_s is out of range"),
        (lambda: build(replace_field(JOINING, relationships_max=64)), "out of range"),
        (lambda: build(replace_field(JOINING, heartbeat_interval_s=256)), "heartbeat_interval_s is out of range"),
        (lambda: build(replace_field(JOINING, supported=SupportedTypes(16))), "out of range"),
    ],
)
@pytest.mark.req("EMC-01", "EMC-05", "EMC-10")
def test_what_receivers_would_refuse_is_not_built(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()


def replace_field(body: Body, **changes: object) -> Body:
    values = {name: getattr(body, name) for name in body.__slots__} | changes
    return type(body)(**values)
