"""Says on standard error that long work still goes on, so that nobody thinks it hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.markup import escape

from weft.cli.console import err
from weft.cli.tables import human_bytes

QUIET_S: Final = 2.0  # work that takes no longer needs no words


class Working:
    """Says on standard error that the work goes on, at regular intervals. Call it with the number of bytes done."""

    def __init__(self, what: str, say: Callable[[str], None], every_s: float) -> None:
        self._what = what
        self._say = say
        self._every_s = every_s
        self._elapsed_s = 0.0
        self._done_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __call__(self, done_bytes: int) -> None:
        self._done_bytes = done_bytes

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._elapsed_s += self._every_s
            done = f", {human_bytes(self._done_bytes)}" if self._done_bytes else ""
            self._say(f"{self._what}: {self._elapsed_s:.0f} s{done}")


@contextmanager
def working(what: str, say: Callable[[str], None] | None = None, every_s: float = QUIET_S) -> Iterator[Working]:
    progress = Working(what, say or _say, every_s)
    progress.start()
    try:
        yield progress
    finally:
        progress.stop()


def _say(line: str) -> None:
    err.print(escape(line), style="dim")
