"""What the log remembers of producers, so that it does not store a batch twice when it is sent again.

It remembers the last batches of each producer and stream, and forgets producers that have been silent longest. The rows
on disk are as of the end of the last segment, so recovery looks only at batches since then.

A batch is recognised by its sequence. If the CRC-32C of its body differs, it is another batch. That finds accidents:
two clients with one producer id, or a client that uses a number twice. It proves nothing, because a checksum can be
forged. So before the log treats a batch as sent before, it compares its events with the stored ones (``same_events``).
A digest would cost every batch 110 µs and more, for 130 KB; the comparison costs only those that are sent again.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from weft.limits import PRODUCER_RECEIPTS_MAX
from weft.log import keys
from weft.log.errors import OutOfSequence, SequenceReused
from weft.log.reading import read_appended
from weft.log.records import StreamState
from weft.log.store import Delete, Put, Row, Space, Store, Write
from weft.model.batch import Batch
from weft.model.batch_header import HEADER_BYTES
from weft.model.stream import EventId

PRODUCERS_MAX: Final = 100_000  # per log; the producers that were silent longest are forgotten


# A row has the segment in which the producer was heard of last, then its batches. Memory keeps the same bytes: a
# hundred thousand producers take 160 MB; as objects they would take a gigabyte.
SEGMENT: Final = struct.Struct(">I")
# sequence:u64 first_offset:u64 checksum:u32, with the top bit of the offset set, which real offsets never use. Batches
# from logs of format 1 lack the bit, and have the number of their events instead of a checksum.
SENT: Final = struct.Struct(">QQI")
HAS_CHECKSUM: Final = 1 << 63
SENT_BYTES_MAX: Final = SENT.size * PRODUCER_RECEIPTS_MAX
Key = tuple[int, bytes]  # stream and producer


class Sent(NamedTuple):
    """A batch of a producer that is in the log. Either its checksum is known, or only its number of events."""

    sequence: int
    first_offset: int
    checksum: int | None
    events: int | None = None

    def difference(self, batch: Batch) -> str:
        """Say what differs between a batch and this one; empty if nothing does."""
        if self.checksum is None:
            return "number of events" if len(batch) != self.events else ""
        return "content" if batch.body_crc != self.checksum else ""


def sent_as(batch: Batch, first_offset: int) -> Sent:
    """Make what is remembered of a batch that was stored from this offset on."""
    return Sent(batch.sequence, first_offset, batch.body_crc)


def same_events(batch: Batch, first_offset: int, stored: Sequence[bytes]) -> bool:
    """Whether the log stores the events of this batch from this offset on. Events that retention or compaction has
    deleted cannot be compared, and count as the same."""
    if len(stored) == 1 and memoryview(stored[0])[HEADER_BYTES:] == memoryview(batch.data)[HEADER_BYTES:]:
        return True  # as nearly always
    import pyarrow as pa

    end = first_offset + len(batch)
    found = pa.Table.from_batches(
        [Batch.read_stored(data).rows(first_offset, end) for data in stored], batch.record_batch.schema
    )
    return len(found) != len(batch) or bool(found.equals(pa.Table.from_batches([batch.record_batch])))


def check_same(store: Store, state: StreamState, sent: Sent, batch: Batch) -> None:
    """Raise SequenceReused if a batch is not the one that its producer sent under this sequence before."""
    difference = sent.difference(batch)
    if not difference:
        first, end = sent.first_offset, sent.first_offset + len(batch)
        if not same_events(batch, first, read_appended(store, state, first, end)):
            difference = "content"
    if difference:
        raise SequenceReused(
            "a producer used one sequence for two batches",
            producer=(batch.producer or b"").hex(),
            sequence=batch.sequence,
            differs=difference,
            kept_at=EventId(state.stream, state.epoch, sent.first_offset),
        )


class Producers:
    def __init__(self, limit: int = PRODUCERS_MAX) -> None:
        self._limit = limit
        self._sent: OrderedDict[Key, bytes] = OrderedDict()  # the producers heard of last stand at the end
        self._touched: dict[Key, None] = {}  # heard of, or forgotten, since the last segment

    def __len__(self) -> int:
        return len(self._sent)

    def last_sequence(self, key: Key) -> int | None:
        sent = self._sent.get(key)
        return None if sent is None else int(SENT.unpack_from(sent, len(sent) - SENT.size)[0])

    def find(self, key: Key, sequence: int) -> Sent | None:
        """The batch that the producer sent under this sequence. Raise OutOfSequence if the log can no longer tell."""
        sent = self._sent.get(key)
        if sent is None:
            return None
        last = SENT.unpack_from(sent, len(sent) - SENT.size)[0]
        if sequence > last:
            return None
        for fields in SENT.iter_unpack(sent):
            if fields[0] == sequence:
                return _unpack(*fields)
        raise OutOfSequence("a producer's batch came out of sequence", sequence=sequence, last=last)

    def add(self, key: Key, sent: Sent) -> None:
        assert sent.checksum is not None, "only what was read from an old log has none"
        self.note(key, sent.sequence, sent.first_offset, sent.checksum)

    def note(self, key: Key, sequence: int, first_offset: int, checksum: int) -> None:
        """Do the same as ``add``, but from numbers, without an object: this is called for every batch."""
        sent = self._sent.pop(key, b"") + SENT.pack(sequence, first_offset | HAS_CHECKSUM, checksum)
        self._sent[key] = sent if len(sent) <= SENT_BYTES_MAX else sent[-SENT_BYTES_MAX:]
        self._touched[key] = None
        if len(self._sent) > self._limit:
            self._forget_surplus()

    def _forget_surplus(self) -> None:
        while len(self._sent) > self._limit:
            key, _ = self._sent.popitem(last=False)
            self._touched[key] = None

    # --- on disk -------------------------------------------------------------------------------------------------

    def take_touched(self) -> Iterable[Key]:
        """Return the producers whose rows on disk are out of date. The next call returns only later ones."""
        touched, self._touched = self._touched, {}
        return touched

    def writes(self, of: Iterable[Key], segment: int) -> list[Write]:
        """Return the writes that bring the rows of these producers up to date."""
        number, sent = SEGMENT.pack(segment), self._sent
        return [
            Put(Space.TABLES, row, number + sent[key]) if key in sent else Delete(Space.TABLES, row)
            for key, row in ((key, keys.producer_key(*key)) for key in of)
        ]

    def load(self, rows: Iterable[Row]) -> None:
        """Read the rows that ``writes`` made."""
        found: list[tuple[int, Key, bytes]] = []
        for row_key, value in rows:
            _, stream_id, producer = keys.PRODUCER_KEY.unpack(row_key)
            found.append((SEGMENT.unpack_from(value)[0], (stream_id, producer), value[SEGMENT.size :]))
        for _, key, sent in sorted(found):
            self._sent[key] = sent
        self._forget_surplus()


def _unpack(sequence: int, place: int, number: int) -> Sent:
    if place & HAS_CHECKSUM:
        return Sent(sequence, place & ~HAS_CHECKSUM, number)
    return Sent(sequence, place, None, number)
