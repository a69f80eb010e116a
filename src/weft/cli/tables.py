"""Tables, numbers and times as commands print them, and JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import msgspec
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from weft.cli.console import out
from weft.visible import visible

GAP_COLUMNS: Final = 2  # between columns, as rich has it
TEXT_COLUMNS: Final = 12  # a name of some lines of this can still be read
TIME_COLUMNS: Final = 16  # as far as the minute; numbers are not so long
START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def print_json(document: Any) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> None:
    """The first ``names`` columns are text, the others numbers and times. A narrow window folds text and headings, then
    times, but never numbers. If that is not enough, each row is shown by itself, with a line for each cell.
    """
    columns = [
        Column(heading, max((_width(row[at]) for row in rows), default=0), at < names)
        for at, heading in enumerate(headings)
    ]
    fixed = _fixed_widths(columns)
    if fixed is None:
        _print_rows(headings, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for each, width in zip(columns, fixed, strict=True):
        justify: Literal["left", "right"] = "left" if each.is_text else "right"
        table.add_column(escape(each.heading), justify=justify, overflow="fold", width=width)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


class Column(NamedTuple):
    heading: str
    width: int  # of its widest cell
    is_text: bool

    @property
    def need(self) -> int:
        """What it needs if its heading is folded between words."""
        return max(self.width, *map(_width, self.heading.split() or [""]))


def _fixed_widths(columns: Sequence[Column]) -> list[int | None] | None:
    """Columns without a width share what the others leave. None: the window is too narrow for a table."""
    room = out.width - GAP_COLUMNS * (len(columns) - 1)
    if sum(max(each.width, _width(each.heading)) for each in columns) <= room:
        return [None] * len(columns)
    for times in (out.width, TIME_COLUMNS):
        limits = [TEXT_COLUMNS if each.is_text else times for each in columns]
        if sum(min(each.need, limit) for each, limit in zip(columns, limits, strict=True)) <= room:
            return [each.need if each.need <= limit else None for each, limit in zip(columns, limits, strict=True)]
    return None


def _print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One row after the other, with an empty line between them; empty cells are left out."""
    for number, row in enumerate(rows):
        if number:
            out.print()
        block = Table(box=None, pad_edge=False, show_header=False)
        block.add_column(style="bold", no_wrap=True)
        block.add_column(overflow="fold")
        for heading, cell in zip(headings, row, strict=True):
            if cell:
                block.add_row(escape(heading), escape(cell))
        out.print(block)


def _width(text: str) -> int:
    return cell_len(visible(text))


def counted(number: int, noun: str) -> str:
    """``1 event``, ``5,000 events``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def human_bytes(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def human_time(timestamp_us: int) -> str:
    """RFC 3339, as options take it; beyond the calendar, the number itself."""
    try:
        moment = START + timedelta(microseconds=timestamp_us)
    except OverflowError:
        return f"{timestamp_us} us"
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
