"""Any schema as JSON Schema: what ``infer`` finds, and what ``weft schema show --as json`` prints."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from weft.schema.values import Checks, DecimalType, ListOf, MapOf, Scalar, Schema, Shape, StructOf, Type

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
SCALARS: Final[dict[Scalar, dict[str, Any]]] = {
    Scalar.BOOLEAN: {"type": "boolean"},
    Scalar.TINYINT: {"type": "integer", "format": "int8"},
    Scalar.SMALLINT: {"type": "integer", "format": "int16"},
    Scalar.INT: {"type": "integer", "format": "int32"},
    Scalar.BIGINT: {"type": "integer"},
    Scalar.FLOAT: {"type": "number", "format": "float"},
    Scalar.DOUBLE: {"type": "number"},
    Scalar.STRING: {"type": "string"},
    Scalar.BINARY: {"type": "string", "contentEncoding": "base64"},
    Scalar.DATE: {"type": "string", "format": "date"},
    Scalar.TIMESTAMP: {"type": "string", "format": "date-time"},
    Scalar.TIMESTAMP_NTZ: {"type": "string", "format": "local-date-time"},
    Scalar.JSON: {},
}
KEYWORDS: Final = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusive_minimum": "exclusiveMinimum",
    "exclusive_maximum": "exclusiveMaximum",
    "length_min": "minLength",
    "length_max": "maxLength",
    "pattern": "pattern",
}


def as_json_schema(schema: Schema) -> str:
    """The text, with two spaces to a level."""
    return json_schema_text(schema.root)


def json_schema_text(root: StructOf) -> str:
    document = {"$schema": DRAFT, **_type(root)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _shape(shape: Shape) -> dict[str, Any]:
    written = {**_type(shape.type), **_checks(shape.checks)}
    if not shape.nullable or shape.type is Scalar.JSON:
        return written
    if "enum" in written:
        return {**written, "type": [written["type"], "null"], "enum": [*written["enum"], None]}
    return {**written, "type": [written["type"], "null"]}


def _type(kind: Type) -> dict[str, Any]:
    match kind:
        case Scalar():
            return dict(SCALARS[kind])
        case DecimalType(precision=precision, scale=scale):
            return {"type": "string", "format": f"decimal({precision},{scale})"}
        case ListOf(item=item, length_min=length_min, length_max=length_max):
            lengths = {"minItems": length_min, "maxItems": length_max}
            return {
                "type": "array",
                "items": _shape(item),
                **{word: length for word, length in lengths.items() if length is not None},
            }
        case MapOf(value=value):
            return {"type": "object", "additionalProperties": _shape(value)}
        case StructOf(columns=columns, closed=closed):
            written: dict[str, Any] = {
                "type": "object",
                "properties": {column.name: _shape(column.shape) for column in columns},
            }
            if required := [column.name for column in columns if column.required]:
                written["required"] = required
            return {**written, "additionalProperties": False} if closed else written


def _checks(checks: Checks) -> dict[str, Any]:
    written = {word: getattr(checks, name) for name, word in KEYWORDS.items() if getattr(checks, name) is not None}
    return {**written, "enum": list(checks.enum)} if checks.enum is not None else written
