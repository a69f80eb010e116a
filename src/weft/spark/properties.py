"""The local properties that Spark sets for tasks of a streaming query, and for ``foreachBatch``.

Spark does not document them; tests check that they are still set. Both are the same when a batch is repeated.
"""

from __future__ import annotations

from typing import Final

QUERY_ID: Final = "sql.streaming.queryId"  # the same for as long as the checkpoint is kept
BATCH_ID: Final = "streaming.sql.batchId"
