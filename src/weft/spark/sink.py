"""The writing half of ``format("weft")``: rows of a DataFrame become events, each exactly once.

A streaming query identifies its writes by its own id and the numbers of its micro-batches. Both are the same when a
micro-batch is repeated. An application that may repeat a batch write, in ``foreachBatch`` or after a crash, names the
write by ``txnAppId`` and ``txnVersion``, as for a Delta table. Without these options, every call writes its rows.

``staging`` says what happens at the node, and ``sink_steps`` does it. Spark calls ``write`` in its tasks and ``commit``
in the driver, in processes that know nothing of each other. ``abort`` has nothing to do, because staged rows that no
decision names are garbage.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from weft.client import Unavailable
from weft.client.blocking import Client
from weft.errors import UsageError
from weft.model import Topic
from weft.spark.connection import CONNECTION_OPTIONS, Connection
from weft.spark.option_values import BadOption, by_name, parse_count
from weft.spark.properties import QUERY_ID
from weft.spark.sink_books import Books
from weft.spark.sink_calls import SINK_NODE_TIMEOUT_S
from weft.spark.sink_rows import check_schema, check_topic
from weft.spark.sink_steps import commit, commit_unnamed, stage
from weft.spark.staging import ID_CHARS, NUMBER_MAX, Staged, Writing, application_id, query_id

STREAM_OPTIONS: Final = (*CONNECTION_OPTIONS, "topic", "copies")
BATCH_OPTIONS: Final = (*STREAM_OPTIONS, "txnAppId", "txnVersion")
SPARK_OPTIONS: Final = ("checkpointlocation", "queryname")  # Spark's own, which it passes on to a stream's sink
COPIES_MAX: Final = 1000  # nodes of the largest mesh


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options that source and sink share, and where the rows go."""

    connection: Connection
    topic: Topic | None
    copies: int
    application: str | None = None
    version: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], known: Sequence[str]) -> SinkOptions:
        options = by_name({name: given[name] for name in given if name.lower() not in SPARK_OPTIONS}, known)
        topic, application, version = (options.get(name) for name in ("topic", "txnAppId", "txnVersion"))
        if (application is None) != (version is None):
            raise BadOption("options txnAppId and txnVersion go together")
        return cls(
            connection=Connection.from_options(options),
            topic=None if topic is None else check_topic(topic),
            copies=parse_count("copies", options.get("copies", "1"), 1, COPIES_MAX),
            application=application,
            version=None if version is None else parse_count("txnVersion", version, 0, NUMBER_MAX),
        )


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task reports to the driver: which write it belongs to, and what it staged."""

    writing: Writing
    staged: Staged


class BatchSink(DataSourceArrowWriter):
    """``df.write.format("weft")``."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise UsageError('events in the mesh cannot be overwritten: write with mode("append")')
        self._options = options = SinkOptions.parse(given, BATCH_OPTIONS)
        check_schema(schema, options.topic)
        named = options.application
        self._id = secrets.token_hex(ID_CHARS // 2) if named is None else application_id(named)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._options, self._id, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, self._options.version, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """``df.writeStream.format("weft")``."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise UsageError('events in the mesh cannot be overwritten: write with outputMode("append")')
        self._options = SinkOptions.parse(given, STREAM_OPTIONS)
        check_schema(schema, self._options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        query = _context().getLocalProperty(QUERY_ID)
        assert query, f"Spark no longer sets {QUERY_ID}, by which a repeated batch is known"
        return _write(self._options, query_id(query), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        _commit(self._options, batchId, messages)


def _write(options: SinkOptions, writing_id: str, rows: Iterator[pa.RecordBatch]) -> Written:
    home = _home(options.connection)
    writing = Writing(home.owner(), writing_id)
    return Written(writing, stage(home, writing, _context().partitionId(), rows, options.topic))


def _commit(options: SinkOptions, number: int | None, messages: Sequence[WriterCommitMessage | None]) -> None:
    """``number`` is the number of the write; None if the write is never repeated."""
    written = [message for message in messages if isinstance(message, Written)]
    if not written:
        return  # a write without tasks is one without rows
    writing, tasks = written[0].writing, [message.staged for message in written]
    home = _home(options.connection)
    if number is None:
        commit_unnamed(home, writing, tasks, options.copies)
    else:
        if number > 0:
            _check_home(options.connection, home, writing)
        commit(Books(home, writing, options.connection.secret()), number, tasks, options.copies)


def _check_home(connection: Connection, home: Client, writing: Writing) -> None:
    """Raise if this job wrote before through another first node, so that this node knows nothing of it."""
    if home.positions(writing.decisions):
        return
    for node in connection.addresses()[1:]:
        with suppress(Unavailable):
            if known := connection.client(node).positions(writing.decisions):
                raise UsageError(
                    "what this job has written before is known to another of its nodes: name that one first",
                    node=node,
                    id=known[0].stream.origin,
                )


def _home(connection: Connection) -> Client:
    """The client of the first node, where all that a job writes is staged, decided and published."""
    node = connection.addresses()[0]
    begun_s = time.monotonic()
    while True:
        try:
            return connection.client(node)
        except Unavailable as error:
            waited_s = time.monotonic() - begun_s
            if waited_s > SINK_NODE_TIMEOUT_S:
                raise Unavailable(
                    "the node that this job writes to, the first of its nodes, cannot be reached. "
                    f"Nothing is lost: run it again when the node is back. ({error})",
                    node=node,
                    waited_s=round(waited_s),
                ) from None


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark writes in tasks only"
    return context
