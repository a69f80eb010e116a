"""The lake: tables that Spark writes exactly once and that anybody can read. See ``docs/lake.md``.

Executors write Parquet files with Arrow. Then the driver makes them part of the table, in one step that also records
the query and the batch. So a batch that is repeated after a crash is recognised, and files of attempts that died never
become part of the table.

The room ``weft.lake`` knows where tables are and what they are made of. Read in this order:

- ``writing``: writes a task's Arrow batches to sorted, partitioned Parquet files.
- ``table``: what a table can do; ``delta``, ``iceberg`` and ``parquet`` implement it, each with its own way to commit.
- ``staging``: both halves of a write; ``source`` is ``format("weft-lake")``, ``streams`` starts queries with it,
  ``upsert`` keeps tables of current state.
- ``deciding``: two tables that one query writes. ``evolution``: tables that grow with a schema.
- ``compaction``: merges small files into large ones, and removes files that nobody needs.
"""

from weft.lake.address import TableError
from weft.lake.settings import TableFormat, TableSection, TableSettings
from weft.pipelines.lake.staging import Made, append_batch, prepare, query_id
from weft.pipelines.lake.streams import read, register, write_stream
from weft.pipelines.lake.table import Table, TableChanged, check_columns, open_table
from weft.pipelines.lake.upsert import upsert_batch, upsert_stream

__all__ = [
    "Made",
    "Table",
    "TableChanged",
    "TableError",
    "TableFormat",
    "TableSection",
    "TableSettings",
    "append_batch",
    "check_columns",
    "open_table",
    "prepare",
    "query_id",
    "read",
    "register",
    "upsert_batch",
    "upsert_stream",
    "write_stream",
]
