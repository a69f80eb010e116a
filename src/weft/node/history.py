"""The archive tables of a node, for readers of what the log no longer has. Each is read in a separate process (LAK-04,
ADR 45).

The event loop never waits for a table. A reader waits in its own task for a bounded time, and gets an error at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final

from structlog.stdlib import BoundLogger

from weft.core.messages import HistoryFound, HistoryPlace, HistoryRead, LookHistory, ReadHistory, StreamKey
from weft.errors import WeftError
from weft.lake.address import TableError
from weft.lake.asking import TableProcess
from weft.lake.frames import Begin, Lacks, Look, Lost, Piece, Read, State, StreamName
from weft.limits import OFFSET_MAX
from weft.log.errors import PositionExpired
from weft.model import Pattern, Topic, matches
from weft.model.batch_header import extent
from weft.node.config.history import HistorySettings
from weft.node.figures import HistoryFigures
from weft.port.history import Archived, HistoryAway, HistoryDamaged, HistoryPiece

PLACES_AT_ONCE: Final = 512  # given to the core in one step: a millisecond or two
EVENTS_LACKING: Final = "neither the log nor the archive table has offset"


class HistoryTable:
    """One table, which is read in its process."""

    def __init__(self, settings: HistorySettings, has_gaps: Callable[[Topic], bool], logger: BoundLogger) -> None:
        self.settings = settings
        self._has_gaps = has_gaps
        self._logger = logger
        self._state = State(0, 0, 0, False, "")
        begin = Begin(settings.table, str(settings.index), settings.refresh_s, settings.memory_bytes)
        self._process = TableProcess(begin, self._changed)
        self._problem = ""  # the last problem that was logged
        self._events = self._bytes = self._reads = self._failures = 0

    async def start(self) -> None:
        """Have its index made before somebody asks."""
        try:
            await self._process.start()
        except TableError as error:
            self._told(str(error))

    async def close(self) -> None:
        await self._process.close()

    async def streams(
        self, pattern: Pattern, after: StreamKey | None, since_us: int | None, age_s_max: float
    ) -> AsyncIterator[Archived]:
        timeout_s = self.settings.timeout_s
        going_on = None if after is None else StreamName.of(after)
        while True:
            try:
                found = await self._process.look(
                    partial(
                        Look,
                        pattern=pattern,
                        wait_s=timeout_s,
                        age_s_max=age_s_max,
                        since_us=since_us,
                        after=going_on,
                    )
                )
            except TableError as error:
                raise self._away(error) from None
            self._told("")
            for place in found.places:
                key = place.stream.key
                runs = [place.first, place.end] if self._has_gaps(key[0].topic) else place.runs
                yield Archived(*key, runs, place.first_us, place.at)
            if found.after is None:
                return
            going_on = found.after

    async def read(self, key: StreamKey, first: int, end: int, bytes_max: int) -> HistoryPiece:
        with_gaps = self._has_gaps(key[0].topic)
        try:
            found = await self._process.read(
                partial(
                    Read,
                    stream=StreamName.of(key),
                    first=first,
                    end=end,
                    bytes_max=bytes_max,
                    with_gaps=with_gaps,
                    wait_s=self.settings.timeout_s,
                )
            )
        except TableError as error:
            raise self._away(error) from None
        self._reads += 1
        self._told("")
        match found:
            case Piece(batches=batches):
                follow(batches, first, end, with_gaps=with_gaps)
                self._events += sum(extent(data)[1] for data in batches)
                self._bytes += sum(map(len, batches))
                return HistoryPiece(batches)
            case Lost(first=lost, end=until, reason=reason):
                raise HistoryDamaged(
                    f"the archive table cannot give events of {key[0]}: {reason}", first=lost, end=until
                )
            case Lacks(following=following, damage=damage):
                return lacking(key, first, end, following, damage, with_gaps=with_gaps)

    def figures(self) -> HistoryFigures:
        state = self._state
        return HistoryFigures(
            self.settings.name,
            is_up=state.listed and not state.problem and not self._problem,
            files=state.files,
            files_unread=state.files_unread,
            files_damaged=state.files_damaged,
            reads=self._reads,
            failures=self._failures,
            events=self._events,
            size_bytes=self._bytes,
        )

    # --- what is told ----------------------------------------------------------------------------------------------

    def _changed(self, state: State) -> None:
        before, self._state = self._state, state
        if state.listed and not before.listed:
            self._logger.info("history_ready", table=self.settings.name, files=state.files)
        if state.files_damaged > before.files_damaged:
            name, advice = self.settings.name, "weft pipeline run audit"
            self._logger.error("history_damaged", table=name, files=state.files_damaged, advice=advice)
        if state.problem or state.listed:
            self._told(state.problem)

    def _away(self, error: TableError) -> HistoryAway:
        self._failures += 1
        self._told(str(error))
        return HistoryAway(f"the archive table cannot be asked: {error}", table=self.settings.name)

    def _told(self, problem: str) -> None:
        """Log each change once."""
        if problem and not self._problem:
            self._logger.warning("history_away", table=self.settings.name, reason=problem)
        elif self._problem and not problem:
            self._logger.info("history_back", table=self.settings.name)
        self._problem = problem


class NodeHistory:
    """``History`` for the services for clients, and for the core's subscriptions. ``feed`` takes the answers."""

    def __init__(
        self, tables: Sequence[HistorySettings], has_gaps: Callable[[Topic], bool], logger: BoundLogger
    ) -> None:
        self.feed: Callable[[HistoryFound | HistoryRead], None]  # set before the first request
        self._tables = [HistoryTable(each, has_gaps, logger) for each in tables]
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for table in self._tables:
            self._begin(table.start())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(table.close() for table in self._tables))

    def figures(self) -> list[HistoryFigures]:
        return [table.figures() for table in self._tables]

    # --- for services ----------------------------------------------------------------------------------------------

    def covers(self, topic: Topic) -> bool:
        return self._table_of(topic) is not None

    async def streams(
        self, pattern: Pattern, after: StreamKey | None = None, since_us: int | None = None
    ) -> AsyncIterator[Archived]:
        async for each in self._streams(pattern, after, since_us, is_fresh=False):
            yield each

    async def read(self, key: StreamKey, first: int, end: int, bytes_max: int) -> HistoryPiece:
        table = self._table_of(key[0].topic)
        assert table is not None, "who reads has seen that there is one"
        return await table.read(key, first, end, bytes_max)

    async def _streams(
        self, pattern: Pattern, after: StreamKey | None, since_us: int | None, *, is_fresh: bool
    ) -> AsyncIterator[Archived]:
        """In order: each table gives its own streams, and each topic belongs to one table."""
        heads: list[tuple[Archived, AsyncIterator[Archived]]] = []
        for table in self._tables:
            age_s_max = 0.0 if is_fresh else table.settings.refresh_s
            found = self._of_table(table, table.streams(pattern, after, since_us, age_s_max))
            if (first := await anext(found, None)) is not None:
                heads.append((first, found))
        while heads:
            head, found = min(heads, key=lambda each: each[0].key)
            yield head
            heads.remove((head, found))
            if (following := await anext(found, None)) is not None:
                heads.append((following, found))

    async def _of_table(self, table: HistoryTable, found: AsyncIterator[Archived]) -> AsyncIterator[Archived]:
        async for each in found:
            if self._table_of(each.stream.topic) is table:
                yield each

    def _table_of(self, topic: Topic) -> HistoryTable | None:
        return next(
            (table for table in self._tables if any(matches(each, topic) for each in table.settings.patterns)), None
        )

    # --- for the core ----------------------------------------------------------------------------------------------

    def look(self, wanted: LookHistory) -> None:
        self._begin(self._look(wanted))

    def read_for(self, wanted: ReadHistory) -> None:
        self._begin(self._read_for(wanted))

    def _begin(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, wanted: LookHistory) -> None:
        places: list[HistoryPlace] = []
        try:
            async for each in self._streams(wanted.pattern, None, wanted.since_us, is_fresh=True):
                begin = each.runs[0] if wanted.since_us is None else each.at
                places.append(HistoryPlace(*each.key, begin))
                if len(places) >= PLACES_AT_ONCE:
                    self.feed(HistoryFound(wanted.subscription, tuple(places), more=True))
                    places = []
                    await asyncio.sleep(0)
        except HistoryAway as error:
            self.feed(HistoryFound(wanted.subscription, error=error))
        else:
            self.feed(HistoryFound(wanted.subscription, tuple(places)))

    async def _read_for(self, wanted: ReadHistory) -> None:
        key = (wanted.stream, wanted.epoch)
        answer = partial(HistoryRead, wanted.subscription, *key, wanted.first)
        try:
            found = await self.read(key, wanted.first, wanted.end, wanted.bytes_max)
        except WeftError as error:
            self.feed(answer(error=error))
        else:
            self.feed(answer(tuple(found.batches), found.goes_on))


