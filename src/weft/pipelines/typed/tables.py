"""Both tables of a typed archive: rows with columns, and dead letters. Each event is in exactly one of them, once.

The schema is looked up before every batch. When it has grown, the table grows first; a change that the table cannot
follow ends the query before anything is written.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import PeerError
from weft.lake.address import TableError
from weft.lake.files import batch_of
from weft.lake.settings import TableSettings
from weft.pipelines import lake
from weft.pipelines.archive_events import Events
from weft.pipelines.lake.compaction import QUERY as COMPACTION
from weft.pipelines.lake.deciding import Pair, Staged
from weft.pipelines.lake.evolution import combined, evolve
from weft.pipelines.lake.staging import write_files
from weft.pipelines.lake.table import check_partitions
from weft.pipelines.lake.writing import stored_schema
from weft.pipelines.ranges import fetched, only_ranges
from weft.pipelines.typed.events import DEAD, TypedArchive, typed_columns
from weft.schema import RESCUED
from weft.spark.schemas import SchemaSource
from weft.spark.typed import TypedTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG: Final = logging.getLogger("weft.pipelines")
TABLES_MAX: Final = 64  # how many tables the queries of one driver write, as in lake.staging


@dataclass(frozen=True, slots=True)
class TypedTables:
    """For ``foreachBatch``: writes the events of ranges. Spark Connect pickles it."""

    source: SchemaSource
    table: TableSettings
    dead_letters: TableSettings
    layout: Events = field(hash=False)
    strict: bool
    checkpoint: str

    @property
    def pair(self) -> Pair:
        return Pair(self.table, self.dead_letters)

    def check(self) -> None:
        """NoSchema if no topic has one; TableError for columns that no table can have, or a table of another form."""
        wanted = typed_columns(self.source.topics(), self.layout)
        stored_schema(self.table, wanted)
        combined(pa.schema([]), wanted)
        if (table := lake.open_table(self.table)).exists():
            self._check_form(table)

    def prepare(self, spark: SparkSession) -> None:
        """Make the tables, or check that they fit; finish what an earlier run has begun."""
        from pyspark.sql.pandas.types import from_arrow_schema

        topics = self.source.topics()
        lake.prepare(self.dead_letters, from_arrow_schema(DEAD))
        if lake.open_table(self.table).exists():
            self.pair.finish()
        self.fit(spark, topics)

    def __call__(self, ranges: DataFrame, batch: int) -> None:
        query = lake.query_id(self.checkpoint)
        if self.pair.is_done(query, batch):
            return
        topics = self._topics()
        columns = self._fitted(ranges.sparkSession, topics)
        table, dead_letters = (lake.open_table(each).settings for each in (self.table, self.dead_letters))
        archive = TypedArchive(topics, columns, self.layout, self.strict)
        staged = _stage(only_ranges(ranges), Staging(archive, table, dead_letters, query, batch))
        if any(staged):
            self.pair.commit(query, batch, staged)

    # --- the schema, and the table's columns -----------------------------------------------------------------------

    def fit(self, spark: SparkSession, topics: TypedTopics) -> pa.Schema:
        """Make sure that the table has columns for these schemas, and return them. TableError if that is impossible."""
        from pyspark.sql.pandas.types import from_arrow_schema

        wanted = typed_columns(topics, self.layout)
        stored_schema(self.table, wanted)
        table = lake.open_table(self.table)
        if not table.exists():
            combined(pa.schema([]), wanted)  # refuses names that no table can have
            table.create(from_arrow_schema(wanted))
        check_partitions(table)
        self._check_form(table)
        return evolve(spark, table, wanted, LOG.warning)

    def _check_form(self, table: lake.Table) -> None:
        if RESCUED not in table.schema().names:
            raise TableError(
                "this table was not made by a typed archive: give the typed form a table of its own",
                table=self.table.path or self.table.identifier,
            )

    def _fitted(self, spark: SparkSession, topics: TypedTopics) -> pa.Schema:
        """Like ``fit``, but only if schemas changed: looking at the table every time costs more than the commit."""
        known = _FITTED.get(self.table)
        if known is None or known[0] != topics:
            if len(_FITTED) >= TABLES_MAX:
                _FITTED.clear()
            known = _FITTED[self.table] = topics, self.fit(spark, topics)
        return known[1]

    def _topics(self) -> TypedTopics:
        """The schemas that the mesh has now; the last known ones while no node can be asked."""
        try:
            return self.source.topics()
        except PeerError as error:
            known = _FITTED.get(self.table)
            if known is None:
                raise
            LOG.warning("no node can be asked for schemas, going on with %s: %s", known[0], error)
            return known[0]


# For each table that this driver writes: the schemas of the last batch, and the columns that the table had then.
_FITTED: Final[dict[TableSettings, tuple[TypedTopics, pa.Schema]]] = {}


# --- files of a batch --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Staging:
    """For ``mapInArrow``: writes a task's share of the ranges as files of both tables."""

    archive: TypedArchive
    table: TableSettings
    dead_letters: TableSettings
    query: str
    batch: int

    def __call__(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dead: list[pa.RecordBatch] = []
        rows = self.archive.rows(fetched(ranges), dead)
        staged = Staged(
            write_files(self.table, self.archive.columns, self.query, self.batch, rows),  # runs through them all
            write_files(self.dead_letters, DEAD, self.query, self.batch, dead),
        )
        yield pa.record_batch({"staged": pa.array([pickle.dumps(staged)], pa.binary())})


def _stage(ranges: DataFrame, staging: Staging) -> Staged:
    rows = ranges.mapInArrow(staging, "staged binary").collect()
    return Staged.joined(pickle.loads(row.staged) for row in rows)  # noqa: S301  from our own tasks, through Spark


class LetterCount:
    """Counts the dead letters that came since it was made. As text: the count, or nothing if there are none. Files that
    compaction wrote do not count as new."""

    def __init__(self, table: lake.Table) -> None:
        self._table = table
        self._known = {file.path for file in table.files()}

    def __str__(self) -> str:
        place = self._table.settings.path
        try:
            count = self._count()
        except (TableError, OSError) as error:  # a count must not make a run fail
            return f"the dead letters in {place} could not be counted: {error}"
        return f"{count:,} dead letters in {place}" if count else ""

    def _count(self) -> int:
        store, count = self._table.settings.store(), 0
        for file in self._table.files():
            written = batch_of(file.path)
            if file.path not in self._known and written is not None and written[0] != COMPACTION:
                with closing(store.reader(file.path)) as source:
                    count += pq.read_metadata(source).num_rows
        return count
