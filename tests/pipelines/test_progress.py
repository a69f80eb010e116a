"""What Spark says of a batch, as people see it."""

from __future__ import annotations

import json

from weft.pipelines.progress import lag_of, line_of, read_progress
from weft.pipelines.records import QueryRecord


def offsets(**streams: int) -> str:
    return json.dumps({"plant.temp": {f"{name}/0/1": offset for name, offset in streams.items()}})


def test_a_batch_becomes_a_line() -> None:
    progress = {
        "batchId": 4,
        "numInputRows": 3000,
        "durationMs": {"triggerExecution": 1500},
        "sources": [{"endOffset": offsets(a=10), "latestOffset": offsets(a=15, b=2)}],
    }
    found = read_progress(QueryRecord("archive", 3, rows_total=1), progress)
    assert found == QueryRecord("archive", 4, 3000, 2000.0, 1.5, 7, 3001)
    assert line_of(found) == "archive  batch 4  3,000 rows  2,000 rows/s  lag 7 events  1.5 s"


def test_a_batch_that_says_little() -> None:
    found = read_progress(QueryRecord("q"), {"batchId": 0, "numInputRows": 0, "durationMs": {}, "sources": []})
    assert line_of(found) == "q  batch 0  0 rows  0 rows/s  0.0 s"


def test_what_was_counted_on_the_way_is_counted() -> None:
    """A query over two files, in which there were 500 packets."""
    progress = {"batchId": 0, "numInputRows": 2, "durationMs": {}, "observedMetrics": {"weft": {"rows": 500}}}
    assert read_progress(QueryRecord("packets"), progress).rows == 500
    nothing = {"batchId": 1, "numInputRows": 0, "durationMs": {}, "observedMetrics": {"weft": {"rows": None}}}
    assert read_progress(QueryRecord("packets"), nothing).rows == 0


def test_lag_is_known_only_of_sources_that_tell_it() -> None:
    files = {"endOffset": "{'logOffset': 3}", "latestOffset": None}
    weft = {"endOffset": None, "latestOffset": offsets(a=5)}
    assert lag_of([files]) is None
    assert lag_of([files, weft]) == 5
    assert lag_of([{"endOffset": offsets(a=9), "latestOffset": offsets(a=5)}]) == 0
    assert lag_of([{"endOffset": {"plant.temp": {"a/0/1": 4}}, "latestOffset": offsets(a=5)}]) == 1
