"""The data source as Spark knows it, ``format("weft")``: thin around options, planning, survey and reading.

Which process runs what: ``schema`` and ``partitions`` of a batch run in a process on the driver that lives for that one
call. A ``StreamReader`` lives in one process on the driver as long as its query. ``read`` runs in executors, on a copy
of the reader that was pickled before its first use. (SPARK.md, trap 4)

Modules that only some calls need are imported inside those calls: Spark runs each in a new Python, and imports cost
start-up time.

There is no ``pushFilters``: Spark lets the filters of one use of a DataFrame leak into other uses. (SPARK.md, trap 1)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from weft.errors import WeftError
from weft.heap import WORKER_KEPT_BYTES, keep_freed_memory
from weft.spark.holdings import Holdings, resolve
from weft.spark.offsets import Json, NamedTimes, Offsets, Place, from_json, to_json
from weft.spark.option_values import BadOption
from weft.spark.options import Members, SourceOptions, Where, parse_options
from weft.spark.planning import (
    DataLoss,
    Loss,
    Range,
    describe,
    is_worth_waiting,
    limited,
    losses,
    passed_over,
    ranges,
    readable,
    split,
)
from weft.spark.reading import Reading
from weft.spark.rows import schema_of
from weft.spark.state_tables import StateReader, state_table
from weft.spark.survey import Survey, listed
from weft.spark.surveyor import Surveyor, When

if TYPE_CHECKING:
    from weft.spark.sink import BatchSink, StreamSink
    from weft.spark.typed import TypedRows

LOG: Final = logging.getLogger("weft.spark")
UNTIL_THEN: Final = ". They are read when these nodes answer, or when another node has copied them"


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """What one task reads. It has no slots, because Spark's base class has none."""

    ranges: tuple[Range, ...]


