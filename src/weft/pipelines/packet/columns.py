"""Arrow and numpy helpers for packets: blocks of input, columns of output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.pipelines.packet.judging import TIME_S_MAX, US_PER_S
from weft.pipelines.packet.schema import CONTENT, MARKS, REFUSAL, TIME
from weft.wire.columns import Mask, Positions, nullify, numbers, valid
from weft.wire.emm.judge import UNKNOWN_S

VERDICT: Final = pa.schema([*CONTENT, *REFUSAL[:2], *MARKS])  # what judging adds to the input

Rows = Positions  # numbers of rows
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sightings:
    """Some thousand packets of ``INPUT``; the bytes of row i are ``data[starts[i]:ends[i]]``."""

    packets: pa.RecordBatch
    datagrams: pa.Array
    data: npt.NDArray[np.uint8]
    starts: Positions
    ends: Positions
    arrived_us: Times
    has_arrived: Mask

    @classmethod
    def of(cls, packets: pa.RecordBatch) -> Self:
        datagrams = packets.column("datagram")
        if datagrams.null_count:
            datagrams = datagrams.fill_null(b"")
        _, offsets_buffer, data_buffer = datagrams.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32, len(datagrams) + 1, datagrams.offset * 4).astype(np.int64)
        data = np.frombuffer(data_buffer or b"", np.uint8)
        arrived = packets.column("arrived")
        return cls(packets, datagrams, data, offsets[:-1], offsets[1:], numbers(arrived), valid(arrived))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def arrived_s(self) -> npt.NDArray[np.float64]:
        """The arrival times as judges take them: ``UNKNOWN_S`` where they were not recorded."""
        return np.where(self.has_arrived, self.arrived_us / US_PER_S, UNKNOWN_S)

    def firsts(self) -> npt.NDArray[np.uint8]:
        """The first byte of each datagram, which says the protocol (ADR 12); zero, no protocol, if it is empty."""
        there = self.ends > self.starts
        firsts = np.zeros(len(self), np.uint8)
        firsts[there] = self.data[self.starts[there]]
        return firsts

    def only(self, rows: Mask) -> Self:
        return self if rows.all() else type(self).of(self.packets.filter(pa.array(rows)))

    def datagram(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]].tobytes()


# --- making columns ----------------------------------------------------------------------------------------------


def verdict_batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """A batch of accepted packets. Columns that are not given are null, and no packet is late."""
    columns["late"] = pa.array(np.zeros(count, np.bool_))
    filled = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in VERDICT]
    return pa.RecordBatch.from_arrays(filled, schema=VERDICT)


def named(names: pa.Array, places: npt.NDArray[Any]) -> pa.Array:
    """For each row, the name at its index in ``names``."""
    return pa.DictionaryArray.from_arrays(pa.array(places), names).dictionary_decode()


def time_column(seconds: pa.Array) -> pa.Array:
    """Seconds since 1970 as a time; null beyond the year 9999."""
    there, found = valid(seconds), numbers(seconds)
    there &= found <= TIME_S_MAX
    if not there.any():
        return pa.nulls(len(seconds), TIME)
    times_us = np.where(there, found, 0).astype(np.int64) * US_PER_S
    return nullify(pa.array(times_us, TIME), there)
