"""The process that reads a node's table, as a node asks it: it waits for what is to come, tells what is not there, and
outlives tables that go, and its own death."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.lake.archived import EVENTS, NOON_US, Archive, key_of, plain
from tests.transport.http2.stories import on_both_loops
from weft.lake import asking
from weft.lake.asking import TableAway, TableProcess
from weft.lake.frames import Begin, Lacks, Look, Lost, Piece, Place, Read, State, StreamName
from weft.lake.settings import TableFormat, TableSettings
from weft.limits import MIB
from weft.model import Batch, Event
from weft.pipelines.lake.compaction import plan, rewrite_bin

pytestmark = pytest.mark.req("LAK-04")

KEY = key_of()
NAME = StreamName.of(KEY)
PATIENCE_S = 60.0  # a bound, not an expectation


@asynccontextmanager
async def process_of(
    table: TableSettings, place: Path, states: list[State] | None = None
) -> AsyncIterator[TableProcess]:
    begin = Begin(table, str(place / "index.db"), 3600.0, 64 * MIB)
    process = TableProcess(begin, (states if states is not None else []).append)
    try:
        yield process
    finally:
        await process.close()


def look(pattern: str = ">", since_us: int | None = None, wait_s: float = PATIENCE_S) -> Callable[[int], Look]:
    return lambda number: Look(number, pattern, wait_s, since_us=since_us)


def read(first: int, end: int, name: StreamName = NAME, wait_s: float = PATIENCE_S) -> Callable[[int], Read]:
    return lambda number: Read(number, name, first, end, MIB, False, wait_s)


def events_in(piece: Piece | Lacks | Lost) -> list[Event]:
    assert isinstance(piece, Piece), piece
    return [event for data in piece.batches for event in Batch.read_untrusted(data)]


@on_both_loops
async def test_a_node_asks_what_is_there_and_reads_it(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 3, plain(5, 3)), (key_of("other"), 0, plain(1)))
    async with process_of(archive.settings, tmp_path) as process:
        places = (await process.look(look("plant.>"))).places
        assert places == [Place(NAME, [3, 8], NOON_US + 3)]
        places = (await process.look(look(since_us=NOON_US + 6))).places
        assert [(each.stream.topic, each.at) for each in places] == [("other", None), ("plant.temp", 6)]
        assert events_in(await process.read(read(3, 100))) == plain(5, 3)


@on_both_loops
async def test_a_read_waits_for_what_is_archived_meanwhile(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(5)))
    async with process_of(archive.settings, tmp_path) as process:
        assert isinstance(await process.read(read(5, 10)), Lacks)
        archive.write((KEY, 5, plain(5, 5)))
        assert events_in(await process.read(read(5, 10))) == plain(5, 5)
        answer = await process.read(read(10, 20))
        assert isinstance(answer, Lacks) and answer.following is None
        archive.write((KEY, 12, plain(1, 12)))
        answer = await process.read(read(10, 20))
        assert isinstance(answer, Lacks) and answer.following == 12


@on_both_loops
async def test_a_table_that_is_away_is_told_in_time_and_comes_back(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(5)))
    away = tmp_path / "away"
    states: list[State] = []
    async with process_of(archive.settings, tmp_path, states) as process:
        Path(archive.settings.path).rename(away)
        for request in (process.read(read(0, 5)), process.look(look())):
            with pytest.raises(TableAway, match="there is no Delta table"):
                await request
        away.rename(archive.settings.path)
        assert events_in(await process.read(read(0, 5))) == plain(5)
        Path(archive.settings.path).rename(away)
        with pytest.raises(TableAway, match="there is no Delta table"):
            await process.look(look())
        away.rename(archive.settings.path)
        assert len((await process.look(look())).places) == 1
    assert "there is no Delta table" in {state.problem.partition(" (")[0] for state in states}
    assert states[-1] == State(1, 0, 0, True, "")


@on_both_loops
async def test_files_that_compaction_took_are_found_elsewhere(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for first in range(0, 50, 10):
        archive.write((KEY, first, plain(10, first)))
    async with process_of(archive.settings, tmp_path) as process:
        assert events_in(await process.read(read(0, 5))) == plain(5)
        files = archive.table.files()
        (together,) = plan(files, 1 << 30)
        added = rewrite_bin(archive.settings, EVENTS.columns(), together, "ab")
        archive.table.replace(files, added)
        for file in files:
            (Path(archive.settings.path) / file.path).unlink()
        assert events_in(await process.read(read(20, 50))) == plain(30, 20)


@on_both_loops
async def test_a_process_that_dies_is_started_again(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(5)))
    async with process_of(archive.settings, tmp_path) as process:
        assert events_in(await process.read(read(0, 5))) == plain(5)
        assert process._process is not None
        waiting = asyncio.create_task(process.read(read(5, 10)))
        os.kill(process._process.pid, signal.SIGKILL)
        with pytest.raises(TableAway, match="has died"):
            await waiting
        assert events_in(await process.read(read(0, 5))) == plain(5)


@on_both_loops
async def test_a_process_that_does_not_answer_is_ended_and_the_next_one_does(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(5)))
    with pytest.MonkeyPatch.context() as patch:
        async with process_of(archive.settings, tmp_path) as process:
            assert events_in(await process.read(read(0, 5))) == plain(5)
            assert process._process is not None
            stopped = process._process.pid
            os.kill(stopped, signal.SIGSTOP)
            patch.setattr(asking, "ANSWER_S_MAX", 0.2)
            with pytest.raises(TableAway, match="takes too long"):
                await process.read(read(0, 5, wait_s=0.0))
            patch.undo()
            assert events_in(await process.read(read(0, 5))) == plain(5)
            assert process._process.pid != stopped


@on_both_loops
async def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for first in range(0, 15, 5):
        archive.write((KEY, first, plain(5, first)))
    (second,) = [each.path for each in archive.table.files() if ".1.0." in each.path]
    (Path(archive.settings.path) / second).write_bytes(b"PAR1 no longer")
    states: list[State] = []
    async with process_of(archive.settings, tmp_path, states) as process:
        assert events_in(await process.read(read(0, 15))) == plain(5)
        answer = await process.read(read(5, 15))
        assert isinstance(answer, Lacks) and answer.following == 10
        assert "1 files of the table cannot be read" in answer.damage and second in answer.damage
        assert events_in(await process.read(read(10, 15))) == plain(5, 10)
    assert states[-1].files_damaged == 1


@on_both_loops
async def test_a_table_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    from tests.pipelines.lake.made import made_table, rows, written

    table = made_table(tmp_path, TableFormat.DELTA)
    table.commit(written(table, rows(range(3))), "q", 0)
    async with process_of(table.settings, tmp_path) as process:
        with pytest.raises(TableAway, match="not one that archive wrote"):
            await process.look(look())


@on_both_loops
async def test_the_index_outlives_the_process(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.write((KEY, 0, plain(5)))
    async with process_of(archive.settings, tmp_path) as process:
        await process.look(look())
    for file in archive.table.files():
        place = Path(archive.settings.path) / file.path
        shutil.move(place, tmp_path / "kept")
        async with process_of(archive.settings, tmp_path) as process:
            known = (await process.look(look())).places
            assert known == [Place(NAME, [0, 5], NOON_US)], "no file was looked into again"
            with pytest.raises(TableAway):
                await process.read(read(0, 5))