class WeftSource(DataSource):
    """``format("weft")``; its options are in docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "weft"

    def schema(self) -> StructType:
        if (table := state_table(self.options)) is not None:
            return table.schema
        options = parse_options(self.options)
        if (typed := _typed(options)) is not None:
            from weft.spark.schemas import row_type

            return row_type(typed)
        return from_arrow_schema(schema_of(options.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        if (table := state_table(self.options)) is not None:
            return StateReader(table)
        options = parse_options(self.options)
        return BatchReader(options, _typed(options, schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        if (table := state_table(self.options)) is not None:
            raise BadOption(f"option {table.kind} gives a table of what is there now: read it with spark.read")
        options = parse_options(self.options)
        return StreamReader(options, _typed(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        from weft.spark.sink import BatchSink

        return BatchSink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802
        from weft.spark.sink import StreamSink

        return StreamSink(self.options, schema, overwrite)


class BatchReader(DataSourceReader):
    """Reads what is there when the DataFrame is first used, and the same again afterwards. (SPARK.md, trap 3)"""

    def __init__(self, options: SourceOptions, typed: TypedRows | None = None) -> None:
        options.check_batch()
        self._options = options
        self._typed = typed

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with closing(Surveyor.of(options, Members.ALL)) as surveyor:
            starting = options.starting or "earliest"
            survey = surveyor.look(_when(starting), complete=options.fail_on_data_loss)
            _warn(options, survey)
            held = survey.held
            start = resolve("startingOffsets", starting, held, otherwise="earliest")
            if (ends := _when(options.ending)) is not None:
                held = surveyor.look(ends, complete=options.fail_on_data_loss).held
            end = resolve("endingOffsets", options.ending, held, otherwise="latest")
        found, lost = ranges(start, end, held)
        _report(options, lost)
        return _partitions(options, found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._typed, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets only ever grow. A new stream enters the offsets at its beginning, one micro-batch before it is read. So
    the checkpoint has its beginning, and what retention removes after that is noticed as a loss."""

    def __init__(self, options: SourceOptions, typed: TypedRows | None = None) -> None:
        options.check_stream()
        self._options = options
        self._typed = typed
        self._surveyor: Surveyor | None = None  # made when first used: the copies in executors need none
        self._survey: Survey | None = None
        self._initial: Json | None = None
        self._target: Offsets | None = None  # where Trigger.AvailableNow ends
        self._committed: Json | None = None
        self._told: set[Loss] = set()
        self._read_last_s: float | None = None

    # --- what Spark asks, in this order ----------------------------------------------------------------------------

    def initialOffset(self) -> Json:  # noqa: N802
        """Spark asks twice, to plan the first batch and to read it. New streams may appear in between, so the first
        answer is kept."""
        if self._initial is None:
            where = self._options.starting or "latest"
            held = self._look(_when(where), complete=True).held
            self._initial = to_json(resolve("startingOffsets", where, held, otherwise="earliest"))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark takes only one limit; the other is applied in addition."""
        if self._options.events_max is not None:
            return ReadMaxRows(self._options.events_max)
        return ReadAllAvailable() if self._options.bytes_max is None else ReadMaxBytes(self._options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        held = self._look(patient=True).held
        self._target = {place: stream.latest for place, stream in held.items()}

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> Json:  # noqa: N802
        begun = from_json(start)
        survey = self._look()
        self._commit(begun, survey.held)
        held = self._without_losses(begun, survey)
        first = passed_over(begun, held)
        end = readable(first, held)
        if self._target is not None:
            end = {place: max(first[place], min(offset, self._target.get(place, 0))) for place, offset in end.items()}
        if self._rather_waits(first, end):
            return to_json(begun)
        events_max, bytes_max = self._limits(limit)
        end = limited(first, end, held, events_max=events_max, bytes_max=bytes_max)
        return to_json(end | self._entering(begun, held))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        begin, last = from_json(start), from_json(end)
        found, lost = ranges(begin, last, (self._survey or self._look()).held)
        if lost:  # ask all nodes and their archive tables once more before giving anything up
            self._reads_back()
            assert self._surveyor is not None, "it has looked"
            self._survey = self._surveyor.look_for(lambda survey: not ranges(begin, last, survey.held)[1])
            found, lost = ranges(begin, last, self._survey.held)
        self._tell(lost)
        return _partitions(self._options, found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._typed, partition)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        if self._survey is None:
            return None
        return to_json({place: stream.latest for place, stream in self._survey.held.items()})

    def stop(self) -> None:
        if self._surveyor is not None:
            self._surveyor.close()
            self._surveyor = None

    # --- how it is answered ----------------------------------------------------------------------------------------

    def _look(self, when: When = None, *, complete: bool = False, patient: bool = False) -> Survey:
        if self._surveyor is None:
            self._surveyor = Surveyor.of(self._options, Members.REACHABLE)
            # Archive tables are asked only once a job needs them: it may begin in one, or fall behind the logs.
            self._surveyor.history = self._options.history and (self._options.starting or "latest") != "latest"
        is_first = self._survey is None
        self._survey = self._surveyor.look(when, complete=complete, patient=patient)
        if is_first:
            _warn(self._options, self._survey, UNTIL_THEN)
        self._surveyor.hold()
        return self._survey

    def _rather_waits(self, first: Offsets, end: Offsets) -> bool:
        """Whether there are too few events for a micro-batch yet. A run with an end (AvailableNow) never waits."""
        new_events = sum(end[place] - offset for place, offset in first.items())
        now_s = time.monotonic()
        waited_s = now_s - self._read_last_s if self._read_last_s is not None else now_s
        least = self._options.events_min if self._target is None and self._read_last_s is not None else None
        if is_worth_waiting(new_events, least, waited_s, self._options.trigger_delay_s):
            return True
        if new_events or self._read_last_s is None:
            self._read_last_s = now_s
        return False

    def _commit(self, begun: Offsets, held: Holdings) -> None:
        """Report that Spark is done with everything before ``begun``. If the report fails, the query goes on."""
        done = to_json(begun)
        if self._options.group is None or self._surveyor is None or done == self._committed:
            return
        try:
            self._surveyor.commit(self._options.group, begun, held)
            self._committed = done
        except WeftError as error:
            LOG.warning("cannot report progress to group %s: %s", self._options.group, error)

    def _without_losses(self, begun: Offsets, survey: Survey) -> Holdings:
        """The holdings to plan with. While a node or an archive table does not answer, streams with missing events are
        left out: the events may be there."""
        lost = losses(begun, survey.held)
        if lost and self._reads_back():
            survey = self._look()
            lost = losses(begun, survey.held)
        if survey.silent or survey.history_problems:
            waiting = {loss.place for loss in lost}
            return {place: stream for place, stream in survey.held.items() if place not in waiting}
        self._tell(lost)
        return survey.held

    def _reads_back(self) -> bool:
        """Ask archive tables as well from now on; return whether that is a change."""
        assert self._surveyor is not None, "it has looked"
        is_new = self._options.history and not self._surveyor.history
        self._surveyor.history = self._options.history
        return is_new

    def _tell(self, lost: Sequence[Loss]) -> None:
        _report(self._options, [loss for loss in lost if loss not in self._told])
        self._told.update(lost)

    def _entering(self, begun: Offsets, held: Holdings) -> dict[Place, int]:
        """The new streams, each with the offset where it begins."""
        new = {place for place in held if place not in begun and (self._target is None or place in self._target)}
        if not new:
            return {}
        starting = self._options.starting
        where: Where = "earliest"
        if isinstance(starting, datetime | NamedTimes):
            where, held = starting, self._look(starting).held
        found = resolve("startingTimestamp", where, held, otherwise="earliest")
        return {place: offset for place, offset in found.items() if place in new}

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """The most events and the most bytes of a micro-batch; None: no limit."""
        match limit:
            case ReadAllAvailable():
                return None, None
            case ReadMaxRows():
                return limit.max_rows, self._options.bytes_max
            case ReadMaxBytes():
                return self._options.events_max, limit.max_bytes
            case _:
                return self._options.events_max, self._options.bytes_max


def _typed(options: SourceOptions, schema: StructType | None = None) -> TypedRows | None:
    """How payloads become columns; None: they do not."""
    if options.typed is None:
        return None
    from weft.spark.schemas import typed_rows

    return typed_rows(options, schema)


def _when(where: Where) -> When:
    """The times that nodes must be asked about to resolve this place; None if there are none."""
    return where if isinstance(where, datetime | NamedTimes) else None


def _warn(options: SourceOptions, survey: Survey, advice: str = "") -> None:
    """Warn of what is not read and of what does not exist. The driver's standard error shows the warnings."""
    wants_members = options.members is not Members.NAMED
    if unread := [each for each in survey.unread() if wants_members or each.address in survey.silent]:
        nodes = listed(list(map(str, unread)))
        LOG.warning("%s: events that only these nodes have are not read: %s%s", options.selection, nodes, advice)
    for problem in survey.history_problems:
        LOG.warning("%s: what archive tables have is not read, or not all: %s", options.selection, problem)
    if unmatched := options.selection.unmatched(place.stream.topic for place in survey.held):
        LOG.warning("no topic of the mesh matches %s yet", listed(unmatched))


def _report(options: SourceOptions, lost: Sequence[Loss]) -> None:
    """Raise or warn, as option failOnDataLoss says."""
    if not lost:
        return
    if options.fail_on_data_loss:
        raise DataLoss(
            f"events that were to be read are gone: {describe(lost)}; retention has passed them, a disk was lost, or "
            "option subscribe was changed. failOnDataLoss=false continues with the remaining events"
        )
    LOG.warning("events that were to be read are gone, going on without them: %s", describe(lost))


def _partitions(options: SourceOptions, found: Sequence[Range]) -> list[InputPartition]:
    return [RangePartition(part) for part in split(found, options.partitions_min)]


def _read(options: SourceOptions, typed: TypedRows | None, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RangePartition):
        return iter(())  # Spark makes an empty partition of its own when there is nothing to read
    keep_freed_memory(WORKER_KEPT_BYTES, arenas_max=1)
    columns = options.columns if typed is None else typed.fetched()
    rows = Reading(options.connection, columns, options.fail_on_data_loss).rows(partition.ranges)
    return rows if typed is None else typed.rows(rows)
