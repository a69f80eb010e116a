"""Where commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

from rich.console import Console
from rich.markup import escape

PIPE_COLUMNS: Final = 200  # where nobody has a window, lines are for programs and should not be broken


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    return console


out = _console(stderr=False)
err = _console(stderr=True)


def fail(message: str, status: int = 1) -> NoReturn:
    """One line for a tired person, and a status for their script."""
    err.print(f"[red]weft:[/] {escape(message)}")
    sys.exit(status)
