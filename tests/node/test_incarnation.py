"""Every start of a node is a later life than all before."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import StorageError
from weft.limits import INCARNATION_MAX
from weft.node.incarnation import FILE, next_incarnation


def test_it_follows_the_clock_and_never_goes_back(tmp_path: Path) -> None:
    assert next_incarnation(tmp_path, now_ms=1000) == 1000
    assert next_incarnation(tmp_path, now_ms=1000) == 1001
    assert next_incarnation(tmp_path, now_ms=5) == 1002  # a clock that was set back
    assert next_incarnation(tmp_path, now_ms=2000) == 2000
    assert (tmp_path / FILE).read_text() == "2000\n"
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_a_clock_at_zero_still_counts_from_one(tmp_path: Path) -> None:
    assert next_incarnation(tmp_path, now_ms=0) == 1


@pytest.mark.parametrize("text", ["", "-1", "x", "9" * 30, str(INCARNATION_MAX + 1), "\xff"])
def test_a_damaged_file_is_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageError, match="damaged"):
        next_incarnation(tmp_path, now_ms=1000)


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        next_incarnation(tmp_path / "absent", now_ms=1000)
    (tmp_path / FILE).mkdir()
    with pytest.raises(StorageError, match="cannot read"):
        next_incarnation(tmp_path, now_ms=1000)
