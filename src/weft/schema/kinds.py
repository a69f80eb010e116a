"""What depends on the kind of a schema: how its text is parsed, and payloads are checked against it, without Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final, Protocol

from weft.schema.ddl import parse_ddl
from weft.schema.decoding import json_decoder
from weft.schema.definition import Row
from weft.schema.errors import Fault
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


class Decoder(Protocol):
    """Reads payloads of one kind under one schema."""

    def suspects(self, payloads: Sequence[bytes]) -> set[int]:
        """The places of payloads that may have a fault. Quick; it clears nearly all that have none."""

    def fault(self, payload: bytes) -> Fault | None:
        """A thorough look at one."""

    def rows(self, payloads: Sequence[bytes]) -> tuple[list[Sequence[Any]], dict[int, Row]]: ...


def find_faults(schema: Schema, payloads: Sequence[bytes], others: Sequence[Schema] = ()) -> dict[int, Fault]:
    """The first fault of each payload that has one, by its place in ``payloads``."""
    decoder = decoder_of(schema, others)
    found = ((at, decoder.fault(payloads[at])) for at in sorted(decoder.suspects(payloads)))
    return {at: fault for at, fault in found if fault is not None}


def decoder_of(schema: Schema, others: Sequence[Schema] = ()) -> Decoder:
    match schema.kind:
        case Kind.JSON_SCHEMA | Kind.DDL:
            return json_decoder(schema)
        case Kind.AVRO:
            from weft.schema.avro_decoding import avro_decoder

            return avro_decoder(schema, tuple(others))
