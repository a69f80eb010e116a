"""Which packets were seen before: decides for one bucket of marks, in numpy, with its state as plain bytes.

The state has a blob for each slot of 30 seconds: the marks (``packet.marks``) of admitted packets that were seen in
that time, sorted, with the time of each. ``find_replays`` takes a bucket's state and its new packets. It says which
packets are replays, which slots have to be written, and which may be deleted. Pure: Spark keeps the blobs
(``packet.state``).

A packet is a replay if another one with its mark was admitted before and has not expired, as with
``weft.wire.emm.Judge``. An entry expires 300 seconds after it was seen, which is the later of its arrival and its own
time. Partitions of a stream are not read in step, so of two copies the later one may come first. That makes no
difference: the copy that comes second is flagged.

Packets drive the clock: the newest slot of a bucket is its time. A watermark follows it at a distance, which is the
lateness that is allowed. State is kept for one window behind the watermark. A packet that arrived before the watermark
can no longer be judged: it is marked late, not dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.limits import REPLAY_WINDOW_S
from weft.pipelines.packet.judging import US_PER_S
from weft.pipelines.packet.marks import Hashes
from weft.wire.columns import Mask

PACKET_REPLAY_SLOT_S: Final = 30  # length of a slot; new marks rewrite their whole slot


Times = npt.NDArray[np.int64]

SLOT_US: Final = PACKET_REPLAY_SLOT_S * US_PER_S
# count times (upper half of the mark:u64), then lower halves:u64, then microseconds within the slot:u32
ENTRY_BYTES: Final = 8 + 8 + 4


@dataclass(frozen=True, slots=True)
class Window:
    """How long a packet is remembered, and how far the watermark is behind the newest packet."""

    replay_s: int = REPLAY_WINDOW_S
    late_s: int = REPLAY_WINDOW_S

    @property
    def replay_us(self) -> int:
        return self.replay_s * US_PER_S

    def watermark_us(self, newest_slot: int) -> int:
        return newest_slot * SLOT_US - self.late_s * US_PER_S

    def is_over(self, slot: int, newest_slot: int) -> bool:
        """Whether this slot may be deleted: every replay of a packet in it would be late anyway."""
        return (slot + 1) * SLOT_US + self.replay_us <= self.watermark_us(newest_slot)


class Marks(NamedTuple):
    """Admitted packets, one in each row. A tuple, so that all columns are picked and sorted in the same way."""

    high: Hashes
    low: Hashes
    arrived_us: Times
    seen_at_us: Times

    def pick(self, rows: npt.NDArray[np.int64] | Mask) -> Marks:
        return Marks(self.high[rows], self.low[rows], self.arrived_us[rows], self.seen_at_us[rows])


@dataclass(frozen=True, slots=True)
class Found:
    """The result for a bucket's new packets. ``written`` has whole new slots; ``gone`` has slots that nobody needs any
    longer."""

    replays: Mask
    late: Mask
    written: Mapping[int, bytes]
    gone: tuple[int, ...]


def find_replays(marks: Marks, slots: Mapping[int, bytes], window: Window) -> Found:
    """Judge the new packets of a bucket, whose state is ``slots``, in the order of their arrival."""
    if not len(marks.high):
        nothing = np.zeros(0, np.bool_)
        return Found(nothing, nothing, {}, ())
    late = np.zeros(len(marks.high), np.bool_)
    if slots:  # judge by slots of earlier batches only: a single batch may span more than the window
        late = marks.arrived_us < window.watermark_us(max(slots))
    order = _by_mark(marks)
    order = order[~late[order]]
    ordered = marks.pick(order)
    known = np.zeros(len(order), np.bool_)
    for slot, blob in slots.items():
        known |= _are_in(ordered, slot, blob, window)
    new = np.flatnonzero(~known)
    new = new[_first_ones(ordered.pick(new), window)]
    replays = np.zeros(len(marks.high), np.bool_)
    replays[order] = True
    replays[order[new]] = False
    written = _written(ordered.pick(new), slots)
    newest = max((*slots, *written), default=0)
    return Found(
        replays,
        late,
        {slot: blob for slot, blob in written.items() if not window.is_over(slot, newest)},
        tuple(slot for slot in slots if window.is_over(slot, newest)),
    )


def _by_mark(marks: Marks) -> npt.NDArray[np.int64]:
    """Rows ordered by mark, and by arrival within one mark."""
    order = np.argsort(marks.arrived_us, kind="stable")
    order = order[np.argsort(marks.high[order], kind="stable")]
    high, low = marks.high[order], marks.low[order]
    if ((high[1:] == high[:-1]) & (low[1:] != low[:-1])).any():  # two marks share an upper half: one in 2**64 pairs
        order = np.lexsort((marks.arrived_us, marks.low, marks.high))
    return order


def _are_in(marks: Marks, slot: int, blob: bytes, window: Window) -> Mask:
    """Which marks have an entry in this slot that has not expired."""
    high, low, seen_at_us = _read(slot, blob)
    places = np.searchsorted(high, marks.high)
    rows = np.flatnonzero(places < len(high))
    known = np.zeros(len(marks.high), np.bool_)
    while len(rows):  # runs once; more often only if entries share an upper half
        at = places[rows]
        rows, at = _keep(high[at] == marks.high[rows], rows, at)
        same = low[at] == marks.low[rows]
        hit, entry_us = rows[same], seen_at_us[at[same]]
        alive = marks.arrived_us[hit] <= entry_us + window.replay_us
        alive &= entry_us <= marks.seen_at_us[hit] + window.replay_us  # the entry's packet may be the later one
        known[hit[alive]] = True
        rows = rows[~same]
        places[rows] += 1
        rows = rows[places[rows] < len(high)]
    return known


def _keep(chosen: Mask, *arrays: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(array[chosen] for array in arrays)


def _first_ones(marks: Marks, window: Window) -> npt.NDArray[np.int64]:
    """Of marks ordered by ``_by_mark``, the rows that are not replays of an earlier row."""
    rows = np.arange(len(marks.high))
    taken = []
    while len(rows):  # a round takes the first row of each mark, and drops its replays: the rows within its window
        high, low = marks.high[rows], marks.low[rows]
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        taken.append(rows[begins])
        if begins.all():
            break
        head = rows[np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))]
        rows = rows[~begins & (marks.arrived_us[rows] > marks.seen_at_us[head] + window.replay_us)]
    return np.concatenate(taken) if taken else rows


# --- blobs -------------------------------------------------------------------------------------------------------


def _read(slot: int, blob: bytes) -> tuple[Hashes, Hashes, Times]:
    count = len(blob) // ENTRY_BYTES
    high = np.frombuffer(blob, "<u8", count)
    low = np.frombuffer(blob, "<u8", count, 8 * count)
    within_us = np.frombuffer(blob, "<u4", count, 16 * count)
    return high, low, within_us.astype(np.int64) + slot * SLOT_US


def _written(marks: Marks, slots: Mapping[int, bytes]) -> dict[int, bytes]:
    """The slots that these marks belong to, merged with what was in them."""
    numbers = marks.seen_at_us // SLOT_US
    return {
        int(slot): _merged(marks.pick(numbers == slot), int(slot), slots.get(int(slot), b""))
        for slot in np.unique(numbers)
    }


def _merged(marks: Marks, slot: int, blob: bytes) -> bytes:
    high, low, seen_at_us = _read(slot, blob)
    high, low = np.concatenate([high, marks.high]), np.concatenate([low, marks.low])
    within_us = (np.concatenate([seen_at_us, marks.seen_at_us]) - slot * SLOT_US).astype("<u4")
    order = np.argsort(high, kind="stable")
    return b"".join((high[order].tobytes(), low[order].tobytes(), within_us[order].tobytes()))
