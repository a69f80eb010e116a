"""A gate of a node that has one schema."""

from __future__ import annotations

import structlog

from weft.model import Pattern
from weft.node.schema_gate import SchemaGate
from weft.schema import Kind, parse_schema
from weft.schema.registry import Change, Mode, changed


def gate_for(pattern: str, ddl: str) -> SchemaGate:
    gate = SchemaGate(lambda: 0.0, structlog.stdlib.get_logger())
    gate.set_records([changed(Pattern(pattern), None, Change(parse_schema(Kind.DDL, ddl), Mode.REJECT), 0, "somebody")])
    return gate
