"""The fingerprint of an Avro schema: CRC-64-AVRO of its canonical form (Avro 1.11, "Parsing Canonical Form").

The single-object encoding has it in front of every payload, so that a reader knows which version wrote it.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from weft.schema.avro_schema import PRIMITIVES, full_name
from weft.schema.json_schema import decoded

EMPTY: Final = 0xC15D213AA4D7A795
PRINTED: Final = ("name", "type", "fields", "symbols", "items", "values", "size")  # in this order, all else goes


def fingerprint(text: str) -> bytes:
    """Of a schema that was parsed before: 8 bytes, as they stand in payloads."""
    crc = EMPTY
    table = _table()
    for byte in canonical_form(text).encode():
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc.to_bytes(8, "little")


def canonical_form(text: str) -> str:
    return msgspec.json.encode(_canonical(decoded(text), "")).decode()


def _canonical(schema: Any, namespace: str) -> Any:
    match schema:
        case str():
            return (
                schema
                if schema in PRIMITIVES or schema == "null" or "." in schema or not namespace
                else (f"{namespace}.{schema}")
            )
        case list():
            return [_canonical(option, namespace) for option in schema]
        case {"type": str(name)} if name in PRIMITIVES or name == "null":
            return name
        case {"type": "array"}:
            return {"type": "array", "items": _canonical(schema["items"], namespace)}
        case {"type": "map"}:
            return {"type": "map", "values": _canonical(schema["values"], namespace)}
        case {"type": "record" | "error" | "enum" | "fixed"}:
            return _canonical_named(schema, namespace)
        case _:
            return _canonical(schema["type"], namespace)


def _canonical_named(schema: dict[str, Any], namespace: str) -> dict[str, Any]:
    full, inside = full_name(schema, namespace)
    given = {**schema, "name": full}
    if "fields" in schema:
        given["fields"] = [
            {"name": field["name"], "type": _canonical(field["type"], inside)} for field in schema["fields"]
        ]
    return {word: given[word] for word in PRINTED if word in given}


@functools.cache
def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (EMPTY & -(value & 1))
        table.append(value)
    return tuple(table)
