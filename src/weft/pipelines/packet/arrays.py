"""Judges those packets of a block that array code can handle completely. ``packet.decoding`` handles the others."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.pipelines.packet.columns import Rows, Sightings, named, time_column, verdict_batch
from weft.pipelines.packet.judging import SEEN_S_MAX, US_PER_S, Means, fields_json
from weft.pipelines.packet.marks import TAG_EMM, TAG_EMM_COMPACT
from weft.pipelines.packet.schema import Verdict
from weft.wire import emm
from weft.wire.columns import hex_column, numbers, raw_bytes, uuid_column, valid
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm.fields import Flags
from weft.wire.emm.judge_columns import VERDICTS, JudgedRows
from weft.wire.emm_compact.codes import EventType as CompactEventType
from weft.wire.emm_compact.codes import Format, label

_KINDS: Final = pa.array([None, *(kind.name.lower() for kind in sorted(emm.EventType))])
_VERDICTS: Final = pa.array([str(verdict) for verdict in VERDICTS])
_VALUES: Final = ("event_name", "int_value", "float_value", "binary_value", "json_value")


# --- EMM -------------------------------------------------------------------------------------------------------------


def accept_emm(sightings: Sightings, means: Means) -> tuple[Rows, pa.RecordBatch]:
    """The rows that are valid EMM packets, neither sealed nor in need of a signature check, and their content."""
    judged = means.emm_columns.sift(sightings.datagrams, sightings.packets.column("source"), sightings.arrived_s)
    means.emm_columns.refuse_unsealed(judged)
    rows = np.flatnonzero(judged.accepted & ~judged.sealed)
    fresh_us = np.minimum(judged.fresh_at_s()[rows], SEEN_S_MAX).astype(np.int64) * US_PER_S
    arrived_us = np.where(sightings.has_arrived[rows], sightings.arrived_us[rows], fresh_us)
    kept = judged.chosen(rows)
    columns = _emm_columns(kept) | {
        "verdict": named(_VERDICTS, judged.verdicts[rows]),
        "fields": _fields(kept, judged, rows),
    }
    columns |= means.marks(judged.marks()[rows].view("<u4"), TAG_EMM, np.maximum(arrived_us, fresh_us))
    return rows, verdict_batch(columns, len(rows))


def _emm_columns(table: pa.RecordBatch) -> dict[str, pa.Array]:
    node_ids, key_ids = table.column("node_id"), table.column("auth_key_id")
    return {
        "protocol": pa.repeat(str(DatagramProtocol.EMM), table.num_rows),
        "kind": named(_KINDS, numbers(table.column("event_type"))),
        "urgent": pa.array((numbers(table.column("flags")) & Flags.URGENT) != 0),
        "node_id": uuid_column(raw_bytes(node_ids), node_ids),
        "key_id": hex_column(raw_bytes(key_ids), key_ids),
        "message_id": table.column("message_id").cast(pa.int64()),
        "created_at": time_column(table.column("timestamp_s")),
        "signed_at": time_column(table.column("signed_at_s")),
        **{name: table.column(name) for name in _VALUES},
    }


def _fields(table: pa.RecordBatch, judged: JudgedRows, rows: Rows) -> pa.Array:
    """All values as JSON, for packets that have more values than fit the columns."""
    shown = np.sum([valid(table.column(name)) for name in _VALUES], axis=0)
    more = np.flatnonzero(numbers(table.column("value_count")) > shown)
    if not len(more):
        return pa.nulls(len(rows), pa.string())
    texts: list[str | None] = [None] * len(rows)
    for place in more.tolist():
        texts[place] = fields_json(judged.packet(int(rows[place])))
    return pa.array(texts, pa.string())


# --- EMM-C -----------------------------------------------------------------------------------------------------------


def accept_compact(sightings: Sightings, means: Means) -> tuple[Rows, pa.RecordBatch]:
    """The rows that are valid EMM-C notifications with a known arrival time, and their content."""
    arrived_s = sightings.arrived_s
    judged = means.compact_columns.sift(sightings.datagrams, arrived_s)
    rows = np.flatnonzero(judged.accepted & (judged.types == CompactEventType.NOTIFICATION) & sightings.has_arrived)
    kept = judged.columns if len(rows) == len(sightings) else judged.columns.take(pa.array(rows))
    ahead_us = np.maximum(means.compact_columns.ages_s(judged, arrived_s)[rows] * -US_PER_S, 0).astype(np.int64)
    columns = _compact_columns(kept)
    columns |= means.marks(judged.marks[rows].view("<u4"), TAG_EMM_COMPACT, sightings.arrived_us[rows] + ahead_us)
    return rows, verdict_batch(columns, len(rows))


def _compact_columns(table: pa.RecordBatch) -> dict[str, pa.Array]:
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
