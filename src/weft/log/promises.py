"""What the log has promised, written down apart from it.

RocksDB recovers what it can and does not say what it could not recover: a flipped bit in the write-ahead log silently
ends recovery there, a deleted file opens as an empty database. So after every sync, before any receipt goes out, the
log notes in a file of its own how far each stream is durable. When it opens, it compares (``recovery``).

The file is a list of records, ``length:u32 crc32c:u32 kind:u8 body``:

=======  ============================================================  ============================================
kind     body                                                          meaning
=======  ============================================================  ============================================
STREAM   msgpack: number, topic, origin, partition, epoch, start       which stream a number means
SYNCED   sequence:u64 tallies:u16, each segment:u32 batches:u64         what one sync made durable: how many writes
         sum:u64, then pairs number:u64 end:u64                        the store had, and how far each stream goes
STARTS   pairs number:u64 start:u64                                    what retention has taken
SETTLED  segment:u32 epoch:u64, then a fingerprint                     up to there all is in table files; the log's
                                                                       own epoch; the books of the storage engine
=======  ============================================================  ============================================
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import google_crc32c
import msgspec

from weft.errors import UsageError
from weft.model.stream import Epoch, NodeId, Stream
from weft.model.topic import Topic

HEAD: Final = struct.Struct(">II")
SYNCED: Final = struct.Struct(">QH")
TALLY: Final = struct.Struct(">IQQ")
PAIR: Final = struct.Struct(">QQ")
SETTLED: Final = struct.Struct(">IQ")
_MASK: Final = (1 << 64) - 1


class Kind(IntEnum):
    STREAM = 1
    SYNCED = 2
    STARTS = 3
    SETTLED = 4


@dataclass(slots=True)
class Tally:
    """The number of batches in a segment and the sum of their checksums. It reveals batches that are missing in the
    middle."""

    segment: int
    batches: int = 0
    sum: int = 0

    def add(self, batch: bytes) -> None:
        self.batches += 1
        self.sum = (self.sum + int.from_bytes(batch[4:8], "little")) & _MASK

    def copy(self) -> Tally:
        return Tally(self.segment, self.batches, self.sum)


@dataclass(slots=True)
class Promised:
    """A stream: all offsets from ``start`` up to but not including ``end`` were synced."""

    stream: Stream
    epoch: Epoch
    start: int
    end: int


@dataclass(slots=True)
class Promises:
    """Everything that was promised.

    ``damaged_at``: where the file differs from what was written. Records behind that place are read all the same.
    ``torn_at``: where the file ends in the middle of a record, as a power cut leaves it.
    """

    streams: dict[int, Promised] = field(default_factory=dict)
    tallies: dict[int, Tally] = field(default_factory=dict)  # of the segments that are not settled yet
    sequence: int = 0
    settled: int = 0
    epoch: int = 0  # of this log; 0 if it is not known
    fingerprint: bytes = b""
    damaged_at: int | None = None
    torn_at: int | None = None

    def encode(self) -> bytes:
        """Encode the promises as a complete file."""
        names = [encode_stream(number, each) for number, each in self.streams.items()]
        ends = [(number, each.end) for number, each in self.streams.items()]
        synced = encode_synced(self.sequence, list(self.tallies.values()), ends)
        return b"".join((*names, encode_settled(self.settled, self.epoch, self.fingerprint), synced))


def encode_stream(number: int, promised: Promised) -> bytes:
    stream = promised.stream
    body = msgspec.msgpack.encode(
        (number, stream.topic, stream.origin, stream.partition, promised.epoch, promised.start)
    )
    return _record(Kind.STREAM, body)


def encode_synced(sequence: int, tallies: Sequence[Tally], ends: Iterable[tuple[int, int]]) -> bytes:
    parts = [SYNCED.pack(sequence, len(tallies))]
    parts += [TALLY.pack(tally.segment, tally.batches, tally.sum) for tally in tallies]
    parts += [PAIR.pack(*pair) for pair in ends]
    return _record(Kind.SYNCED, b"".join(parts))


def encode_starts(starts: Iterable[tuple[int, int]]) -> bytes:
    return _record(Kind.STARTS, _pairs(starts))


def encode_settled(segment: int, epoch: int, fingerprint: bytes) -> bytes:
    return _record(Kind.SETTLED, SETTLED.pack(segment, epoch) + fingerprint)


def decode(data: bytes) -> Promises:
    """Read the file. A cut-off last record was never finished; anything else that does not fit is damage."""
    promises = Promises()
    at = 0
    while at < len(data):
        whole = _record_at(data, at)
        following: int | None
        if whole is not None:
            following = at + HEAD.size + len(whole)
            sensible = _apply(promises, whole)
        else:
            following = _next_record(data, at + 1)
            sensible = False
            if following is None and _is_torn(data, at):
                promises.torn_at = at
                break
        if not sensible and promises.damaged_at is None:
            promises.damaged_at = at
        at = len(data) if following is None else following
    return promises


def _record(kind: Kind, body: bytes) -> bytes:
    whole = bytes((kind,)) + body
    return HEAD.pack(len(whole), google_crc32c.value(whole)) + whole


def _record_at(data: bytes, at: int) -> bytes | None:
    """The kind and body of the record at ``at``, if a whole one is there."""
    if at + HEAD.size >= len(data):
        return None
    length, crc = HEAD.unpack_from(data, at)
    if not 0 < length <= len(data) - at - HEAD.size:
        return None
    whole = data[at + HEAD.size : at + HEAD.size + length]
    return whole if whole[0] in _KINDS and google_crc32c.value(whole) == crc else None


def _next_record(data: bytes, at: int) -> int | None:
    """Find the next whole record behind damage."""
    return next((place for place in range(at, len(data)) if _record_at(data, place) is not None), None)


def _is_torn(data: bytes, at: int) -> bool:
    """Whether the rest is a record whose end is missing, or of which only the file's new length reached the disk.

    A first record is always there, because the file is put in its place as a whole.
    """
    rest = data[at:]
    if not at:
        return False
    if len(rest) <= HEAD.size or not any(rest):
        return True
    return bool(HEAD.unpack_from(rest)[0] > len(rest) - HEAD.size)


def _pairs(pairs: Iterable[tuple[int, int]]) -> bytes:
    return b"".join([PAIR.pack(*pair) for pair in pairs])


def _apply(promises: Promises, whole: bytes) -> bool:
    """Take in one record; return whether all of it made sense."""
    body = whole[1:]
    try:
        match Kind(whole[0]):
            case Kind.STREAM:
                number, topic, origin, partition, epoch, start = _STREAM.decode(body)
                stream = Stream(Topic(topic), NodeId(origin), partition)
                promises.streams[number] = Promised(stream, Epoch(epoch), start, start)
            case Kind.SYNCED:
                return _apply_synced(promises, body)
            case Kind.STARTS:
                return _apply_starts(promises, body)
            case Kind.SETTLED:
                segment, promises.epoch = SETTLED.unpack_from(body)
                settle(promises, segment, body[SETTLED.size :])
    except (struct.error, UsageError, msgspec.MsgspecError):
        return False
    return True


def _apply_synced(promises: Promises, body: bytes) -> bool:
    promises.sequence, count = SYNCED.unpack_from(body)
    pairs_at = SYNCED.size + count * TALLY.size
    for fields in TALLY.iter_unpack(body[SYNCED.size : pairs_at]):
        promises.tallies[fields[0]] = Tally(*fields)
    known = promises.streams
    pairs = list(PAIR.iter_unpack(body[pairs_at:]))
    for number, end in pairs:
        if number in known:
            known[number].end = end
    return all(number in known for number, _ in pairs)


def _apply_starts(promises: Promises, body: bytes) -> bool:
    known = promises.streams
    pairs = list(PAIR.iter_unpack(body))
    for number, start in pairs:
        if number in known:
            known[number].start = start
    return all(number in known for number, _ in pairs)


def settle(promises: Promises, segment: int, fingerprint: bytes) -> None:
    """Note that the segments up to this one are in table files: their tallies are not needed any longer."""
    promises.settled, promises.fingerprint = segment, fingerprint
    for old in [each for each in promises.tallies if each <= segment]:
        del promises.tallies[old]


_KINDS: Final = frozenset(Kind)
_STREAM: Final = msgspec.msgpack.Decoder(tuple[int, str, str, int, int, int])
