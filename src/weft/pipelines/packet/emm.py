"""EMM packets of a block that are good for certain, by arrays. See ``packet.decoding`` for the others."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.pipelines.packet.columns import (
    Rows,
    Sightings,
    hex_column,
    named,
    numbers,
    raw_bytes,
    same,
    time_column,
    uuid_column,
    valid,
    verdict_batch,
)
from weft.pipelines.packet.judging import SEEN_S_MAX, US_PER_S, Means, fields_json
from weft.pipelines.packet.keys import HmacStart
from weft.pipelines.packet.marks import TAG_EMM, Words
from weft.pipelines.packet.schema import Verdict
from weft.wire import emm
from weft.wire.columns import Mask
from weft.wire.datagram import DatagramProtocol
from weft.wire.emm.columnar import decode_column
from weft.wire.emm.fields import FLAGS_SEALED, SIZES, Field, Flags
from weft.wire.emm.replay import SENDER_BYTES, stand_in
from weft.wire.reject import BadPacket

_KINDS: Final = pa.array([None, *(kind.name.lower() for kind in sorted(emm.EventType))])
_VALUES: Final = ("event_name", "int_value", "float_value", "binary_value", "json_value")
_NODE_ID_BYTES: Final = SIZES[Field.NODE_ID]
_NOBODY: Final = (hashlib.sha256(), hashlib.sha256())  # stands in for a key that is not known, whose rows do not count


def accept(sightings: Sightings, means: Means) -> tuple[Rows, pa.RecordBatch]:
    """Which rows are good for certain, and what they say."""
    table = decode_column(sightings.datagrams, means.terms.rules).combine_chunks().to_batches()[0]
    signed = valid(table.column("hmac"))
    fresh_s = np.where(
        valid(table.column("signed_at_s")), numbers(table.column("signed_at_s")), numbers(table.column("timestamp_s"))
    )
    fresh_us = np.minimum(fresh_s, SEEN_S_MAX).astype(np.int64) * US_PER_S
    arrived_us = np.where(sightings.has_arrived, sightings.arrived_us, fresh_us)
    age_us = arrived_us - fresh_us
    accepted = valid(table.column("message_id")) & ((numbers(table.column("flags")) & FLAGS_SEALED) == 0)
    accepted &= ~valid(table.column("signature"))
    accepted &= np.where(signed, valid(table.column("signed_bytes")), means.terms.unsigned_allowed)
    accepted &= (age_us <= means.terms.window_s * US_PER_S) & (-age_us <= means.terms.skew_s_max * US_PER_S)
    coded = np.flatnonzero(accepted & signed)
    accepted[coded] = _hmacs_fit(sightings, table, coded, means)
    rows = np.flatnonzero(accepted)
    kept = table if len(rows) == len(sightings) else table.take(pa.array(rows))
    columns = _columns(kept) | {"fields": _fields(kept, sightings, rows, means)}
    columns |= means.marks(_words(kept, sightings, rows), TAG_EMM, np.maximum(arrived_us, fresh_us)[rows])
    return rows, verdict_batch(columns, len(rows))


def _hmacs_fit(sightings: Sightings, table: pa.RecordBatch, rows: Rows, means: Means) -> Mask:
    """EMM-14 for many: digests one by one, compared all at once."""
    chosen = table.select(["node_id", "auth_key_id", "hmac", "signed_bytes"])
    if len(rows) < len(sightings):
        chosen = chosen.take(pa.array(rows))
    names = _key_names(chosen)
    begun = {name: _hmac_start(name, means) for name in set(names)}
    starts = sightings.starts[rows]
    ends = starts + numbers(chosen.column("signed_bytes"))
    data = sightings.data.data
    digests: list[bytes] = []
    for name, start, end in zip(names, starts.tolist(), ends.tolist(), strict=True):
        pair = begun[name] or _NOBODY
        inner, outer = pair[0].copy(), pair[1].copy()
        inner.update(data[start:end])
        outer.update(inner.digest())
        digests.append(outer.digest())
    fits = same(digests, raw_bytes(chosen.column("hmac")))
    if None in begun.values():
        fits &= np.fromiter((begun[name] is not None for name in names), np.bool_, len(names))
    return fits


def _key_names(table: pa.RecordBatch) -> list[bytes]:
    """Node id, whether there is a key id, and the key id, as one name each: a column of them becomes a list fast."""
    nodes, key_ids = table.column("node_id"), table.column("auth_key_id")
    there = valid(key_ids)[:, None]
    names = np.hstack([raw_bytes(nodes), there.view(np.uint8), np.where(there, raw_bytes(key_ids), 0)])
    found: list[bytes] = names.astype(np.uint8).view(f"V{names.shape[1]}").ravel().tolist()
    return found


def _hmac_start(name: bytes, means: Means) -> HmacStart | None:
    """Where the HMACs of that key begin; None if it is not known."""
    node_id, key_id = name[:_NODE_ID_BYTES], name[_NODE_ID_BYTES + 1 :] if name[_NODE_ID_BYTES] else None
    try:
        return means.keys.hmac_start(means.keys.trust.hmac_key(node_id, key_id))
    except BadPacket:
        return None


def _columns(table: pa.RecordBatch) -> dict[str, pa.Array]:
    count, signed = table.num_rows, valid(table.column("hmac"))
    verdicts = pa.repeat(str(Verdict.VERIFIED), count)
    if not signed.all():
        verdicts = pc.if_else(pa.array(signed), str(Verdict.VERIFIED), str(Verdict.UNSIGNED))
    return {
        "protocol": pa.repeat(str(DatagramProtocol.EMM), count),
        "kind": named(_KINDS, numbers(table.column("event_type"))),
        "urgent": pa.array((numbers(table.column("flags")) & Flags.URGENT) != 0),
        "node_id": uuid_column(table.column("node_id")),
        "key_id": hex_column(table.column("auth_key_id")),
        "message_id": table.column("message_id").cast(pa.int64()),
        "created_at": time_column(table.column("timestamp_s")),
        "signed_at": time_column(table.column("signed_at_s")),
        "verdict": verdicts,
        **{name: table.column(name) for name in _VALUES},
    }


def _fields(table: pa.RecordBatch, sightings: Sightings, rows: Rows, means: Means) -> pa.Array:
    """All values of the packets that have more of them than columns hold."""
    shown = np.sum([valid(table.column(name)) for name in _VALUES], axis=0)
    more = np.flatnonzero(numbers(table.column("value_count")) > shown)
    if not len(more):
        return pa.nulls(len(rows), pa.string())
    texts: list[str | None] = [None] * len(rows)
    for place in more:
        texts[place] = fields_json(emm.parse_untrusted(sightings.datagram(rows[place]), means.terms.rules))
    return pa.array(texts, pa.string())


def _words(table: pa.RecordBatch, sightings: Sightings, rows: Rows) -> Words:
    """The marks of ``packet.marks.emm_mark``, as far as they are not zeros. Their senders are those of
    ``wire.emm.replay_sender``: what has an HMAC is verified here, and the rest is unsigned."""
    senders: Any = raw_bytes(table.column("node_id"))
    signed = valid(table.column("hmac"))
    if not signed.all():
        senders = np.where(
            signed[:, None], senders, _source_senders(sightings.packets.column("source").take(pa.array(rows)))
        )
    words: Words = np.column_stack([senders.view("<u4"), numbers(table.column("message_id"))])
    return words


def _source_senders(sources: pa.Array) -> npt.NDArray[np.uint8]:
    """What stands for the source of each row: there are many more packets than sources."""
    coded = sources.fill_null("").dictionary_encode()
    known = b"".join(stand_in(source.encode()) for source in coded.dictionary.to_pylist())
    found: npt.NDArray[np.uint8] = np.frombuffer(known, np.uint8).reshape(-1, SENDER_BYTES)[numbers(coded.indices)]
    return found
