"""Damage to the files of a log, and what comes of it, written down before it was tried:

===================================================  ==============================================================
damage                                               outcome
===================================================  ==============================================================
write-ahead log: garbage behind its end              WHOLE
write-ahead log: cut off, flipped, garbled, zeroed   REFUSED, or WHOLE where only what was used before is hit
write-ahead log: any one deleted, all deleted        REFUSED, or WHOLE if it was only kept to be used again
table of batches: flipped, garbled                   READING SAYS what is lost, or REFUSED where RocksDB looks when
                                                     it opens the file, or WHOLE where only what was deleted is hit
table of batches: cut off, deleted                   REFUSED
table of the index and the positions: any damage     REFUSED, or READING SAYS that the index is damaged; no events lost
CURRENT: any damage                                  REFUSED, with nothing lost
MANIFEST: any damage                                 the same, or WHOLE where the write-ahead log still has what is hit
other files of RocksDB                               WHOLE
promised: cut off, or garbage behind its end         WHOLE (as a power cut leaves it) or REFUSED
promised: flipped, garbled, deleted, emptied         REFUSED, with nothing lost
promised, and the write-ahead log                    REFUSED; what was lost cannot be told to the last offset
write-ahead log and tables, MANIFEST and others      REFUSED or READING SAYS, or WHOLE as above
the whole database                                   REFUSED
===================================================  ==============================================================

- WHOLE: the log opens, and everything is as it was.
- REFUSED: LogDamaged, whose losses are exactly the promised offsets that are gone; nothing is changed.
- READING SAYS: the log opens, and ``check``, and reading, say exactly which promised offsets are gone.

In each case a repair gives up exactly these offsets, and no others; they are not given again; all else is there, and
the next check is clean. Places are chosen by chance: WEFT_SOAK=1 tries 40 instead of one for each case.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from itertools import count
from pathlib import Path
from random import Random as Chance

import pytest

from tests.log import wounds
from tests.log.laboratory import EPOCH, batch, copy_live, numbered, read_out, settle
from tests.log.specimen import COPY, GROUP, KEYED, NAMES, PLAIN, Name, Specimen, grown, young
from tests.log.wounds import Wound, batch_tables, both, manifest, named, small_tables, wals
from weft.log import Log, open_log, open_read_only
from weft.log import repair as repairing
from weft.log.errors import DiskFull, LogDamaged, Loss, StoreCorrupt
from weft.log.repair import Health, check, repair
from weft.log.retention import RetentionRule, retain
from weft.model import Epoch, parse_pattern

SEEDS = range(40 if os.environ.get("WEFT_SOAK") else 1)
NEW_EPOCH = Epoch(900)
PROMISED = named("promised")


class Outcome(Flag):
    WHOLE = auto()
    REFUSED = auto()
    READING_SAYS = auto()


WHOLE, REFUSED, READING_SAYS = Outcome
ANY = WHOLE | REFUSED | READING_SAYS


class Exact(Enum):
    """How well losses can be told."""

    LOSSES = "to the last offset"
    NONE = "there are none"
    SOME = "some, if what was promised is not known either"


@dataclass(frozen=True)
class Case:
    name: str
    wound: Wound
    outcome: Outcome
    exact: Exact = Exact.LOSSES
    specimens: tuple[str, ...] = ("young", "grown")


CASES = [
    Case("wal-garbage-behind", wounds.append_garbage(lambda path: wals(path)[-1:]), WHOLE),
    Case("wal-truncated", wounds.truncate(wals), REFUSED | WHOLE),
    Case("wal-last-truncated", wounds.truncate(lambda path: wals(path)[-1:]), REFUSED | WHOLE),
    Case("wal-flipped", wounds.flip(wals), REFUSED | WHOLE),
    Case("wal-flipped-thrice", wounds.flip(wals, flips=3), REFUSED | WHOLE),
    Case("wal-garbled", wounds.garble(wals), REFUSED | WHOLE),
    Case("wal-zeroed", wounds.blank(wals), REFUSED | WHOLE),
    Case("wal-deleted", wounds.delete(wals), REFUSED | WHOLE),
    Case("wal-last-deleted", wounds.delete(wals, slice(-1, None)), REFUSED),
    Case("wal-middle-deleted", wounds.delete(wals, slice(-2, -1)), REFUSED, specimens=("grown",)),
    Case("wal-all-deleted", wounds.delete(wals, slice(None)), REFUSED),
    Case("table-flipped", wounds.flip(batch_tables), ANY, specimens=("grown",)),
    Case("table-flipped-4-times", wounds.flip(batch_tables, flips=4), ANY, specimens=("grown",)),
    Case("table-end-flipped", wounds.flip(batch_tables, last_bytes=3000), ANY, specimens=("grown",)),
    Case("table-garbled", wounds.garble(batch_tables, 20_000), ANY, specimens=("grown",)),
    Case("table-truncated", wounds.truncate(batch_tables), REFUSED, specimens=("grown",)),
    Case("table-deleted", wounds.delete(batch_tables), REFUSED, specimens=("grown",)),
    Case("small-table-flipped", wounds.flip(small_tables), ANY, Exact.NONE),
    Case("small-table-truncated", wounds.truncate(small_tables), REFUSED, Exact.NONE),
    Case("small-table-deleted", wounds.delete(small_tables), REFUSED, Exact.NONE),
    Case("current-deleted", wounds.delete(named("db/CURRENT")), REFUSED, Exact.NONE),
    Case("current-flipped", wounds.flip(named("db/CURRENT")), REFUSED, Exact.NONE),
    Case("current-emptied", wounds.replace(named("db/CURRENT"), b""), REFUSED, Exact.NONE),
    Case("current-astray", wounds.replace(named("db/CURRENT"), b"MANIFEST-999999\n"), REFUSED, Exact.NONE),
    Case("manifest-deleted", wounds.delete(manifest), REFUSED, Exact.NONE),
    Case("manifest-flipped", wounds.flip(manifest), REFUSED | WHOLE, Exact.NONE),
    Case("manifest-truncated", wounds.truncate(manifest), REFUSED | WHOLE, Exact.NONE),
    Case("manifest-garbage-behind", wounds.append_garbage(manifest), REFUSED | WHOLE, Exact.NONE),
    Case("options-deleted", wounds.delete(lambda path: sorted((path / "db").glob("OPTIONS-*"))), WHOLE),
    Case("identity-deleted", wounds.delete(named("db/IDENTITY")), WHOLE),
    Case("config-garbled", wounds.replace(named("db/rocksdict-config.json"), b"{garbage"), WHOLE),
    Case("promised-flipped", wounds.flip(PROMISED), REFUSED | WHOLE, Exact.NONE),
    Case("promised-garbled", wounds.garble(PROMISED, 40), REFUSED | WHOLE, Exact.NONE),
    Case("promised-truncated", wounds.truncate(PROMISED), REFUSED | WHOLE, Exact.NONE),
    Case("promised-garbage-behind", wounds.append_garbage(PROMISED), REFUSED | WHOLE, Exact.NONE),
    Case("promised-deleted", wounds.delete(PROMISED), REFUSED, Exact.NONE),
    Case("promised-emptied", wounds.replace(PROMISED, b""), REFUSED, Exact.NONE),
    Case("promised-zeroed", wounds.replace(PROMISED, bytes(200)), REFUSED, Exact.NONE),
    Case(
        "promised-and-wal-deleted",
        both(wounds.delete(PROMISED), wounds.delete(wals, slice(None))),
        REFUSED,
        Exact.SOME,
    ),
    Case(
        "promised-zeroed-wal-flipped",
        both(wounds.replace(PROMISED, bytes(200)), wounds.flip(wals)),
        REFUSED,
        Exact.SOME,
    ),
    Case(
        "wal-and-table-flipped",
        both(wounds.flip(wals), wounds.flip(batch_tables)),
        ANY,
        specimens=("grown",),
    ),
    Case("manifest-deleted-wal-flipped", both(wounds.delete(manifest), wounds.flip(wals)), REFUSED),
    Case(
        "table-deleted-and-flipped",
        both(wounds.delete(batch_tables), wounds.flip(batch_tables)),
        REFUSED,
        specimens=("grown",),
    ),
    Case("database-deleted", wounds.delete_database, REFUSED),
]


@pytest.fixture(scope="module")
def specimens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Specimen]:
    place = tmp_path_factory.mktemp("specimens")
    return {"young": young(place), "grown": grown(place)}


@dataclass
class Found:
    """What can be read of a log, and what cannot."""

    events: dict[Name, dict[int, bytes]] = field(default_factory=dict)
    lost: dict[Name, set[int]] = field(default_factory=dict)
    index_damaged: bool = False


def offsets(losses: tuple[Loss, ...]) -> dict[Name, set[int]]:
    lost: dict[Name, set[int]] = {}
    for loss in losses:
        lost.setdefault((loss.stream, loss.epoch), set()).update(range(loss.first, loss.end))
    return lost


def read_all(log: Log) -> Found:
    found = Found()
    known = {(info.stream, info.epoch) for info in log.streams()}
    for name in NAMES:
        if name not in known:
            continue
        try:
            readout = read_out(log, *name)
        except StoreCorrupt:
            found.index_damaged = True
            continue
        found.events[name] = readout.events
        if readout.losses:
            found.lost[name] = readout.lost_offsets
    return found


def files(path: Path) -> dict[str, bytes]:
    """All but rocksdict's note of its own options, which it writes whenever it opens a database."""
    every = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    return {name: data for name, data in every.items() if not name.endswith("rocksdict-config.json")}


