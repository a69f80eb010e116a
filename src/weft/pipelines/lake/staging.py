"""Executors write files, the driver commits them: the two halves of every write to a table."""

from __future__ import annotations

import json
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from weft.lake.address import TableError
from weft.lake.files import Attempt, WrittenFile
from weft.lake.settings import TableSettings
from weft.pipelines.lake.reading import columns_of
from weft.pipelines.lake.table import ensure, open_table
from weft.pipelines.lake.writing import FileWriter, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

METADATA: Final = "metadata"  # Spark's file in a checkpoint
PREPARED_MAX: Final = 64  # how many tables the queries of one driver write


class QueryMetadata(msgspec.Struct, frozen=True):
    """The content of that file."""

    id: str


def prepare(settings: TableSettings, schema: StructType) -> None:
    """Call this before writing: makes the table if there is none, and checks that rows of this schema fit into it."""
    stored_schema(settings, columns_of(schema))
    ensure(open_table(settings), schema)


@lru_cache(maxsize=PREPARED_MAX)
def _prepare_once(settings: TableSettings, schema: str) -> None:
    """Prepare once per query: its batches are all alike, and looking at the table for each would cost more than the
    commit."""
    from pyspark.sql.types import StructType

    prepare(settings, StructType.fromJson(json.loads(schema)))


def write_files(
    settings: TableSettings, schema: pa.Schema, query: str, batch: int, batches: Iterable[pa.RecordBatch]
) -> list[WrittenFile]:
    """Runs on an executor: writes this task's share of a batch as files that are not yet part of the table."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "files are written by Spark's tasks"
    attempt = Attempt(query, batch, context.partitionId(), secrets.token_hex(4))
    return FileWriter(settings, schema, attempt, open_table(settings).place).write_all(batches)


@dataclass(frozen=True, slots=True)
class Made:
    """How a task makes rows from its input, so that the rows need not pass through Spark. Pickled to executors."""

    schema: StructType
    make: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def stage(
    frame: DataFrame, settings: TableSettings, query: str, batch: int, made: Made | None = None
) -> list[WrittenFile]:
    """Write a frame, or what tasks make of it, as files that are not yet part of the table."""
    schema = columns_of(frame.schema if made is None else made.schema)
    make = iter if made is None else made.make

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_files(settings, schema, query, batch, make(batches))
        yield pa.record_batch({"files": pa.array([pickle.dumps(written)], pa.binary())})

    rows = frame.mapInArrow(write, "files binary").collect()
    return [file for row in rows for file in pickle.loads(row.files)]  # noqa: S301  from our own tasks


def append_batch(
    frame: DataFrame, settings: TableSettings, *, query: str, batch: int, made: Made | None = None
) -> bool:
    """Add a frame's rows to a table, once for each (query, batch); False if there was nothing left to add."""
    _prepare_once(settings, (frame.schema if made is None else made.schema).json())
    table = open_table(settings)
    last = table.committed(query)
    if last is not None and last >= batch:
        return False
    files = stage(frame, table.settings, query, batch, made)
    return bool(files) and table.commit(files, query, batch)


def query_id(checkpoint: Path | str) -> str:
    """For ``foreachBatch``: the query's id, which Spark writes into the checkpoint before the first batch.

    Elsewhere Spark has it only in its JVM, which a Spark Connect client cannot reach.
    """
    metadata = Path(checkpoint) / METADATA
    try:
        found = msgspec.json.decode(metadata.read_bytes(), type=QueryMetadata)
    except (OSError, msgspec.DecodeError) as error:
        raise TableError(f"the checkpoint has no id of a query: {error}", checkpoint=checkpoint) from None
    return found.id
