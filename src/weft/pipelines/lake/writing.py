"""Writes one task's share of Arrow batches to Parquet files: buffered, sorted, split by partition, with statistics.

Rows are collected until they fill a row group, and ordered by partition and ``sort_by``. Then each partition's rows go
to that partition's file. Rows are sorted within a row group, so that readers can skip groups by their statistics. No
step handles single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.lake.address import TableError
from weft.lake.files import Attempt, Range, Value, WrittenFile, directory, partition_text
from weft.lake.settings import TableFormat, TableSettings
from weft.limits import MIB, TOPIC_BYTES_MAX

LAKE_GROUP_BYTES: Final = 64 * MIB  # of Arrow in one row group, held and sorted by a task: 300,000 rows of 221 bytes
LAKE_GROUP_ROWS: Final = 1_000_000  # however small the rows are
LAKE_OPEN_FILES_MAX: Final = 256  # partitions that a task writes at a time; beyond that, files are closed early
LAKE_STATISTIC_CHARS_MAX: Final = TOPIC_BYTES_MAX  # of a text's least and most value in the Delta log
CODEC: Final = "zstd"
CODEC_LEVEL: Final = 1  # the fastest: writing takes the most time, and payloads are often compressed already
RANKED_TYPES: Final = "text, dates, whole numbers or booleans"

PLACES_MAX: Final = 1 << 31  # two numbers below this, or one and a group's row count, multiply within 63 bits

Places = npt.NDArray[np.int64]


@dataclass(slots=True)
class _OpenFile:
    """A file being written."""

    path: str
    partition: dict[str, str | None]
    sink: IO[bytes]
    writer: pq.ParquetWriter
    footers: list[pq.FileMetaData] = field(default_factory=list)
    rows: int = 0


class FileWriter:
    """Writes one attempt's files. ``place`` says where in the table a file is until its batch is committed."""

    def __init__(self, table: TableSettings, schema: pa.Schema, attempt: Attempt, place: Callable[[str], str]) -> None:
        self._table = table
        self._store = table.store()
        self._schema = schema
        self._stored = stored_schema(table, schema)
        self._attempt = attempt
        self._place = place
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        self._numbers = 0
        self._done: list[WrittenFile] = []

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
        """Write all batches and close the files; the files are durable when this returns."""
        for group in _groups(batches, self._schema):
            self._write_group(group)
        self._close_all()
        return self._done

    def _write_group(self, group: pa.Table) -> None:
        partitions, _ = _places(group, self._table.partition_by)
        within, count = _places(group, self._table.sort_by)
        places = partitions * count + within
        if np.any(places[1:] < places[:-1]):
            order = np.argsort(places, kind="stable")  # stable: offsets of a stream stay in their order
            group, partitions = group.take(pa.array(order)), partitions[order]
        for partition, rows in _stretches(group, partitions, self._table.partition_by):
            file = self._file(partition)
            file.writer.write_table(rows.select(self._stored.names), row_group_size=LAKE_GROUP_ROWS)
            file.rows += rows.num_rows
            if file.sink.tell() >= self._table.file_bytes:
                self._close(tuple(partition.values()))

    def _file(self, partition: dict[str, str | None]) -> _OpenFile:
        key = tuple(partition.values())
        if key not in self._open:
            if len(self._open) >= LAKE_OPEN_FILES_MAX:
                self._close_all()
            path = directory(partition) + self._attempt.file_name(self._numbers)
            self._numbers += 1
            footers: list[pq.FileMetaData] = []
            sink = self._store.writer(self._place(path))
            writer = pq.ParquetWriter(sink, self._stored, metadata_collector=footers, **_layout(self._stored))
            self._open[key] = _OpenFile(path, partition, sink, writer, footers)
        return self._open[key]

    def _close_all(self) -> None:
        for key in list(self._open):
            self._close(key)

    def _close(self, key: tuple[str | None, ...]) -> None:
        file = self._open.pop(key)
        file.writer.close()
        size_bytes = file.sink.tell()
        file.sink.close()
        self._done.append(
            WrittenFile(
                path=file.path,
                size_bytes=size_bytes,
                partition=file.partition,
                rows=file.rows,
                ranges=_ranges(file.footers[0]),
            )
        )


