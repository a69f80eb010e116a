"""Payloads as columns: which schema each topic has, the columns that schemas make together, and events as rows. Pure.

Names are the same in Spark and in tables. If a payload's field has the name of a column that events or tables have
already, such as ``timestamp``, its column is called ``payload_timestamp``.

If a topic has no schema, or a payload is not JSON (or not Avro of a known version), there are no payload columns: the
payload is in ``_corrupt``. So there is a row for every event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from weft.errors import UsageError
from weft.lake.events import TYPES
from weft.model import Pattern, Topic, matches
from weft.schema import CORRUPT, RESCUED, Fault, Schema, arrow_schema, read_columns
from weft.schema.arrow_types import sql_name, wider
from weft.spark.options import COLUMNS

PAYLOAD: Final = "value"  # what becomes columns
EVENT_COLUMNS: Final = tuple(name for name in COLUMNS if name != PAYLOAD)
LAYOUT_COLUMNS: Final = ("date", "topic_token", "topic_bucket")  # what tables are partitioned by
TAKEN: Final = frozenset((*EVENT_COLUMNS, *LAYOUT_COLUMNS))
PREFIX: Final = "payload_"
EXTRAS: Final = pa.schema([(RESCUED, pa.string()), (CORRUPT, pa.binary())])


class SchemaConflict(UsageError):
    """Schemas that cannot be columns of one table."""


@dataclass(frozen=True, slots=True)
class TypedPattern:
    """The schema of some topics. Spark pickles it to executors."""

    pattern: Pattern
    schema: Schema
    version: int | None = None  # None: the schema is from a file
    others: tuple[Schema, ...] = ()  # further versions that Avro payloads may have been written with

    def columns(self) -> pa.Schema:
        """The columns with their names in rows; SchemaConflict if two would have the same name."""
        found = [(_column_name(each.name), each.type) for each in arrow_schema(self.schema)]
        counts = Counter(name.casefold() for name, _ in found)
        if twice := next((name for name, _ in found if counts[name.casefold()] > 1), None):
            raise SchemaConflict(f"{self} has two fields that would both be the column {twice}: rename one of them")
        return pa.schema(found)

    def __str__(self) -> str:
        return f"{self.pattern} (its file)" if self.version is None else f"{self.pattern} (version {self.version})"


@dataclass(frozen=True, slots=True)
class TypedTopics:
    """Which schema a topic has: the first whose pattern selects it. Spark pickles it to executors."""

    patterns: tuple[TypedPattern, ...]

    def columns(self) -> pa.Schema:
        """The columns of all schemas; SchemaConflict if two columns with the same name cannot be merged into one."""
        found: dict[str, pa.DataType] = {}
        known: dict[str, tuple[str, TypedPattern]] = {}
        for each in self.patterns:
            for column in each.columns():
                name, first = known.setdefault(column.name.casefold(), (column.name, each))
                kind = wider(found.get(name, column.type), column.type)
                if name != column.name:
                    raise SchemaConflict(
                        f"columns that differ by case only, {name} of {first} and {column.name} of {each}: "
                        "read these topics one by one"
                    )
                if kind is None:
                    raise SchemaConflict(
                        f"column {name} is {sql_name(found[name])} for {first} and {sql_name(column.type)} for {each}: "
                        "read these topics one by one, or give the column one type"
                    )
                found[name] = kind
        return pa.schema(list(found.items()))

    def versions(self) -> dict[str, int | None]:
        return {each.pattern: each.version for each in self.patterns}

    def __str__(self) -> str:
        return ", ".join(map(str, self.patterns))


def _column_name(name: str) -> str:
    return PREFIX + name if name.casefold() in TAKEN else name


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypedEvents:
    """Payloads as columns, in the order of the events."""

    columns: pa.RecordBatch  # the schemas' columns, _rescued, _corrupt
    faults: Mapping[int, Fault]  # the first of each event that has one

    def reasons(self) -> pa.StringArray:
        """The faults as text; null for events without."""
        if not self.faults:
            return pa.nulls(self.columns.num_rows, pa.string())
        return pa.array([str(self.faults[at]) if at in self.faults else None for at in range(len(self))], pa.string())

    def __len__(self) -> int:
        return int(self.columns.num_rows)


class TypedReader:
    """Reads events of any topics. Use one for each task: it remembers the topics it has seen."""

    def __init__(self, topics: TypedTopics) -> None:
        self._patterns = topics.patterns
        self._columns = topics.columns()
        self._schema = pa.schema([*self._columns, *EXTRAS])
        self._empty = pa.RecordBatch.from_pylist([], self._schema)
        self._names = [each.columns().names for each in topics.patterns]
        self._of_topic: dict[str, int | None] = {}

    def read(self, events: pa.RecordBatch) -> TypedEvents:
        """Read the payloads of a batch with the columns ``topic`` and ``value``."""
        parts: list[pa.RecordBatch] = []
        faults: dict[int, Fault] = {}
        for first, payloads, place, topic in self._runs(events):
            columns, found = self._read_run(payloads, place, topic)
            parts.append(columns)
            faults |= {first + at: fault for at, fault in found.items()} if first else found
        if len(parts) == 1:
            return TypedEvents(parts[0], faults)
        return TypedEvents(pa.concat_batches(parts) if parts else self._empty, faults)

    def schema_of(self, topic: str) -> TypedPattern | None:
        place = self._place(topic)
        return None if place is None else self._patterns[place]

    def _runs(self, events: pa.RecordBatch) -> Iterator[tuple[int, pa.Array, int | None, str]]:
        """Neighbouring events with the same schema: where they begin, their payloads, the schema's index, and the
        topic of the first."""
        if not events.num_rows:
            return
        topics = events.column("topic").dictionary_encode()
        names, payloads = topics.dictionary.to_pylist(), events.column(PAYLOAD)
        places = [self._place(name) for name in names]
        if len(set(places)) == 1:
            yield 0, payloads, places[0], names[0]
            return
        of_topic = np.array([-1 if place is None else place for place in places], dtype=np.int64)
        indices = topics.indices.to_numpy()
        of_row = of_topic[indices]
        starts = np.flatnonzero(np.diff(of_row, prepend=-2))
        for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(of_row)], strict=True):
            at = int(indices[first])
            yield first, payloads.slice(first, end - first), places[at], names[at]

    def _read_run(
        self, payloads: pa.Array, place: int | None, topic: str
    ) -> tuple[pa.RecordBatch, Mapping[int, Fault]]:
        count = len(payloads)
        if place is None:
            fault = Fault("", f"no schema is set for topic {topic}")
            nulls = [pa.nulls(count, each.type) for each in (*self._columns, EXTRAS.field(RESCUED))]
            return self._batch([*nulls, payloads]), dict.fromkeys(range(count), fault)
        each = self._patterns[place]
        typed = read_columns(each.schema, payloads, each.others)
        found = dict(zip(self._names[place], typed.columns.columns, strict=True))
        columns = [
            pa.nulls(count, column.type) if column.name not in found else found[column.name].cast(column.type)
            for column in self._columns
        ]
        return self._batch([*columns, typed.rescued, typed.corrupt]), typed.faults

    def _batch(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(columns), schema=self._schema)

    def _place(self, topic: str) -> int | None:
        if topic not in self._of_topic:
            found = (at for at, each in enumerate(self._patterns) if matches(each.pattern, Topic(topic)))
            self._of_topic[topic] = next(found, None)
        return self._of_topic[topic]


# --- rows of the source ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Makes rows with these columns, some from events and some from payloads. Spark pickles it to executors."""

    topics: TypedTopics
    columns: tuple[str, ...]
    schema: pa.Schema = field(init=False, compare=False)

    def __post_init__(self) -> None:
        known = all_columns(self.topics)
        fields = [known.field(name) for name in self.columns]
        object.__setattr__(self, "schema", pa.schema(fields))

    def fetched(self) -> tuple[str, ...]:
        """The events' own columns that must be fetched to make these columns."""
        of_events = tuple(name for name in self.columns if name in EVENT_COLUMNS)
        return (
            of_events if len(of_events) == len(self.columns) else tuple(dict.fromkeys((*of_events, "topic", PAYLOAD)))
        )

    def rows(self, events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One for each event."""
        if PAYLOAD not in self.fetched():
            yield from events
            return
        reader = TypedReader(self.topics)
        for batch in events:
            typed = reader.read(batch).columns
            columns = [(batch if name in EVENT_COLUMNS else typed).column(name) for name in self.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def all_columns(topics: TypedTopics) -> pa.Schema:
    """All columns that a row can have, in order: the event's own, the payload's, and what did not fit."""
    return pa.schema([*((name, TYPES[name]) for name in EVENT_COLUMNS), *topics.columns(), *EXTRAS])