class Judge:
    """Holds a damaged log against what it was."""

    def __init__(self, specimen: Specimen, path: Path) -> None:
        self._specimen = specimen
        self._path = path

    def outcome(self, health: Health) -> Outcome:
        """What opening, reading and checking say; that they agree, and are right."""
        before = files(self._path)
        try:
            log = open_log(self._path, lambda: NEW_EPOCH, disk_reserve_bytes=0)
        except LogDamaged as error:
            assert offsets(error.losses) == offsets(health.losses)
            assert {**files(self._path), "claim": b""} == {**before, "claim": b""}, "a refused log stays as it is"
            assert not health.is_sound
            return REFUSED
        assert log.epoch == EPOCH
        found = read_all(log)
        positions = [] if found.index_damaged else log.positions(GROUP)
        log.close()
        if found.index_damaged:
            assert health.trouble
            return READING_SAYS
        self.check_events(found, offsets(health.losses))
        if not health.is_sound:
            return READING_SAYS
        assert not found.lost
        assert positions == self._specimen.positions, "positions were promised, too"
        return WHOLE

    def check_events(self, found: Found, lost: dict[Name, set[int]]) -> None:
        """Everything is there, but for what is said to be lost, and nothing else."""
        for name in NAMES:
            events, truth = found.events.get(name, {}), self._specimen.truth[name].events
            missing = set(truth) - set(events)
            assert lost.get(name, set()) & set(truth) == missing, "what is lost is said, exactly"
            ever = self._specimen.ever[name]
            assert lost.get(name, set()) <= set(ever), "nothing is missed that never was"
            for offset, payload in events.items():
                assert payload == ever[offset], "nothing is invented"

    def repair(self, health: Health, exact: Exact) -> None:
        repaired = repair(self._path, lambda: NEW_EPOCH)
        assert offsets(repaired.losses) == offsets(health.losses)
        lost = offsets(repaired.losses)
        assert check(self._path).is_sound, "a second check is clean"
        log = open_log(self._path, lambda: Epoch(901), disk_reserve_bytes=0)
        found = read_all(log)
        assert not found.index_damaged
        if exact is not Exact.SOME:
            self.check_events(found, lost)
        for name in NAMES:
            own = lost.get(name, set()) if name[1] == EPOCH else set()
            assert own <= found.lost.get(name, set()) | {offset for offset in own if offset < log.info(*name).start}, (
                "lost offsets of own streams stay lost, and say so"
            )
            assert not set(found.events.get(name, {})) & lost.get(name, set())
        self._check_going_on(log, any(name[1] == EPOCH for name in lost), exact)
        log.close()

    def _check_going_on(self, log: Log, lost_own: bool, exact: Exact) -> None:
        """Lost offsets are not given again."""
        assert log.epoch == NEW_EPOCH if lost_own or exact is Exact.SOME else log.epoch in (EPOCH, NEW_EPOCH)
        before = {(info.stream, info.epoch): info.end for info in log.streams()}
        appended = log.append(PLAIN, batch(b"after the repair"))
        log.sync()
        assert appended.first_offset == before.get((PLAIN, log.epoch), 0)
        stored = log.read(PLAIN, log.epoch, appended.first_offset)
        assert len(stored) == 1
        if (COPY, NAMES[-1][1]) in before:
            end = before[(COPY, NAMES[-1][1])]
            assert log.append_copy(COPY, NAMES[-1][1], batch(b"fetched again", base=end)) is not None


