"""The tables that ``objects`` writes: their columns, and how a batch gets into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.pipelines import lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBJECTS_REMOVE_ATTEMPTS: Final = 10  # while others commit to the table: a race that we lose, another wins


# One row per object. ``changed_at`` is the later one of the other two times; ``revision`` counts its changes.
OBJECTS: Final = {
    "namespace": "string",
    "object_id": "string",
    "core_type": "string",
    "object_type": "string",
    "name": "string",
    "parent_object_id": "string",
    "external_id": "string",
    "source_id": "string",
    "object": "string",
    "advertised_at": "timestamp",
    "deadvertised_at": "timestamp",
    "changed_at": "timestamp",
    "revision": "bigint",
}
KEYS: Final = ("namespace", "object_id")
ORDER: Final = ("changed_at", "advertised_at", "revision")
GONE: Final = "deadvertised_at IS NOT NULL"


def put_objects(rows: DataFrame, table: lake.TableSettings, *, marks: bool, query: str, batch: int) -> None:
    """Merge the rows of a batch into the table; without ``marks``, the rows of objects that are gone are deleted."""
    lake.upsert_batch(rows, table, keys=KEYS, order_by=ORDER, query=query, batch=batch)
    # Also if the batch was there already: its driver may have died in between.
    if not marks and not rows.where(GONE).isEmpty():
        _remove_gone(table)


def _remove_gone(table: lake.TableSettings) -> None:
    from deltalake import CommitProperties, Transaction
    from deltalake.exceptions import CommitFailedError

    from weft.pipelines.lake.delta import REPLACING, DeltaLake

    refused: CommitFailedError | None = None
    for _ in range(OBJECTS_REMOVE_ATTEMPTS):
        there = DeltaLake(table).load()
        last = there.transaction_version(REPLACING)
        # Counted as a replacement of files: a compaction that began before must not bring the rows back.
        counted = CommitProperties(app_transactions=[Transaction(REPLACING, 0 if last is None else last + 1)])
        try:
            there.delete(GONE, commit_properties=counted)
            return
        except CommitFailedError as error:
            refused = error
    raise lake.TableChanged(f"Delta refused to remove objects that are gone: {refused}", table=table.path)