def stored_schema(table: TableSettings, schema: pa.Schema) -> pa.Schema:
    """The columns in the files. Readers of Hive and Delta find partition values elsewhere, Iceberg's in the file."""
    for name in (*table.partition_by, *table.sort_by):
        if name not in schema.names:
            raise TableError("no such column to lay the table out by", column=name, known=", ".join(schema.names))
        kind = schema.field(name).type
        if not (_can_rank(kind) or (name in table.sort_by and _can_sort(kind))):
            raise TableError(f"tables are laid out by {RANKED_TYPES}", column=name, type=kind)
    if table.format is TableFormat.ICEBERG:
        return schema
    return pa.schema([each for each in schema if each.name not in table.partition_by])


# --- grouping and ordering ------------------------------------------------------------------------------------------


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Tables of roughly a row group, cast to the types of the table's columns (Spark's times carry the session's
    zone)."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= LAKE_GROUP_ROWS or size_bytes >= LAKE_GROUP_BYTES:
            yield pa.Table.from_batches(waiting).cast(schema)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting).cast(schema)


def _places(group: pa.Table, names: tuple[str, ...]) -> tuple[Places, int]:
    """For each row a number that orders the rows by these columns (equal values: equal numbers), and a bound for it."""
    places, count = np.zeros(group.num_rows, dtype=np.int64), 1
    for name in names:
        ranks, more = _ranks(group.column(name))
        places, count = places * more + ranks, count * more
        if count > PLACES_MAX:
            values, places = np.unique(places, return_inverse=True)
            count = len(values)
    return places, count


def _ranks(column: pa.ChunkedArray) -> tuple[Places, int]:
    """For each value its rank among the distinct values; null comes last."""
    encoded = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    places = np.empty(len(order) + 1, dtype=np.int64)
    places[order] = np.arange(len(order))
    places[-1] = len(order)
    indices = encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)
    return places[indices], len(places)


def _stretches(
    group: pa.Table, partitions: Places, names: tuple[str, ...]
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The rows of each partition; they are next to each other."""
    starts = np.flatnonzero(np.diff(partitions, prepend=partitions[0] - 1))
    for start, end in zip(starts, [*starts[1:], len(partitions)], strict=True):
        rows = group.slice(int(start), int(end - start))
        yield {name: partition_text(rows.column(name)[0].as_py()) for name in names}, rows


def _can_rank(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_date32(kind) or types.is_integer(kind) or types.is_boolean(kind))


def _can_sort(kind: pa.DataType) -> bool:
    """Further types that rows may be sorted, but not partitioned by: times and keys make too many partitions."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_binary(kind))


# --- Parquet --------------------------------------------------------------------------------------------------------


def _layout(schema: pa.Schema) -> dict[str, Any]:
    """How columns are encoded. Payloads get no dictionary and no statistics: both cost time and help nobody."""
    types = pa.types
    names = [each.name for each in schema if types.is_string(each.type)]
    counted = {each.name for each in schema if types.is_int64(each.type) or types.is_timestamp(each.type)}
    return {
        "compression": CODEC,
        "compression_level": CODEC_LEVEL,
        "use_dictionary": names or False,
        "column_encoding": dict.fromkeys(sorted(counted), "DELTA_BINARY_PACKED") or None,
        "write_statistics": [each.name for each in schema if has_range(each.type)] or False,
        "store_schema": False,
        "write_page_checksum": True,  # lets a reader notice a flipped bit, even in a payload
    }


def has_range(kind: pa.DataType) -> bool:
    """Whether the least and the greatest value of such a column are recorded."""
    return _can_rank(kind) or pa.types.is_timestamp(kind) or pa.types.is_floating(kind)


def _ranges(footer: pq.FileMetaData) -> dict[str, Range]:
    """Minimum, maximum and null count of each simple column, which the Parquet writer has computed anyway."""
    found: dict[str, Range] = {}
    for index in range(footer.num_columns):
        chunks = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
        statistics = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
        if len(statistics) < len(chunks) or not all(each.has_null_count for each in statistics):
            continue
        nulls = sum(each.null_count for each in statistics)
        try:
            least = min((each.min for each in statistics if each.has_min_max), default=None)
            most = max((each.max for each in statistics if each.has_min_max), default=None)
        except (OverflowError, ValueError):
            continue  # a time that Python cannot hold: publishers choose them
        if any(each.num_values and not each.has_min_max for each in statistics):
            continue
        if not (_can_be_told(least) and _can_be_told(most)):
            continue
        found[chunks[0].path_in_schema] = Range(least, most, nulls)
    return found


def _can_be_told(value: Value | None) -> bool:
    """Whether a value can be recorded in a table's log: JSON has no infinity, and a long text does not belong there."""
    match value:
        case str():
            return len(value) <= LAKE_STATISTIC_CHARS_MAX
        case float():
            return isfinite(value)
        case _:
            return True