TRIALS = [pytest.param(case, name, id=f"{case.name}-{name}") for case in CASES for name in case.specimens]


@pytest.mark.req("LOG-01", "LOG-03")
@pytest.mark.parametrize(("case", "specimen_name"), TRIALS)
def test_damage_is_repaired_or_said(
    case: Case, specimen_name: str, specimens: dict[str, Specimen], tmp_path: Path
) -> None:
    specimen = specimens[specimen_name]
    for seed in SEEDS:
        path = specimen.copy_to(tmp_path / str(seed))
        done = case.wound(path, Chance(f"{case.name} {seed}"))  # noqa: S311
        try:
            judge = Judge(specimen, path)
            before = files(path)
            health = check(path)
            assert files(path) == before, "checking changes nothing"
            if case.exact is Exact.NONE:
                assert not health.losses
            outcome = judge.outcome(health)
            assert outcome in case.outcome, f"expected {case.outcome}, was {outcome}"
            if outcome is not WHOLE:
                judge.repair(health, case.exact)
        except BaseException as error:
            error.add_note(f"seed {seed}: {done}")
            raise


def test_compacted_streams_are_part_of_the_specimen(specimens: dict[str, Specimen]) -> None:
    """Or the trials above would not show that gaps of compaction are told from losses."""
    grown_up = specimens["grown"]
    assert len(grown_up.promised((KEYED, EPOCH))) < len(grown_up.ever[(KEYED, EPOCH)]) // 2


