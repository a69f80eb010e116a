"""Tables, numbers and times as commands print them, and JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from weft.cli.console import out
from weft.visible import visible

GAP_COLUMNS: Final = 2  # between columns, as rich has it
FOLDED_COLUMNS: Final = 20  # text is folded to no less: a name of two or three lines can still be read
START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def print_json(document: Any) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> None:
    """The first ``names`` columns are text, the others numbers. In a narrow window long text is folded, numbers and
    times never; where that does not help, each row is shown by itself, a line for each of its cells."""
    widths = [max(map(_width, column)) for column in zip(headings, *rows, strict=True)]
    least = [min(width, FOLDED_COLUMNS) if number < names else width for number, width in enumerate(widths)]
    if sum(least) + GAP_COLUMNS * (len(least) - 1) > out.width:
        _print_rows(headings, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, (heading, width) in enumerate(zip(headings, least, strict=True)):
        justify: Literal["left", "right"] = "left" if number < names else "right"
        table.add_column(heading, justify=justify, overflow="fold", min_width=width, no_wrap=number >= names)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


def _print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One after the other, with an empty line between them; what a row does not have is left out."""
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
    """RFC 3339, as options take it; the number itself where the calendar ends."""
    try:
        moment = START + timedelta(microseconds=timestamp_us)
    except OverflowError:
        return f"{timestamp_us} us"
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
