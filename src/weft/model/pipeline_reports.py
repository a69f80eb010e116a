"""How a Spark pipeline is doing: it reports that to the mesh, as an entry of the bucket PIPELINES_BUCKET under its own
name.

The right to write that bucket (``kv.weft-pipelines``) allows reporting, and the right to read it allows looking.
Reports come from outside, so they are bounded, and unreadable ones are left out.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

PIPELINES_BUCKET: Final = "weft-pipelines"
REPORT_TTL_S: Final = 30 * 24 * 3600.0  # a run that was silent for so long has no row any longer
REPORT_SILENT_S: Final = 60.0  # a run reports at least every ten seconds; one that was silent for so long is lost
QUERIES_MAX: Final = 32
TEXT_CHARS_MAX: Final = 500

Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
Count = Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]
Amount = Annotated[float, Meta(ge=0)]


class QueryReport(Struct, frozen=True):
    """One streaming query, when it last finished a batch."""

    query: Text
    batch: Count = -1  # -1: none yet
    rows: Count = 0
    rows_per_s: Amount = 0.0
    batch_s: Amount = 0.0
    lag_events: Count | None = None  # None: the source does not know
    rows_total: Count = 0  # since this run began


class PipelineReport(Struct, frozen=True):
    """One run. ``pipeline`` is its kind: archive, packets and so on."""

    name: Text
    pipeline: Text
    state: Text  # starting, running, ended, stopped or failed
    started_us: Count
    updated_us: Count
    error: Text | None = None
    queries: Annotated[tuple[QueryReport, ...], Meta(max_length=QUERIES_MAX)] = ()

    def is_lost(self, now_us: int) -> bool:
        """Whether it should be running, but has stopped reporting."""
        return self.state in ("starting", "running") and now_us - self.updated_us > REPORT_SILENT_S * 1_000_000

    @property
    def rows_total(self) -> int:
        return sum(query.rows_total for query in self.queries)

    @property
    def lag_events(self) -> int | None:
        known = [query.lag_events for query in self.queries if query.lag_events is not None]
        return sum(known) if known else None


def read_report_untrusted(name: str, value: bytes) -> PipelineReport | None:
    """Read the report under this name; None if it is not valid, or has another name."""
    try:
        report = msgspec.json.decode(value, type=PipelineReport)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return report if report.name == name else None
