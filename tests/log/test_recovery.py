"""Opening a log: what is made, what is cut, what is refused, what is left alone; and looking without touching."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.log.laboratory import (
    EPOCH,
    PRODUCER,
    MemoryLaboratory,
    batch,
    copy_live,
    numbered,
    numbers,
    payloads,
    read_out,
    settle,
    stream,
)
from weft.errors import UsageError
from weft.log import MemoryStore, RocksStore, claim, keys, open_log, open_read_only, open_store
from weft.log.errors import LogDamaged, LogInUse, ReadOnly
from weft.log.promises import Promises, decode
from weft.log.records import meta_write
from weft.log.recovery import FORMAT, read_meta, read_promises, recover
from weft.log.repair import check
from weft.log.store import Delete, Space
from weft.model import Epoch, Position

TEMP, PRESSURE = stream("plant.temp"), stream("plant.pressure")


def never() -> Epoch:
    raise AssertionError("this log is not new")


# --- a new log ---------------------------------------------------------------------------------------------------


def test_a_new_log_gets_its_epoch_and_keeps_it(tmp_path: Path) -> None:
    open_log(tmp_path / "a" / "b", lambda: Epoch(42)).close()
    log = open_log(tmp_path / "a" / "b", never)
    assert log.epoch == 42
    assert log.streams() == []
    log.close()


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_a_log_that_was_killed_while_it_was_made_is_made(tmp_path: Path, left: int) -> None:
    """The marks, then the database, then the column family, then the books."""
    if left >= 1:
        (tmp_path / "promised").write_bytes(Promises().encode())
    if left >= 2:
        (tmp_path / "db").mkdir()
        (tmp_path / "db" / "MANIFEST-000001").touch()
    if left >= 3:
        shutil.rmtree(tmp_path / "db")
        RocksStore(tmp_path).close()
    log = open_log(tmp_path, lambda: Epoch(42))
    assert log.epoch == 42
    log.append(TEMP, numbered(0, 1))
    log.close()
    assert check(tmp_path).is_sound


@pytest.mark.req("LOG-01")
def test_a_log_whose_database_is_gone_is_not_new(tmp_path: Path) -> None:
    log = open_log(tmp_path, lambda: EPOCH)
    log.append(TEMP, numbered(0, 7))
    log.append_copy(stream("x", "node-b"), Epoch(9), batch(b"x", base=5))
    log.close()
    shutil.rmtree(tmp_path / "db")
    with pytest.raises(LogDamaged) as refused:
        open_log(tmp_path, never)
    assert [str(loss) for loss in refused.value.losses] == [
        "plant.temp@node-a/0:e1 offsets 0 to 6 (7 events)",
        "x@node-b/0:e9 offsets 5 to 5 (1 events)",
    ]
    with pytest.raises(LogDamaged):
        open_read_only(tmp_path)
    assert [str(loss) for loss in check(tmp_path).losses] == [str(loss) for loss in refused.value.losses]
    assert not (tmp_path / "db").exists(), "looking has made nothing"


# --- cutting -----------------------------------------------------------------------------------------------------


@pytest.mark.req("LOG-01", "LOG-03")
def test_a_tail_that_was_never_promised_is_cut_and_said() -> None:
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.append(PRESSURE, numbered(0, 3))
    lab.log.sync()
    lab.log.append(TEMP, batch(b"late", at_us=50))
    lab.log.append(TEMP, batch(b"later", at_us=60))
    key = keys.batch_key(1, lab.log.state(TEMP, EPOCH).id, 3)
    stored = bytearray(lab.store.get(Space.BATCHES, key) or b"")
    stored[-1] ^= 1
    lab.store.put_batches([(key, bytes(stored))])
    log = lab.kill()
    (cut,) = log.cuts
    assert str(cut) == "plant.temp@node-a/0:e1 offsets 3 to 4 (2 events): a batch is not what was stored"
    assert numbers(payloads(log, TEMP)) == [0, 1, 2]
    assert log.append(TEMP, batch(b"3", at_us=5)).first_offset == 3
    log.sync()
    assert log.seek(TEMP, EPOCH, 4) == 3, "no index of time is left of what was cut"
    log = lab.kill()
    assert not log.cuts
    assert numbers(payloads(log, TEMP)) == [0, 1, 2, 3]


@pytest.mark.req("LOG-01")
def test_a_tail_that_was_promised_is_not_cut() -> None:
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.append(TEMP, numbered(3, 3))
    lab.log.sync()
    lab.store.write([Delete(Space.BATCHES, keys.batch_key(1, lab.log.state(TEMP, EPOCH).id, 3))])
    with pytest.raises(LogDamaged, match="offsets 3 to 5") as refused:
        lab.kill()
    assert [(loss.first, loss.end) for loss in refused.value.losses] == [(3, 6)]


@pytest.mark.req("LOG-01")
def test_a_gap_in_the_middle_of_the_tail_is_found() -> None:
    """The stream goes on behind it, so its end is as promised: the tallies of the segments tell."""

    class Stalling(MemoryStore):
        def flushes_pending(self) -> int:
            return 100

    store = Stalling()
    log = open_store(store, lambda: EPOCH)
    for segment in range(3):
        log.append(TEMP, numbered(segment * 2, 2))
        log.begin_segment()
        log.sync()
    assert log.flushed_segment == 0
    store.write([Delete(Space.BATCHES, keys.batch_key(1, log.state(TEMP, EPOCH).id, 0))])
    with pytest.raises(LogDamaged) as refused:
        open_store(store, never)
    assert [(loss.first, loss.end) for loss in refused.value.losses] == [(0, 2)]


@pytest.mark.req("LOG-01")
def test_positions_that_are_gone_are_missed() -> None:
    """No events are lost; but a group would begin again where it was long ago, and nobody would know."""
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.sync()
    before = lab.store.sequence()
    lab.log.commit("billing", [Position(TEMP, EPOCH, 3)])
    lab.log.sync()
    lab.store._written = before  # what RocksDB says when the end of its write-ahead log is gone
    with pytest.raises(LogDamaged, match="1 of the last writes are gone; positions of groups and peers may be older"):
        lab.kill()


@pytest.mark.req("LOG-01")
@pytest.mark.parametrize("marks", [None, b"garbage", bytes(50)], ids=["missing", "garbage", "zeros"])
def test_a_log_without_a_record_of_its_promises_is_refused(marks: bytes | None) -> None:
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.sync()
    lab.store._marks = None if marks is None else bytearray(marks)
    with pytest.raises(LogDamaged, match=r"the record of what was promised is (missing|damaged at byte 0)"):
        lab.open()


def test_a_log_of_another_format_is_refused() -> None:
    lab = MemoryLaboratory()
    lab.store.write([meta_write("format", FORMAT + 1)])
    with pytest.raises(LogDamaged, match="a format that this version of Weft does not know"):
        lab.kill()


@pytest.mark.req("LOG-01")
def test_a_stream_whose_record_is_gone_is_missed() -> None:
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.sync()
    lab.store.write([Delete(Space.TABLES, keys.stream_key(lab.log.state(TEMP, EPOCH).id))])
    with pytest.raises(LogDamaged, match="the books of the log do not fit what is in it"):
        lab.kill()


def test_an_index_point_that_is_gone_is_missed() -> None:
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.sync()
    lab.store.write([Delete(Space.TABLES, keys.index_key(lab.log.state(TEMP, EPOCH).id, 0))])
    with pytest.raises(LogDamaged, match="the books of the log do not fit what is in it"):
        lab.kill()


# --- what recovery brings back -----------------------------------------------------------------------------------


@pytest.mark.req("LOG-03")
def test_a_recovered_log_goes_on_as_if_nothing_had_been() -> None:
    """Books, index, tallies, producers, stream numbers: through many crashes at any point of a segment."""
    lab = MemoryLaboratory(segment_bytes=8000)
    for life in range(12):
        log = lab.log
        for number in range(life % 5 + 1):
            log.append(TEMP, batch(b"%d.%d" % (life, number), producer=PRODUCER, sequence=life * 10 + number))
            log.append(stream(f"life{life}"), batch(b"x" * 1000))
        log.sync()
        log = lab.power_cut()
        assert log.last_sequence(TEMP, PRODUCER) == life * 10 + life % 5
        assert len({log.state(info.stream, info.epoch).id for info in log.streams()}) == life + 2
    expected = [b"%d.%d" % (life, number) for life in range(12) for number in range(life % 5 + 1)]
    assert payloads(lab.log, TEMP) == expected
    assert lab.log.flushed_segment > 3


def test_what_a_crash_left_beyond_the_promises_is_promised_on_opening() -> None:
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    log = lab.power_cut(unsynced_kept=lab.store.unsynced_writes)
    assert log.info(TEMP, EPOCH).end == 3, "it was not acknowledged, but it is there"
    assert decode(lab.store.read_marks() or b"").streams[1].end == 3


def test_recovery_writes_nothing() -> None:
    lab = MemoryLaboratory()
    lab.log.append(TEMP, numbered(0, 3))
    lab.log.sync()
    writes, marks = lab.store.sequence(), lab.store.read_marks()
    assert recover(lab.store, read_promises(lab.store)) is not None
    assert (lab.store.sequence(), lab.store.read_marks()) == (writes, marks)


@pytest.mark.req("LOG-03")
def test_a_log_that_was_closed_has_nothing_to_recover() -> None:
    store = MemoryStore()
    log = open_store(store, lambda: EPOCH)
    log.append(TEMP, numbered(0, 3))
    log.close()
    flushed, segment = read_meta(store, "flushed"), read_meta(store, "segment")
    assert (flushed, segment) == (1, 2)
    open_store(store, never).close()
    assert read_meta(store, "segment") == segment, "nothing was appended, so no segment was ended"
    assert numbers(payloads(open_store(store, never), TEMP)) == [0, 1, 2]


# --- looking -----------------------------------------------------------------------------------------------------


@pytest.mark.req("LOG-02")
def test_looking_beside_a_node_that_works(tmp_path: Path) -> None:
    """Each look is a log as it was at some moment: whole, and no older than what was promised before."""
    node = open_log(tmp_path, lambda: EPOCH, segment_bytes=100_000, disk_reserve_bytes=0)
    node.append(TEMP, numbered(0, 1))
    node.sync()
    stop = threading.Event()
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            number = 1
            while not stop.is_set():
                node.append(TEMP, numbered(number, 1, size=2000))
                node.append(PRESSURE, numbered(number, 1, size=2000))
                node.sync()
                number += 1
        except BaseException as error:
            trouble.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(12):
            promised = node.info(TEMP, EPOCH).end
            with closing(open_read_only(tmp_path)) as looking:
                end = looking.info(TEMP, EPOCH).end
                assert end >= promised
                assert numbers(payloads(looking, TEMP)) == list(range(end))
            assert check(tmp_path).is_sound
    finally:
        stop.set()
        worker.join()
    assert not trouble
    node.close()


def test_looking_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", lambda: EPOCH)
    log.append(TEMP, numbered(0, 3))
    log.sync()
    killed = tmp_path / "killed"
    copy_live(tmp_path / "log", killed)
    log.close()
    before = {each: each.read_bytes() for each in killed.rglob("*") if each.is_file()}
    with closing(open_read_only(killed)) as looking:
        assert numbers(payloads(looking, TEMP)) == [0, 1, 2]
        for change in (
            lambda: looking.append(TEMP, numbered(3, 1)),
            lambda: looking.append(PRESSURE, numbered(3, 1)),
            lambda: looking.commit("group", [Position(TEMP, EPOCH, 1)]),
            looking.sync,
        ):
            with pytest.raises(ReadOnly):
                change()
    assert {each: each.read_bytes() for each in killed.rglob("*") if each.is_file()} == before


def test_looking_where_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises((UsageError, LogDamaged)):
        open_read_only(tmp_path / "empty")
    assert not list((tmp_path / "empty").iterdir())


def test_looking_at_a_damaged_log_says_what_is_lost(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", lambda: EPOCH)
    log.append(TEMP, numbered(0, 3))
    log.sync()
    copy_live(tmp_path / "log", tmp_path / "killed")
    log.close()
    for wal in (tmp_path / "killed" / "db").glob("*.log"):
        wal.unlink()
    with pytest.raises(LogDamaged, match=r"lost: plant\.temp@node-a/0:e1 offsets 0 to 2"):
        open_read_only(tmp_path / "killed")


def test_damage_that_comes_and_goes_is_none_while_somebody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files vanish while we open them, because a node beside us has merged them: so look again."""
    node = open_log(tmp_path, lambda: EPOCH)
    node.append(TEMP, numbered(0, 3))
    node.sync()
    failures = iter(["No such file"] * 3)

    def contradiction(store: RocksStore, fingerprint: bytes) -> str:
        return next(failures, "")

    monkeypatch.setattr(RocksStore, "contradiction", contradiction)
    monkeypatch.setattr(claim, "LOOK_INTERVAL_S", 0)
    with closing(open_read_only(tmp_path)) as looking:
        assert numbers(payloads(looking, TEMP)) == [0, 1, 2]
    failures = iter(["No such file"] * 3)
    assert check(tmp_path).is_sound
    node.close()
    failures = iter(["No such file"])
    with pytest.raises(LogDamaged, match="the books of the storage engine are damaged: No such file"):
        open_read_only(tmp_path)


