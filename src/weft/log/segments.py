"""Which segment is being written, what is in it, and up to which one all is in table files."""

from __future__ import annotations

from weft.log.books import Books
from weft.log.dropping import drop_from_segment
from weft.log.promises import Tally
from weft.log.records import meta_write
from weft.log.recovery import Recovered
from weft.log.store import Store, Write


class Segments:
    """Guarded by the log's lock."""

    def __init__(self, store: Store, recovered: Recovered, bytes_max: int, books: Books) -> None:
        self._store = store
        self._books = books
        self._bytes_max = bytes_max
        self._bytes = recovered.segment_bytes  # of the current segment
        self._flush_due = False  # a segment has ended, and the store has not been told yet
        self._tallies = recovered.tallies  # of the segments that are not in table files
        self._tally = recovered.tallies[recovered.segment]
        self._unpromised: set[int] = set()  # segments whose tallies the next sync has to promise
        self._stale = recovered.stale
        self.current = recovered.segment
        self.flushed = recovered.flushed  # up to there, all is in table files
        self.touched = set(recovered.touched)  # streams in the current segment

    @property
    def is_empty(self) -> bool:
        return not self._bytes

    @property
    def is_full(self) -> bool:
        """While the books of those before it are open, it grows longer."""
        return self._bytes >= self._bytes_max and not self._books.are_open

    @property
    def is_due(self) -> bool:
        """The segment has to end, or one that has ended to be flushed."""
        return self._flush_due or self.is_full

    @property
    def awaits_flushes(self) -> bool:
        """Not all segments that have ended are known to be in table files. Mostly they are: nobody need be asked."""
        return self.flushed < self.current - 1

    def count(self, data: bytes) -> None:
        """An entry was stored in the current segment."""
        self._tally.add(data)
        self._bytes += len(data)

    def tallies(self) -> dict[int, Tally]:
        return {segment: tally.copy() for segment, tally in self._tallies.items()}

    # --- what a sync promises ------------------------------------------------------------------------------------

    def take_unpromised(self, *, current: bool) -> list[Tally]:
        """The tallies that have changed since the last time, with or without that of the current segment."""
        segments = self._unpromised | ({self.current} if current else set())
        self._unpromised = set()
        return [self._tallies[segment].copy() for segment in sorted(segments)]

    def give_back(self, tallies: list[Tally]) -> None:
        """They were not promised after all."""
        self._unpromised |= {tally.segment for tally in tallies}

    # --- from one to the next ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The next one. The books of the current one are still to be written."""
        self._store.write([meta_write("segment", self.current + 1)])
        self._unpromised.add(self.current)
        self._books.end(self.current, self.touched)
        self.current += 1
        self._bytes = 0
        self._tally = self._tallies[self.current] = Tally(self.current)
        self.touched.clear()
        self._flush_due = True

    def flush(self) -> None:
        """Let the data of the segments that have ended move to table files, if that is still to be done."""
        if self._flush_due:
            self._store.flush()
            self._flush_due = False

    def take_over(self) -> list[Write]:
        """When a log is opened, the store has moved what it had to table files, and recovery has made up the books:
        what notes that."""
        self.flushed = max(self.flushed, self._done())
        writes = self._settling(self.flushed)
        self._settle(self.flushed)
        return writes

    def note_flushed(self) -> int | None:
        """Up to where all is in table files now, if that is more than before: recovery need not look there again."""
        done = self._done()
        if self.flushed >= done or self._flush_due:
            return None
        self._store.write(self._settling(done))
        self._settle(done)
        return done

    def drop_later(self, segment: int, stream_id: int, end: int) -> None:
        """Delete the offsets of a stream before ``end`` in a segment, once it is in table files."""
        self._stale.setdefault(segment, {})[stream_id] = end

    def _done(self) -> int:
        return min(self._books.closed, self.current - 1 - self._store.flushes_pending())

    def _settling(self, done: int) -> list[Write]:
        stale = [
            drop_from_segment(segment, stream_id, end)
            for segment, streams in self._stale.items()
            if segment <= done
            for stream_id, end in streams.items()
        ]
        return [meta_write("flushed", done), *stale]

    def _settle(self, done: int) -> None:
        self.flushed = done
        self._stale = {segment: each for segment, each in self._stale.items() if segment > done}
        self._unpromised = {segment for segment in self._unpromised if segment > done}
        self._tallies = {segment: tally for segment, tally in self._tallies.items() if segment > done}
