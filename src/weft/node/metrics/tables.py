"""Pipelines of the mesh, and archive tables that this node reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from weft.model.pipeline_reports import PipelineReport
from weft.node.figures import HistoryFigures
from weft.node.metrics.definition import Definition, Kind, family

US_PER_S: Final = 1_000_000

PIPELINE_UP: Final = Definition(
    "weft_pipeline_up", Kind.GAUGE, "1 while the pipeline runs and is heard of, else 0.", ("pipeline", "kind")
)
PIPELINE_ROWS: Final = Definition(
    "weft_pipeline_rows_total", Kind.COUNTER, "Rows that the pipeline took, since its run began.", ("pipeline", "kind")
)
PIPELINE_LAG: Final = Definition(
    "weft_pipeline_lag_events",
    Kind.GAUGE,
    "Events of the mesh that the pipeline has not taken yet, at the end of its last batch.",
    ("pipeline", "kind"),
)
PIPELINE_BATCH: Final = Definition(
    "weft_pipeline_batch_seconds",
    Kind.GAUGE,
    "How long the last batch took, of its slowest query.",
    ("pipeline", "kind"),
)
PIPELINE_REPORT: Final = Definition(
    "weft_pipeline_report_timestamp_seconds", Kind.GAUGE, "When the pipeline last told of itself.", ("pipeline", "kind")
)


def _of_table(name: str, kind: Kind, text: str) -> Definition:
    return Definition(name, kind, text, ("table",))


HISTORY_UP: Final = _of_table(
    "weft_history_up",
    Kind.GAUGE,
    "1 while the archive table can be asked, else 0: what the log has cut cannot be read.",
)
HISTORY_FILES: Final = _of_table("weft_history_files", Kind.GAUGE, "Files of the archive table that are in the index.")
HISTORY_UNREAD: Final = _of_table(
    "weft_history_unread_files", Kind.GAUGE, "New files of the archive table that are still being looked into."
)
HISTORY_DAMAGED: Final = _of_table(
    "weft_history_damaged_files", Kind.GAUGE, "Files of the archive table that cannot be read."
)
HISTORY_READS: Final = _of_table(
    "weft_history_reads_total", Kind.COUNTER, "Reads of the archive table for clients that got an answer."
)
HISTORY_FAILURES: Final = _of_table(
    "weft_history_failures_total", Kind.COUNTER, "Clients that were told that the archive table cannot be asked."
)
HISTORY_EVENTS: Final = _of_table(
    "weft_history_events_total", Kind.COUNTER, "Events that clients read from the archive table."
)
HISTORY_BYTES: Final = _of_table("weft_history_bytes_total", Kind.COUNTER, "Bytes of these events.")


def of_pipelines(reports: Iterable[PipelineReport], now_us: int) -> Iterator[Metric]:
    """Each pipeline writes its numbers into a bucket, so every node reports the same about it."""
    known = [((each.name, each.pipeline), each) for each in reports]
    lags = [(labels, each.lag_events) for labels, each in known]
    running = [(labels, float(each.state == "running" and not each.is_lost(now_us))) for labels, each in known]
    yield family(PIPELINE_UP, running)
    yield family(PIPELINE_ROWS, [(labels, each.rows_total) for labels, each in known])
    yield family(PIPELINE_LAG, [(labels, lag) for labels, lag in lags if lag is not None])
    slowest = [(labels, max((query.batch_s for query in each.queries), default=0.0)) for labels, each in known]
    yield family(PIPELINE_BATCH, slowest)
    yield family(PIPELINE_REPORT, [(labels, each.updated_us / US_PER_S) for labels, each in known])


def of_history(tables: Iterable[HistoryFigures]) -> Iterator[Metric]:
    """There are few tables, because each has a process."""
    found = [((each.table,), each) for each in tables]
    yield family(HISTORY_UP, [(labels, float(each.is_up)) for labels, each in found])
    yield family(HISTORY_FILES, [(labels, each.files) for labels, each in found])
    yield family(HISTORY_UNREAD, [(labels, each.files_unread) for labels, each in found])
    yield family(HISTORY_DAMAGED, [(labels, each.files_damaged) for labels, each in found])
    yield family(HISTORY_READS, [(labels, each.reads) for labels, each in found])
    yield family(HISTORY_FAILURES, [(labels, each.failures) for labels, each in found])
    yield family(HISTORY_EVENTS, [(labels, each.events) for labels, each in found])
    yield family(HISTORY_BYTES, [(labels, each.size_bytes) for labels, each in found])
