"""Versions that may follow each other, and those that may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.strategies import SCHEMAS, fitting
from weft.schema import Kind, Schema, find_faults, parse_schema
from weft.schema.compatibility import Compatibility, breaks

BACKWARD, FORWARD, FULL, NONE = Compatibility


def ddl(text: str) -> Schema:
    return parse_schema(Kind.DDL, text)


def json_schema(**properties: Any) -> Schema:
    return parse_schema(Kind.JSON_SCHEMA, json.dumps({"type": "object", "properties": properties}))


def avro(*fields: tuple[str, Any]) -> Schema:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return parse_schema(Kind.AVRO, json.dumps({"type": "record", "name": "R", "fields": listed}))


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"),
    [
        ("id BIGINT", "id BIGINT", None, None),
        ("id BIGINT", "id BIGINT, note STRING", None, None),
        ("id BIGINT, note STRING", "id BIGINT", None, None),
        ("id BIGINT", "id BIGINT, note STRING NOT NULL", "note: is required", None),
        ("id BIGINT, note STRING NOT NULL", "id BIGINT", None, "note: is required"),
        ("id BIGINT", "id BIGINT NOT NULL", "id: is required", None),
        ("id INT", "id BIGINT", None, "id: a reader of INT cannot take BIGINT"),
        ("id BIGINT", "id DOUBLE", None, "id: a reader of BIGINT cannot take DOUBLE"),
        (
            "id STRING",
            "id BIGINT",
            "id: a reader of BIGINT cannot take STRING",
            "id: a reader of STRING cannot take BIGINT",
        ),
        ("n VARCHAR(5)", "n VARCHAR(9)", None, "n: the reader takes 5 characters at most"),
        ("d DECIMAL(5,2)", "d DECIMAL(9,2)", None, "d: a reader of DECIMAL(5,2)"),
        ("d DECIMAL(5,2)", "d DECIMAL(6,4)", "d: a reader of", "d: a reader of"),
        ("s STRUCT<x: INT>", "s STRUCT<x: BIGINT>", None, "s.x: a reader of INT cannot take BIGINT"),
        ("l ARRAY<INT>", "l ARRAY<STRING>", "l[]: a reader of STRING", "l[]: a reader of INT"),
        ("m MAP<STRING, INT>", "m MAP<STRING, BIGINT>", None, "m{}: a reader of INT"),
    ],
)
def test_columns(old: str, new: str, backward: str | None, forward: str | None) -> None:
    for rule, expected in ((BACKWARD, backward), (FORWARD, forward)):
        found = [str(each) for each in breaks(ddl(old), ddl(new), rule)]
        assert bool(found) == bool(expected), found
        if expected:
            assert found[0].startswith(expected)
            assert f"({rule}: " in found[0]
    assert bool(breaks(ddl(old), ddl(new), FULL)) == bool(backward or forward)
    assert not breaks(ddl(old), ddl(new), NONE)


@pytest.mark.req("LAK-02")
@pytest.mark.parametrize(
    ("narrow", "wide", "reason"),
    [
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, "x: the reader does not take 'b'"),
        ({"enum": ["a"]}, {"type": "string"}, "x: the reader does not take every value"),
        ({"type": "integer", "minimum": 5}, {"type": "integer"}, "x: the reader takes nothing below 5"),
        ({"type": "integer", "maximum": 5}, {"type": "integer", "maximum": 6}, "x: the reader takes nothing above 5"),
        (
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "number", "minimum": 0},
            "x: the reader takes nothing below",
        ),
        ({"type": "string", "pattern": "a"}, {"type": "string"}, "x: the reader has a pattern"),
        ({"type": "string", "minLength": 2}, {"type": "string"}, "x: the reader wants 2 characters"),
        ({"type": "string"}, {"type": ["string", "null"]}, "x: may be null for the writer"),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            {"type": "array", "items": {"type": "string"}},
            "x: the reader takes 2 items at most",
        ),
    ],
)
def test_checks_may_only_be_loosened(narrow: dict[str, Any], wide: dict[str, Any], reason: str) -> None:
    assert not breaks(json_schema(x=narrow), json_schema(x=wide), BACKWARD)
    assert str(breaks(json_schema(x=wide), json_schema(x=narrow), BACKWARD)[0]).startswith(reason)


@pytest.mark.req("LAK-02")
def test_closed_schemas() -> None:
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    wider = {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}
    old, new = (parse_schema(Kind.JSON_SCHEMA, json.dumps(each)) for each in (closed, wider))
    assert not breaks(old, new, BACKWARD)
    assert str(breaks(new, old, BACKWARD)[0]).startswith("b: is not known to the reader, which allows no other fields")
    assert "allows no other fields" in str(breaks(json_schema(a={}), old, BACKWARD)[0])


@pytest.mark.req("LAK-02")
def test_avro_is_matched_by_name() -> None:
    old, new = avro(("id", "int"), ("gone", "string")), avro(("id", "long"))
    assert not breaks(old, new, BACKWARD)
    assert [each.field for each in breaks(old, new, FORWARD)] == ["id", "gone"]
    assert breaks(ddl("id INT"), new, BACKWARD)[0].reason == "one version is Avro, the other JSON"


@st.composite
def followers(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two schemas that are often alike."""
    old = draw(SCHEMAS)
    other = draw(SCHEMAS)
    names = draw(st.sets(st.sampled_from(sorted(old["properties"]))))
    changed = {**old["properties"], **other["properties"], **{name: old["properties"][name] for name in names}}
    kept = set(draw(st.lists(st.sampled_from(sorted(changed)), min_size=1)))
    required = [name for name in old["required"] if name in kept and draw(st.booleans())]
    properties = {name: changed[name] for name in changed if name in kept}
    return old, {**old, "properties": properties, "required": required, "additionalProperties": draw(st.booleans())}


@given(followers(), st.data())
@pytest.mark.req("LAK-02")
def test_what_the_rule_allows_is_read(pair: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
    """If nothing is broken, no event that keeps the writer's schema is a fault to the reader."""
    old, new = (parse_schema(Kind.JSON_SCHEMA, json.dumps(each)) for each in pair)
    if breaks(old, new, BACKWARD):
        return
    events = [json.dumps(data.draw(fitting(pair[0]))).encode() for _ in range(5)]
    good = [payload for at, payload in enumerate(events) if at not in find_faults(old, events)]
    assert find_faults(new, good) == {}