# --- the seam --------------------------------------------------------------------------------------------------------


def follow(batches: Sequence[bytes], first: int, end: int, *, with_gaps: bool) -> None:
    """Check what a table gave for offsets from ``first`` up to ``end``: raise HistoryDamaged unless every event follows
    the one before it. ``with_gaps``: offsets may be missing, but must never go back."""
    at = first
    for data in batches:
        base, count, _ = extent(data)
        if base < at or count == 0 or (base > at and not with_gaps) or base + count > end:
            raise HistoryDamaged(
                "the archive table gave events that do not follow", first=at, end=min(max(base, at + 1), end), base=base
            )
        at = base + count


def lacking(
    key: StreamKey, first: int, end: int, following: int | None, damage: str, *, with_gaps: bool
) -> HistoryPiece:
    """Answer for a table without an event at ``first``. ``end``: from there on, the log has the stream; OFFSET_MAX: the
    log does not have it.

    Raise PositionExpired if events are missing; it says where the events go on.
    """
    there = following if following is not None and following < end else None if end == OFFSET_MAX else end
    if there is None or (with_gaps and not damage):
        return HistoryPiece((), there)
    stream, epoch = key
    raise PositionExpired(
        f"{EVENTS_LACKING} {first} of {stream}" + (f" ({damage})" if damage else ""), epoch=epoch, earliest=there
    )