# --- while the node runs -----------------------------------------------------------------------------------------


@pytest.mark.req("LOG-01")
def test_a_damaged_block_does_not_stop_a_running_node(tmp_path: Path) -> None:
    """RocksDB meets it while it compacts, and refuses all writes from then on; the store goes on without compaction."""
    log = open_log(tmp_path, lambda: EPOCH, disk_reserve_bytes=0, recent_bytes=0)
    for number in range(100):
        log.append(PLAIN, numbered(number, 1, size=100_000))
    settle(log)
    (table,) = batch_tables(tmp_path)
    data = bytearray(table.read_bytes())
    data[9_000_000] ^= 1
    table.write_bytes(data)
    retain(log, [RetentionRule(parse_pattern(">"), stream_bytes_max=5_000_000)], now_us=0)
    log.store.flush(wait=True)
    log.store.reclaim(b"", b"\xff" * 20)  # RocksDB does not say here that it failed
    for number in range(100, 103):
        assert log.append(PLAIN, numbered(number, 1)).first_offset == number
        log.sync()
        log.begin_segment()
    assert "checksum mismatch" in log.store.damage_met
    found = read_out(log, PLAIN)
    assert set(found.events) | found.lost_offsets == set(range(log.info(PLAIN, EPOCH).start, 103))
    assert found.lost_offsets < set(range(80, 100))
    log.close()
    assert offsets(check(tmp_path).losses) == {(PLAIN, EPOCH): found.lost_offsets}


