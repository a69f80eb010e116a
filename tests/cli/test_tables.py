"""Tables in windows of any width, and in pipes."""

from __future__ import annotations

import pytest

from weft.cli.console import out
from weft.cli.tables import counted, print_table

LONG = "plant.hall-7.line-12.press-3.hydraulics.temperature"
TIME = "2026-11-19T20:37:09.138328Z"
HEADINGS = ("topic", "epoch", "events behind", "last event")


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> list[str]:
    monkeypatch.setattr(out, "width", columns)
    print_table(HEADINGS, [(LONG, "1794700000000", "12", TIME), ("a.b", "7", "1", "")])
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_table_that_fits_is_not_folded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    heading, first, second = printed(monkeypatch, capsys, 120)
    assert heading.endswith("last event") and "events behind" in heading
    assert first.startswith(LONG) and first.endswith(TIME) and second.startswith("a.b")


@pytest.mark.parametrize(("columns", "pieces"), [(80, 1), (60, 2)])
def test_in_a_narrow_window_text_is_folded_then_times_and_numbers_never(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, pieces: int
) -> None:
    above, heading, *lines = printed(monkeypatch, capsys, columns)
    assert max(map(len, lines)) <= columns
    assert "events" in above and "behind" in heading
    time = [line.split()[-1] for line in lines if line[-1] == "Z" or TIME[:10] in line]
    assert ("".join(time), len(time)) == (TIME, pieces)
    assert "1794700000000" in lines[0].split()
    assert "".join(line.split()[0] for line in lines if not line.startswith(" ")).startswith(LONG)


def test_where_even_that_is_too_wide_each_row_stands_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(monkeypatch, capsys, 50) == [
        f"topic          {LONG[:35]}",
        f"               {LONG[35:]}",
        "epoch          1794700000000",
        "events behind  12",
        f"last event     {TIME}",
        "",
        "topic          a.b",
        "epoch          7",
        "events behind  1",
    ]


def test_in_a_pipe_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    topic = ".".join(["a" * 60] * 4)
    print_table(HEADINGS, [(topic, "1", "12", TIME)])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_one_thing_is_not_called_several() -> None:
    assert [counted(number, "event") for number in (0, 1, 5_000)] == ["0 events", "1 event", "5,000 events"]
