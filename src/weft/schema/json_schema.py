"""Schemas written as JSON Schema (drafts 6 to 2020-12): the part of it that makes columns.

An object with ``properties`` is a struct, one with ``additionalProperties`` alone a map, ``{}`` any JSON. Local
references (``#/$defs/...``) and ``anyOf`` with null are read, as tools that write schemas of classes use them. A
keyword that would not be checked is refused by name: a schema must not promise more than is checked. Notes (``title``,
``description``, ``default``, ``examples``) are fine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from weft.schema.patterns import check_pattern
from weft.schema.values import (
    COLUMNS_MAX,
    DEPTH_MAX,
    ENUM_VALUES_MAX,
    INTEGER_BITS,
    NO_CHECKS,
    TEXT_BYTES_MAX,
    BadSchema,
    Checks,
    Column,
    DecimalType,
    Kind,
    ListOf,
    MapOf,
    Scalar,
    Schema,
    Shape,
    StructOf,
    Type,
    checked,
    joined,
)

NOTES: Final = frozenset(
    [
        *("$schema", "$id", "$comment", "$defs", "definitions", "$anchor"),
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    ]
)
KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "object": frozenset(["properties", "required", "additionalProperties"]),
    "array": frozenset(["items", "minItems", "maxItems"]),
    "string": frozenset(["minLength", "maxLength", "pattern", "format", "enum", "const", "contentEncoding"]),
    "integer": frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "const", "format"]),
    "number": frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"]),
    "boolean": frozenset(),
    "any": frozenset(),
}
STRING_FORMATS: Final = {
    "date": Scalar.DATE,
    "date-time": Scalar.TIMESTAMP,
    "local-date-time": Scalar.TIMESTAMP_NTZ,
}
NUMBER_FORMATS: Final = {
    ("integer", "int8"): Scalar.TINYINT,
    ("integer", "int16"): Scalar.SMALLINT,
    ("integer", "int32"): Scalar.INT,
    ("integer", "int64"): Scalar.BIGINT,
    ("number", "float"): Scalar.FLOAT,
    ("number", "double"): Scalar.DOUBLE,
}
DECIMAL_FORMAT: Final = "decimal("  # format "decimal(10,2)": ours, so that every column can be said


def parse_json_schema(text: str) -> Schema:
    """The schema that ``text`` is, or BadSchema."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise BadSchema("the schema is too long", limit=TEXT_BYTES_MAX)
    document = decoded(text)
    if not isinstance(document, dict):
        raise BadSchema("a JSON Schema for events is an object", at="$")
    shape = _Reader(document).shape(document, "", 0)
    if not isinstance(shape.type, StructOf):
        raise BadSchema('the schema of an event has type "object" and "properties"', at="$")
    return checked(Schema(Kind.JSON_SCHEMA, text, shape.type))


def decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadSchema(f"no JSON: {error}") from None
    except RecursionError:
        raise BadSchema("not JSON: nested too deep") from None


