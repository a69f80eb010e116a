"""Fuzz targets of the EMM codec: any bytes, scalar and columnar, with all that comes behind the parser."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from tests.fuzz.pieces import pieces
from weft.wire.describe import unaccounted
from weft.wire.emm import Judge, SigningKey, Terms, TrustStore, canonical_bytes, parse_untrusted
from weft.wire.emm.canonical import canonical_payload
from weft.wire.emm.columnar import decode_column
from weft.wire.emm.describe import describe_untrusted, from_document, to_document_untrusted
from weft.wire.emm.fields import HEADER_BYTES
from weft.wire.recent import Recent
from weft.wire.reject import BadPacket

_VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "emm" / "emm.json").read_text())
_PACKETS = [bytes.fromhex(vector["hex"]) for vector in _VECTORS["vectors"]]
_NODE = UUID(hex=_VECTORS["node_id"])
_TRUST = TrustStore()
_TRUST.add_hmac_key(_NODE, bytes.fromhex(_VECTORS["auth_key_id"]), bytes.fromhex(_VECTORS["hmac_key"]))
_TRUST.add_public_key(_NODE, bytes.fromhex(_VECTORS["auth_key_id"]), SigningKey(bytes(32)).public_key)
_ENCRYPTION_KEY = bytes.fromhex(_VECTORS["encryption_key"])
_JUDGE = Judge(_TRUST, Terms(unsigned_allowed=True), marks=Recent(1), find_key=lambda _: _ENCRYPTION_KEY)


def parse(data: bytes) -> None:
    try:
        packet = parse_untrusted(data)
    except BadPacket:
        return
    assert canonical_bytes(packet) == data[:HEADER_BYTES] + canonical_payload(packet.tlvs())


def receive(data: bytes) -> None:
    try:
        _JUDGE.receive_datagram(data, b"fuzz", _VECTORS["timestamp_s"])
    except BadPacket:
        return


def describe(data: bytes) -> None:
    try:
        tree = describe_untrusted(data)
    except BadPacket:
        return
    assert unaccounted(tree) == []
    assert from_document(to_document_untrusted(data)) == data


def columnar(data: bytes) -> None:
    """A column of pieces of the datagram: what it says of each must be the scalar decoder's."""
    rows = pieces(data, HEADER_BYTES)
    assert decode_column(pa.array(rows, pa.binary()))["reject"].to_pylist() == [_reason(row) for row in rows]


def _reason(data: bytes) -> str | None:
    try:
        parse_untrusted(data)
    except BadPacket as error:
        return str(error.reason)
    return None


TARGETS = {"emm-parse": parse, "emm-receive": receive, "emm-describe": describe, "emm-columnar": columnar}
SEEDS = dict.fromkeys(TARGETS, _PACKETS)
