"""Files of secrets: modes, replacement, reading again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from weft.errors import StorageError
from weft.security.files import (
    SECURITY_FILE_BYTES_MAX,
    Watched,
    alone,
    private_directory,
    read_file,
    read_private,
    write_private,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.req("SEC-01")
def test_what_is_written_is_for_its_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        directory = private_directory(tmp_path / "ca")
        write_private(directory / "key", b"secret")
        write_private(directory / "key", b"another")
    finally:
        os.umask(old)
    assert (mode(directory), mode(directory / "key")) == (0o700, 0o600)
    assert read_private(directory / "key") == b"another"
    assert [each.name for each in directory.iterdir()] == ["key"], "nothing is left over"


@pytest.mark.parametrize("open_mode", [0o640, 0o604, 0o660])
def test_a_secret_that_others_can_read_is_not_used(tmp_path: Path, open_mode: int) -> None:
    file = tmp_path / "key"
    write_private(file, b"secret")
    file.chmod(open_mode)
    with pytest.raises(StorageError, match="open to others: chmod 600"):
        read_private(file)
    assert read_file(file) == b"secret"


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_private(tmp_path / "none") is None
    assert read_file(tmp_path / "none") is None


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "large").touch(0o600)
    os.truncate(tmp_path / "large", SECURITY_FILE_BYTES_MAX + 1)
    with pytest.raises(StorageError, match=r"large is too large \(limit"):
        read_private(tmp_path / "large")
    with pytest.raises(StorageError, match="cannot read"):
        read_file(tmp_path)
    (tmp_path / "file").touch()
    for call in (
        lambda: write_private(tmp_path / "file" / "x", b""),
        lambda: read_private(tmp_path / "file" / "x"),
        lambda: private_directory(tmp_path / "file" / "x"),
        lambda: alone(tmp_path / "file" / "x").__enter__(),
    ):
        with pytest.raises(StorageError, match="cannot"):
            call()


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_private(tmp_path / "key", b"old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match="No space left"):
        write_private(tmp_path / "key", b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("key", b"old")]


def number(data: bytes | None) -> int:
    try:
        return int(data or b"0")
    except ValueError:
        raise StorageError("no number") from None


def test_a_change_is_seen_after_a_second_and_not_looked_for_before(tmp_path: Path) -> None:
    file = tmp_path / "number"
    watched = Watched(file, number, now_s=0.0)
    write_private(file, b"1")
    assert watched.get(0.9) == 0
    assert watched.get(1.0) == 1
    file.unlink()
    assert watched.get(1.9) == 1
    assert watched.get(2.0) == 0


def test_a_damaged_file_leaves_the_last_good_value_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "number"
    write_private(file, b"7")
    watched = Watched(file, number, now_s=0.0)
    write_private(file, b"seven")
    assert (watched.get(1.0), watched.problem) == (7, "no number")
    write_private(file, b"8")
    assert (watched.get(2.0), watched.problem) == (8, None)
    file.chmod(0o644)
    assert watched.get(3.0) == 8
    assert "chmod 600" in str(watched.problem)
    file.chmod(0o600)
    assert (watched.get(4.0), watched.problem) == (8, None)
    write_private(file, b"nine")
    with pytest.raises(StorageError, match="no number"):
        Watched(file, number, now_s=0.0)