class _Reader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._budget = 4 * COLUMNS_MAX  # shapes read: references may name references, each twice, and so on

    def shape(self, schema: Any, path: str, depth: int) -> Shape:
        self._budget -= 1
        if depth > DEPTH_MAX or self._budget < 0:
            raise _bad("types are nested too deep, or refer to themselves", path, limit=DEPTH_MAX)
        if schema is True:
            return Shape(Scalar.JSON)
        if not isinstance(schema, dict):
            raise _bad("expected a schema: an object", path)
        schema, nullable = self._resolved(schema, path, depth)
        kind, null_by_type = _type_name(schema, path)
        nullable = nullable or null_by_type or kind == "any" or None in _enum(schema)
        for keyword in schema:
            if keyword not in NOTES and keyword not in KEYWORDS[kind] and keyword != "type":
                raise _refused(keyword, kind, path)
        return Shape(self._type(kind, schema, path, depth), nullable, _checks(kind, schema, path))

    def _resolved(self, schema: dict[str, Any], path: str, depth: int) -> tuple[dict[str, Any], bool]:
        """Without references and without a choice between null and something: what is left, and whether null may be."""
        nullable = False
        for _ in range(DEPTH_MAX):
            if "$ref" in schema:
                beside = {keyword: value for keyword, value in schema.items() if keyword not in NOTES | {"$ref"}}
                if beside:
                    raise _bad(f'nothing is allowed beside "$ref", but "{next(iter(beside))}" does', path)
                schema = self._referred(schema["$ref"], path)
            elif any(choice in schema for choice in ("anyOf", "oneOf")):
                word = "anyOf" if "anyOf" in schema else "oneOf"
                schema, with_null = _without_null(schema, word, path)
                nullable = nullable or with_null
            else:
                return schema, nullable
        raise _bad("references refer to themselves", path)

    def _referred(self, reference: Any, path: str) -> dict[str, Any]:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise _bad(f"only references within the schema are followed, not {str(reference)[:64]!r}", path)
        found: Any = self._document
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise _bad(f"there is nothing at {reference[:64]!r}", path)
        return found

    def _type(self, kind: str, schema: dict[str, Any], path: str, depth: int) -> Type:
        match kind:
            case "object":
                return self._object(schema, path, depth)
            case "array":
                item = schema.get("items", True)
                if isinstance(item, list):
                    raise _bad('"items" is one schema for all items, not a list of them', path)
                lengths = (_whole(schema, "minItems", path), _whole(schema, "maxItems", path))
                return ListOf(self.shape(item, f"{path}[]", depth + 1), *lengths)
            case "string":
                return _string_type(schema, path)
            case "integer" | "number":
                return _number_type(kind, schema, path)
            case "boolean":
                return Scalar.BOOLEAN
            case _:
                return Scalar.JSON

    def _object(self, schema: dict[str, Any], path: str, depth: int) -> Type:
        properties = schema.get("properties", {})
        rest = schema.get("additionalProperties", True)
        required = schema.get("required", [])
        if not isinstance(properties, dict):
            raise _bad('"properties" is an object', path)
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise _bad('"required" is a list of names', path)
        for name in required:
            if name not in properties:
                raise _bad('"required" names a field that "properties" does not', joined(path, name))
        if not properties:
            if isinstance(rest, dict):
                return MapOf(self.shape(rest, f"{path}{{}}", depth + 1))
            if rest is False:
                raise _bad("an object without fields cannot be a column", path)
            return Scalar.JSON
        if isinstance(rest, dict) and rest:
            raise _bad('"additionalProperties" beside "properties" is true or false', path)
        if len(properties) > COLUMNS_MAX:
            raise _bad("too many columns", path, limit=COLUMNS_MAX)
        columns = (
            Column(name, self.shape(inner, joined(path, name), depth + 1), required=name in required)
            for name, inner in properties.items()
        )
        return StructOf(tuple(columns), closed=rest is False)


def _without_null(schema: dict[str, Any], word: str, path: str) -> tuple[dict[str, Any], bool]:
    options = schema[word]
    beside = [keyword for keyword in schema if keyword not in NOTES and keyword != word]
    if not isinstance(options, list) or not all(isinstance(option, dict) for option in options) or beside:
        raise _bad(f'"{word}" is a list of schemas, with no other keyword beside it', path)
    real = [option for option in options if option.get("type") != "null"]
    if len(real) != 1:
        raise _bad(f'"{word}" may only be one schema, or one schema and null: a column has one type', path)
    return real[0], len(real) < len(options)


def _type_name(schema: dict[str, Any], path: str) -> tuple[str, bool]:
    """What the type is called, and whether it may be null."""
    given = schema.get("type")
    names = given if isinstance(given, list) else [given]
    real = [name for name in names if name != "null"]
    if given is None:
        if "properties" in schema:
            return "object", False
        values = [value for value in _enum(schema) if value is not None]
        if values:
            return ("string" if isinstance(values[0], str) else "integer"), False
        return "any", True
    if len(real) != 1 or real[0] not in KEYWORDS or real[0] == "any":
        raise _bad(f'"type" is one type, or one and "null", not {str(given)[:64]}', path)
    return real[0], len(real) < len(names)


def _enum(schema: dict[str, Any]) -> list[Any]:
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return values if isinstance(values, list) else []


def _string_type(schema: dict[str, Any], path: str) -> Type:
    name = schema.get("format")
    encoding = schema.get("contentEncoding")
    if encoding is not None:
        if encoding != "base64" or name is not None:
            raise _bad('"contentEncoding" is "base64", without a format', path)
        return Scalar.BINARY
    if name is None:
        return Scalar.STRING
    if isinstance(name, str) and name.startswith(DECIMAL_FORMAT) and name.endswith(")"):
        digits = name[len(DECIMAL_FORMAT) : -1].split(",")
        if len(digits) == 2 and all(part.strip().isdecimal() and len(part) < 5 for part in digits):
            return DecimalType(int(digits[0]), int(digits[1]))
    if name not in STRING_FORMATS:
        raise _bad(
            f'the format {str(name)[:64]!r} is not checked by Weft: leave it out, or use "pattern"; '
            f"checked are {', '.join(STRING_FORMATS)}",
            path,
        )
    return STRING_FORMATS[name]


def _number_type(kind: str, schema: dict[str, Any], path: str) -> Type:
    name = schema.get("format")
    if name is None:
        return Scalar.BIGINT if kind == "integer" else Scalar.DOUBLE
    if (kind, name) not in NUMBER_FORMATS:
        known = ", ".join(known for of, known in NUMBER_FORMATS if of == kind)
        raise _bad(f"the format {str(name)[:64]!r} is not checked by Weft; of {kind}s there are {known}", path)
    return NUMBER_FORMATS[kind, name]


