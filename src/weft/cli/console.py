"""Where commands print: results on standard output, everything else on standard error.

Names, reasons and payloads come from others, so these consoles escape every character that moves the cursor or breaks a
line (``weft.visible``). Commands need not think of it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from weft.visible import SUSPECT, visible

BROKEN_PIPE: Final = 141  # the status of a command that SIGPIPE ended, as a shell has it
PIPE_COLUMNS: Final = 10_000  # where nobody has a window, lines are for programs and should not be broken


def end_of_pipe() -> NoReturn:
    """The reader of a pipe has closed it. Drop what is still in the buffers, so that Python does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if not stream.isatty():
            os.dup2(nowhere, stream.fileno())
    sys.exit(BROKEN_PIPE)


class VisibleConsole(Console):
    """Makes every string, text, table cell and tree label one line without invisible characters."""

    def on_broken_pipe(self) -> None:
        end_of_pipe()

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        return super().render(_visible_text(renderable) if isinstance(renderable, Text) else renderable, options)


def _visible_text(text: Text) -> Text:
    """The same with its styles."""
    if text.plain.isprintable():
        return text
    whole, at = text.blank_copy(), 0
    for found in SUSPECT.finditer(text.plain):
        whole.append_text(text[at : found.start()])
        piece = text[found.start() : found.end()]
        piece.plain = visible(found[0])
        whole.append_text(piece)
        at = found.end()
    return whole.append_text(text[at:])


def _console(*, stderr: bool) -> Console:
    console = VisibleConsole(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    return console


out = _console(stderr=False)
err = _console(stderr=True)


class Warnings(logging.Handler):
    """Prints what libraries log while a command runs; Python would print it unescaped. A node has its own logging."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(escape(record.getMessage()), style="dim", soft_wrap=True)


def show_warnings() -> None:
    """In place of Python's own last resort."""
    logging.lastResort = Warnings(logging.WARNING)


def fail(message: str, status: int = 1) -> NoReturn:
    """One line for a tired person, and a status for their script."""
    err.print(f"[red]weft:[/] {escape(message)}", soft_wrap=True)  # commands in it can be copied whole
    sys.exit(status)
