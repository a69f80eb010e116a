"""What a Fetch reads: ranges of streams, one after the other, in pieces that fill one reply each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from weft.errors import UsageError, WeftError
from weft.limits import FETCH_RANGES_MAX, LOOK_STREAMS_AT_ONCE, MIB, OFFSET_MAX
from weft.log import Log
from weft.model import Epoch, Stream
from weft.model.batch_header import end_offset
from weft.port.errors import TooLarge
from weft.port.history import History, is_archived
from weft.transport.clients.values import fetched_parts
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import read_stream_untrusted

READ_AT_ONCE_BYTES: Final = 1 * MIB  # in one turn of the loop: a millisecond if it has to come from the disk (ADR 47)


class WantedRange(NamedTuple):
    """Offsets of one stream, up to but not including ``end``."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int


class Piece(NamedTuple):
    """Stored batches of one range, with its number. The first batch may begin before ``first``, and the last one may
    end behind ``end``."""

    number: int
    first: int
    end: int
    stored: list[bytes]


def read_ranges_untrusted(request: pb.FetchRequest) -> list[WantedRange]:
    """Read which ranges are asked for, in their order."""
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
    """How far a Fetch has come. ``number`` is the range that is read next: all ranges before it are finished."""

    def __init__(self, ranges: Sequence[WantedRange], bytes_max: int) -> None:
        self._ranges = ranges
        self._bytes_max = bytes_max
        self._next = ranges[0].first
        self._ahead: list[bytes] = []  # read already, but too much for the last reply
        self.number = 0

    @property
    def is_over(self) -> bool:
        return self.number >= len(self._ranges)

    async def next(self, log: Log, history: History | None) -> list[Piece]:
        """Read enough for one reply; return nothing at the end. Events that the log no longer has come from archive
        tables."""
        while not self.is_over:
            pieces = await self.read(log, history)
            if pieces or self.is_over:
                return pieces
            stream, epoch, first, end = self._ranges[self.number]
            until = is_archived(log, history, (stream, epoch), self._next)
            if until is None:
                continue  # this many ranges had nothing in them
            assert history is not None, "there is a table"
            found = await history.read((stream, epoch), self._next, min(until, end), self._bytes_max)
            if found.batches:
                piece = Piece(self.number, self._next, end, list(found.batches))
                self._read_up_to(end_offset(found.batches[-1]))
                return [piece]
            if found.goes_on is None and self._next == first:
                log.info(stream, epoch)  # raises an error if there is no such stream, unless it has come meanwhile
            self._read_up_to(end if found.goes_on is None else found.goes_on)
        return []

    async def read(self, log: Log, history: History | None) -> list[Piece]:
        """Do the same from the log only, with a bounded number of reads; other tasks have their turn in between. Return
        nothing, too, if the next events have to be read in an archive table. An error in a range is raised only when
        everything before it was returned."""
        pieces: list[Piece] = []
        room, read_bytes = self._bytes_max, 0
        for _ in range(LOOK_STREAMS_AT_ONCE):
            if self.is_over or room <= 0:
                break
            if read_bytes >= READ_AT_ONCE_BYTES:
                read_bytes = 0
                await asyncio.sleep(0)
            if not self._ahead and self._is_archived(log, history):
                break
            try:
                stored = self._ahead or self._read_some(log, min(room, READ_AT_ONCE_BYTES))
            except WeftError:
                if pieces or self._is_archived(log, history):  # retention may just have deleted it, in its own thread
                    break  # the next call raises the error, or reads the archive table
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
            self._read_up_to(end_offset(stored[-1]) if stored else self._ranges[self.number].end)
            room -= size
            read_bytes += size
        return pieces

    def _is_archived(self, log: Log, history: History | None) -> bool:
        stream, epoch, _, end = self._ranges[self.number]
        return self._next < end and is_archived(log, history, (stream, epoch), self._next) is not None

    def _read_some(self, log: Log, bytes_max: int) -> list[bytes]:
        stream, epoch, _, end = self._ranges[self.number]
        return log.read(stream, epoch, self._next, end, bytes_max) if self._next < end else []

    def _read_up_to(self, offset: int) -> None:
        """Note that this range is read up to here, and go on to the next range at its end."""
        self._next = offset
        if offset >= self._ranges[self.number].end:
            self.number += 1
            if not self.is_over:
                self._next = self._ranges[self.number].first


def reply_parts(pieces: Sequence[Piece], columns: list[str], done: int | None) -> tuple[bytes, bytes | memoryview]:
    """Encode a FetchReply as two parts to be sent one after the other. ``done``: how many of several ranges are
    finished."""
    if columns:
        from weft.transport.clients.projection import projected  # imports Arrow

        return b"", projected(pieces, columns, done)
    numbers = [] if done is None else [piece.number for piece in pieces for _ in piece.stored]
    return fetched_parts([data for piece in pieces for data in piece.stored], numbers, done or 0)
