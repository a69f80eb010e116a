"""Where the schemas of typed topics come from: the mesh, or a file on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from weft.client.blocking import Schemas
from weft.client.schemas import SchemaVersion, TopicSchema
from weft.errors import UsageError
from weft.model import Pattern, covers, overlaps, parse_pattern
from weft.references import find_file
from weft.schema import Kind, NoSchema, kind_of_file, parse_schema
from weft.schema.registry import specificity
from weft.schema.values import TEXT_BYTES_MAX
from weft.spark.connection import Connection
from weft.spark.option_values import BadOption
from weft.spark.options import SourceOptions
from weft.spark.selection import Selection
from weft.spark.typed import TypedPattern, TypedRows, TypedTopics, all_columns

ALL_TOPICS: Final = parse_pattern(">")
PINNED: Final = "weft.schemas"  # in the metadata of a DataFrame's first column: which versions it was made with

Versions = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """Where to look for schemas, and for which topics. Spark pickles it."""

    connection: Connection
    selection: Selection
    file: str | None = None
    version: int | None = None  # only if there is one schema; None: the latest of each

    def topics(self, versions: Versions | None = None) -> TypedTopics:
        """The schemas as they are now, or in the versions that were found before. NoSchema if there are none."""
        if self.file is not None:
            return TypedTopics((read_schema_file(self.file),))
        schemas = self.connection.client().schemas
        found = {each.pattern: each for each in schemas.list()}
        if versions is not None:
            wanted = _ordered(map(parse_pattern, versions))  # Spark's metadata has no order
        else:
            wanted = relevant(self.selection, found)
            versions = dict.fromkeys(wanted, self.version)
        if not wanted:
            raise NoSchema(
                f"no schema is set for topics of {self.selection}, or none that this key may see: set one with weft "
                "schema set, or name a file (option schemaFile, or typed.schema_file of a pipeline)"
            )
        if self.version is not None and len(wanted) > 1:
            raise BadOption(
                "a version is of one schema, and these topics have several: read them one by one",
                schemas=", ".join(wanted),
            )
        return TypedTopics(tuple(_typed(schemas, found, pattern, versions[pattern]) for pattern in wanted))


def relevant(selection: Selection, patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns that may decide about a topic of the selection, the most specific first. Pure."""
    known = _ordered(patterns)
    found = {each for selected in selection.patterns for each in _counting(selected, known)}
    return [
        each for each in known if each in found and not any(covers(excluded, each) for excluded in selection.excluded)
    ]


def _ordered(patterns: Iterable[Pattern]) -> list[Pattern]:
    return sorted(patterns, key=lambda pattern: (specificity(pattern), pattern))


def _counting(selected: Pattern, known: Sequence[Pattern]) -> Iterable[Pattern]:
    """The patterns that may decide about the selected topics. When one covers all of them, later ones cannot."""
    for each in known:
        if overlaps(each, selected):
            yield each
            if covers(each, selected):
                return


def _typed(
    schemas: Schemas, listed: Mapping[Pattern, TopicSchema], pattern: Pattern, version: int | None
) -> TypedPattern:
    """The pattern's schema in this version; None: the latest. Avro payloads may have been written with any version."""
    record = listed.get(pattern)
    if record is None or record.latest.kind == Kind.AVRO or version not in (None, record.version):
        record = schemas.get(pattern)
    chosen = _version(record, record.version if version is None else version)
    others = [each.parse() for each in record.versions if each is not chosen] if chosen.kind == Kind.AVRO else []
    return TypedPattern(pattern, chosen.parse(), chosen.number, tuple(others))


def _version(record: TopicSchema, number: int) -> SchemaVersion:
    for each in record.versions:
        if each.number == number:
            return each
    raise NoSchema(
        "the mesh does not have this version of the schema, or no longer",
        pattern=record.pattern,
        version=number,
        first=record.versions[0].number,
        last=record.version,
    )


def read_schema_file(name: str) -> TypedPattern:
    """Read one schema for all topics; the file's extension says which kind it is. Raises UsageError."""
    path, kind = find_file(name), kind_of_file(name)
    try:
        with path.open("rb") as file:
            text = file.read(TEXT_BYTES_MAX + 1).decode()
    except OSError as error:
        raise UsageError(f"cannot read the schema {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the schema {name} is not UTF-8", at=error.start) from None
    return TypedPattern(ALL_TOPICS, parse_schema(kind, text))


# --- for the source --------------------------------------------------------------------------------------------------


def typed_rows(options: SourceOptions, made: StructType | None = None) -> TypedRows | None:
    """How events become rows; None: they stay raw. ``made``: the columns of the DataFrame that the rows are for."""
    wanted = options.typed
    if wanted is None:
        return None
    source = SchemaSource(options.connection, options.selection, wanted.file, wanted.version)
    topics = source.topics(None if made is None else _pinned(made))
    known = all_columns(topics).names
    columns = wanted.columns or tuple(name for name in known if wanted.has_headers or name != "headers")
    if unknown := [name for name in columns if name not in known]:
        raise BadOption(f"option columns: there is no column {unknown[0]!r}", known=", ".join(known))
    rows = TypedRows(topics, columns)
    if made is not None and _plain(row_type(rows)) != _plain(made):
        raise BadOption(
            "these are not the columns of the schema: it was changed since the DataFrame was made (load it again), or "
            "the DataFrame was given columns of its own (leave them out)"
        )
    return rows


def row_type(rows: TypedRows) -> StructType:
    """The type of the rows for Spark. It pins the schema versions: a later lookup uses the same ones, even if somebody
    has set a new version meanwhile."""
    found = from_arrow_schema(rows.schema)
    metadata: dict[str, Any] = {PINNED: rows.topics.versions()}
    first, *others = found.fields
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def _pinned(made: StructType) -> Versions | None:
    found: Versions | None = (made.fields[0].metadata or {}).get(PINNED) if made.fields else None
    return found


def _plain(rows: StructType) -> list[tuple[str, str]]:
    return [(each.name, each.dataType.simpleString()) for each in rows]
