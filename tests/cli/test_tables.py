"""Tables in windows of any width, and in pipes."""

from __future__ import annotations

import pytest

from weft.cli.console import out
from weft.cli.tables import print_table

LONG = "plant.hall-7.line-12.press-3.hydraulics.temperature"
TIME = "2026-11-19T20:37:09.138328Z"
HEADINGS = ("topic", "events", "last event")


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> list[str]:
    monkeypatch.setattr(out, "width", columns)
    print_table(HEADINGS, [(LONG, "12", TIME), ("a.b", "1", "")])
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_in_a_narrow_window_names_are_folded_and_times_are_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(monkeypatch, capsys, 60)
    assert max(map(len, lines)) <= 60
    assert any(TIME in line for line in lines)
    assert "".join(line.split("  ")[0].strip() for line in lines[1:]) == f"{LONG}a.b"


def test_where_even_that_is_too_wide_each_row_stands_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(monkeypatch, capsys, 50) == [
        f"topic       {LONG[:38]}",
        f"            {LONG[38:]}",
        "events      12",
        f"last event  {TIME}",
        "",
        "topic   a.b",
        "events  1",
    ]


def test_in_a_pipe_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    topic = ".".join(["a" * 60] * 4)
    print_table(HEADINGS, [(topic, "12", TIME)])
    assert len(capsys.readouterr().out.splitlines()) == 2
