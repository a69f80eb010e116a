"""Text to schema, by its kind."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from weft.schema.ddl import parse_ddl
from weft.schema.json_schema import parse_json_schema
from weft.schema.values import BadSchema, Kind, Schema

# The ending of a file says what is in it.
ENDINGS: Final = {
    ".json": Kind.JSON_SCHEMA,
    ".jsonschema": Kind.JSON_SCHEMA,
    ".sql": Kind.DDL,
    ".ddl": Kind.DDL,
    ".avsc": Kind.AVRO,
    ".avro": Kind.AVRO,
}


def parse_schema(kind: Kind, text: str) -> Schema:
    """The schema that ``text`` is, or BadSchema: no text raises anything else, and work is bounded."""
    match kind:
        case Kind.JSON_SCHEMA:
            return parse_json_schema(text)
        case Kind.DDL:
            return parse_ddl(text)
        case Kind.AVRO:
            from weft.schema.avro_schema import parse_avro

            return parse_avro(text)


def kind_of_file(name: str) -> Kind:
    """The kind of schema that a file of this name has."""
    ending = PurePath(name).suffix.lower()
    if ending not in ENDINGS:
        raise BadSchema(f"what {name} holds does not follow from its ending; give --kind", known=" ".join(ENDINGS))
    return ENDINGS[ending]
