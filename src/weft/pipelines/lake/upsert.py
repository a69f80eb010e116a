"""Tables of current state: the latest row of each key. Delta only: other formats would have to rewrite files.

Each batch becomes one merge, committed with the query's id and batch number, so repeating a batch changes nothing. The
changed rows of a batch pass through the driver, so this is for state (devices, objects), not for events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.lake.address import TableError
from weft.lake.settings import TableFormat, TableSettings
from weft.pipelines.lake.staging import prepare, query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def upsert_stream(
    frame: DataFrame,
    table: TableSettings,
    *,
    keys: Sequence[str],
    order_by: Sequence[str],
    query_name: str,
    checkpoint: Path | str,
    trigger: Mapping[str, Any],
    output_mode: str = "append",
) -> StreamingQuery:
    """Start keeping the latest row of each key: the greatest by ``order_by``, whatever order rows come in."""
    check_layout(table, frame.columns, keys, order_by)
    prepare(table, frame.schema)

    def merge(rows: DataFrame, batch: int) -> None:
        upsert_batch(rows, table, keys=keys, order_by=order_by, query=query_id(checkpoint), batch=batch)

    writer = frame.writeStream.foreachBatch(merge).queryName(query_name).outputMode(output_mode)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def upsert_batch(
    rows: DataFrame, table: TableSettings, *, keys: Sequence[str], order_by: Sequence[str], query: str, batch: int
) -> bool:
    """Merge one batch, for callers with their own ``foreachBatch``; False if it was in the table already."""
    from weft.pipelines.lake.delta import DeltaLake

    check_layout(table, rows.columns, keys, order_by)
    prepare(table, rows.schema)
    lake = DeltaLake(table)
    last = lake.committed(query)
    if last is not None and last >= batch:
        return False
    changed = latest(rows, keys, order_by).toArrow()
    return bool(changed.num_rows) and lake.merge(changed, keys, order_by, query, batch)


def latest(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    """For each key, the row that is greatest by ``order_by``."""
    from pyspark.sql import functions as f

    columns = rows.columns
    packed = f.max_by(f.struct(*columns), f.struct(*order_by)).alias("row")
    return rows.groupBy(*keys).agg(packed).select(*(f.col(f"row.{name}").alias(name) for name in columns))


def check_layout(table: TableSettings, columns: Sequence[str], keys: Sequence[str], order_by: Sequence[str]) -> None:
    """Refuse a table that cannot be merged into."""
    if table.format is not TableFormat.DELTA:
        raise TableError("a table of current state has to be a Delta table", table=table.path, format=table.format)
    if not keys or not order_by:
        raise TableError("a table of current state needs keys, and an order that says which row is latest")
    if missing := [name for name in (*keys, *order_by) if name not in columns]:
        raise TableError("no such column", column=missing[0], known=", ".join(columns))
    if unstable := set(table.partition_by) - set(keys):
        raise TableError(
            "a table of current state is partitioned by keys only: rows do not move", columns=", ".join(unstable)
        )
