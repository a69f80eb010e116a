"""A wall clock that jumps, for one process: ``clock.c`` is preloaded and reads a file."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("clock.c")
OFFSET: Final = struct.Struct("=q")


def build_clock(place: Path) -> Path | None:
    """The library to preload; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = place / "clock.so"
    subprocess.run([compiler, "-O1", "-Wall", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library


class Clock:
    """Of one node. It outlives the node's processes, as a machine's clock does."""

    def __init__(self, place: Path, library: Path | None) -> None:
        self._path, self._library = place, library
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        if self._library is None:
            return {}
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._path)}

    def set(self, jump_s: int) -> None:
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.write(OFFSET.pack(jump_s))