@pytest.mark.req("LOG-03")
def test_a_repair_that_was_killed_is_finished_or_begun_again(
    specimens: dict[str, Specimen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at each of its steps; whoever comes next finds a log that is whole, or as damaged as it was."""

    class Killed(BaseException):
        pass

    def killing(original: Callable[..., object], left: Iterator[int]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if next(left, None) is None:
                raise Killed
            return original(*arguments, **options)

        return call

    for step in count():
        path = specimens["grown"].copy_to(tmp_path / str(step))
        wounds.delete(wals, slice(-1, None))(path, Chance(0))  # noqa: S311
        lost = offsets(check(path).losses)
        with monkeypatch.context() as patch:
            left = iter(range(step))  # how many files it may still rename or make
            patch.setattr(Path, "rename", killing(Path.rename, left))
            patch.setattr(Path, "touch", killing(Path.touch, left))
            try:
                repair(path, lambda: NEW_EPOCH)
                break
            except Killed:
                pass
        if (path / repairing.REPAIRED_DIR / repairing.READY_FILE).exists():
            assert check(path).is_sound, "who looks sees the repaired log"
            with closing(open_read_only(path)) as looking:
                assert looking.epoch == NEW_EPOCH
            log = open_log(path, lambda: Epoch(902), disk_reserve_bytes=0)
            assert log.epoch == NEW_EPOCH, "the repair was finished"
            log.close()
        else:
            with pytest.raises(LogDamaged) as refused:
                open_log(path, lambda: Epoch(902))
            assert offsets(refused.value.losses) == lost
            repair(path, lambda: NEW_EPOCH)
        assert check(path).is_sound
        assert {each.name for each in path.iterdir()} == {"claim", "db", "promised"}
    assert step == 6, "the marks, the copy, that it is whole, and three to put it in place"


# --- what a repair keeps, and what it needs ------------------------------------------------------------------------


ALONE = batch(b"alone", producer=b"a" * 16, sequence=1)
TOGETHER = [batch(b"%d" % number, producer=b"together %07d" % number, sequence=7) for number in range(450)]


def killed_with_producers(tmp_path: Path) -> Path:
    """A log with batches that were stored as they came, and some that were gathered."""
    with closing(open_log(tmp_path / "log", lambda: EPOCH, disk_reserve_bytes=0)) as log:
        log.append(PLAIN, ALONE)
        for first in range(0, len(TOGETHER), 150):  # each fills a block of a table file
            log.append_all([(PLAIN, each) for each in TOGETHER[first : first + 150]])
        log.sync()
        copy_live(tmp_path / "log", tmp_path / "killed")
    return tmp_path / "killed"


def check_all_is_known(path: Path) -> None:
    with closing(open_log(path, lambda: NEW_EPOCH, disk_reserve_bytes=0)) as log:
        assert log.epoch == EPOCH
        places = [log.append(PLAIN, each) for each in (ALONE, *TOGETHER)]
        assert all(each.repeated for each in places)
        assert [each.first_offset for each in places] == list(range(451))


@pytest.mark.req("LOG-03", "SDK-01")
def test_a_batch_from_before_a_repair_is_known_when_it_is_sent_again(tmp_path: Path) -> None:
    path = killed_with_producers(tmp_path)
    (path / "db" / "CURRENT").unlink()
    repair(path, lambda: NEW_EPOCH)
    check_all_is_known(path)


@pytest.mark.req("LOG-03")
def test_damage_to_what_is_kept_of_gathered_batches_is_said_and_repaired(tmp_path: Path) -> None:
    """Opening reads it, so a check must not find the log sound, nor a repair leave it as it is."""
    path = killed_with_producers(tmp_path)
    with closing(open_log(path, lambda: NEW_EPOCH, disk_reserve_bytes=0)):  # this moves it to a table file
        copy_live(path, tmp_path / "again")
    path = tmp_path / "again"
    mark = TOGETHER[200].producer
    assert mark is not None
    (table,) = [each for each in wounds.tables(path) if mark in each.read_bytes()]
    data = table.read_bytes()
    at = data.index(mark)
    table.write_bytes(data[:at] + b"T" + data[at + 1 :])
    with pytest.raises(LogDamaged):
        open_log(path, lambda: NEW_EPOCH, disk_reserve_bytes=0)
    health = check(path)
    assert health.trouble and not health.losses
    repair(path, lambda: NEW_EPOCH)
    assert check(path).is_sound
    with closing(open_log(path, lambda: NEW_EPOCH, disk_reserve_bytes=0)) as log:
        assert len(read_out(log, PLAIN).events) == 451


def test_a_disk_without_room_for_a_diagnosis_hides_no_damage(
    specimens: dict[str, Specimen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = specimens["young"].copy_to(tmp_path / "log")
    (path / "db" / "CURRENT").unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copy2", full)
        with pytest.raises(LogDamaged, match=r"CURRENT.*no room") as refused:
            open_log(path, lambda: NEW_EPOCH, disk_reserve_bytes=0)
        assert str(refused.value).count("No space left") == 1
        with pytest.raises(DiskFull):
            check(path)
        with pytest.raises(DiskFull):
            repair(path, lambda: NEW_EPOCH)
    assert {each.name for each in path.iterdir()} == {"claim", "db", "promised"}
    repair(path, lambda: NEW_EPOCH)
    assert check(path).is_sound


@pytest.mark.req("LOG-01")
def test_what_a_repair_copies_is_durable_before_it_counts(
    specimens: dict[str, Specimen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB syncs what it writes itself. Without links, the table files are copied, and nobody else syncs these."""
    path = specimens["grown"].copy_to(tmp_path / "log")
    (path / "db" / "CURRENT").unlink()
    copied, synced, before_ready = set[int](), set[int](), set[int]()

    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    def copy(source: str | Path, target: str | Path) -> None:
        shutil.copyfile(source, target)
        copied.add(Path(target).stat().st_ino)

    def sync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)

    def touch(place: Path) -> None:
        before_ready.update(synced)
        place.write_bytes(b"")

    with monkeypatch.context() as patch:
        patch.setattr("os.link", no_links)
        patch.setattr("shutil.copy2", copy)
        patch.setattr("os.fsync", sync)
        patch.setattr(Path, "touch", touch)
        repair(path, lambda: NEW_EPOCH)
    left = {each.stat().st_ino for each in (path / "db").iterdir()} & copied
    assert left
    assert left <= before_ready
