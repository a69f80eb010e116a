"""Runs of pipelines: one at a time by name, seen by others, asked to stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import StorageError, UsageError
from weft.pipelines.records import QueryRecord, Records, RunRecord, default_directory


def record(name: str = "archive", state: str = "running") -> RunRecord:
    queries = (QueryRecord("archive", 3, 10, 5.0, 2.0, 7, 30),)
    return RunRecord(name, "archive", 1, "local[2]", "a.toml", 1, 2, state, queries=queries)


def test_what_was_written_is_read_by_another(tmp_path: Path) -> None:
    with Records(tmp_path / "runs").claim("archive"):
        Records(tmp_path / "runs").write(record())
        assert Records(tmp_path / "runs").all() == [(record(), True)]
    assert Records(tmp_path / "runs").get("archive") == (record(), False)


def test_a_name_is_for_one_run_at_a_time(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with records.claim("archive"):
        with pytest.raises(UsageError, match="weft pipeline stop archive"), records.claim("archive"):
            pass
        with records.claim("other"):
            pass
    with records.claim("archive"):
        pass


def test_a_wish_to_stop_is_for_the_run_that_is_there(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with records.claim("archive"):
        assert not records.is_asked_to_stop("archive")
        records.ask_to_stop("archive")
        assert records.is_asked_to_stop("archive")
    with records.claim("archive"):
        assert not records.is_asked_to_stop("archive")


def test_what_nobody_has_run_and_what_is_damaged(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert Records(tmp_path / "none").all() == []
    with pytest.raises(UsageError, match="no pipeline called 'x'"):
        records.get("x")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(StorageError, match=r"x\.json"):
        records.get("x")


def test_where_records_are(tmp_path: Path) -> None:
    assert default_directory({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "weft" / "pipelines"
