"""The mesh's current state as tables: the keys and values of a bucket, or a group's dead letters. Batch reads only.

Every node has all of this state, and it is not large (a bucket fits a node's memory), so one task asks one node. The
caller needs the same rights as for the matching commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from weft.client.blocking import Client
from weft.lake.events import TYPES
from weft.limits import SPARK_BATCH_ROWS
from weft.spark.connection import CONNECTION_OPTIONS, Connection
from weft.spark.option_values import BadOption, by_name

TIME: Final = TYPES["timestamp"]
KV: Final = pa.schema(
    [
        ("key", pa.utf8()),
        ("value", pa.binary()),
        ("revision", pa.utf8()),
        ("written", TIME),
        ("expires", TIME),
        ("author", pa.utf8()),
    ]
)
DEAD: Final = pa.schema(
    [
        *((name, TYPES[name]) for name in ("topic", "origin", "epoch", "partition", "offset")),
        *((name, TYPES[name]) for name in ("key", "value", "headers", "timestamp")),
        ("tries", pa.int32()),
        ("reason", pa.utf8()),
        ("died", TIME),
        ("lost", pa.bool_()),
    ]
)
Rows = Iterator[dict[str, Any]]


def _of_bucket(client: Client, bucket: str) -> Rows:
    for each in client.kv(bucket).entries():
        yield {
            "key": each.key,
            "value": each.value,
            "revision": str(each.revision),
            "written": each.written,
            "expires": each.expires,
            "author": each.author,
        }


def _of_group(client: Client, group: str) -> Rows:
    for each in client.dead_letters(group):
        stream, event = each.id.stream, each.event
        yield {
            "topic": stream.topic,
            "origin": stream.origin,
            "epoch": each.id.epoch,
            "partition": stream.partition,
            "offset": each.id.offset,
            "key": event.key,
            "value": None if each.is_lost else event.payload,
            "headers": None if event.headers is None else list(event.headers.items()),
            "timestamp": event.timestamp_us,
            "tries": each.tries,
            "reason": each.reason,
            "died": each.died_us,
            "lost": each.is_lost,
        }


READ: Final[Mapping[str, tuple[pa.Schema, Callable[[Client, str], Rows]]]] = {
    "kv": (KV, _of_bucket),
    "deadLetters": (DEAD, _of_group),
}


@dataclass(frozen=True)
class StateTable:
    """One table of state. ``kind`` is the option that names it."""

    kind: str
    name: str
    connection: Connection

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(READ[self.kind][0])

    def rows(self) -> Iterator[pa.RecordBatch]:
        schema, read = READ[self.kind]
        found = list(read(self.connection.client(), self.name))
        for first in range(0, len(found), SPARK_BATCH_ROWS):
            yield pa.RecordBatch.from_pylist(found[first : first + SPARK_BATCH_ROWS], schema)


def state_table(given: Mapping[str, str]) -> StateTable | None:
    """The table that the options name; None: they ask for events. They cannot name two tables, nor have options that
    are for events."""
    named = [kind for kind in READ if kind.lower() in {name.lower() for name in given}]
    if not named:
        return None
    if len(named) > 1:
        raise BadOption(f"options {' and '.join(named)} are two tables: read them one after the other")
    options = by_name(given, (*CONNECTION_OPTIONS, *named))
    return StateTable(named[0], options[named[0]], Connection.from_options(options))


class StateReader(DataSourceReader):
    def __init__(self, table: StateTable) -> None:
        self._table = table

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._table.rows()
