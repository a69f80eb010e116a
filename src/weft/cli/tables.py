"""Tables, numbers and times as commands print them, and JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from rich.markup import escape
from rich.table import Table

from weft.cli.console import out

START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def print_json(document: Any) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> None:
    """The first ``names`` columns are text, the others numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < names else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


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
