"""Reports to the mesh how a run is doing, so that the console and every node's metrics can show it.

A thread of its own writes to the bucket, so a slow or unreachable mesh delays nothing. If the pipeline may not write
there, it logs that once, and the run goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from weft.client import NotAllowed, Unauthenticated
from weft.client.blocking import Client
from weft.errors import WeftError
from weft.model.pipeline_reports import (
    PIPELINES_BUCKET,
    QUERIES_MAX,
    REPORT_TTL_S,
    TEXT_CHARS_MAX,
    PipelineReport,
    QueryReport,
)
from weft.pipelines.records import RunRecord

REPORT_INTERVAL_S: Final = 5.0  # between two reports, unless the state changes
CLOSE_TIMEOUT_S: Final = 5.0  # for the last report


def report_of(record: RunRecord) -> PipelineReport:
    """What others may know of a run. It leaves out where the run is, and its files."""
    return PipelineReport(
        name=record.name,
        pipeline=record.pipeline,
        state=record.state,
        started_us=record.started_us,
        updated_us=record.updated_us,
        error=None if record.error is None else record.error[:TEXT_CHARS_MAX],
        queries=tuple(
            QueryReport(
                each.query[:TEXT_CHARS_MAX],
                each.batch,
                each.rows,
                max(each.rows_per_s, 0.0),
                max(each.batch_s, 0.0),
                each.lag_events,
                each.rows_total,
            )
            for each in record.queries[:QUERIES_MAX]
        ),
    )


class Reporter:
    """Reports on one run. ``connect`` makes a client of the mesh when the first report is due."""

    def __init__(self, connect: Callable[[], Client], say: Callable[[str], None]) -> None:
        self._connect = connect
        self._say = say
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._next: RunRecord | None = None
        self._told_state = ""
        self._told_s = float("-inf")
        self._is_over = False
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="weft-pipeline-report", daemon=True)
        self._thread.start()

    def tell(self, record: RunRecord) -> None:
        """Report this record soon, if it has news. If several come before that, only the last one is reported."""
        now_s = time.monotonic()
        if record.state == self._told_state and now_s - self._told_s < REPORT_INTERVAL_S:
            return
        self._told_state, self._told_s = record.state, now_s
        with self._lock:
            self._next = record
        self._due.set()

    def close(self) -> None:
        """Wait a little for the last report."""
        self._is_over = True
        self._due.set()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        client: Client | None = None
        try:
            while True:
                self._due.wait()
                self._due.clear()
                is_over = self._is_over  # read before taking the record, so that the last record is not missed
                with self._lock:
                    record, self._next = self._next, None
                if record is not None:
                    try:
                        client = client or self._connect()
                        value = msgspec.json.encode(report_of(record))
                        client.kv(PIPELINES_BUCKET).put(record.name, value, ttl=REPORT_TTL_S)
                    except WeftError as error:
                        self._complain(error)
                        if isinstance(error, NotAllowed):
                            return
                        if isinstance(error, Unauthenticated) and client is not None:
                            client.close()
                            client = None  # the next client takes the key that is current then
                if is_over:
                    return
        finally:
            if client is not None:
                client.close()

    def _complain(self, error: WeftError) -> None:
        if not self._complained:
            self._complained = True
            self._say(f"this run cannot report its state to the mesh: {error}")
