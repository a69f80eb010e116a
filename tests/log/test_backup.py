"""Copying a log while it is written to: what was synced before is in the copy, and the copy is a sound log."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from random import Random as Chance

import pytest

from tests.log.laboratory import EPOCH, batch, numbered, numbers, stream
from tests.log.wounds import flip, tables
from weft.errors import UsageError
from weft.log import Log, open_log, repair
from weft.log.backup import copy_log, format_of, is_of_log
from weft.log.errors import LogDamaged
from weft.log.recovery import FORMAT
from weft.model import Batch, Epoch, Position

OURS, COPY = stream(), stream(origin="node-b")
SEGMENT_BYTES = 20_000  # so that a few hundred events fill several
BEFORE = 600  # events that are synced before the copying begins


def opened(path: Path) -> Log:
    return open_log(path, lambda: EPOCH, segment_bytes=SEGMENT_BYTES)


def filled(path: Path) -> Log:
    log = opened(path)
    for first in range(0, BEFORE, 10):
        log.append(OURS, numbered(first, 10, size=100))
        log.append_copy(COPY, Epoch(5), numbered(first, 10, size=100).with_base_offset(first))
        if first % 100 == 0:
            log.sync()
    log.commit("readers", [Position(OURS, EPOCH, 40)])
    log.sync()
    return log


def events(log: Log, name: object, epoch: Epoch) -> list[int]:
    found: list[int] = []
    while stored := log.read(OURS if name is OURS else COPY, epoch, len(found)):
        for each in map(Batch.read_stored, stored):
            found += numbers([event.payload for event in each.events_from(len(found))])
    return found


@pytest.mark.req("OPS-02")
def test_a_copy_has_what_was_synced_before_it_was_begun_while_the_log_goes_on(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "node")) as log:
        done = threading.Event()

        def go_on() -> None:
            first = BEFORE
            while not done.is_set():
                log.append(OURS, numbered(first, 10, size=100))
                log.sync()
                first += 10

        writer = threading.Thread(target=go_on)
        writer.start()
        try:
            copied = copy_log(tmp_path / "node", tmp_path / "copy")
        finally:
            done.set()
            writer.join()
    assert (copied.epoch, copied.streams, copied.losses) == (EPOCH, 2, ())
    assert repair.check(tmp_path / "copy").is_sound
    with closing(opened(tmp_path / "copy")) as copy:
        assert copy.epoch == EPOCH
        own = events(copy, OURS, EPOCH)
        assert len(own) >= BEFORE and own == list(range(len(own)))
        assert events(copy, COPY, Epoch(5)) == list(range(BEFORE))
        assert copy.positions("readers") == [Position(OURS, EPOCH, 40)]
        assert copy.append(OURS, numbered(0, 1)).first_offset == len(own)


@pytest.mark.req("OPS-02", "SDK-01")
def test_a_copy_knows_who_has_sent_the_batches_of_the_last_segment(tmp_path: Path) -> None:
    alone = batch(b"1", producer=b"a" * 16, sequence=1)
    together = [batch(b"2", producer=each * 16, sequence=7) for each in (b"b", b"c")]
    with closing(open_log(tmp_path / "node", lambda: EPOCH)) as log:
        log.append(OURS, alone)
        log.append_all([(OURS, each) for each in together])
        log.sync()
        copy_log(tmp_path / "node", tmp_path / "copy")
    with closing(opened(tmp_path / "copy")) as copy:
        places = [copy.append(OURS, each) for each in (alone, *together)]
    assert [(place.first_offset, place.repeated) for place in places] == [(0, True), (1, True), (2, True)]


@pytest.mark.req("OPS-02")
def test_a_copy_in_a_new_epoch_gives_no_offset_of_the_old_one_again(tmp_path: Path) -> None:
    filled(tmp_path / "node").close()
    copy_log(tmp_path / "node", tmp_path / "copy", lambda epoch: Epoch(epoch + 1))
    with closing(opened(tmp_path / "copy")) as copy:
        assert copy.epoch == EPOCH + 1
        place = copy.append(OURS, numbered(7, 1))
        copy.sync()
        assert (place.epoch, place.first_offset) == (EPOCH + 1, 0)
        assert events(copy, OURS, EPOCH) == list(range(BEFORE))
        assert events(copy, OURS, Epoch(EPOCH + 1)) == [7]


def test_a_damaged_log_is_not_copied(tmp_path: Path) -> None:
    filled(tmp_path / "node").close()
    largest = max(tables(tmp_path / "node"), key=lambda file: file.stat().st_size)
    flip(lambda _: [largest], flips=200)(tmp_path / "node", Chance(3))  # noqa: S311
    with pytest.raises(LogDamaged):
        copy_log(tmp_path / "node", tmp_path / "copy")


def test_a_directory_without_a_log_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    with pytest.raises((UsageError, LogDamaged)):
        copy_log(tmp_path / "node", tmp_path / "copy")


def test_the_format_of_a_log_is_told_and_its_files_are_known(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "node")):
        assert format_of(tmp_path / "node") == FORMAT
        assert all(is_of_log(each.name) for each in (tmp_path / "node").iterdir())
    assert not is_of_log("keys.json")
