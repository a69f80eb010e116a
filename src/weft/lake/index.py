"""An index of a table: which file has which offsets of which stream. SQLite, in a file that may be removed at any time.

Files of a table never change, so each is read once. A reader sees the files of one listing. The files of the next
listing are added beside them, and readers see them only when all of them have been added (``adopt``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from weft.lake.files import DataFile
from weft.lake.spans import Span, StreamKey
from weft.limits import OFFSET_MAX
from weft.model import Epoch, NodeId, Pattern, Stream, Topic, matches
from weft.model.topic import ONE, REST

VERSION: Final = "2"
IN_MEMORY: Final = ":memory:"
SCHEMA: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE, live INTEGER, damage TEXT);
CREATE TABLE streams (
    id INTEGER PRIMARY KEY, topic TEXT, origin TEXT, partition INTEGER, epoch INTEGER,
    width INTEGER, first INTEGER, end INTEGER, first_us INTEGER, last_us INTEGER,
    UNIQUE (topic, origin, partition, epoch)
);
CREATE TABLE spans (
    stream INTEGER, first INTEGER, end INTEGER, first_us INTEGER, last_us INTEGER, runs BLOB, file INTEGER,
    PRIMARY KEY (stream, first, file)
) WITHOUT ROWID;
CREATE INDEX spans_of_file ON spans (file);
"""
SPANS: Final = (
    "SELECT spans.first, spans.end, spans.first_us, spans.last_us, spans.runs, files.path FROM spans "
    "JOIN files ON files.id = spans.file WHERE spans.stream = ? AND files.live AND "
)


class Extent(NamedTuple):
    """What the table has of a stream: offsets from ``first`` up to but not including ``end``, perhaps not all of
    them."""

    stream: Stream
    epoch: Epoch
    first: int
    end: int
    first_us: int
    last_us: int

    @property
    def key(self) -> StreamKey:
        return self.stream, self.epoch


class Page(NamedTuple):
    """Some streams, and where to go on; None at the end."""

    extents: list[Extent]
    after: StreamKey | None


class Located(NamedTuple):
    """A span, and the file that has it."""

    span: Span
    path: str


