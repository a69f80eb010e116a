"""All buckets of a node. They take batches of the log and say which keys changed. The time is passed as an argument.

A write too far ahead of this node's clock waits until its time has nearly come. So the writes of a node with a wrong
clock do not win for days. Every node does the same, so they all still agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from weft.core.kv.bucket import Bucket, Entry, Place
from weft.errors import WeftError
from weft.limits import MIB
from weft.model import Batch, Epoch, NodeId, Stream
from weft.model.key_value import COUNTER_BITS, SETTINGS_KEY, Record, Revision, bucket_of, read_record_untrusted

EXPIRIES_SPARE: Final = 1024  # outdated expiry times that may pile up before they are removed


class ClockBehind(WeftError):
    """The wall clock of this node is far behind the time of what it has written or seen."""


class HybridClock:
    """A hybrid logical clock: as close to the wall clock as it can be, and never behind what this node has seen.

    A time is a number with the milliseconds since 1970 in its upper bits and a counter in the lower sixteen, so times
    are compared as numbers. A write that follows a read has a later time than what was read, as long as clocks differ
    by at most ``skew_ms_max``. A clock that is farther ahead does not pull others along.
    """

    def __init__(self, skew_ms_max: int) -> None:
        self._skew_ms_max = skew_ms_max
        self.last = 0  # the latest time that was given or seen

    def is_ahead(self, time: int, now_ms: int) -> bool:
        """Whether a time is so far ahead that its clock must be wrong."""
        return time >> COUNTER_BITS > now_ms + self._skew_ms_max

    def observe(self, time: int) -> None:
        """Note a time that was seen and is not too far ahead, or any time of our own."""
        self.last = max(self.last, time)

    def tick(self, now_ms: int) -> int:
        """The time for a write that happens now. Raise ClockBehind if that time is so far ahead of the clock that nodes
        would hold the write back."""
        time = max(self.last + 1, now_ms << COUNTER_BITS)
        if self.is_ahead(time, now_ms):
            behind_s = round((time >> COUNTER_BITS) / 1000 - now_ms / 1000, 3)
            raise ClockBehind(
                "the clock of this node is behind its last write: set it right, or wait",
                behind_s=behind_s,
                limit_s=self._skew_ms_max / 1000,
            )
        self.last = time
        return time


class Overfull(WeftError):
    """This node already holds as many keys or buckets as it may."""


@dataclass(frozen=True, slots=True)
class KvSettings:
    """``weft.node.config`` documents each of these."""

    keys_max: int = 1_000_000
    buckets_max: int = 1024
    cache_bytes_max: int = 64 * MIB
    skew_ms_max: int = 60_000
    grace_s: float = 86_400.0


class Change(NamedTuple):
    """A key has a new latest write, or its latest write has expired."""

    bucket: str
    key: str


class Buckets:
    """``me``: this node."""

    def __init__(self, me: NodeId, settings: KvSettings) -> None:
        self.clock = HybridClock(settings.skew_ms_max)
        self.keys = 0  # in all buckets
        self.cached_bytes = 0  # the size of the values in memory
        self.unreadable = 0  # events of buckets that no node of ours wrote
        self._me = me
        self._settings = settings
        self._buckets: dict[str, Bucket] = {}
        self._ahead: list[tuple[int, int, str, Entry]] = []  # writes that wait, by the time from which they count
        self._expiries: list[tuple[int, int, str, str, Revision]] = []  # values, by the time at which they expire
        self._order = count()

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self._buckets.values())

    def __len__(self) -> int:
        return len(self._buckets)

    def get(self, name: str) -> Bucket | None:
        return self._buckets.get(name)

    @property
    def ahead(self) -> int:
        """How many writes wait because their clock is ahead."""
        return len(self._ahead)

    # --- taking in -----------------------------------------------------------------------------------------------

    def check_room(self, name: str, key: str) -> None:
        """Raise Overfull if there is no room for a write. Call this before a write of this node."""
        bucket = self._buckets.get(name)
        if bucket is None and len(self._buckets) >= self._settings.buckets_max:
            raise Overfull("this node has as many buckets as it may", limit=self._settings.buckets_max)
        if (bucket is None or key not in bucket) and self.keys >= self._settings.keys_max:
            raise Overfull("this node holds as many keys as it may", bucket=name, limit=self._settings.keys_max)

    def fold(self, stream: Stream, epoch: Epoch, batch: Batch, first_offset: int, now_ms: int) -> list[Change]:
        """Take in the events of a stored batch from an offset on."""
        name = bucket_of(stream.topic)
        assert name is not None, "subscribed to buckets only"
        changes: list[Change] = []
        first = max(first_offset, batch.base_offset)
        for offset, event in enumerate(batch.events_from(first), first):
            record = read_record_untrusted(event)
            if record is None:
                self.unreadable += 1
            else:
                changes += self.take(name, record, Place(stream, epoch, offset), now_ms)
        return changes

    def take(self, name: str, record: Record, place: Place, now_ms: int) -> list[Change]:
        """Take in one write."""
        revision = record.revision(place.stream.origin)
        value = record.value
        entry = Entry(
            record.op, record.key, revision, record.expires_ms, record.author, place, value, len(record.value)
        )
        if place.stream.origin == self._me:
            self.clock.observe(record.time)
        elif self.clock.is_ahead(record.time, now_ms):
            if len(self._ahead) >= self._settings.keys_max:
                self._bucket(name).is_overfull = True
            else:
                due_ms = revision.time_ms - self._settings.skew_ms_max
                heappush(self._ahead, (due_ms, next(self._order), name, entry))
            return []
        else:
            self.clock.observe(record.time)
        return self._merge(name, entry)

    def _bucket(self, name: str) -> Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(name)
        return bucket

    def _merge(self, name: str, entry: Entry) -> list[Change]:
        bucket = self._bucket(name)
        is_new = entry.key not in bucket
        if is_new and self.keys >= 2 * self._settings.keys_max:  # other nodes' writes cannot be refused, only left out
            bucket.is_overfull = True
            return []
        size = entry.size
        if entry.key != SETTINGS_KEY and self.cached_bytes + size > self._settings.cache_bytes_max:
            entry.value = None
        else:
            self.cached_bytes += size
        before = bucket.latest(entry.key)
        dropped = bucket.merge(entry)
        if dropped is None:
            self._uncache([entry])
            return []
        self.keys += is_new
        self._uncache(dropped)
        if bucket.latest(entry.key) is not entry or (before is not None and before.revision == entry.revision):
            return []
        if entry.expires_ms:
            heappush(self._expiries, (entry.expires_ms, next(self._order), name, entry.key, entry.revision))
            if len(self._expiries) > 2 * self.keys + EXPIRIES_SPARE:
                self._sort_out_expiries()
        return [Change(name, entry.key)]

    def _sort_out_expiries(self) -> None:
        """Remove outdated expiry times: a key that is written again and again leaves one with each write, perhaps for
        days."""
        self._expiries = [each for each in self._expiries if self._counts(*each[2:])]
        heapify(self._expiries)

    def _counts(self, name: str, key: str, revision: Revision) -> bool:
        bucket = self._buckets.get(name)
        latest = None if bucket is None else bucket.latest(key)
        return latest is not None and latest.revision == revision

    def _uncache(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.value is not None:
                self.cached_bytes -= entry.size
                entry.value = None

    # --- time ----------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When ``due`` may have something to report."""
        dues = [heap[0][0] for heap in (self._ahead, self._expiries) if heap]
        return min(dues, default=None)

    def due(self, now_ms: int) -> list[Change]:
        """What changed by time alone: values that expired, and writes whose time has come."""
        changes: list[Change] = []
        while self._ahead and self._ahead[0][0] <= now_ms:
            _, _, name, entry = heappop(self._ahead)
            self.clock.observe(entry.revision.time)
            changes += self._merge(name, entry)
        while self._expiries and self._expiries[0][0] <= now_ms:
            _, _, name, key, revision = heappop(self._expiries)
            if self._counts(name, key, revision):
                changes.append(Change(name, key))
        return changes

    def forget(self, name: str, gone: Iterator[tuple[str, Revision]] | list[tuple[str, Revision]]) -> None:
        """Forget keys of which compaction has deleted the last trace from the log."""
        bucket = self._buckets.get(name)
        if bucket is not None:
            for key, revision in gone:
                dropped = bucket.forget(key, revision)
                self.keys -= bool(dropped)
                self._uncache(dropped)
            if not len(bucket) and not bucket.is_overfull:
                del self._buckets[name]  # it makes room for another one
