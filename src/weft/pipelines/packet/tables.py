"""Two tables from one query, exactly once: good events, and refused packets with the reason.

Tasks unwrap a batch's parcels and write files of both tables in one pass. Then the driver decides (see
``lake.deciding``). A driver that comes back after a crash follows the decision, although the batch might turn out
differently the second time, for example because somebody has added a key. Without this, a packet could end up in both
tables or in none.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.lake.files import WrittenFile, batch_of
from weft.pipelines import lake
from weft.pipelines.days import days
from weft.pipelines.lake.deciding import Staged, decode_files, encode_files, is_usable
from weft.pipelines.lake.staging import write_files
from weft.pipelines.packet.parcels import unwrap_all
from weft.pipelines.packet.schema import EVENTS, QUARANTINE
from weft.security.files import read_private, write_private
from weft.wire.columns import valid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY: Final = pa.field("date", pa.date32())  # the day of arrival; null if the clock was absurd
PARTITION_BY: Final = (DAY.name,)
EVENTS_STORED: Final = EVENTS.append(DAY)
QUARANTINE_STORED: Final = QUARANTINE.append(DAY)


@dataclass(frozen=True, slots=True)
class TwoTables:
    """For ``foreachBatch``: writes parcels of judged packets. The directories outlive the driver."""

    events: lake.TableSettings
    quarantine: lake.TableSettings
    decisions: Path
    checkpoint: Path  # of the query

    def prepare(self) -> None:
        """Make the tables, or check that they fit."""
        from pyspark.sql.pandas.types import from_arrow_schema

        lake.prepare(self.events, from_arrow_schema(EVENTS_STORED))
        lake.prepare(self.quarantine, from_arrow_schema(QUARANTINE_STORED))
        self.decisions.mkdir(parents=True, exist_ok=True)

    def __call__(self, parcels: DataFrame, batch: int) -> None:
        query = lake.query_id(self.checkpoint)
        self._forget_before(batch)
        staged = self._decided(batch, query)
        if staged is None:
            events, quarantine = (lake.open_table(each).settings for each in (self.events, self.quarantine))
            staged = _stage(parcels, Staging(events, quarantine, query, batch))
            write_private(self._path(batch), encode_files(staged))
        else:
            parcels.write.format("noop").mode("overwrite").save()  # run it anyway: it advances the state
        for table, files in self._with_files(staged):
            if files:
                table.commit(files, query, batch)

    def _with_files(self, staged: Staged) -> tuple[tuple[lake.Table, list[WrittenFile]], ...]:
        return (lake.open_table(self.events), staged.first), (lake.open_table(self.quarantine), staged.second)

    def _path(self, batch: int) -> Path:
        return self.decisions / f"{batch}.json"

    def _forget_before(self, batch: int) -> None:
        """Forget the decisions of earlier batches: Spark has finished them, and never repeats them."""
        for path in self.decisions.glob("*.json"):
            if path.stem.isdigit() and int(path.stem) < batch:
                path.unlink()

    def _decided(self, batch: int, query: str) -> Staged | None:
        """What an earlier try at this batch decided. None if its files are gone and were never committed, or if the
        decision is of another query: when Spark's part of a checkpoint is removed, batch numbers begin again."""
        data = read_private(self._path(batch))
        if data is None:
            return None
        staged = decode_files(data)
        if any(batch_of(file.path) != (query, batch) for files in staged for file in files):
            return None
        both = self._with_files(staged)
        return staged if all(is_usable(table, files, query, batch) for table, files in both) else None


# --- files of a batch --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Staging:
    """For ``mapInArrow``: writes a task's share of the parcels as files of both tables."""

    events: lake.TableSettings
    quarantine: lake.TableSettings
    query: str
    batch: int

    def __call__(self, parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        refused: list[pa.RecordBatch] = []
        accepted = _accepted(unwrap_all(parcels), refused)
        staged = Staged(
            write_files(self.events, EVENTS_STORED, self.query, self.batch, accepted),  # runs through them all
            write_files(self.quarantine, QUARANTINE_STORED, self.query, self.batch, refused),
        )
        yield pa.record_batch({"staged": pa.array([pickle.dumps(staged)], pa.binary())})


def _stage(parcels: DataFrame, staging: Staging) -> Staged:
    rows = parcels.mapInArrow(staging, "staged binary").collect()
    return Staged.joined(pickle.loads(row.staged) for row in rows)  # noqa: S301  from our own tasks, through Spark


def _accepted(batches: Iterator[pa.RecordBatch], refused: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The good packets in the table's columns; the others are put into ``refused``."""
    for packets in batches:
        bad = valid(packets.column("reason"))
        if bad.any():
            refused.append(_stored(packets.filter(pa.array(bad)), QUARANTINE_STORED))
            packets = packets.filter(pa.array(~bad))
        yield _stored(packets, EVENTS_STORED)


def _stored(packets: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [days(packets.column("arrived")) if name == DAY.name else packets.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
