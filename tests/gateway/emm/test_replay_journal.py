"""What was taken is known after a restart, whatever a power cut left of the files, and the files stay small."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.errors import StorageError
from weft.gateway.emm import replay_journal
from weft.gateway.emm.replay_journal import BLOCK, HEADER, LIFETIME_S, NAMES, ReplayJournal
from weft.wire.seen import SALT_BYTES, Seen

SALT, OTHER = bytes(range(SALT_BYTES)), bytes(SALT_BYTES)
NOW_S = 1_800_000_000.0


def restored(data: Path, unix_s: float) -> Seen:
    """As a gateway that starts at that time."""
    journal = ReplayJournal(data, OTHER, unix_s)
    seen = Seen(journal.salt)
    journal.restore(seen, unix_s)
    journal.close()
    return seen


def written(data: Path, *blocks: list[int]) -> Path:
    """A journal with these, one a second."""
    journal = ReplayJournal(data, SALT, NOW_S)
    for number, block in enumerate(blocks):
        journal.append(block, NOW_S + number)
    journal.close()
    return data


@pytest.mark.req("SEC-07", "EMM-19")
def test_a_restart_forgets_nothing_within_the_window(tmp_path: Path) -> None:
    written(tmp_path, [1, 2], [2**64 - 1])
    seen = restored(tmp_path, NOW_S + 10)
    assert [value in seen for value in (1, 2, 2**64 - 1, 3)] == [True, True, True, False]
    assert ReplayJournal(tmp_path, OTHER, NOW_S).salt == SALT, "or all hashes were others"
    assert len(restored(tmp_path, NOW_S + LIFETIME_S + 2)) == 0, "too old to be taken anyway"
    assert 1 in restored(tmp_path, NOW_S - 3600), "a clock that was put back"
    assert all((tmp_path / name).stat().st_mode & 0o777 == 0o600 for name in NAMES)


def test_what_seen_has_added_is_taken_once() -> None:
    seen = Seen(SALT, journalled=True)
    seen.admit([1, 2, 2], None, NOW_S)
    seen.admit([3], [False], NOW_S)
    seen.add(b"mark", NOW_S, NOW_S)
    assert sorted(seen.take_new()) == sorted([1, 2, seen.hash(b"mark")])
    assert seen.take_new() == []
    seen.restore([7], NOW_S)
    assert 7 in seen and seen.take_new() == [], "it is in the journal already"


def test_a_torn_end_is_cut_off_and_written_over(tmp_path: Path) -> None:
    whole = (written(tmp_path / "whole", [1], [2, 3]) / NAMES[0]).read_bytes()
    first_end = HEADER.size + BLOCK.size + 8
    for cut in range(len(whole)):
        data = tmp_path / str(cut)
        data.mkdir()
        (data / NAMES[0]).write_bytes(whole[:cut])
        expected = {1} if cut >= first_end else set()
        seen = restored(data, NOW_S)
        assert {value for value in (1, 2, 3) if value in seen} == expected, cut
        journal = ReplayJournal(data, SALT, NOW_S)
        journal.append([4], NOW_S + 1)
        journal.close()
        seen = restored(data, NOW_S + 2)
        if cut >= HEADER.size:
            assert {value for value in (1, 2, 3, 4) if value in seen} == expected | {4}, cut
        shutil.rmtree(data)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_open(tmp_path: Path, content: bytes, headed: bool) -> None:
    header = HEADER.pack(replay_journal.MAGIC, SALT) if headed else b""
    (tmp_path / NAMES[0]).write_bytes(header + content)
    (tmp_path / NAMES[1]).write_bytes(b"")
    restored(tmp_path, NOW_S)


@pytest.mark.req("SEC-07")
def test_files_take_turns_and_stay_within_their_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_journal, "FILE_BYTES_MAX", 1000)
    journal = ReplayJournal(tmp_path, SALT, NOW_S)
    for number in range(500):
        journal.append([number], NOW_S)
        assert sum((tmp_path / name).stat().st_size for name in NAMES) < 2 * (1000 + BLOCK.size + 8)
    seen = restored(tmp_path, NOW_S)
    assert 499 in seen and 460 in seen and 0 not in seen
    journal.append([1000], NOW_S + LIFETIME_S + 1)
    journal.close()
    assert 1000 in restored(tmp_path, NOW_S + LIFETIME_S + 1)


def test_a_turn_by_age_keeps_what_still_counts(tmp_path: Path) -> None:
    journal = ReplayJournal(tmp_path, SALT, NOW_S)
    for second in range(3 * LIFETIME_S):
        journal.append([second], NOW_S + second)
    journal.sync()
    journal.close()
    now_s = NOW_S + 3 * LIFETIME_S
    seen = restored(tmp_path, now_s)
    assert all(value in seen for value in range(2 * LIFETIME_S + 1, 3 * LIFETIME_S))
    assert 0 not in seen


def test_what_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = ReplayJournal(tmp_path, SALT, NOW_S)
    journal.append([1], NOW_S)
    real = os.pwrite

    def half(descriptor: int, data: bytes, at: int) -> int:
        return real(descriptor, data[: len(data) // 2], at)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(StorageError, match=r"cannot write .*emm-replays\.0: no room"):
        journal.append([2], NOW_S)
    monkeypatch.setattr(os, "pwrite", real)
    journal.append([3], NOW_S)
    journal.close()
    seen = restored(tmp_path, NOW_S)
    assert [value in seen for value in (1, 2, 3)] == [True, False, True]
