"""Judges a column of datagrams: what each says, who vouches for it, or why it is refused.

``packet.judging.judge_one`` defines the result. Array code (``packet.arrays``) handles good packets whose content fits
arrays: nearly all traffic. The others (signatures, seals, forgeries, damage) are judged one by one, which also gives
the reasons in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from weft.pipelines.packet.arrays import accept_compact, accept_emm
from weft.pipelines.packet.columns import VERDICT, Rows, Sightings
from weft.pipelines.packet.judging import Means, judge_one
from weft.pipelines.packet.marks import words_of
from weft.pipelines.packet.schema import CAPTURE_PROBLEM, JUDGED
from weft.wire.columns import BLOCK_ROWS


def judge(packets: pa.RecordBatch, means: Means) -> Iterator[pa.RecordBatch]:
    """``INPUT`` in, ``JUDGED`` out, row for row, in blocks that fit the processor's cache."""
    for first in range(0, packets.num_rows, BLOCK_ROWS):
        yield _judge_block(packets.slice(first, BLOCK_ROWS), means)


def _judge_block(packets: pa.RecordBatch, means: Means) -> pa.RecordBatch:
    sightings = Sightings.of(packets)
    firsts = sightings.firsts()
    parts: list[pa.RecordBatch] = []
    rows: list[Rows] = []
    left = np.ones(len(sightings), np.bool_)
    for accept, mine in ((accept_emm, firsts == 0x01), (accept_compact, firsts >> 5 == 0b001)):
        if mine.any():
            places, accepted = accept(sightings.only(mine), means)
            parts.append(accepted)
            rows.append(np.flatnonzero(mine)[places])
            left[rows[-1]] = False
    if left.any():
        rows.append(np.flatnonzero(left))
        parts.append(_judge_one_by_one(sightings, rows[-1], means))
    judged = _in_order(parts, rows)
    return pa.RecordBatch.from_arrays(
        [(judged if name in VERDICT.names else packets).column(name) for name in JUDGED.names], schema=JUDGED
    )


def _in_order(parts: list[pa.RecordBatch], rows: list[Rows]) -> pa.RecordBatch:
    """Join the parts into one batch in the original order; ``rows`` are the row numbers of each part."""
    if len(parts) == 1:
        return parts[0]
    places = np.concatenate(rows)
    order = np.empty_like(places)
    order[places] = np.arange(len(places))
    return pa.concat_batches(parts).take(pa.array(order))


def _judge_one_by_one(sightings: Sightings, rows: Rows, means: Means) -> pa.RecordBatch:
    judged: list[dict[str, Any]] = []
    chosen = sightings.packets.select(["datagram", "source", "problem"]).take(pa.array(rows)).to_pylist()
    for row, packet in zip(rows, chosen, strict=True):
        if packet["problem"] is not None:
            judged.append({"admitted": False, "reason": CAPTURE_PROBLEM, "detail": packet["problem"]})
            continue
        arrived_us = int(sightings.arrived_us[row]) if sightings.has_arrived[row] else None
        judged.append(judge_one(packet["datagram"] or b"", arrived_us, (packet["source"] or "").encode(), means))
    marked = [each for each in judged if "mark" in each]
    tags = np.array([each.pop("tag") for each in marked], np.uint64)
    high, low = means.hasher.hash(words_of([each.pop("mark") for each in marked]), tags)
    for each, upper, lower in zip(marked, high.tolist(), low.tolist(), strict=True):
        each |= {"hash_high": upper, "hash_low": lower}
    return pa.RecordBatch.from_pylist([{"late": False, **each} for each in judged], VERDICT)
