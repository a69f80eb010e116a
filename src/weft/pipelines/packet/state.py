"""Replay detection in Spark: packets go through Spark in parcels, and the state is in RocksDB.

Spark's stateful operator for Python costs some microseconds for every row and column. So its rows are parcels, each
with a few thousand judged packets of one bucket (``Packing``, ``packet.parcels``). ``ReplayProcessor`` reads the marks
in them, lets ``packet.replays`` decide, and passes the parcels on with replays and late packets marked. A packet's hash
chooses its bucket, so all copies of a packet meet in one bucket, wherever they were received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from weft.pipelines.packet.decoding import judge
from weft.pipelines.packet.judging import Means
from weft.pipelines.packet.keys import KeyFiles, keys_here
from weft.pipelines.packet.marks import Hasher
from weft.pipelines.packet.parcels import Parcel, separated, wrap
from weft.pipelines.packet.replays import Found, Marks, Window, find_replays
from weft.pipelines.packet.schema import JUDGED
from weft.pipelines.progress import OBSERVED, OBSERVED_ROWS
from weft.wire.columns import Mask, numbers, valid
from weft.wire.emm import Terms
from weft.wire.emm_compact import judge as compact_judge
from weft.wire.reject import Reject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKET_PARCEL_ROWS: Final = 32_768  # packed together, about 10 MB: a bucket gets thousands of them in one message
PACKED: Final = "bucket int, packets binary, count int"
PARCELS: Final = "packets binary"
# Makes ``INPUT`` from Spark's rows, which are names of files or ranges of offsets.
PacketIntake = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
REPLAY_DETAIL: Final = "packet was seen before"


def with_replays_marked(packets: DataFrame, packing: Packing, window: Window) -> DataFrame:
    """Turn the input of ``packing`` into parcels of ``JUDGED``, and count the packets."""
    from pyspark.sql import functions as f

    packed = packets.mapInArrow(packing, PACKED).observe(OBSERVED, f.sum("count").alias(OBSERVED_ROWS)).drop("count")
    # Spark's event time is not used: it would drop rows behind the watermark, and nothing may be dropped here.
    return packed.groupBy("bucket").transformWithStateInPandas(ReplayProcessor(window), PARCELS, "append", "none")


# --- packing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packing:
    """For ``mapInArrow``: gets packets, judges them and packs them by bucket. It is sent to executors, so it holds no
    device keys."""

    intake: PacketIntake
    keys: KeyFiles
    terms: Terms
    hash_key: bytes
    buckets: int
    compact_terms: compact_judge.Terms = compact_judge.DEFAULT_TERMS

    def __repr__(self) -> str:
        return f"Packing({self.keys}, {self.terms}, {self.buckets} buckets)"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hasher = Hasher(self.hash_key)
        for packets in _gathered(self.intake(batches)):
            means = Means(keys_here(self.keys), self.terms, hasher, self.compact_terms)
            yield self._pack(_joined(list(judge(packets, means))))

    def _pack(self, packets: pa.RecordBatch) -> pa.RecordBatch:
        buckets = _buckets(packets, self.buckets)
        common, others = separated(packets)
        ordered = others.take(pa.array(np.argsort(buckets, kind="stable")))
        sizes = np.bincount(buckets, minlength=self.buckets)
        used = np.flatnonzero(sizes)
        begins = np.cumsum(sizes) - sizes
        parcels = [common.parcel(ordered.slice(begins[bucket], sizes[bucket])) for bucket in used]
        return pa.record_batch(
            {
                "bucket": pa.array(used, pa.int32()),
                "packets": pa.array(parcels, pa.binary()),
                "count": pa.array(sizes[used], pa.int32()),
            }
        )


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, so that whole blocks are judged and parcels are large enough to be worth their overhead."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= PACKET_PARCEL_ROWS:
            yield _joined(waiting)
            waiting, rows = [], 0
    if rows:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _buckets(packets: pa.RecordBatch, count: int) -> npt.NDArray[np.int64]:
    """The bucket of each packet. Packets that do not count for replays may go to any bucket."""
    admitted = _flags(packets.column("admitted"))
    by_mark = (numbers(packets.column("hash_high")) % np.uint64(count)).astype(np.int64)
    return np.where(admitted, by_mark, np.arange(len(admitted)) % count)


# --- state -------------------------------------------------------------------------------------------------------


class ReplayProcessor(StatefulProcessor):
    """Marks the replays in one bucket. Its state has, for each slot of 30 seconds, the marks that were seen in it."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._slots = handle.getMapState("slots", "slot long", "marks binary")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803  Spark's name
    ) -> Iterator[pd.DataFrame]:
        parcels = [parcel for frame in rows for parcel in frame["packets"]]
        opened = list(map(Parcel, parcels))
        admitted = [_flags(parcel.column("admitted")) for parcel in opened]
        slots = {int(slot): bytes(marks) for (slot,), (marks,) in self._slots.iterator()}
        found = find_replays(_marks(opened, admitted), slots, self._window)
        for slot in found.gone:
            self._slots.removeKey((slot,))
        for slot, marks in found.written.items():
            self._slots.updateValue((slot,), (marks,))
        yield pd.DataFrame({"packets": list(_marked(parcels, opened, admitted, found))})

    def close(self) -> None:
        """There is nothing to close."""


def _flags(column: pa.Array) -> Mask:
    found: Mask = column.to_numpy(zero_copy_only=False)
    return found


def _marks(parcels: list[Parcel], admitted: list[Mask]) -> Marks:
    parts = [_marks_of(parcel).pick(rows) for parcel, rows in zip(parcels, admitted, strict=True)]
    return Marks(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _marks_of(parcel: Parcel) -> Marks:
    high, low, seen_at_us = (numbers(parcel.column(name)) for name in ("hash_high", "hash_low", "seen_at_us"))
    arrived = parcel.column("arrived")
    return Marks(high, low, np.where(valid(arrived), numbers(arrived), seen_at_us), seen_at_us)


def _marked(parcels: list[bytes], opened: list[Parcel], admitted: list[Mask], found: Found) -> Iterator[bytes]:
    """The parcels as they came, except that parcels with replays or late packets are rewritten."""
    begin = 0
    for raw, parcel, rows in zip(parcels, opened, admitted, strict=True):
        end = begin + int(np.count_nonzero(rows))
        replays, late = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        replays[rows], late[rows] = found.replays[begin:end], found.late[begin:end]
        begin = end
        yield wrap(_mark(parcel.packets(), replays, late)) if replays.any() or late.any() else raw


def _mark(packets: pa.RecordBatch, replays: Mask, late: Mask) -> pa.RecordBatch:
    """Mark replays and late packets. Being a replay comes before other faults: the judge checks it before it opens a
    seal."""
    again = pa.array(replays)
    changed: dict[str, pa.Array] = {
        "reason": pc.if_else(again, str(Reject.REPLAY), packets.column("reason")),
        "detail": pc.if_else(again, REPLAY_DETAIL, packets.column("detail")),
        "late": pa.array(_flags(packets.column("late")) | late),
    }
    columns = [changed.get(name, packets.column(name)) for name in JUDGED.names]
    return pa.RecordBatch.from_arrays(columns, schema=JUDGED)
