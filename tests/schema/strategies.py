"""Schemas, and payloads that nearly keep them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["id", "temp", "tags", "a b", "größe", "class", "x"])
TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["a", "b", "2026-05-01", "2026-05-01T12:00:00Z", "aGk=", "1.50"])
)
NUMBERS = st.one_of(
    st.integers(-200, 200),
    st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), 2**70, 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1.0, 0.5, 1e300, 3.5e38, -0.0]),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
MOMENTS = st.datetimes().map(lambda at: at.isoformat() + "Z") | st.sampled_from(
    ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "2026-05-01T12:00:00.123456789Z", "2026-05-01T12:00:00"]
)


def _scalars() -> st.SearchStrategy[dict[str, Any]]:
    bound = st.integers(-100, 100)
    return st.one_of(
        st.just({"type": "boolean"}),
        st.just({}),
        st.just({"type": "integer"}),
        st.fixed_dictionaries({"type": st.just("integer")}, optional={"minimum": bound, "exclusiveMaximum": bound}),
        st.sampled_from(["int8", "int32", "int64"]).map(lambda name: {"type": "integer", "format": name}),
        st.just({"type": "integer", "enum": [1, 2, 3]}),
        st.fixed_dictionaries(
            {"type": st.just("number")},
            optional={"minimum": bound, "exclusiveMinimum": bound, "maximum": bound, "exclusiveMaximum": bound},
        ),
        st.just({"type": "number", "format": "float"}),
        st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": st.just(1), "maxLength": st.just(3)}),
        st.just({"type": "string", "enum": ["a", "b", None]}),
        st.just({"type": "string", "pattern": "^[ab]+$"}),
        st.sampled_from(["date", "date-time", "local-date-time", "decimal(5,2)"]).map(
            lambda name: {"type": "string", "format": name}
        ),
        st.just({"type": "string", "contentEncoding": "base64"}),
    )


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def made(properties: dict[str, Any], required: set[str], closed: bool) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": sorted(required & set(properties)),
            "additionalProperties": not closed,
        }

    return st.builds(made, st.dictionaries(NAMES, inner, min_size=1, max_size=4), st.sets(NAMES), st.booleans())


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


SHAPES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _scalars(),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"maxItems": st.just(2)}),
        inner.map(lambda value: {"type": "object", "additionalProperties": value}),
        _objects(inner),
        inner.map(_or_null),
    ),
    max_leaves=5,
)
SCHEMAS = _objects(SHAPES)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that mostly keep the schema."""
    match schema:
        case {"anyOf": [inner, _]}:
            return st.none() | fitting(inner)
        case {"enum": values}:
            return st.sampled_from(values)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer"}:
            return st.integers(-130, 130) | st.sampled_from([1.0, 1e2])
        case {"type": "number"}:
            return st.floats(-120, 120) | st.integers(-120, 120)
        case {"format": "date-time" | "local-date-time"}:
            return MOMENTS
        case {"format": "date"}:
            return st.dates().map(str)
        case {"format": _}:
            return st.sampled_from([1.5, "1.50", 12, "1.555", 1000, "1e2", "x", 1.500])
        case {"type": "string"}:
            return TEXTS
        case {"type": "array", "items": items}:
            return st.lists(fitting(items), max_size=3)
        case {"type": "object", "properties": properties}:
            return st.fixed_dictionaries({}, optional={name: fitting(each) for name, each in properties.items()})
        case {"type": "object", "additionalProperties": inner}:
            return st.dictionaries(NAMES, fitting(inner), max_size=2)
        case _:
            return VALUES


def payloads(schema: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Events that keep the schema, nearly keep it, and do not at all."""
    whole = fitting(schema)
    changed = st.builds(lambda value, more: {**value, **more}, whole, st.dictionaries(NAMES, VALUES, max_size=2))
    texts = st.one_of(whole, changed, VALUES).map(lambda value: json.dumps(value, ensure_ascii=False).encode())
    cut = st.builds(lambda text, at, more: text[:at] + more, texts, st.integers(0, 40), st.binary(max_size=4))
    return st.one_of(texts, texts, texts, cut, st.sampled_from(ODD))


ODD = [
    b"",
    b"{}",
    b"{} {}",
    b"\xef\xbb\xbf{}",
    b'{"id":1}\n',
    b'{"id":\n1}',
    b'{"id":1,"id":"x"}',
    b'{"id":"x","id":1}',
    b'{"id":NaN}',
    b'{"id":1e999,"zzz":1e999}',
    b'{"temp":1e99999999999999999999}',
    b'{"zzz":"\xff"}',
    b'{"\xff":1}',
    b'{"id":"\\ud800"}',
    b'{"zzz":' + b"1" * 5000 + b"}",
    b'{"id":' + b"1" * 5000 + b"}",
    b'{"zzz":null}',
    b'{"x":{"zzz":null}}',
    b"[" * 100_000,
    b'{"zzz":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"id":1}\x00',
    b'{"id": 00}',
]
