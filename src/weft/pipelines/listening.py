"""Reports your own streaming queries to the mesh in the same way as pipelines: rows, rates, lag, and how they end.

Spark does not ask Python sources for metrics, and shows such a source only as the id of a Java object. So a listener
reports what Spark says of each query, and the console and every node's metrics show it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryListener

from weft.client.blocking import Client
from weft.pipelines.progress import read_progress
from weft.pipelines.records import QueryRecord, RunRecord
from weft.pipelines.reporting import Reporter
from weft.pipelines.settings import NAME
from weft.spark.connection import CONNECTION_OPTIONS, Connection
from weft.spark.option_values import by_name
from weft.spark.surveyor import LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KIND: Final = "query"  # what the console calls a run that is not one of our pipelines
NAME_CHARS_MAX: Final = 64  # the same as for a pipeline's run
UNNAMED_CHARS: Final = 8  # characters of a query's id, which is long
NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")


def report_queries(spark: SparkSession, **options: str) -> StreamingQueryListener:
    """Report this session's streaming queries to the mesh from now on: ``report_queries(spark, context="prod")``.

    ``options`` say how to reach the mesh, like those of ``format("weft")``. ``spark.streams.removeListener`` ends this.
    """
    connection = Connection.from_options(by_name(options, CONNECTION_OPTIONS))
    connection.addresses()  # so that a mistake shows now
    listener = QueryReports(connection.new_client, lambda line: LOG.warning("%s", line))
    spark.streams.addListener(listener)
    return listener


def run_name(name: str | None, query_id: str) -> str:
    """A query's name in the mesh, which allows fewer characters in names than Spark."""
    plain = NOT_IN_NAMES.sub("-", name or "").strip("-._")[:NAME_CHARS_MAX]
    return plain if NAME.fullmatch(plain) else f"{KIND}-{query_id[:UNNAMED_CHARS]}"


class QueryReports(StreamingQueryListener):
    """The listener. ``connect`` makes a client for each query when there is something to report."""

    def __init__(self, connect: Callable[[], Client], say: Callable[[str], None]) -> None:
        self._connect = connect
        self._say = say
        self._lock = threading.Lock()
        self._runs: dict[str, tuple[RunRecord, Reporter]] = {}  # by Spark's id of the run

    # --- what Spark calls ------------------------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's, as below
        name, now_us = run_name(event.name, str(event.id)), _now_us()
        query = QueryRecord(event.name or str(event.id))
        record = RunRecord(name, KIND, os.getpid(), "", "", now_us, now_us, "running", queries=(query,))
        with self._lock:
            self._runs[str(event.runId)] = record, Reporter(self._connect, self._say)
        self._tell(str(event.runId))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        self._tell(str(progress["runId"]), progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Called every ten seconds while no data comes: reports that the query is still alive."""
        self._tell(str(event.runId))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        run = str(event.runId)
        self._tell(run, state="failed" if event.exception else "ended", error=event.exception)
        with self._lock:
            found = self._runs.pop(run, None)
        if found is not None:
            found[1].close()

    # --- what the mesh hears ---------------------------------------------------------------------------------------

    def _tell(self, run: str, progress: Any = None, **changes: Any) -> None:
        """Report a query's progress or end. A query that began before the listener did is unknown, and skipped."""
        with self._lock:
            if run not in self._runs:
                return
            record, reporter = self._runs[run]
            (query,) = record.queries
            if progress is not None and int(progress["batchId"]) > query.batch:
                query = read_progress(query, progress)
            record = msgspec.structs.replace(record, queries=(query,), updated_us=_now_us(), **changes)
            self._runs[run] = record, reporter
        reporter.tell(record)


def _now_us() -> int:
    return time.time_ns() // 1000
