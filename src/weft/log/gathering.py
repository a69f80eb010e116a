"""Batches that are appended together: which of them become one entry of the log, and what is kept of each.

Many publishers with an event each would make as many entries, of 600 bytes each, and every reader would pay for each.
So the small batches of a stream that one write takes become one batch. Whose they were, and under which sequence, is
kept in a row of its own, in the same write: each of them is recognised when it is sent again, also after a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from weft.limits import MIB
from weft.log.producers import Sent
from weft.model import Batch, Stream
from weft.model.batch_few import Headers
from weft.model.batch_header import NO_PRODUCER

GATHERED_BYTES_MAX: Final = 1 * MIB  # of one entry: what a frame to a peer takes
GATHERED_MAX: Final = 4096  # batches in one entry
PIECE: Final = struct.Struct(">I16sQI")  # events, producer, sequence, checksum
Run = list[tuple[int, Batch]]  # batches that become one entry, and which of those handed in they are


def rounds(wanted: Sequence[tuple[Stream, Batch]]) -> Iterator[list[tuple[Stream, Run]]]:
    """What to store, in this order: in each round at most one entry of a stream. Mostly there is one round."""
    if len(wanted) == 1:
        ((stream, batch),) = wanted
        yield [(stream, [(0, batch)])]
        return
    by_stream: dict[Stream, Run] = {}
    for number, (stream, batch) in enumerate(wanted):
        by_stream.setdefault(stream, []).append((number, batch))
    if len(by_stream) == len(wanted):
        yield list(by_stream.items())
        return
    runs = {stream: _runs(batches) for stream, batches in by_stream.items()}
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
            # One that may be a repetition of another in the same run has to wait until that is in the books.
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


def gathered(batches: Sequence[Batch], base_offset: int) -> Batch:
    """The events of small batches as one batch, placed there, without a producer."""
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
    """Of which batches a gathered one is made."""
    pack = PIECE.pack
    return b"".join([pack(len(each), each.producer or NO_PRODUCER, each.sequence, each.body_crc) for each in batches])


def unpack_pieces(row: bytes, base_offset: int) -> Iterator[tuple[bytes, Sent]]:
    """The producers of a gathered batch that begins there, and what each of them sent."""
    at = base_offset
    for count, producer, sequence, checksum in PIECE.iter_unpack(row):
        if producer != NO_PRODUCER:
            yield producer, Sent(sequence, at, checksum)
        at += count
