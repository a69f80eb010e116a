"""What the EXMP gateway counts, for the node's metrics (docs/metrics.md)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from weft.wire.exmp import End, Outcome, Success

SUCCESS: Final = "success"
NO_CODE: Final = "failure"  # one without a code; a node's failures have one
# Names of operations that are not ours: a client must not be able to make labels.
OTHER: Final = "other"  # there is no such operation
UNREADABLE: Final = "unreadable"  # there is an operation, but data that cannot be read


class RequestCounts:
    """Of all connections since the start; changed in place, read by whoever collects metrics."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()  # operation, and success or the code of the failure
        self.ends: Counter[End] = Counter()  # of connections

    def answered(self, operation: str, outcome: Outcome) -> None:
        said = SUCCESS if isinstance(outcome, Success) else outcome.code or NO_CODE
        self.requests[operation, said] += 1
