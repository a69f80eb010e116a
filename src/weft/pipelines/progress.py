"""Spark's progress report on a micro-batch, as a record and as a line for people. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from weft.pipelines.records import QueryRecord

# The name of a query's own row count, for sources whose rows are not what people count: files instead of packets, say.
OBSERVED: Final = "weft"
OBSERVED_ROWS: Final = "rows"


def read_progress(last: QueryRecord, progress: Mapping[str, Any]) -> QueryRecord:
    """The new record. ``progress`` is a StreamingQueryProgress as a mapping; ``last`` is the record before."""
    batch, rows = int(progress["batchId"]), rows_of(progress)
    took_s = float((progress.get("durationMs") or {}).get("triggerExecution") or 0) / 1000
    return QueryRecord(
        query=last.query,
        batch=batch,
        rows=rows,
        rows_per_s=rows / took_s if took_s else 0.0,
        batch_s=took_s,
        lag_events=lag_of(progress.get("sources") or ()),
        rows_total=last.rows_total + rows,
    )


def rows_of(progress: Mapping[str, Any]) -> int:
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    return int((progress.get("numInputRows") if observed is None else observed[OBSERVED_ROWS]) or 0)


def lag_of(sources: Any) -> int | None:
    """How many events of the mesh are not in a batch yet; None if no source says where its end is."""
    ends = [(_offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))) for source in sources]
    known = [(end or {}, latest) for end, latest in ends if latest is not None]
    if not known:
        return None
    return sum(max(offset - end.get(stream, 0), 0) for end, latest in known for stream, offset in latest.items())


def _offsets(text: Any) -> dict[tuple[str, str], int] | None:
    """Offsets by topic and stream; None if these are not offsets of ``format("weft")``."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
        return {(topic, stream): int(offset) for topic, streams in found.items() for stream, offset in streams.items()}
    except (ValueError, TypeError, AttributeError):
        return None


def line_of(record: QueryRecord) -> str:
    lag = "" if record.lag_events is None else f"  lag {record.lag_events:,} events"
    return (
        f"{record.query}  batch {record.batch}  {record.rows:,} rows  {record.rows_per_s:,.0f} rows/s"
        f"{lag}  {record.batch_s:.1f} s"
    )
