"""One bucket as a node sees it: the latest revisions of each key, in order.

Merging is commutative, associative and idempotent: the same writes give the same bucket, in whatever order and however
often they come. A key is gone if its latest write is a deletion or has expired; earlier writes stay hidden.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from weft.model import Epoch, Pattern, Stream, Topic, matches
from weft.model.key_value import SETTINGS_KEY, BucketSettings, Op, Revision, read_settings_untrusted


class Place(NamedTuple):
    """Where an entry is in the log."""

    stream: Stream
    epoch: Epoch
    offset: int


@dataclass(slots=True)
class Entry:
    """``value``: None if only the log has it, to save memory."""

    op: Op
    key: str
    revision: Revision
    expires_ms: int
    author: str
    place: Place
    value: bytes | None
    size: int

    @property
    def rank(self) -> tuple[bool, Epoch, int, Stream]:
        """The entry with the higher rank is kept if two have the same revision. An adopted entry ranks higher, because
        it is in a log that other nodes still get."""
        place = self.place
        return place.stream.origin != self.revision.node, place.epoch, place.offset, place.stream

    def is_live(self, now_ms: int) -> bool:
        return self.op is not Op.DELETE and not self.has_expired(now_ms)

    def has_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_ms <= now_ms


class Bucket:
    def __init__(self, name: str) -> None:
        self.name = name
        self.settings = BucketSettings()
        self.is_overfull = False  # entries were left out, so answers from here could be wrong
        self._entries: dict[str, list[Entry]] = {}  # by key, the latest entry first
        self._names: list[str] | None = []  # the keys in order; None: they have to be sorted when somebody asks

    def __len__(self) -> int:
        """The number of keys, including those that are gone."""
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def merge(self, entry: Entry) -> list[Entry] | None:
        """Take in one write. Return the entries that are no longer kept, which may include the new one; None if the
        write was known."""
        known = self._entries.get(entry.key)
        if known is None:
            self._entries[entry.key] = [entry]
            self._named(entry.key)
        else:
            at = next((at for at, each in enumerate(known) if each.revision <= entry.revision), len(known))
            if at < len(known) and known[at].revision == entry.revision:
                return self._replaced(known, at, entry)
            known.insert(at, entry)
        if entry.key == SETTINGS_KEY:
            return self._settle()
        kept = self._entries[entry.key]
        dropped, kept[self.settings.history :] = kept[self.settings.history :], []
        return dropped

    def _replaced(self, known: list[Entry], at: int, entry: Entry) -> list[Entry] | None:
        if known[at].rank >= entry.rank:
            return None
        replaced, known[at] = known[at], entry
        if entry.key == SETTINGS_KEY:
            return [*self._settle(), replaced]
        return [replaced]

    def _named(self, key: str) -> None:
        """Note a new key. If keys come in order, as counters and times do, the list need not be sorted again."""
        if self._names is not None and (not self._names or self._names[-1] < key):
            self._names.append(key)
        elif self._names is not None and len(self._names) < 1000:
            insort(self._names, key)
        else:
            self._names = None

    def _settle(self) -> list[Entry]:
        """Apply the settings that are the latest now."""
        entries = self._entries[SETTINGS_KEY]
        dropped, entries[1:] = entries[1:], []
        found = read_settings_untrusted(entries[0].value or b"")
        self.settings = BucketSettings() if found is None else found
        for kept in self._entries.values():
            dropped += kept[self.settings.history :]
            kept[self.settings.history :] = []
        return dropped

    def latest(self, key: str) -> Entry | None:
        """The write that counts, even if it is a deletion or has expired."""
        found = self._entries.get(key)
        return None if found is None else found[0]

    def get(self, key: str, now_ms: int) -> Entry | None:
        found = self._entries.get(key)
        return found[0] if found is not None and found[0].is_live(now_ms) else None

    def history(self, key: str) -> list[Entry]:
        """The entries of a key, the latest first, including deletions."""
        return list(self._entries.get(key, ()))

    def keys_after(self, after: str) -> Iterator[str]:
        """All keys after this one, in order, including those that are gone."""
        if self._names is None:
            self._names = sorted(self._entries)
        names = self._names
        for at in range(bisect_right(names, after), len(names)):
            yield names[at]

    def forget(self, key: str, revision: Revision) -> list[Entry]:
        """Forget a key that had been gone for long, and that the log no longer has. Return the dropped entries; nothing
        is dropped if the key was written since."""
        found = self._entries.get(key)
        if found is None or found[0].revision != revision:
            return []
        self._names = None
        return self._entries.pop(key)

    def entries(self) -> Iterator[Entry]:
        """The latest entry of every key."""
        return (found[0] for found in self._entries.values())


def selects_key(pattern: Pattern, key: str) -> bool:
    """Whether a pattern selects a key, by the rules for topics."""
    return key != SETTINGS_KEY and matches(pattern, Topic(key))
