"""Typed topics: what payloads must be, and payloads as columns. Pure; no clock, no chance, no I/O.

Read in this order:

- ``values``: what a schema says, whatever its language: columns, types, checks; ``BadSchema``.
- ``errors``: what is wrong with events, and with versions.
- ``ddl``, ``json_schema``, ``avro_schema``: the languages.
- ``definition``: what one JSON payload is under a schema. The slow truth.
- ``decoding``: the same, fast; ``avro_decoding`` for Avro.
- ``kinds``: picks the language for a text, and the decoder for payloads; finds only faults, without Arrow.
- ``reading``: Arrow payloads in, Arrow columns out; ``arrow_types`` has the types.
- ``compatibility``: whether a new version may follow an old one; ``inference``: a schema from events.
- ``registry``: the schemas of a mesh, by pattern, with versions and modes.

Arrow is loaded when it is first needed: by ``read_columns``, ``arrow_schema``, and by schemas that have a pattern.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from weft.schema.arrow_types import arrow_schema
    from weft.schema.compatibility import Compatibility, breaks
    from weft.schema.errors import Fault, IncompatibleSchema, NoSchema, SchemaBroken
    from weft.schema.inference import Inferred, infer
    from weft.schema.kinds import find_faults, kind_of_file, parse_schema
    from weft.schema.reading import TypedColumns, read_columns
    from weft.schema.values import CORRUPT, RESCUED, BadSchema, Column, Kind, Schema

__all__ = [
    "CORRUPT",
    "RESCUED",
    "BadSchema",
    "Column",
    "Compatibility",
    "Fault",
    "IncompatibleSchema",
    "Inferred",
    "Kind",
    "NoSchema",
    "Schema",
    "SchemaBroken",
    "TypedColumns",
    "arrow_schema",
    "breaks",
    "find_faults",
    "infer",
    "kind_of_file",
    "parse_schema",
    "read_columns",
]

_HOMES: Final = {
    "arrow_types": ("arrow_schema",),
    "compatibility": ("Compatibility", "breaks"),
    "errors": ("Fault", "IncompatibleSchema", "NoSchema", "SchemaBroken"),
    "inference": ("Inferred", "infer"),
    "kinds": ("find_faults", "kind_of_file", "parse_schema"),
    "reading": ("TypedColumns", "read_columns"),
    "values": ("CORRUPT", "RESCUED", "BadSchema", "Column", "Kind", "Schema"),
}
_MODULES: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Each part is loaded at its first use: publishing needs none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
