"""A gate that many threads may be inside at once, until one shuts it and waits for the others to leave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False

    def enter(self) -> None:
        """Wait while the gate is shut. Every ``enter`` needs a ``leave``."""
        with self._changed:
            while self._shut:
                self._changed.wait()
            self._inside += 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            if not self._inside:
                self._changed.notify_all()

    @contextmanager
    def passing(self) -> Iterator[None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def shut(self, timeout_s: float) -> Iterator[None]:
        """Let nobody in and wait until everybody has left. If that takes too long, open the gate again and raise
        TimeoutError."""
        with self._changed:
            self._shut = True
            if not self._changed.wait_for(lambda: not self._inside, timeout_s):
                self._open()
                raise TimeoutError(f"{self._inside} are still inside after {timeout_s} s")
        try:
            yield
        finally:
            with self._changed:
                self._open()

    def _open(self) -> None:
        self._shut = False
        self._changed.notify_all()
