"""What a Fetch reads: ranges of streams, one after the other, as much at a time as makes one reply."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from weft.errors import UsageError, WeftError
from weft.limits import FETCH_RANGES_MAX, LOOK_STREAMS_AT_ONCE, MIB, OFFSET_MAX
from weft.log import Log
from weft.model import Batch, Epoch, Stream
from weft.port.errors import TooLarge
from weft.transport.clients.values import fetched_parts
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import read_stream_untrusted

READ_AT_ONCE_BYTES: Final = 1 * MIB  # in one turn of the loop: a millisecond if it has to come from the disk (ADR 47)


class WantedRange(NamedTuple):
    """Offsets of one stream; ``end`` is not among them."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int


class Piece(NamedTuple):
    """Stored batches of one range, by its number. The first may begin before ``first``, the last end behind ``end``."""

    number: int
    first: int
    end: int
    stored: list[bytes]


def read_ranges_untrusted(request: pb.FetchRequest) -> list[WantedRange]:
    """What is asked for, in its order."""
    if len(request.more) >= FETCH_RANGES_MAX:
        raise TooLarge("too many ranges in one fetch", have=len(request.more) + 1, limit=FETCH_RANGES_MAX)
    return [_read_range_untrusted(each) for each in (request, *request.more)]


def _read_range_untrusted(asked: pb.FetchRequest | pb.FetchRange) -> WantedRange:
    stream, epoch = read_stream_untrusted(asked.stream)
    first, end = asked.first_offset, asked.end_offset or OFFSET_MAX
    if not first <= end <= OFFSET_MAX:
        raise UsageError("not a range of offsets", first=first, end=end, limit=OFFSET_MAX)
    return WantedRange(stream, epoch, first, end)


class RangesReading:
    """Where a Fetch is. ``number`` is the range that is read next: all before it have come to their end."""

    def __init__(self, ranges: Sequence[WantedRange], bytes_max: int) -> None:
        self._ranges = ranges
        self._bytes_max = bytes_max
        self._next = ranges[0].first
        self._ahead: list[bytes] = []  # read, and too much for the reply before
        self.number = 0

    @property
    def is_over(self) -> bool:
        return self.number >= len(self._ranges)

    async def read(self, log: Log) -> list[Piece]:
        """As much as makes one reply, of so many ranges that others are not kept waiting; they have their turn in
        between. What is wrong with a range is raised when nothing comes before it."""
        pieces: list[Piece] = []
        room, read_bytes = self._bytes_max, 0
        for _ in range(LOOK_STREAMS_AT_ONCE):
            if self.is_over or room <= 0:
                break
            if read_bytes >= READ_AT_ONCE_BYTES:
                read_bytes = 0
                await asyncio.sleep(0)
            try:
                stored = self._ahead or self._read_some(log, min(room, READ_AT_ONCE_BYTES))
            except WeftError:
                if pieces:
                    break  # the next reply tells it
                raise
            size = sum(map(len, stored))
            goes_on = bool(pieces) and pieces[-1].number == self.number
            self._ahead = stored if goes_on and size > room else []
            if self._ahead:
                break
            if goes_on:
                pieces[-1].stored.extend(stored)
            elif stored:
                pieces.append(Piece(self.number, self._next, self._ranges[self.number].end, stored))
            self._go_on(stored)
            room -= size
            read_bytes += size
        return pieces

    def _read_some(self, log: Log, bytes_max: int) -> list[bytes]:
        stream, epoch, _, end = self._ranges[self.number]
        return log.read(stream, epoch, self._next, end, bytes_max) if self._next < end else []

    def _go_on(self, stored: list[bytes]) -> None:
        if stored:
            self._next = Batch.read_stored(stored[-1]).end_offset
        if not stored or self._next >= self._ranges[self.number].end:
            self.number += 1
            if not self.is_over:
                self._next = self._ranges[self.number].first


def reply_parts(pieces: Sequence[Piece], columns: list[str], done: int | None) -> tuple[bytes, bytes | memoryview]:
    """FetchReply, to be sent one part after the other. ``done``: of several ranges, so many are read to their end."""
    if columns:
        from weft.transport.clients.projection import projected  # with Arrow

        return b"", projected(pieces, columns, done)
    numbers = [] if done is None else [piece.number for piece in pieces for _ in piece.stored]
    return fetched_parts([data for piece in pieces for data in piece.stored], numbers, done or 0)
