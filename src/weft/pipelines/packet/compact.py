"""Valid EMM-C notifications of a block, by arrays. ``packet.decoding`` handles all others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.pipelines.packet.columns import Rows, Sightings, verdict_batch
from weft.pipelines.packet.judging import US_PER_S, Means
from weft.pipelines.packet.marks import TAG_EMM_COMPACT
from weft.pipelines.packet.schema import Verdict
from weft.wire.columns import numbers
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm_compact.codes import EventType, Format, label


def accept(sightings: Sightings, means: Means) -> tuple[Rows, pa.RecordBatch]:
    """Which rows are valid notifications whose arrival is known, and what they say."""
    arrived_s = sightings.arrived_s
    judged = means.compact_columns.sift(sightings.datagrams, arrived_s)
    rows = np.flatnonzero(judged.accepted & (judged.types == EventType.NOTIFICATION) & sightings.has_arrived)
    kept = judged.columns if len(rows) == len(sightings) else judged.columns.take(pa.array(rows))
    ahead_us = np.maximum(means.compact_columns.ages_s(judged, arrived_s)[rows] * -US_PER_S, 0).astype(np.int64)
    columns = _columns(kept)
    columns |= means.marks(judged.marks[rows].view("<u4"), TAG_EMM_COMPACT, sightings.arrived_us[rows] + ahead_us)
    return rows, verdict_batch(columns, len(rows))


def _columns(table: pa.RecordBatch) -> dict[str, pa.Array]:
    count, formats, messages = table.num_rows, table.column("format"), table.column("message")
    is_text, is_json = (pc.equal(formats, label(each)) for each in (Format.PLAIN_TEXT, Format.JSON))
    ids = [numbers(table.column(name)).astype(np.int64) for name in ("event_id", "epoch", "offset")]
    return {
        "protocol": pa.repeat(str(DatagramProtocol.EMM_COMPACT), count),
        "kind": table.column("type"),
        "urgent": table.column("urgent"),
        "message_id": pa.array(ids[0] << 32 | ids[1] << 16 | ids[2]),
        "verdict": pa.repeat(str(Verdict.GROUP), count),
        "priority": table.column("priority"),
        "format": formats,
        "text_value": pc.if_else(is_text, messages, None).cast(pa.string()),
        "json_value": pc.if_else(is_json, messages, None).cast(pa.string()),
        "binary_value": pc.if_else(pc.or_(is_text, is_json), None, messages),
    }
