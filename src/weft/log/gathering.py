"""Batches that are appended together: which of them become one entry of the log, and what is kept of each.

Many publishers with one event each would make as many entries of 600 bytes, and every reader would pay for each. So the
small batches of a stream in one write become one batch. A separate row of the same write keeps their producers and
sequences, so that each of them is recognised when it is sent again, also after a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import MIB, OFFSET_MAX
from weft.log import keys
from weft.log.producers import Producers, Sent, sent_as
from weft.log.records import StreamState
from weft.log.store import Row
from weft.model import Batch, Stream
from weft.model.batch_few import Headers
from weft.model.batch_header import NO_PRODUCER

GATHERED_BYTES_MAX: Final = 1 * MIB  # of one entry: as much as one frame to a peer holds
GATHERED_MAX: Final = 4096  # batches in one entry
PIECE: Final = struct.Struct(">I16sQI")  # events, producer, sequence, checksum
Run = list[tuple[int, Batch]]  # batches that become one entry, with their places among those handed in


class NewEntry(msgspec.Struct, frozen=True):
    """A batch about to be stored. It is made of the batches in ``run``, which callers handed in; ``pieces`` tells them
    apart later. ``data`` begins at offset ``first`` and ends before ``end``."""

    state: StreamState
    is_new: bool
    run: Run
    first: int
    end: int
    data: bytes
    latest_us: int
    pieces: bytes = b""


def rounds(wanted: Sequence[tuple[Stream, Batch]]) -> Iterable[list[tuple[Stream, Run]]]:
    """Yield what to store, in order, in rounds that have at most one entry per stream. Mostly one round is enough."""
    if len(wanted) == 1:
        ((stream, batch),) = wanted
        return ([(stream, [(0, batch)])],)
    by_stream: dict[Stream, Run] = {}
    for number, (stream, batch) in enumerate(wanted):
        by_stream.setdefault(stream, []).append((number, batch))
    if len(by_stream) == len(wanted):
        return (list(by_stream.items()),)
    return _rounds_of({stream: _runs(batches) for stream, batches in by_stream.items()})


def _rounds_of(runs: dict[Stream, list[Run]]) -> Iterator[list[tuple[Stream, Run]]]:
    while runs:
        yield [(stream, of_stream.pop(0)) for stream, of_stream in runs.items()]
        runs = {stream: of_stream for stream, of_stream in runs.items() if of_stream}


def _runs(batches: Run) -> list[Run]:
    if len(batches) == 1:
        return [batches]
    runs: list[Run] = []
    size = 0
    last: dict[bytes | None, int] = {}  # producer -> its sequence in the run
    for number, batch in batches:
        few, producer, sequence = batch.few is not None, batch.producer, batch.sequence
        if few and runs and size + batch.size <= GATHERED_BYTES_MAX and len(runs[-1]) < GATHERED_MAX:
            # A batch that may repeat another one of the same run has to wait until that one is in the books.
            joins = producer is None or sequence > last.get(producer, -1)
        else:
            joins = False
        if not joins:
            runs.append([])
            size, last = 0, {}
        runs[-1].append((number, batch))
        size += batch.size if few else GATHERED_BYTES_MAX
        last[producer] = sequence
    return runs


def entry_of_run(state: StreamState, is_new: bool, run: Run) -> NewEntry:
    """Make the entry that these batches become, at the end of their stream."""
    first = state.end
    if len(run) == 1:
        batch = run[0][1]
        end = first + len(batch)
        if end > OFFSET_MAX:
            raise UsageError("offset out of range", offset=first, events=len(batch), limit=OFFSET_MAX)
        return NewEntry(state, is_new, run, first, end, batch.data_at(first), batch.timestamp_us_max)
    batches = [batch for _, batch in run]
    return entry_of_batch(state, is_new, run, gathered(batches, first), pack_pieces(batches))


def entry_of_batch(state: StreamState, is_new: bool, run: Run, batch: Batch, pieces: bytes = b"") -> NewEntry:
    """Make the entry of a batch that already has its offsets."""
    place = (batch.base_offset, batch.end_offset)
    return NewEntry(state, is_new, run, *place, batch.data, batch.timestamp_us_max, pieces)


def gathered(batches: Sequence[Batch], base_offset: int) -> Batch:
    """Join the events of small batches into one batch without a producer, at its place in the stream."""
    payloads: list[bytes] = []
    timestamps_us: list[int] = []
    keys: list[bytes | None] | None = None
    headers: list[Headers | None] | None = None
    for batch in batches:
        few = batch.few
        assert few is not None, "only small ones are gathered"
        before = len(payloads)
        payloads += few.payloads
        timestamps_us += few.timestamps_us
        if few.keys is not None or keys is not None:
            keys = [None] * before if keys is None else keys
            keys += few.keys or [None] * len(few.payloads)
        if few.headers is not None or headers is not None:
            headers = [None] * before if headers is None else headers
            headers += few.headers or [None] * len(few.payloads)
    return Batch.from_columns(payloads, timestamps_us, keys, headers).with_base_offset(base_offset)


def pack_pieces(batches: Sequence[Batch]) -> bytes:
    """Encode which batches a gathered batch is made of."""
    pack = PIECE.pack
    return b"".join([pack(len(each), each.producer or NO_PRODUCER, each.sequence, each.body_crc) for each in batches])


def unpack_pieces(row: bytes, base_offset: int) -> Iterator[tuple[bytes, Sent]]:
    """Read which producers' batches a gathered batch is made of. It begins at ``base_offset``."""
    at = base_offset
    for count, producer, sequence, checksum in PIECE.iter_unpack(row):
        if producer != NO_PRODUCER:
            yield producer, Sent(sequence, at, checksum)
        at += count


def rows_of_pieces(rows: Iterable[Row]) -> dict[tuple[int, int], bytes]:
    """Return these rows by stream and offset."""
    return {keys.pieces_place(key): row for key, row in rows}


def remember(producers: Producers, stream_id: int, batch: Batch, pieces: Mapping[tuple[int, int], bytes]) -> None:
    """Remember who sent a batch that was found in the log, or the batches that it is made of."""
    at = batch.base_offset
    if batch.producer is not None:
        sent: Iterable[tuple[bytes, Sent]] = [(batch.producer, sent_as(batch, at))]
    else:
        sent = unpack_pieces(pieces.get((stream_id, at), b""), at)
    for producer, each in sent:
        last = producers.last_sequence((stream_id, producer))
        if last is None or each.sequence > last:
            producers.add((stream_id, producer), each)
