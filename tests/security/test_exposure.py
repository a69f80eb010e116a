"""Directories that are closed to others: all that is ours, and nothing beyond."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from weft.errors import UsageError
from weft.security import exposure
from weft.security.exposure import close_to_others


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def made(path: Path, permissions: int) -> Path:
    path.touch()
    path.chmod(permissions)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """As a log was left by older versions."""
    place = tmp_path / "data"
    (place / "db").mkdir(parents=True)
    made(place / "db" / "CURRENT", 0o644)
    made(place / "promised", 0o600)
    place.chmod(0o755)
    (place / "db").chmod(0o755)
    return place


def test_everything_is_closed_and_told(data: Path) -> None:
    found = close_to_others(data)
    assert [mode(each) for each in (data, data / "db", data / "db" / "CURRENT")] == [0o700, 0o700, 0o600]
    assert (found.closed.count, found.closed.to) == (3, "everybody")
    assert found.closed.first == ". (0755), db (0755), db/CURRENT (0644)"
    assert found.left.count == 0
    assert close_to_others(data).closed.count == 0, "once"


def test_thousands_of_files_are_told_by_a_few(data: Path) -> None:
    for number in range(10):
        made(data / f"{number}", 0o640)
    closed = close_to_others(data).closed
    assert (closed.count, closed.first.count("(")) == (13, exposure.NAMED_MAX)


@pytest.mark.parametrize("permissions", [0o020, 0o010, 0o002])
def test_any_right_counts(data: Path, permissions: int) -> None:
    close_to_others(data)
    made(data / "file", 0o600 | permissions)
    assert close_to_others(data).closed.to == ("everybody" if permissions == 0o002 else "its group")
    assert mode(data / "file") == 0o600


def test_links_are_not_followed(data: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o755)
    file = made(outside / "file", 0o644)
    (data / "directory").symlink_to(outside)
    (data / "file").symlink_to(file)
    (data / "broken").symlink_to(tmp_path / "absent")
    assert close_to_others(data).closed.count == 3
    assert (mode(outside), mode(file)) == (0o755, 0o644)


def test_the_directory_itself_may_be_a_link(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data)
    close_to_others(tmp_path / "link")
    assert mode(data) == 0o700


def test_what_is_neither_file_nor_directory_is_left_alone(data: Path) -> None:
    os.mkfifo(data / "pipe", 0o666)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(data / "socket"))
        assert close_to_others(data).closed.count == 3, "and it waits for no writer of a pipe"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_others_is_named_and_left(data: Path) -> None:
    os.chown(made(data / "db" / "LOG", 0o640), 10001, -1)
    found = close_to_others(data)
    assert (found.closed.count, found.left.count, found.left.to) == (3, 1, "its group")
    assert found.left.first == "db/LOG (0640, of user 10001)"
    assert mode(data / "db" / "LOG") == 0o640


def test_a_file_system_that_knows_no_modes_is_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    found = close_to_others(data)
    assert (found.closed.count, found.left.count, found.left.to) == (0, 3, "everybody")


def test_what_is_not_there_is_not_open(tmp_path: Path) -> None:
    assert close_to_others(tmp_path / "absent").closed.count == 0


def test_a_directory_of_all_users_is_refused(data: Path) -> None:
    data.chmod(0o1777)
    with pytest.raises(UsageError, match="is shared by all users of this machine"):
        close_to_others(data)
    assert mode(data) == 0o1777
    assert mode(data / "db") == 0o755
