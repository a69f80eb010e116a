"""Which segment is being written, what is in it, and up to which segment everything is in table files."""

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
        self._bytes = recovered.segment_bytes  # the size of the current segment
        self._flush_due = False  # a segment has ended, and the store does not know yet
        self._tallies = recovered.tallies  # of the segments that are not in table files
        self._tally = recovered.tallies[recovered.segment]
        self._unpromised: set[int] = set()  # segments whose tallies the next sync has to promise
        self._stale = recovered.stale
        self.current = recovered.segment
        self.flushed = recovered.flushed  # up to this segment, everything is in table files
        self.touched = set(recovered.touched)  # streams in the current segment

    @property
    def is_empty(self) -> bool:
        return not self._bytes

    @property
    def is_full(self) -> bool:
        """Whether the segment has to end. While the books of earlier segments are being written, it grows longer."""
        return self._bytes >= self._bytes_max and not self._books.are_open

    @property
    def is_due(self) -> bool:
        """Whether the segment has to end, or an ended one has to be flushed."""
        return self._flush_due or self.is_full

    @property
    def awaits_flushes(self) -> bool:
        """Whether some ended segments are not known to be in table files. Mostly all are, and the store need not be
        asked."""
        return self.flushed < self.current - 1

    def count(self, data: bytes) -> None:
        """Note that an entry was stored in the current segment."""
        self._tally.add(data)
        self._bytes += len(data)

    def tallies(self) -> dict[int, Tally]:
        return {segment: tally.copy() for segment, tally in self._tallies.items()}

    # --- what a sync promises ------------------------------------------------------------------------------------

    def take_unpromised(self, *, current: bool) -> list[Tally]:
        """Return the tallies that have changed since the last call, with or without that of the current segment."""
        segments = self._unpromised | ({self.current} if current else set())
        self._unpromised = set()
        return [self._tallies[segment].copy() for segment in sorted(segments)]

    def give_back(self, tallies: list[Tally]) -> None:
        """Take tallies back that were not promised after all."""
        self._unpromised |= {tally.segment for tally in tallies}

    # --- from one to the next ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the next segment. The books of the current one are still to be written."""
        self._store.write([meta_write("segment", self.current + 1)])
        self._unpromised.add(self.current)
        self._books.end(self.current, self.touched)
        self.current += 1
        self._bytes = 0
        self._tally = self._tallies[self.current] = Tally(self.current)
        self.touched.clear()
        self._flush_due = True

    def flush(self) -> None:
        """Let the data of the ended segments move to table files, if that has not happened yet."""
        if self._flush_due:
            self._store.flush()
            self._flush_due = False

    def take_over(self) -> list[Write]:
        """Return the writes that note what the store moved to table files when the log was opened. Recovery has made up
        the books by then."""
        self.flushed = max(self.flushed, self._done())
        writes = self._settling(self.flushed)
        self._settle(self.flushed)
        return writes

    def note_flushed(self) -> int | None:
        """Note up to where everything is in table files now, if that is farther than before: recovery need not look
        there again."""
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
