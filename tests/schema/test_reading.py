"""Payloads as columns: what fits, what is rescued, what is corrupt; and that the fast way equals the slow one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.strategies import ODD, SCHEMAS, payloads
from weft.schema import Kind, Schema, find_faults, parse_schema, read_columns
from weft.schema.definition import read_row
from weft.schema.reading import SLICE_ROWS, columns_of

PLANT = "id BIGINT NOT NULL, temp DOUBLE, tags ARRAY<STRING>, spot STRUCT<x: INT, y: INT>, more JSON"


def plant() -> Schema:
    return parse_schema(Kind.DDL, PLANT)


def read_one(schema: Schema, payload: bytes) -> tuple[dict[str, Any], str | None]:
    read = read_columns(schema, pa.array([payload]))
    row = {name: value for name, value in read.record_batch.to_pylist()[0].items() if value is not None}
    return row, read.reasons[0].as_py()


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize(
    ("payload", "row", "reason"),
    [
        (b'{"id": 1, "temp": 2}', {"id": 1, "temp": 2.0}, None),
        (b'{"id": 1.0, "temp": -0.5}', {"id": 1, "temp": -0.5}, None),
        (b'{"temp": 2}', {"temp": 2.0}, "id: is required"),
        (b'{"id": null}', {}, "id: may not be null"),
        (b'{"id": "7"}', {"_rescued": '{"id":"7"}'}, "id: expected BIGINT, found text"),
        (b'{"id": true}', {"_rescued": '{"id":true}'}, "id: expected BIGINT, found a boolean"),
        (b'{"id": 1.5}', {"_rescued": '{"id":1.5}'}, "id: expected BIGINT, found the number 1.5"),
        (
            b'{"id": 9223372036854775808}',
            {"_rescued": '{"id":9223372036854775808}'},
            "id: expected BIGINT, found the number 9223372036854775808",
        ),
        (
            b'{"id": 1, "temp": 1e999}',
            {"id": 1, "_rescued": '{"temp":1e999}'},
            "temp: expected DOUBLE, found the number 1e999",
        ),
        (b'{"id": 1, "tags": ["a", null]}', {"id": 1, "tags": ["a", None]}, None),
        (
            b'{"id": 1, "tags": ["a", 2]}',
            {"id": 1, "_rescued": '{"tags":["a", 2]}'},
            "tags[1]: expected STRING, found the number 2",
        ),
        (b'{"id": 1, "new": 1.10}', {"id": 1, "_rescued": '{"new":1.10}'}, None),
        (b'{"id": 1, "new": null}', {"id": 1}, None),
        (b'{"id": 1, "spot": {"x": 1}}', {"id": 1, "spot": {"x": 1, "y": None}}, None),
        (
            b'{"id": 1, "spot": {"x": 1, "z": 2}}',
            {"id": 1, "spot": {"x": 1, "y": None}, "_rescued": '{"spot":{"x": 1, "z": 2}}'},
            None,
        ),
        (b'{"id": 1, "spot": 5}', {"id": 1, "_rescued": '{"spot":5}'}, "spot: expected an object, found the number 5"),
        (b'{"id": 1, "more": {"a": [1, 2]}}', {"id": 1, "more": '{"a": [1, 2]}'}, None),
        (b'{"id": 1, "id": 2}', {"id": 2}, None),
        (b'{"id":\n1}\n', {"id": 1}, None),
        (b"[1]", {"_corrupt": b"[1]"}, "the payload is not a JSON object"),
        (b"", {"_corrupt": b""}, "the payload is not JSON: Input data was truncated"),
        (b'{"id": NaN}', {"_corrupt": b'{"id": NaN}'}, "the payload is not JSON: invalid character (byte 7)"),
        (b'{"id": 1} {', {"_corrupt": b'{"id": 1} {'}, "the payload is not JSON: trailing characters (byte 11)"),
        (b'{"new": "\xff"}', {"_corrupt": b'{"new": "\xff"}'}, "the payload is not UTF-8"),
        (b"\xef\xbb\xbf{}", {"_corrupt": b"\xef\xbb\xbf{}"}, "the payload is not JSON: invalid character (byte 0)"),
    ],
)
def test_what_becomes_of_a_payload(payload: bytes, row: dict[str, Any], reason: str | None) -> None:
    assert read_one(plant(), payload) == (row, reason)


@pytest.mark.req("LAK-02")
def test_checks_leave_the_value_in_its_column() -> None:
    schema = parse_schema(
        Kind.JSON_SCHEMA,
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "level": {"type": "integer", "minimum": 0, "exclusiveMaximum": 10},
                    "unit": {"enum": ["C", "F"]},
                    "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$"},
                    "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                    "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 1},
                },
                "additionalProperties": False,
            }
        ),
    )
    for field, value, reason in [
        ("level", -1, "is below the minimum 0"),
        ("level", 10, "is above the maximum 9"),
        ("unit", "K", "is none of C, F"),
        ("name", "abcd", "has more than 3 characters"),
        ("name", "AB", "does not match ^[a-z]+$"),
        ("ratio", 0.0, "is not above 0.0"),
        ("ratio", 1.5, "is above the maximum 1.0"),
        ("list", [True, False], "has more than 1 items"),
    ]:
        assert read_one(schema, json.dumps({field: value}).encode()) == ({field: value}, f"{field}: {reason}")
    row, reason_of_unknown = read_one(schema, b'{"level":5,"what":1}')
    assert (row, reason_of_unknown) == ({"level": 5, "_rescued": '{"what":1}'}, "what: is not in the schema")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, list[bytes]]:
    schema = draw(SCHEMAS)
    events = draw(st.lists(payloads(schema), min_size=1, max_size=8))
    return parse_schema(Kind.JSON_SCHEMA, json.dumps(schema)), events


@given(cases())
@pytest.mark.req("LAK-02")
def test_the_fast_way_equals_the_slow_one(case: tuple[Schema, list[bytes]]) -> None:
    schema, events = case
    slow = [read_row(schema, payload) for payload in events]
    read = read_columns(schema, pa.array(events, pa.binary()))
    read.record_batch.validate(full=True)
    assert read.columns.equals(columns_of(schema, slow))
    assert read.rescued.to_pylist() == [row.rescued for row in slow]
    assert read.corrupt.to_pylist() == [
        payload if row.corrupt else None for row, payload in zip(slow, events, strict=True)
    ]
    faults = {at: row.fault for at, row in enumerate(slow) if row.fault is not None}
    assert dict(read.faults) == faults
    assert find_faults(schema, events) == faults


@given(SCHEMAS, st.data())
@pytest.mark.req("LAK-02")
def test_nothing_is_dropped(schema_of_draw: dict[str, Any], data: st.DataObject) -> None:
    """Every field of a JSON object with a value is in its column, rescued, or the payload is kept whole."""
    schema = parse_schema(Kind.JSON_SCHEMA, json.dumps(schema_of_draw))
    payload = data.draw(payloads(schema_of_draw))
    row = read_row(schema, payload)
    if row.corrupt:
        return
    kept = {name for name, value in zip(schema.names, row.values, strict=True) if value is not None}
    kept |= set(json.loads(row.rescued or "{}"))
    assert kept >= {name for name, value in json.loads(payload).items() if value is not None}


@pytest.mark.req("LAK-02")
def test_odd_payloads_are_the_same_to_both() -> None:
    for text in (PLANT, "id BIGINT", "zzz JSON", "temp DOUBLE, x STRUCT<zzz: INT>"):
        schema = parse_schema(Kind.DDL, text)
        faults = {at: row.fault for at, row in enumerate(read_row(schema, odd) for odd in ODD) if row.fault}
        assert find_faults(schema, ODD) == faults
        assert dict(read_columns(schema, pa.array(ODD)).faults) == faults


@pytest.mark.req("LAK-02")
def test_many_rows_are_read_in_parts() -> None:
    events = [b'{"id":%d}' % at for at in range(2 * SLICE_ROWS + 5)]
    events[SLICE_ROWS + 1] = b'{"id":"x"}'
    read = read_columns(plant(), pa.array(events))
    assert read.columns.num_rows == len(events)
    assert list(read.faults) == [SLICE_ROWS + 1]
    assert read.columns["id"][2 * SLICE_ROWS + 4].as_py() == 2 * SLICE_ROWS + 4
    assert read_columns(plant(), pa.array([], pa.binary())).record_batch.num_rows == 0


@pytest.mark.req("LAK-02")
def test_checking_needs_no_arrow() -> None:
    program = (
        "import sys; from weft.schema import Kind, find_faults, parse_schema;"
        f"print(find_faults(parse_schema(Kind.DDL, {PLANT!r}), [b'{{}}']), 'pyarrow' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split()[-1] == "False"
    assert "is required" in ended.stdout