def test_damage_that_stays_is_told_also_while_somebody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = open_log(tmp_path, lambda: EPOCH)
    monkeypatch.setattr(claim, "LOOK_INTERVAL_S", 0)
    monkeypatch.setattr(RocksStore, "contradiction", lambda store, fingerprint: "a bit is flipped")
    with pytest.raises(LogDamaged, match="a bit is flipped"):
        open_read_only(tmp_path)
    assert check(tmp_path).trouble == "a bit is flipped"
    node.close()


@pytest.mark.req("LOG-01")
def test_lost_positions_are_mentioned_though_no_event_is_lost(tmp_path: Path) -> None:
    """A flipped bit in the middle of the write-ahead log, where a group's position was; all events can be read."""
    log = open_log(tmp_path / "log", lambda: EPOCH)
    log.append(TEMP, numbered(0, 3))
    log.commit("somebody-in-particular", [Position(TEMP, EPOCH, 1)])
    log.append(TEMP, numbered(3, 3, size=40_000))  # in blocks of its own, so that only the commit is hit
    log.sync()
    killed = tmp_path / "killed"
    copy_live(tmp_path / "log", killed)
    log.close()
    (wal,) = [each for each in (killed / "db").glob("*.log") if b"somebody-in-particular" in each.read_bytes()]
    data = bytearray(wal.read_bytes())
    data[data.index(b"somebody-in-particular")] ^= 1
    wal.write_bytes(data)
    with pytest.raises(LogDamaged, match="positions of groups and peers may be older than they were"):
        open_read_only(killed)
    assert "positions of groups and peers may be older than they were" in check(killed).trouble


def test_a_log_is_opened_once(tmp_path: Path) -> None:
    log = open_log(tmp_path, lambda: EPOCH)
    with pytest.raises(LogInUse):
        open_log(tmp_path, never)
    log.close()
    log = open_log(tmp_path, never)
    log.append(TEMP, numbered(0, 1))
    settle(log)
    assert len(read_out(log, TEMP).events) == 1
    log.close()


def test_a_log_that_is_refused_can_be_repaired_at_once(tmp_path: Path) -> None:
    """A refusal holds on to nothing."""
    log = open_log(tmp_path, lambda: EPOCH)
    log.append(TEMP, numbered(0, 1))
    log.close()
    (tmp_path / "promised").unlink()
    for _ in range(2):
        with pytest.raises(LogDamaged, match="the record of what was promised is missing"):
            open_log(tmp_path, never)
