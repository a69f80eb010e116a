"""The process that reads a node's archive table: ``python -m weft.lake.helper``. It ends when its standard input does.

Decoding a row group blocks the interpreter for a tenth of a second, and a library that meets a damaged file may crash
the process. A node must suffer neither. One thread does the work in small steps: requests first, then the files that
are new in the table. Another thread lists the table, which may take long.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, assert_never

from weft.lake.address import TableError
from weft.lake.event_files import EventFiles, FileDamaged, FileGone
from weft.lake.files import DataFile
from weft.lake.frames import (
    Begin,
    Failed,
    FrameReader,
    Lacks,
    Look,
    Lost,
    Piece,
    Place,
    Places,
    Read,
    Request,
    Said,
    State,
    StreamName,
    framed,
)
from weft.lake.history import Damaged, Found, History, Lacking
from weft.lake.index import Extent, Index
from weft.lake.spans import Span, joined
from weft.lake.tables import TableFiles, open_files
from weft.model import Pattern

LISTING_S_MIN: Final = 0.1  # from one start to the next: a request in between waits for the next listing
PLACES_AT_ONCE: Final = 500  # in one frame: a millisecond for the reader
RUNS_MAX: Final = 2 * 4096  # of a stream, first and end of each: with more holes, the reader is told of each
DAMAGE_SHOWN: Final = 3  # files that cannot be read, named in an answer
READ_AT_ONCE: Final = 1 << 16
NICENESS: Final = 10  # the node comes first
ERROR_CHARS_MAX: Final = 300


@dataclass(slots=True)
class Waiting:
    """A request that has no answer yet. ``asked_s``: only a listing begun at or after this time is new enough."""

    request: Look | Read
    asked_s: float
    give_up_s: float
    missed: bool = False  # a file that it needs was gone; the table is listed again for it, but only once


@dataclass(slots=True)
class Listing:
    """A listing whose new files are being indexed."""

    begun_s: float
    files: list[DataFile]
    unread: deque[str]
    at: Iterator[list[Span]] | None = None  # how far the first unread file has been read
    spans: list[Span] = field(default_factory=list)


class TableReader:
    """Answers requests. ``step`` does a bit of work; ``say`` sends a message to the node."""

    def __init__(self, begin: Begin, say: Callable[[Said], None], now_s: Callable[[], float]) -> None:
        self._begin = begin
        self._say = say
        self._now_s = now_s
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="weft-lake-listing")
        self._table: TableFiles | None = None
        table = begin.table
        self._index = Index(Path(begin.index), f"{table.format} {table.path} {table.catalog} {table.identifier}")
        self._files: EventFiles | None = None
        self._history: History | None = None
        self._asked: deque[Look | Read] = deque()
        self._waiting: list[Waiting] = []
        self._listed: Future[list[DataFile]] | None = None  # under way
        self._listing_begun_s = float("-inf")
        self._listing: Listing | None = None
        self._adopted_s = float("-inf")  # when the listing that is in use was begun
        self._problem = ""
        self._counts = (0, 0)  # files, and how many of them are damaged
        self._told: State | None = None

    def ask(self, request: Request) -> None:
        self._asked.append(request)

    def step(self) -> bool:
        """Do the next bit of work; return whether there is more to do right now."""
        if self._asked:
            self._answer(self._asked.popleft())
        if self._listing is not None:  # even while requests come: a caller may wait for this
            self._look_into(self._listing)
        self._follow_listing()
        self._give_up()
        self._tell()
        return bool(self._asked or self._listing)

    def due_s(self) -> float | None:
        """When to step again although nothing was asked."""
        if self._listed is not None:
            return self._now_s() + 0.02
        due = [each.give_up_s for each in self._waiting]
        due.append(self._listing_begun_s + (LISTING_S_MIN if self._waiting else self._begin.refresh_s))
        return min(due)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> None:
        now_s = self._now_s()
        match request:
            case Look():
                self._look(Waiting(request, now_s, now_s + request.wait_s))
            case Read():
                self._read(Waiting(request, now_s, now_s + request.wait_s))
            case _:
                assert_never(request)

    def _is_new(self, waiting: Waiting) -> bool:
        """Whether the table was listed after this request came. If not, the request is put back to wait for that."""
        if self._adopted_s >= waiting.asked_s:
            return True
        self._waiting.append(waiting)
        return False

    def _look(self, waiting: Waiting) -> None:
        request, history = waiting.request, self._history
        assert isinstance(request, Look), "looks only"
        if history is None or (request.after is None and self._adopted_s < waiting.asked_s - request.age_s_max):
            self._waiting.append(waiting)
            return
        after = None if request.after is None else request.after.key
        try:
            extents, last = history.extents(Pattern(request.pattern), after, PLACES_AT_ONCE)
            places = [_place(history, each, request.since_us) for each in extents]
        except TableError as error:
            self._say(Failed(request.number, _short(error)))
            return
        self._say(Places(request.number, places, None if last is None else StreamName.of(last)))

    def _read(self, waiting: Waiting) -> None:
        request = waiting.request
        assert isinstance(request, Read), "reads only"
        if self._history is None:
            self._waiting.append(waiting)
            return
        try:
            answer = self._history.read(
                request.stream.key, request.first, request.end, request.bytes_max, with_gaps=request.with_gaps
            )
        except TableError as error:
            if isinstance(error, FileGone) and not waiting.missed:
                waiting.missed = True
                waiting.asked_s = self._now_s()  # what was listed so far is useless
                self._waiting.append(waiting)
                return
            self._say(Failed(request.number, _short(error)))
            return
        match answer:
            case Found(batches):
                self._say(Piece(request.number, [batch.data for batch in batches]))
            case Damaged(first, end, reason):
                self._say(Lost(request.number, first, end, reason[:ERROR_CHARS_MAX]))
            case Lacking(following):
                if self._is_new(waiting):  # otherwise the event may have been added after the last listing
                    self._say(Lacks(request.number, following, self._damage()))

    def _give_up(self) -> None:
        now_s = self._now_s()
        for each in [each for each in self._waiting if each.give_up_s <= now_s]:
            self._waiting.remove(each)
            self._say(Failed(each.request.number, self._reason()))

    def _reason(self) -> str:
        """Why there is no listing that is new enough."""
        if self._problem:
            return self._problem
        if self._listing is not None:
            unread, count = len(self._listing.unread), len(self._listing.files)
            return f"the table's index is being made: {count - unread} of {count} files are in it"
        return "the table takes long to list"

    def _damage(self) -> str:
        found = self._index.damaged()
        shown = "; ".join(f"{path}: {reason}" for path, reason in found[:DAMAGE_SHOWN])
        return f"{len(found)} files of the table cannot be read: {shown}"[:ERROR_CHARS_MAX] if found else ""

    # --- the table as it is now --------------------------------------------------------------------------------------

    def _follow_listing(self) -> None:
        """Begin to list the table if that is due, and take up what was found."""
        now_s = self._now_s()
        if self._listed is not None:
            if self._listed.done():
                listed, self._listed = self._listed, None
                self._take_listing(listed)
            return
        wanted_s = LISTING_S_MIN if self._waiting else self._begin.refresh_s
        if self._listing is None and now_s - self._listing_begun_s >= wanted_s:
            self._listing_begun_s = now_s
            self._listed = self._pool.submit(self._list)

    def _list(self) -> list[DataFile]:
        """In a thread of its own."""
        if self._table is None:
            self._table = open_files(self._begin.table)
        return self._table.files()

    def _take_listing(self, listed: Future[list[DataFile]]) -> None:
        try:
            files = listed.result()
        except Exception as error:  # errors of catalogs and stores have no common base class
            self._has_failed(_short(error, self._begin), self._listing_begun_s)
            return
        self._problem = ""
        self._listing = Listing(self._listing_begun_s, files, deque(self._index.missing(files)))
        self._adopt_if_read(self._listing)

    def _has_failed(self, problem: str, begun_s: float) -> None:
        """The table cannot be listed now: the waiting requests that came before this attempt fail."""
        self._problem = problem
        for each in [each for each in self._waiting if each.asked_s <= begun_s]:
            self._waiting.remove(each)
            self._say(Failed(each.request.number, problem))

    def _event_files(self) -> EventFiles:
        if self._files is None:
            assert self._table is not None, "it was listed"
            self._files = EventFiles(self._table.settings.store(), self._begin.memory_bytes)
        return self._files

    def _look_into(self, listing: Listing) -> None:
        """Index the next row group of a new file."""
        path = listing.unread[0]
        try:
            if listing.at is None:
                listing.at, listing.spans = self._event_files().spans(path), []
            spans = next(listing.at, None)
            if spans is not None:
                listing.spans += spans
                return
            self._index.add(path, joined(listing.spans))
        except FileDamaged as error:
            self._index.add(path, (), str(error)[:ERROR_CHARS_MAX])
        except TableError as error:  # the file is gone, or the store cannot be reached: list again
            self._listing = None
            if not isinstance(error, FileGone):
                self._has_failed(_short(error), listing.begun_s)
            return
        listing.unread.popleft()
        listing.at = None
        self._adopt_if_read(listing)

    def _adopt_if_read(self, listing: Listing) -> None:
        if listing.unread:
            return
        files = self._event_files()
        files.forget(self._index.adopt(listing.files))
        self._counts = (len(listing.files), len(self._index.damaged()))
        self._listing = None
        self._adopted_s = listing.begun_s
        self._history = self._history or History(self._index, files)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if isinstance(each.request, Look):
                self._look(each)
            else:
                self._read(each)

    def _tell(self) -> None:
        unread = 0 if self._listing is None else len(self._listing.unread)
        state = State(self._counts[0], unread, self._counts[1], self._history is not None, self._problem)
        if state != self._told:
            self._told = state
            self._say(state)


def _place(history: History, extent: Extent, since_us: int | None) -> Place:
    runs = history.runs(extent.key, RUNS_MAX) or [extent.first, extent.end]
    return Place(StreamName.of(extent.key), runs, extent.first_us, _at(history, extent, since_us))


def _at(history: History, extent: Extent, since_us: int | None) -> int | None:
    """The offset of the first event at or after a time; None if no time was given or there is no such event."""
    if since_us is None or extent.last_us < since_us:
        return None
    return history.first_at(extent.key, since_us)


def _short(error: Exception, begin: Begin | None = None) -> str:
    text = f"{error}".partition("\n")[0] or type(error).__name__
    if begin is not None and not isinstance(error, TableError):
        text = begin.table.credentials().scrubbed(text)
    return text[:ERROR_CHARS_MAX]


# --- the process -----------------------------------------------------------------------------------------------------


def serve(requests: int, replies: BinaryIO, now_s: Callable[[], float] = time.monotonic) -> None:
    """Answer requests until the file descriptor that they come from is closed."""
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)

    def say(message: Said) -> None:
        replies.write(framed(message))
        replies.flush()

    reader: TableReader | None = None
    frames = FrameReader(Begin | Look | Read)
    is_busy = False
    while True:
        due_s = None if reader is None else reader.due_s()
        wait_s = 0.0 if is_busy else None if due_s is None else max(due_s - now_s(), 0.0)
        if selector.select(wait_s):
            data = os.read(requests, READ_AT_ONCE)
            if not data:
                return
            for message in frames.feed(data):
                if isinstance(message, Begin):
                    reader = TableReader(message, say, now_s)
                else:
                    assert reader is not None, "a table comes first"
                    reader.ask(message)  # type: ignore[arg-type]
        is_busy = reader is not None and reader.step()


def main(arguments: Sequence[str] = ()) -> None:
    """Replies go to the standard output as it was; what libraries print goes to the error output."""
    del arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the node; this process ends with it
    os.nice(NICENESS)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(BrokenPipeError):  # the node is gone
        serve(sys.stdin.fileno(), replies)
    os._exit(0)  # whatever a thread is waiting for


if __name__ == "__main__":
    main()
