"""Tables as ``archive`` writes them, made without Spark and without a mesh, and events that are hard to keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from weft.client import ReceivedBatch
from weft.lake.event_files import EventFiles, file_spans
from weft.lake.files import Attempt
from weft.lake.history import History
from weft.lake.index import Index
from weft.lake.settings import TableFormat, TableSettings
from weft.lake.spans import StreamKey
from weft.lake.tables import open_files
from weft.model import Batch, Epoch, Event, NodeId, Stream, Topic
from weft.pipelines.archive_events import Events
from weft.pipelines.lake import Table, open_table
from weft.pipelines.lake.writing import FileWriter
from weft.spark.options import COLUMNS
from weft.spark.rows import RowMaker

NOON_US = 1_794_744_000_000_000  # of 2026-11-15
DAY_US = 86_400_000_000
TOKENS = count()
EVENTS = Events()

Written = tuple[StreamKey, int, Sequence[Event]]  # a stream, the offset of its first event, the events


def key_of(topic: str = "plant.temp", origin: str = "node-a", partition: int = 0, epoch: int = 7) -> StreamKey:
    return Stream(Topic(topic), NodeId(origin), partition), Epoch(epoch)


def plain(count: int, start: int = 0) -> list[Event]:
    """Events that say who they are."""
    return [Event(b"event %d" % number, NOON_US + number) for number in range(start, start + count)]


class Archive:
    """A table that is written batch by batch."""

    def __init__(self, place: Path | str, kind: TableFormat = TableFormat.DELTA, **settings: object) -> None:
        wanted = TableSettings(f"{place}/events", kind, EVENTS.partition_by(), ("topic",), **settings)  # type: ignore[arg-type]
        self.table: Table = open_table(wanted)
        self.table.create(from_arrow_schema(EVENTS.columns()))
        self._batches = count()

    @property
    def settings(self) -> TableSettings:
        return self.table.settings

    def write(self, *written: Written) -> None:
        """One batch of one task."""
        attempt = Attempt("q", next(self._batches), 0, f"{next(TOKENS):08x}")
        rows = (each for one in written for each in rows_of(*one))
        writer = FileWriter(self.settings, EVENTS.columns(), attempt, self.table.place)
        self.table.commit(writer.write_all(rows), attempt.query, attempt.batch)

    def history(self, place: Path | None = None, **files: int) -> History:
        """As it is now."""
        opened = open_files(self.settings)
        index, events = Index(place, opened.settings.path), EventFiles(opened.settings.store(), **files)
        listing = opened.files()
        for path in index.missing(listing):
            index.add(path, file_spans(events, path))
        index.adopt(listing)
        return History(index, events)


def rows_of(key: StreamKey, first: int, events: Sequence[Event]) -> Iterable[pa.RecordBatch]:
    batch = Batch.from_events(events).with_base_offset(first)
    received = ReceivedBatch(*key, first, batch)
    return map(EVENTS.laid_out, RowMaker(COLUMNS).rows([received]))


# --- odd events ------------------------------------------------------------------------------------------------------

TIMES_US = st.one_of(
    st.integers(NOON_US - 3 * DAY_US, NOON_US + 3 * DAY_US),
    st.sampled_from([0, -1, 1, -62_135_596_800_000_000, 253_402_300_799_999_999]),
)
HEADERS = st.one_of(
    st.none(), st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), st.text(max_size=8), max_size=4)
)
ODD_EVENTS = st.builds(
    Event,
    st.binary(max_size=64),
    TIMES_US,
    st.one_of(st.none(), st.binary(max_size=16)),
    HEADERS,
)
