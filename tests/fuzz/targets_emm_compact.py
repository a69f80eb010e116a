"""Fuzz targets of the EMM-C codec, one packet at a time and in columns, and of the capture reader."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.fuzz.pieces import pieces
from weft.wire import pcap
from weft.wire.describe import unaccounted
from weft.wire.emm_compact import (
    KeyRing,
    Notification,
    decode_untrusted,
    describe_untrusted,
    encode,
    fingerprint,
    from_document,
    node_id_of,
    to_document_untrusted,
    verify_untrusted,
)
from weft.wire.emm_compact.columnar import decode_column
from weft.wire.reject import BadPacket

_VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "emm_compact" / "emm_compact.json").read_text())
_CAPTURES = json.loads((Path(__file__).parents[1] / "vectors" / "pcap" / "foreign.json").read_text())["captures"]
_PACKETS = [bytes.fromhex(vector["hex"]) for vector in _VECTORS["vectors"]]
_PUBLIC_KEYS = [bytes.fromhex(key) for key in _VECTORS["public_keys"].values()]
_RING = KeyRing(
    tuple(bytes.fromhex(key) for key in _VECTORS["group_keys"].values()),
    {bytes.fromhex(_VECTORS["node_id"]): tuple(_PUBLIC_KEYS)},
    {fingerprint(key): (key,) for key in _PUBLIC_KEYS},
)
_BODIES = {decode_untrusted(packet).signed: packet for packet in _PACKETS}


def decode(data: bytes) -> None:
    """What decodes means the same after encoding, even if our order of fields is another."""
    try:
        packet = decode_untrusted(data)
    except BadPacket:
        return
    again = encode(packet.header, packet.signature, packet.body)
    assert (again.header, again.signature, again.body) == (packet.header, packet.signature, packet.body)
    assert len(again.raw) == len(data)


def verify(data: bytes) -> None:
    """Nothing is believed but what the owners of the keys have signed."""
    try:
        packet = decode_untrusted(data)
        verify_untrusted(packet, _RING)
    except BadPacket:
        return
    assert packet.signed in _BODIES, "a forgery was believed"


def describe(data: bytes) -> None:
    """Every byte is described once, and documents give back the same bytes."""
    try:
        tree = describe_untrusted(data)
    except BadPacket:
        return
    assert unaccounted(tree) == []
    assert tree.size == len(data)
    assert from_document(to_document_untrusted(data)) == data


def columnar(data: bytes) -> None:
    """A column of pieces of the datagram: what it says of each must be the scalar decoder's."""
    rows = pieces(data, 8)
    decoded = decode_column(pa.array(rows, pa.binary())).to_pylist()
    for row, found in zip(rows, decoded, strict=True):
        assert _of_columns(found) == _of_packet(row)


def _of_columns(found: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(found[name] for name in ("reject", "event_id", "signature", "message", "node_id"))


def _of_packet(data: bytes) -> tuple[Any, ...]:
    try:
        packet = decode_untrusted(data)
    except BadPacket as refusal:
        return (str(refusal.reason), None, None, None, None)
    message = packet.body.message if isinstance(packet.body, Notification) else None
    return (None, packet.header.event_id, packet.signature, message, node_id_of(packet.body))


def capture(data: bytes) -> None:
    """A capture file is read or refused, and payloads are where they are said to be."""
    try:
        for packet in pcap.read_untrusted(data, Counter()):
            assert data[packet.at : packet.at + len(packet.payload)] == packet.payload
    except pcap.BadCapture:
        return


TARGETS = {
    "emm-compact-decode": decode,
    "emm-compact-verify": verify,
    "emm-compact-describe": describe,
    "emm-compact-columnar": columnar,
    "pcap-read": capture,
}
SEEDS = {
    "emm-compact-decode": _PACKETS,
    "emm-compact-verify": _PACKETS,
    "emm-compact-describe": _PACKETS,
    "emm-compact-columnar": _PACKETS,
    "pcap-read": [bytes.fromhex(capture["hex"]) for capture in _CAPTURES],
}
