"""Retention and compaction in a thread of their own, now and then.

A round that meets damage or a full disk says so and goes on: what readers and publishers are told is not decided here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from structlog.stdlib import BoundLogger

from weft.core.topics import GROUPS
from weft.errors import StorageError
from weft.log import Log
from weft.log.compaction import compact
from weft.log.retention import RetentionRule, retain
from weft.model import Topic, matches


class Maintenance:
    """``wants_compaction``: which topics keep only the latest event of each key. The state of groups always does."""

    def __init__(
        self,
        log: Log,
        rules: Sequence[RetentionRule],
        wants_compaction: Callable[[Topic], bool],
        interval_s: float,
        on_changed: Callable[[], None],
        logger: BoundLogger,
    ) -> None:
        self._log = log
        self._rules = rules
        self._wants_compaction = wants_compaction
        self._interval_s = interval_s
        self._on_changed = on_changed
        self._logger = logger
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-log-maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After the stream that it is at."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self.round()

    def round(self) -> None:
        now_us = time.time_ns() // 1000
        self._retain(now_us)
        self._compact(now_us)
        self._on_changed()

    def _retain(self, now_us: int) -> None:
        try:
            for expired in retain(self._log, self._rules, now_us):
                self._logger.info(
                    "events_expired",
                    stream=str(expired.stream),
                    epoch=expired.epoch,
                    first=expired.first,
                    end=expired.end,
                    bytes=expired.bytes,
                )
        except StorageError as error:
            self._logger.error("retention_failed", error=str(error))

    def _compact(self, now_us: int) -> None:
        for state in self._log.states():
            topic = state.stream.topic
            if self._stopping.is_set():
                return
            if not (matches(GROUPS, topic) or self._wants_compaction(topic)):
                continue
            try:
                done = compact(self._log, state, now_us)
            except StorageError as error:
                self._logger.error("compaction_failed", stream=str(state.stream), epoch=state.epoch, error=str(error))
                continue
            if done is not None and done.events_removed:
                self._logger.info(
                    "stream_compacted",
                    stream=str(done.stream),
                    epoch=done.epoch,
                    end=done.end,
                    removed=done.events_removed,
                    kept=done.events_kept,
                    bytes=done.bytes_removed,
                )
