"""The languages that schemas are written in: what they say, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.strategies import SCHEMAS, payloads
from weft.schema import BadSchema, Kind, arrow_schema, find_faults, kind_of_file, parse_schema
from weft.schema.inference import infer
from weft.schema.json_writing import as_json_schema
from weft.schema.values import COLUMNS_MAX, DEPTH_MAX, TEXT_BYTES_MAX


@pytest.mark.req("LAK-02")
def test_ddl() -> None:
    schema = parse_schema(
        Kind.DDL,
        "id bigint NOT NULL COMMENT 'it''s', `a b` STRING, t TIMESTAMP, d DECIMAL(9,2), v VARCHAR(5), "
        "l ARRAY<STRUCT<x: INT, y DOUBLE NOT NULL>>, m MAP<STRING, float64>, j VARIANT",
    )
    assert str(schema).startswith("id BIGINT NOT NULL, `a b` STRING, t TIMESTAMP, d DECIMAL(9,2), v STRING, l ARRAY<")
    assert arrow_schema(schema).field("l").type == pa.list_(
        pa.field("element", pa.struct([("x", pa.int32()), ("y", pa.float64())]))
    )
    assert arrow_schema(schema, extras=True).names[-2:] == ["_rescued", "_corrupt"]
    assert parse_schema(Kind.DDL, str(schema)).names == schema.names


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected the name of a column, found 'the end'"),
        ("id", "expected a type, found 'the end' (at character 3)"),
        ("id WHAT", 'unknown type "WHAT"'),
        ("id INT,", "expected the name of a column"),
        ("id INT temp INT", "expected \",\" or the end, found 'temp'"),
        ("id INT PRIMARY KEY", "PRIMARY is not checked by Weft"),
        ("id INT NOT", 'expected "NULL"'),
        ("m MAP<INT, INT>", "the keys of a map are STRING"),
        ("l ARRAY<INT", 'expected ">"'),
        ("a INT; b INT", "unexpected character ';' (at character 6)"),
        ("d DECIMAL(39,2)", "a decimal has 1 to 38 digits"),
        ("d DECIMAL(2,3)", "a decimal has 1 to 38 digits"),
        ("a INT, A INT", "tables cannot tell these two columns apart"),
        ("_corrupt INT", "is taken"),
        ("x " + "ARRAY<" * (DEPTH_MAX + 1) + "INT" + ">" * (DEPTH_MAX + 1), "nested too deep"),
        (
            ", ".join(f"c{at} INT" for at in range(COLUMNS_MAX + 1)),
            f"too many columns (at the schema, limit {COLUMNS_MAX})",
        ),
        ("x" * (TEXT_BYTES_MAX + 1), "too long"),
    ],
)
def test_ddl_that_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadSchema) as refused:
        parse_schema(Kind.DDL, text)
    assert reason in str(refused.value)


# What pydantic 2 writes for a class with an optional field, a list of another class, an enum and a dict.
PYDANTIC = {
    "$defs": {
        "Spot": {
            "properties": {
                "x": {"title": "X", "type": "integer"},
                "y": {"default": 0, "title": "Y", "type": "integer"},
            },
            "required": ["x"],
            "title": "Spot",
            "type": "object",
        },
        "Unit": {"enum": ["C", "F"], "title": "Unit", "type": "string"},
    },
    "properties": {
        "id": {"title": "Id", "type": "integer"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Note"},
        "spots": {"items": {"$ref": "#/$defs/Spot"}, "title": "Spots", "type": "array"},
        "unit": {"$ref": "#/$defs/Unit"},
        "at": {"format": "date-time", "title": "At", "type": "string"},
        "more": {"additionalProperties": {"type": "number"}, "title": "More", "type": "object"},
        "any": {"title": "Any"},
    },
    "required": ["id", "spots", "unit", "at", "more", "any"],
    "title": "Reading",
    "type": "object",
}


@pytest.mark.req("LAK-02")
def test_json_schema_of_a_class() -> None:
    assert str(parse_schema(Kind.JSON_SCHEMA, json.dumps(PYDANTIC))) == (
        "id BIGINT NOT NULL, note STRING, spots ARRAY<STRUCT<x: BIGINT, y: BIGINT>> NOT NULL, unit STRING NOT NULL, "
        "at TIMESTAMP NOT NULL, more MAP<STRING, DOUBLE> NOT NULL, any JSON"
    )


def bad(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": more}}


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "a JSON Schema for events is an object (at $)"),
        ({"type": "string"}, 'the schema of an event has type "object"'),
        ({"type": "object"}, 'the schema of an event has type "object"'),
        (bad(type="integer", multipleOf=2), '"multipleOf" is not checked by Weft, so a schema must not have it'),
        (bad(type="string", format="email"), "the format 'email' is not checked by Weft"),
        (bad(type=["integer", "string"]), '"type" is one type, or one and "null"'),
        (bad(oneOf=[{"type": "integer"}, {"type": "string"}]), "a column has one type (at a)"),
        (bad(**{"not": {}}), '"not" is not checked by Weft'),
        (bad(**{"$ref": "http://x/y"}), "only references within the schema are followed"),
        (bad(**{"$ref": "#/$defs/none"}), "there is nothing at '#/$defs/none' (at a)"),
        (bad(**{"$ref": "#/properties/a"}), "references refer to themselves"),
        ({"$defs": {"T": bad(**{"$ref": "#/$defs/T"})}, **bad(**{"$ref": "#/$defs/T"})}, "refer to themselves"),
        (bad(type="string", pattern="(?=a)"), "not a pattern of RE2"),
        (bad(type="string", maxLength=-1), '"maxLength" is a whole number'),
        (bad(type="string", enum=[]), '"enum" is a list of texts'),
        (bad(type="integer", enum=[1.5]), '"enum" is a list of integers'),
        (bad(type="integer", format="int8", maximum=1000), "the bound does not fit TINYINT"),
        (bad(type="number", maximum="x"), '"maximum" is a number'),
        (bad(type="object", properties={}, additionalProperties=False), "an object without fields cannot be a column"),
        (bad(type="array", items=[{}]), '"items" is one schema for all items'),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, '"required" names a field'),
        ({"type": "object", "properties": {"a\n": {}}}, "visible characters only"),
    ],
)
def test_json_schema_that_is_refused(document: object, reason: str) -> None:
    with pytest.raises(BadSchema) as refused:
        parse_schema(Kind.JSON_SCHEMA, json.dumps(document))
    assert reason in str(refused.value)


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize("text", ["", "{", "[" * 60_000, '{"type": "object", "type": 3}', "\ud800"])
def test_text_that_is_no_json(text: str) -> None:
    for kind in (Kind.JSON_SCHEMA, Kind.AVRO):
        with pytest.raises(BadSchema):
            parse_schema(kind, text)


@given(st.sampled_from(list(Kind)), st.text(max_size=80) | st.from_regex(r"[\w <>,():`']{0,60}"))
@pytest.mark.req("LAK-02")
def test_any_text_is_a_schema_or_bad(kind: Kind, text: str) -> None:
    with contextlib.suppress(BadSchema):
        parse_schema(kind, text)


@given(SCHEMAS)
@pytest.mark.req("LAK-02")
def test_what_is_written_is_read_again(document: dict[str, Any]) -> None:
    schema = parse_schema(Kind.JSON_SCHEMA, json.dumps(document))
    assert parse_schema(Kind.JSON_SCHEMA, as_json_schema(schema)).root == schema.root


@given(SCHEMAS, st.data())
@pytest.mark.req("LAK-02")
def test_events_keep_the_schema_inferred_from_them(document: dict[str, Any], data: st.DataObject) -> None:
    events = data.draw(st.lists(payloads(document), min_size=1, max_size=6))
    try:
        inferred = infer(events)
    except BadSchema:
        return
    faults = find_faults(inferred.schema, events)
    assert len(faults) <= inferred.unread
    assert inferred.events + inferred.unread == len(events)


@pytest.mark.req("LAK-02")
def test_inference() -> None:
    events = [
        {
            "id": 1,
            "temp": 1,
            "at": "2026-05-01T12:00:00Z",
            "tags": ["a"],
            "spot": {"x": 1},
            "odd": 1,
            "on": "2026-05-01",
        },
        {"id": 2, "temp": 1.5, "at": "2026-05-01T12:00:01Z", "tags": [], "spot": {"x": None}, "odd": "x", "big": 2**64},
    ]
    inferred = infer([json.dumps(event).encode() for event in events] + [b"no", b"[]"])
    assert (inferred.events, inferred.unread) == (2, 2)
    assert str(inferred.schema) == (
        "id BIGINT NOT NULL, temp DOUBLE NOT NULL, at TIMESTAMP NOT NULL, tags ARRAY<STRING> NOT NULL, "
        "spot STRUCT<x: BIGINT> NOT NULL, odd JSON, on DATE, big DOUBLE"
    )
    many = infer([json.dumps({"by_name": {f"n{at}-{more}": at for at in range(60)}}).encode() for more in range(2)])
    assert str(many.schema) == "by_name MAP<STRING, BIGINT> NOT NULL"
    with pytest.raises(BadSchema, match="nothing to learn"):
        infer([b"no"])


@pytest.mark.req("LAK-02")
def test_kinds_of_files() -> None:
    names = ("a.json", "b.SQL", "c.avsc", "d.ddl")
    assert [kind_of_file(name) for name in names] == [Kind.JSON_SCHEMA, Kind.DDL, Kind.AVRO, Kind.DDL]
    with pytest.raises(BadSchema, match="--kind"):
        kind_of_file("schema.txt")
