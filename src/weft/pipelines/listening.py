"""Tells the mesh of your own streaming queries as it hears of pipelines: rows, rates, lag, and how they end.

Spark asks no Python source for metrics, and shows one by the id of a Java object. So a listener reports what Spark
says of each query, and the console and the metrics of every node have it.
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

KIND: Final = "query"  # what the console calls a run that is no pipeline of ours
NAME_CHARS_MAX: Final = 64  # as of a pipeline's run
UNNAMED_CHARS: Final = 8  # of a query's id, which is long
NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")


def report_queries(spark: SparkSession, **options: str) -> StreamingQueryListener:
    """From now on, the mesh hears of this session's streaming queries: ``report_queries(spark, context="prod")``.

    ``options`` say how to reach it, as those of ``format("weft")``. ``spark.streams.removeListener`` ends it.
    """
    connection = Connection.from_options(by_name(options, CONNECTION_OPTIONS))
    connection.addresses()  # a mistake is better heard of now
    listener = QueryReports(connection.new_client, lambda line: LOG.warning("%s", line))
    spark.streams.addListener(listener)
    return listener


def run_name(name: str | None, query_id: str) -> str:
    """What a query is called in the mesh, where names are plainer than Spark's."""
    plain = NOT_IN_NAMES.sub("-", name or "").strip("-._")[:NAME_CHARS_MAX]
    return plain if NAME.fullmatch(plain) else f"{KIND}-{query_id[:UNNAMED_CHARS]}"


class QueryReports(StreamingQueryListener):
    """``connect`` makes a client for each query, when there is something to tell."""

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
        """Every ten seconds, while nothing comes: it is not lost."""
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
        """Of a query that began before the listener was there, nothing is known."""
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
