"""EMM-C notifications of a block that are good for certain, by arrays. See ``packet.decoding`` for the others.

The other types are rare, and their fields are read one by one anyway.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.pipelines.packet.columns import Rows, Sightings, numbers, same, verdict_batch
from weft.pipelines.packet.judging import Means
from weft.pipelines.packet.marks import TAG_EMM_COMPACT, Words
from weft.pipelines.packet.schema import Verdict
from weft.wire.columns import Mask
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm_compact.codes import EventType, Format, label
from weft.wire.emm_compact.columnar import decode_column
from weft.wire.emm_compact.header import HEADER_BYTES
from weft.wire.emm_compact.packet import SIGNATURE_AT, SIGNATURE_BYTES, body_at

_KIND: Final = label(EventType.NOTIFICATION)
_BODY_AT: Final = body_at(EventType.NOTIFICATION)
_TAG_BYTES: Final = SIGNATURE_BYTES[EventType.NOTIFICATION]


def accept(sightings: Sightings, means: Means) -> tuple[Rows, pa.RecordBatch]:
    """Which rows are good for certain, and what they say."""
    table = decode_column(sightings.datagrams).combine_chunks().to_batches()[0]
    is_kind = pc.equal(table.column("type"), _KIND).fill_null(False)
    candidates = np.flatnonzero(is_kind.to_numpy(zero_copy_only=False) & sightings.has_arrived)
    rows = candidates[_tags_fit(sightings, candidates, means)]
    kept = table if len(rows) == len(sightings) else table.take(pa.array(rows))
    columns = _columns(kept)
    columns |= means.marks(_words(sightings, rows), TAG_EMM_COMPACT, sightings.arrived_us[rows])
    return rows, verdict_batch(columns, len(rows))


def _tags_fit(sightings: Sightings, rows: Rows, means: Means) -> Mask:
    """EMC-05 for many: an HMAC with any of the group's keys."""
    fits = np.zeros(len(rows), np.bool_)
    tags = _bytes_at(sightings, rows, SIGNATURE_AT, _TAG_BYTES)
    starts, ends = sightings.starts[rows].tolist(), sightings.ends[rows].tolist()
    data = sightings.data.data
    for secret in means.keys.ring.group_keys:
        if fits.all():
            break
        begun = means.keys.hmac_start(secret)
        digests: list[bytes] = []
        for start, end in zip(starts, ends, strict=True):
            inner, outer = begun[0].copy(), begun[1].copy()
            inner.update(data[start : start + HEADER_BYTES])
            inner.update(data[start + _BODY_AT : end])
            outer.update(inner.digest())
            digests.append(outer.digest())
        fits |= same(digests, tags)
    return fits


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


def _words(sightings: Sightings, rows: Rows) -> Words:
    """The marks of ``packet.marks.compact_mark``, as far as they are not zeros."""
    marks = np.zeros((len(rows), 8 + _TAG_BYTES), np.uint8)
    marks[:, :6] = _bytes_at(sightings, rows, 1, 6)
    marks[:, 8:] = _bytes_at(sightings, rows, SIGNATURE_AT, _TAG_BYTES)
    words: Words = marks.view("<u4")
    return words


def _bytes_at(sightings: Sightings, rows: Rows, at: int, size: int) -> npt.NDArray[np.uint8]:
    """The same bytes of each row, which are well formed."""
    found: npt.NDArray[np.uint8] = sightings.data[(sightings.starts[rows] + at)[:, None] + np.arange(size)]
    return found