class Index:
    """``about`` names the table. If the file has the index of another table, or is damaged, the index is made again."""

    def __init__(self, place: Path | None, about: str) -> None:
        self._place = place
        self._about = f"{VERSION} {about}"
        self._db = self._opened()

    def close(self) -> None:
        self._db.close()

    # --- what is in it -----------------------------------------------------------------------------------------------

    def missing(self, listing: Sequence[DataFile]) -> list[str]:
        """The files of a listing that are not in the index yet."""
        known = {path for (path,) in self._db.execute("SELECT path FROM files")}
        return [file.path for file in listing if file.path not in known]

    def add(self, path: str, spans: Iterable[Span], damage: str | None = None) -> None:
        """Add a file's spans, or why they cannot be read. Readers see them once ``adopt`` names the file."""
        with self._db:
            added = self._db.execute("INSERT INTO files (path, live, damage) VALUES (?, 0, ?)", (path, damage))
            number = added.lastrowid
            for span in spans:
                stream = self._stream_id(span)
                self._db.execute(
                    "INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (stream, span.first, span.end, span.first_us, span.last_us, span.runs, number),
                )

    def adopt(self, listing: Sequence[DataFile]) -> set[str]:
        """Make these files, all of which were added, the table that readers see; return the files that left it."""
        wanted = {file.path for file in listing}
        known = {path: (number, live) for path, number, live in self._db.execute("SELECT path, id, live FROM files")}
        assert wanted <= known.keys(), "a file counts once it was looked into"
        gone = [(path, number) for path, (number, _) in known.items() if path not in wanted]
        new = [number for path, (number, live) in known.items() if path in wanted and not live]
        if not gone and not new:
            return set()
        with self._db:
            changed: set[int] = set()
            for number in (*(number for _, number in gone), *new):
                found = self._db.execute("SELECT stream FROM spans WHERE file = ?", (number,))
                changed.update(stream for (stream,) in found)
            self._db.executemany("UPDATE files SET live = 1 WHERE id = ?", [(number,) for number in new])
            self._db.executemany("DELETE FROM spans WHERE file = ?", [(number,) for _, number in gone])
            self._db.executemany("DELETE FROM files WHERE id = ?", [(number,) for _, number in gone])
            self._db.executemany(
                "UPDATE streams SET (width, first, end, first_us, last_us) = (SELECT max(end - first), min(first), "
                "max(end), min(first_us), max(last_us) FROM spans WHERE stream = streams.id) WHERE id = ?",
                [(stream,) for stream in changed],
            )
        return {path for path, _ in gone}

    def files(self) -> int:
        """How many files the table has that readers see."""
        (count,) = self._db.execute("SELECT count(*) FROM files WHERE live").fetchone()
        return int(count)

    def damaged(self) -> list[tuple[str, str]]:
        """Files that cannot be read, and why."""
        return list(self._db.execute("SELECT path, damage FROM files WHERE live AND damage IS NOT NULL ORDER BY path"))

    # --- asking ------------------------------------------------------------------------------------------------------

    def extents(self, pattern: Pattern, after: StreamKey | None, look_max: int) -> Page:
        """The streams that match, in order. At most ``look_max`` streams are looked at for one page."""
        least = _fixed_part(pattern)
        place = ("", "", 0, 0) if after is None else (after[0].topic, after[0].origin, after[0].partition, after[1])
        query = (
            "SELECT topic, origin, partition, epoch, first, end, first_us, last_us FROM streams "
            "WHERE first IS NOT NULL AND topic >= ? AND topic <= ? "
            "AND (topic, origin, partition, epoch) > (?, ?, ?, ?) "
            "ORDER BY topic, origin, partition, epoch LIMIT ?"
        )
        rows = self._db.execute(query, (least, f"{least}\U0010ffff", *place, look_max)).fetchall()
        looked = [
            Extent(Stream(Topic(topic), NodeId(origin), partition), Epoch(epoch), first, end, first_us, last_us)
            for topic, origin, partition, epoch, first, end, first_us, last_us in rows
        ]
        found = [each for each in looked if matches(pattern, each.stream.topic)]
        return Page(found, looked[-1].key if len(looked) == look_max else None)

    def spans(self, key: StreamKey, first: int, end: int = OFFSET_MAX) -> Iterator[Located]:
        """The spans that may have offsets in this range, in the order of their first offsets."""
        stream, epoch = key
        row = self._db.execute(
            "SELECT id, width FROM streams WHERE topic = ? AND origin = ? AND partition = ? AND epoch = ?",
            (stream.topic, stream.origin, stream.partition, epoch),
        ).fetchone()
        if row is None or row[1] is None:
            return
        number, width = row
        query = f"{SPANS} spans.first > ? AND spans.first < ? AND spans.end > ? ORDER BY spans.first"
        for low, high, first_us, last_us, runs, path in self._db.execute(query, (number, first - width, end, first)):
            yield Located(Span(stream, epoch, low, high, first_us, last_us, runs), path)

    # --- the database ------------------------------------------------------------------------------------------------

    def _stream_id(self, span: Span) -> int:
        names = (span.stream.topic, span.stream.origin, span.stream.partition, span.epoch)
        self._db.execute("INSERT OR IGNORE INTO streams (topic, origin, partition, epoch) VALUES (?, ?, ?, ?)", names)
        query = "SELECT id FROM streams WHERE topic = ? AND origin = ? AND partition = ? AND epoch = ?"
        (number,) = self._db.execute(query, names).fetchone()
        return int(number)

    def _opened(self) -> sqlite3.Connection:
        if self._place is not None:
            with suppress(sqlite3.DatabaseError):
                database = self._connected()
                found = database.execute("SELECT value FROM about WHERE name = 'table'").fetchone()
                whole = database.execute("PRAGMA quick_check(1)").fetchone()
                if found == (self._about,) and whole == ("ok",):
                    return database
                database.close()
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(f"{self._place}{suffix}").unlink(missing_ok=True)
        database = self._connected()
        with database:
            database.executescript(SCHEMA)
            database.execute("INSERT INTO about VALUES ('table', ?)", (self._about,))
        return database

    def _connected(self) -> sqlite3.Connection:
        if self._place is not None:
            self._place.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(IN_MEMORY if self._place is None else self._place)
        # A power cut may lose the files added last, which are then read again; it never leaves half a file.
        for setting in ("journal_mode = WAL", "synchronous = NORMAL", "temp_store = MEMORY"):
            with closing(database.execute(f"PRAGMA {setting}")):
                pass
        return database


def _fixed_part(pattern: Pattern) -> str:
    """What every topic that matches begins with."""
    fixed: list[str] = []
    for token in pattern.split("."):
        if token in (ONE, REST):
            return "".join(f"{each}." for each in fixed)
        fixed.append(token)
    return pattern
