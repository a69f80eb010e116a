"""Starting the queries of a pipeline, where Spark is slow to start their Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from weft.pipelines.base import Streaming
from weft.pipelines.running import SLOW_START, SLOW_STARTS_MAX, started
from weft.pipelines.settings import StreamingSettings


def attempted(*errors: str) -> tuple[Sequence[Any], list[str]]:
    """What comes of a start that first fails like this, one after the other; and what people are told."""
    left, said = list(errors), list[str]()
    queries: Any = ["a query"]

    def start(_spark: Any, _settings: Any) -> Any:
        if left:
            raise RuntimeError(left.pop(0))
        return queries

    return started(Streaming("x", StreamingSettings, start), None, None, said.append), said  # type: ignore[arg-type]


@pytest.mark.req("LAK-05")
def test_python_that_begins_too_late_is_begun_again() -> None:
    slow = f"{SLOW_START}.\n\nJVM stacktrace: ..."
    assert attempted() == (["a query"], [])
    queries, said = attempted(slow, slow)
    assert (queries, len(said)) == (["a query"], 2)
    with pytest.raises(RuntimeError, match=SLOW_START):
        attempted(*[slow] * (SLOW_STARTS_MAX + 1))


def test_what_is_wrong_is_not_tried_again() -> None:
    with pytest.raises(RuntimeError, match="no such table"):
        attempted("no such table", "never seen")
