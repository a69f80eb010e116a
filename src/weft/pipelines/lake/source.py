"""``format("weft-lake")``: a Spark data source that only writes, batch and streaming.

The driver prepares the table when a write begins, executors write files, and the driver commits them once for each
(query, batch). A query is identified by Spark's own id, which is in the checkpoint: a new checkpoint is a new query.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from weft.lake.address import TableError
from weft.lake.files import WrittenFile
from weft.lake.settings import TableSettings
from weft.pipelines.lake.reading import columns_of
from weft.pipelines.lake.staging import prepare, write_files
from weft.pipelines.lake.table import open_table
from weft.spark.properties import BATCH_ID, QUERY_ID
from weft.spark.table_options import table_of

NAME: Final = "weft-lake"


@dataclass(frozen=True)
class Share(WriterCommitMessage):
    """What one task wrote, and for which query."""

    query: str
    files: tuple[WrittenFile, ...]


class LakeSource(DataSource):
    """Writes a frame to a table; ``TableSettings.options`` are its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        settings = table_of(self.options)
        _append_only(settings, overwrite)
        prepare(settings, schema)
        return BatchWriter(open_table(settings).settings, schema, query=f"once-{secrets.token_hex(8)}")

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  Spark's
        settings = table_of(self.options)
        _append_only(settings, overwrite)
        return StreamWriter(open_table(settings).settings, schema)


class BatchWriter(DataSourceArrowWriter):
    """A frame that is written once: Spark gives it no id, so each write is a query of its own."""

    def __init__(self, settings: TableSettings, schema: StructType, query: str) -> None:
        self._settings = settings
        self._columns = columns_of(schema)
        self._query = query

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Share:
        return Share(self._query, tuple(write_files(self._settings, self._columns, self._query, 0, iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _commit(self._settings, messages, batch=0)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the files: this also comes after a commit whose answer was lost. ``compact`` knows dead ones."""


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming query: the id and the batch number are Spark's, and stay the same when a batch is repeated."""

    def __init__(self, settings: TableSettings, schema: StructType) -> None:
        self._settings = settings
        self._columns = columns_of(schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Share:
        context = TaskContext.get()
        assert context is not None, "Spark's tasks write"
        query, batch = (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
        if not query or not batch:
            # Without them a repeated batch could not be told from a new one.
            raise TableError("this Spark does not tell tasks their query and batch", wanted=QUERY_ID)
        return Share(query, tuple(write_files(self._settings, self._columns, query, int(batch), iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's
        _commit(self._settings, messages, batch=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's
        """Leave the files: this also comes after a commit whose answer was lost. ``compact`` knows dead ones."""


def _commit(settings: TableSettings, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    shares = [message for message in messages if isinstance(message, Share)]
    files = [file for share in shares for file in share.files]
    if files:
        queries = {share.query for share in shares}
        assert len(queries) == 1, "a batch belongs to one query"
        open_table(settings).commit(files, queries.pop(), batch)


def _append_only(settings: TableSettings, overwrite: bool) -> None:
    if overwrite:
        raise TableError("weft-lake adds rows: use mode append", table=settings.path)
