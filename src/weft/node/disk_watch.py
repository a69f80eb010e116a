"""Logs when a node begins to refuse events because its disk has too little room, and when it accepts them again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from structlog.stdlib import BoundLogger

from weft.log.errors import DiskFull

LOOK_INTERVAL_S: Final = 1.0  # each look asks the file system once; nobody needs the line in the log sooner


class DiskWatch:
    """``find`` says why there is no room now, or None. Each change is logged once, when somebody first looks."""

    def __init__(self, find: Callable[[], DiskFull | None], data: Path, logger: BoundLogger) -> None:
        self._find = find
        self._data = data
        self._logger = logger
        self._was_full = False

    def look(self) -> DiskFull | None:
        """Why events are refused at the moment, with the directory; None if they are not."""
        found = self._find()
        if found is None:
            if self._was_full:
                self._logger.info("disk_has_room", directory=str(self._data))
            self._was_full = False
            return None
        full = DiskFull(found.what, **found.facts, directory=str(self._data))
        if not self._was_full:
            self._logger.warning("disk_full", reason=full.what, **full.facts)
        self._was_full = True
        return full

    async def run(self) -> None:
        """Look now and then, even while nobody asks."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_INTERVAL_S)
