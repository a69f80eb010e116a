"""What the log remembers of producers, so that a batch that is sent again is not kept twice.

Of each producer and stream, the last batches; of all of them, those that were heard of last. On disk as of the end of
the last segment, so that recovery has to look only at the batches since.

A batch is recognised by its sequence, and is another one if the CRC-32C of its body is another. That finds accidents:
two clients with one producer id, or one that uses a number twice. It is no proof, because a checksum can be made to
fit: before a batch counts as sent before, the log holds its events against those that are stored (``same_events``).
A digest would cost every batch 110 µs and more, for 130 KB; this costs only those that are sent again.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from weft.limits import PRODUCER_RECEIPTS_MAX
from weft.log import keys
from weft.log.errors import OutOfSequence
from weft.log.store import Delete, Put, Space, Store, Write
from weft.model.batch import Batch
from weft.model.batch_header import HEADER_BYTES

PRODUCERS_MAX: Final = 100_000  # per log; those that were silent longest are forgotten


# In a row: the segment in which the producer was heard of last, then its batches. In memory it is the same bytes: a
# hundred thousand producers take 160 MB, as objects they would take a gigabyte.
SEGMENT: Final = struct.Struct(">I")
# sequence:u64 first_offset:u64 checksum:u32, with the top bit of the offset set, which no offset has. Batches from logs
# of format 1 do not have the bit, and the number of their events instead of a checksum.
SENT: Final = struct.Struct(">QQI")
HAS_CHECKSUM: Final = 1 << 63
SENT_BYTES_MAX: Final = SENT.size * PRODUCER_RECEIPTS_MAX
Key = tuple[int, bytes]  # stream and producer


class Sent(NamedTuple):
    """A batch of a producer that is in the log. Its checksum is known, or only how many events it has."""

    sequence: int
    first_offset: int
    checksum: int | None
    events: int | None = None

    def difference(self, batch: Batch) -> str:
        """What of a batch is not as it is in this one; empty if nothing is."""
        if self.checksum is None:
            return "number of events" if len(batch) != self.events else ""
        return "content" if batch.body_crc != self.checksum else ""


def sent_as(batch: Batch, first_offset: int) -> Sent:
    """What is remembered of a batch that was stored from this offset on."""
    return Sent(batch.sequence, first_offset, batch.body_crc)


def same_events(batch: Batch, first_offset: int, stored: Sequence[bytes]) -> bool:
    """Whether a batch is what is stored from this offset on. True also where some of it is no longer there, which
    nobody can compare: retention or compaction took it."""
    if len(stored) == 1 and memoryview(stored[0])[HEADER_BYTES:] == memoryview(batch.data)[HEADER_BYTES:]:
        return True  # as nearly always
    import pyarrow as pa

    end = first_offset + len(batch)
    found = pa.Table.from_batches(
        [Batch.read_stored(data).rows(first_offset, end) for data in stored], batch.record_batch.schema
    )
    return len(found) != len(batch) or bool(found.equals(pa.Table.from_batches([batch.record_batch])))


class Producers:
    def __init__(self, limit: int = PRODUCERS_MAX) -> None:
        self._limit = limit
        self._sent: OrderedDict[Key, bytes] = OrderedDict()  # who was heard of last is at the end
        self._touched: dict[Key, None] = {}  # heard of, or forgotten, since the last segment

    def __len__(self) -> int:
        return len(self._sent)

    def last_sequence(self, key: Key) -> int | None:
        sent = self._sent.get(key)
        return None if sent is None else int(SENT.unpack_from(sent, len(sent) - SENT.size)[0])

    def find(self, key: Key, sequence: int) -> Sent | None:
        """The batch that the producer sent under this sequence; raise OutOfSequence if that cannot be told."""
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
        """The same: once for every batch, so without an object for it."""
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
        """Those whose rows are no longer right."""
        touched, self._touched = self._touched, {}
        return touched

    def writes(self, of: Iterable[Key], segment: int) -> list[Write]:
        """Their rows as they are now."""
        number, sent = SEGMENT.pack(segment), self._sent
        return [
            Put(Space.TABLES, row, number + sent[key]) if key in sent else Delete(Space.TABLES, row)
            for key, row in ((key, keys.producer_key(*key)) for key in of)
        ]

    def load(self, store: Store) -> None:
        rows: list[tuple[int, Key, bytes]] = []
        for row_key, value in store.scan(Space.TABLES, *keys.table_range(keys.PRODUCERS)):
            _, stream_id, producer = keys.PRODUCER_KEY.unpack(row_key)
            rows.append((SEGMENT.unpack_from(value)[0], (stream_id, producer), value[SEGMENT.size :]))
        for _, key, sent in sorted(rows):
            self._sent[key] = sent
        self._forget_surplus()


def _unpack(sequence: int, place: int, number: int) -> Sent:
    if place & HAS_CHECKSUM:
        return Sent(sequence, place & ~HAS_CHECKSUM, number)
    return Sent(sequence, place, None, number)
