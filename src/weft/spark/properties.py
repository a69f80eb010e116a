"""What Spark tells tasks of a streaming query, and ``foreachBatch``, as local properties.

Not documented by Spark; tests see to it that they still are set. Both are the same when a batch is done again.
"""

from __future__ import annotations

from typing import Final

QUERY_ID: Final = "sql.streaming.queryId"  # the same for as long as the checkpoint is kept
BATCH_ID: Final = "streaming.sql.batchId"
