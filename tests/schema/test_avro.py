"""Avro: schemas, fingerprints and payloads that others made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.schema import BadSchema, Kind, Schema, find_faults, parse_schema, read_columns
from weft.schema.avro_fingerprint import canonical_form, fingerprint

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "avro" / "fastavro.json").read_text())


def avro(document: object) -> Schema:
    return parse_schema(Kind.AVRO, json.dumps(document))


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


@pytest.mark.req("LAK-02")
def test_fastavros_payloads_are_read() -> None:
    schema = avro(VECTORS["schema"])
    payloads = [bytes.fromhex(each["hex"]) for each in VECTORS["payloads"]]
    read = read_columns(schema, pa.array(payloads))
    assert not read.faults
    rows = [{name: str(value) for name, value in row.items()} for row in read.columns.to_pylist()]
    assert rows == [each["row"] for each in VECTORS["payloads"]]
    single = bytes.fromhex(VECTORS["single_object"])
    assert read_columns(schema, pa.array([single])).columns.to_pylist() == read.columns.slice(0, 1).to_pylist()


@pytest.mark.req("LAK-02")
def test_fingerprints() -> None:
    assert fingerprint('"int"')[::-1].hex() == "7275d51a3f395c8f"  # Avro's own test data
    text = json.dumps(VECTORS["schema"])
    assert canonical_form(text) == VECTORS["canonical"]
    assert fingerprint(text).hex() == VECTORS["fingerprint"]


@pytest.mark.req("LAK-02")
def test_what_other_versions_wrote_is_matched_by_name() -> None:
    old = avro(record({"name": "id", "type": "int"}, {"name": "gone", "type": "string"}))
    new = avro(record({"name": "id", "type": "double"}, {"name": "note", "type": ["null", "string"], "default": None}))
    payload = b"\xc3\x01" + fingerprint(old.text) + b"\x06\x04hi"
    read = read_columns(new, pa.array([payload]), [old])
    assert read.record_batch.to_pylist() == [{"id": 3.0, "note": None, "_rescued": '{"gone":"hi"}', "_corrupt": None}]
    assert not read.faults
    stranger = read_columns(new, pa.array([payload]))
    assert stranger.corrupt.to_pylist() == [payload]
    assert "written with a schema that this topic does not have" in str(stranger.faults[0])


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "it ends too early"),
        (b"\x02\x08abc", "it ends too early"),
        (b"\x02\x02a\x00\x00", "1 bytes too many"),
        (b"\xff" * 12, "a number of more than 64 bits"),
        (b"\x02\x02\xff\x00", "a text is not UTF-8"),
        (b"\x02\x02a\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "it ends too early"),
        (b"\x02\x01", "it ends too early"),
    ],
)
def test_broken_payloads_are_kept_whole(payload: bytes, reason: str) -> None:
    items = {"type": "array", "items": "long"}
    schema = avro(record({"name": "id", "type": "long"}, {"name": "t", "type": "string"}, {"name": "l", "type": items}))
    read = read_columns(schema, pa.array([payload]))
    assert read.corrupt.to_pylist() == [payload]
    assert str(read.faults[0]) == f"the payload cannot be read as Avro: {reason}"


@given(st.binary(max_size=60))
@pytest.mark.req("LAK-02")
def test_any_bytes_are_read_or_corrupt(payload: bytes) -> None:
    schema = avro(VECTORS["schema"])
    read = read_columns(schema, pa.array([payload]))
    read.record_batch.validate(full=True)
    assert read.corrupt.to_pylist() == [payload if read.faults else None]
    assert find_faults(schema, [payload]) == dict(read.faults)


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("long", 'the schema of an event has type "record"'),
        (record(), '"fields" is a list of at least one field'),
        (record({"name": "a", "type": ["int", "string"]}), "a union may only be one type"),
        (record({"name": "a", "type": "R"}), "contains itself"),
        (record({"name": "a", "type": "What"}), "unknown type 'What'"),
        (record({"name": "a", "type": "null"}), "null alone cannot be a column"),
        (
            record({"name": "a", "type": "int"}, {"name": "A", "type": "int"}),
            "tables cannot tell these two columns apart",
        ),
        (record({"name": "a", "type": {"type": "fixed", "name": "F", "size": -1}}), '"size" of a fixed'),
        (record({"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["x", "x"]}}), "all different"),
        (record({"name": "_rescued", "type": "int"}), "is taken"),
    ],
)
def test_schemas_that_make_no_columns(document: object, reason: str) -> None:
    with pytest.raises(BadSchema, match="(?s)" + reason.replace("(", r"\(")):
        avro(document)