def _checks(kind: str, schema: dict[str, Any], path: str) -> Checks:
    match kind:
        case "string":
            return _string_checks(schema, path)
        case "integer":
            return _integer_checks(schema, path)
        case "number":
            return Checks(
                minimum=_real(schema, "minimum", path),
                maximum=_real(schema, "maximum", path),
                exclusive_minimum=_real(schema, "exclusiveMinimum", path),
                exclusive_maximum=_real(schema, "exclusiveMaximum", path),
            )
        case _:
            return NO_CHECKS


def _string_checks(schema: dict[str, Any], path: str) -> Checks:
    checks = Checks(
        enum=_enum_values(schema, str, path),
        length_min=_whole(schema, "minLength", path),
        length_max=_whole(schema, "maxLength", path),
        pattern=schema.get("pattern"),
    )
    if checks and _string_type(schema, path) is not Scalar.STRING:
        raise _bad("text with a format cannot have other checks of its text", path)
    if checks.pattern is not None:
        if not isinstance(checks.pattern, str):
            raise _bad('"pattern" is a text', path)
        check_pattern(checks.pattern, path)
    if checks.enum is not None and checks != Checks(enum=checks.enum):
        raise _bad('beside "enum" there is nothing left to check', path)
    return checks


def _integer_checks(schema: dict[str, Any], path: str) -> Checks:
    """All bounds inclusive, and of the type."""
    kind = _number_type("integer", schema, path)
    assert isinstance(kind, Scalar), "an integer is a scalar"
    bits = INTEGER_BITS[kind] - 1
    least, most = -(1 << bits), (1 << bits) - 1
    lows = [math.ceil(low) for low in (_number(schema, "minimum", path),) if low is not None]
    lows += [math.floor(low) + 1 for low in (_number(schema, "exclusiveMinimum", path),) if low is not None]
    highs = [math.floor(high) for high in (_number(schema, "maximum", path),) if high is not None]
    highs += [math.ceil(high) - 1 for high in (_number(schema, "exclusiveMaximum", path),) if high is not None]
    minimum, maximum = max(lows, default=None), min(highs, default=None)
    for bound in (minimum, maximum):
        if bound is not None and not least <= bound <= most:
            raise _bad(f"the bound does not fit {kind}", path)
    values = _enum_values(schema, int, path)
    if values is not None and (lows or highs):
        raise _bad('beside "enum" there is nothing left to check', path)
    if any(not least <= int(value) <= most for value in values or ()):
        raise _bad(f"a value of the enum does not fit {kind}", path)
    return Checks(enum=values, minimum=minimum, maximum=maximum)


def _enum_values(schema: dict[str, Any], of: type, path: str) -> tuple[str | int, ...] | None:
    if "enum" not in schema and "const" not in schema:
        return None
    if "enum" in schema and "const" in schema:
        raise _bad('"enum" and "const" cannot be combined', path)
    given = [schema["const"]] if "const" in schema else schema["enum"]
    values = [value for value in given if value is not None] if isinstance(given, list) else []
    if not values or not all(type(value) is of for value in values):
        raise _bad(f'"enum" is a list of {"texts" if of is str else "integers"}, and perhaps null', path)
    if len(values) > ENUM_VALUES_MAX:
        raise _bad("too many values to choose from", path, limit=ENUM_VALUES_MAX)
    return tuple(dict.fromkeys(values))


def _number(schema: dict[str, Any], keyword: str, path: str) -> float | int | None:
    value = schema.get(keyword)
    if value is None and keyword not in schema:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(f'"{keyword}" is a number', path)
    return value


def _real(schema: dict[str, Any], keyword: str, path: str) -> float | None:
    value = _number(schema, keyword, path)
    try:
        return None if value is None else float(value)
    except OverflowError:
        raise _bad(f'"{keyword}" does not fit a DOUBLE', path) from None


def _whole(schema: dict[str, Any], keyword: str, path: str) -> int | None:
    value = _number(schema, keyword, path)
    if value is None:
        return None
    if value != int(value) or not 0 <= value < 1 << 31:
        raise _bad(f'"{keyword}" is a whole number', path, limit=(1 << 31) - 1)
    return int(value)


def _refused(keyword: str, kind: str, path: str) -> BadSchema:
    allowed = ", ".join(sorted(KEYWORDS[kind])) or "none"
    of = "a schema without a type" if kind == "any" else f"type {kind}"
    return _bad(
        f'"{keyword[:64]}" is not checked by Weft, so a schema must not have it; for {of} there are: {allowed}', path
    )


def _bad(what: str, path: str, **facts: object) -> BadSchema:
    return BadSchema(what, at=path or "$", **facts)
