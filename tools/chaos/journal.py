"""Where the processes of a run write down what they did: files of JSON lines that are only ever appended to.

A line is one ``write``, so a process that is killed leaves whole lines, but for the last one perhaps.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    """Written by one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, kind: str, **facts: Any) -> None:
        line = json.dumps({"kind": kind, "at": round(time.time(), 4), **facts}, separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole line. A torn one can only be the last one."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
