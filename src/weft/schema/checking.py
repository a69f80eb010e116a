"""What is wrong with payloads, without Arrow: what a node asks before it accepts events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from weft.schema.decoding import json_decoder
from weft.schema.definition import Row
from weft.schema.errors import Fault
from weft.schema.values import Kind, Schema


class Decoder(Protocol):
    """Reads payloads of one kind under one schema."""

    def suspects(self, payloads: Sequence[bytes]) -> set[int]:
        """The places of those that may be at fault: a quick look, which takes in nearly all that are fine."""

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
