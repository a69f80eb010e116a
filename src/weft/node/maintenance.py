"""Retention and compaction in a thread of their own, now and then.

A round that meets damage or a full disk logs that and goes on: other code decides what readers and publishers are told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from structlog.stdlib import BoundLogger

from weft.core.kv import KvSettings
from weft.core.topics import GROUPS
from weft.errors import StorageError
from weft.log import Log
from weft.log.compaction import Compacted, compact
from weft.log.errors import DiskFull
from weft.log.kv_compaction import WRITINGS_MAX, compact_bucket
from weft.log.records import StreamState
from weft.log.retention import Expired, RetentionRule, cut_before, retain
from weft.model import Batch, Epoch, NodeId, Stream, Topic, matches
from weft.model.key_value import KEY_VALUES, Revision
from weft.model.later import DONE_SUFFIX, LATER_PREFIX, owner_of_waiting, read_marks


class Maintenance:
    """``wants_compaction``: which topics keep only the latest event of each key. The topics of groups always do."""

    def __init__(
        self,
        log: Log,
        rules: Sequence[RetentionRule],
        wants_compaction: Callable[[Topic], bool],
        buckets: BucketTidying,
        later: LaterTidying,
        interval_s: float,
        on_changed: Callable[[], None],
        logger: BoundLogger,
    ) -> None:
        self._log = log
        self._rules = rules
        self._wants_compaction = wants_compaction
        self._buckets = buckets
        self._later = later
        self._interval_s = interval_s
        self._on_changed = on_changed
        self._logger = logger
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-log-maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current stream."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self.round()

    def round(self) -> None:
        now_us = time.time_ns() // 1000
        self._retain(now_us)
        self._compact(now_us)
        self._buckets.round(now_us // 1000, self._stopping)
        self._tidy_later()
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
            self._logger.error("retention_failed", reason=str(error))

    def _tidy_later(self) -> None:
        try:
            for each in self._later.round():
                self._logger.info("later_tidied", stream=str(each.stream), first=each.first, end=each.end)
        except StorageError as error:
            self._logger.error("tidying_failed", what="events for later", reason=str(error))

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
                self._logger.error("compaction_failed", stream=str(state.stream), epoch=state.epoch, reason=str(error))
                continue
            if done is not None and done.events_removed:
                _say_compacted(self._logger, done)


class BucketTidying:
    """Compaction of buckets of keys and values. ``gone`` is called in the maintenance thread, with the keys that have
    left the log. Buckets that did not change, and in which nothing is due, are skipped."""

    def __init__(
        self,
        log: Log,
        settings: KvSettings,
        gone: Callable[[Topic, Sequence[tuple[str, Revision]]], None],
        logger: BoundLogger,
    ) -> None:
        self._log = log
        self._settings = settings
        self._gone = gone
        self._logger = logger
        self._looked: dict[Topic, tuple[frozenset[tuple[int, int]], int | None]] = {}  # ends by stream, next due time

    def round(self, now_ms: int, stopping: threading.Event) -> None:
        """Go over all buckets. If more could be deleted from the segment that is being written, end it."""
        ends: dict[Topic, set[tuple[int, int]]] = {}
        for state in self._log.states():
            if matches(KEY_VALUES, state.stream.topic):
                ends.setdefault(state.stream.topic, set()).add((state.id, state.durable))
        self._log.look_flushed()
        wants_segment = False
        for topic, stands in ends.items():
            seen, due_ms = self._looked.get(topic, (frozenset(), None))
            if stopping.is_set():
                return
            if seen != stands or (due_ms is not None and due_ms <= now_ms):
                wants_segment = self._tidy(topic, frozenset(stands), now_ms) or wants_segment
        if wants_segment:
            with suppress(DiskFull):
                self._log.begin_segment()

    def _tidy(self, topic: Topic, stands: frozenset[tuple[int, int]], now_ms: int) -> bool:
        """Return whether a new segment is wanted."""
        grace_ms, skew_ms = int(self._settings.grace_s * 1000), self._settings.skew_ms_max
        try:
            done = compact_bucket(self._log, topic, now_ms, grace_ms=grace_ms, skew_ms=skew_ms)
        except StorageError as error:
            self._logger.error("compaction_failed", bucket=topic, reason=str(error))
            return False
        if done is None:
            self._logger.warning("bucket_too_large", bucket=topic, limit=WRITINGS_MAX)
            return False
        for each in done.streams:
            _say_compacted(self._logger, each)
        if done.gone:
            self._gone(topic, done.gone)
        self._looked[topic] = (stands, now_ms if done.wants_segment else done.due_ms)
        return done.wants_segment


class LaterTidying:
    """Deletes waiting events that were delivered or cancelled, from the front of their streams. Deletes marks once no
    event is left to which they may belong: a mark belongs to an event of its own epoch or of an earlier one. ``tidied``
    is called in the maintenance thread, with what has left the log."""

    def __init__(self, log: Log, me: NodeId, tidied: Callable[[Sequence[tuple[Stream, Epoch, int]]], None]) -> None:
        self._log = log
        self._me = me
        self._tidied = tidied
        self._looked: dict[Stream, list[int]] = {}  # streams of events, and how far they and their marks went

    def round(self) -> list[Expired]:
        """Return what was deleted. Raise StorageError; what was done so far stays done."""
        states: dict[Stream, list[StreamState]] = {}
        for state in self._log.states():
            if state.stream.topic.startswith(LATER_PREFIX) and self._is_ours(state):
                states.setdefault(state.stream, []).append(state)
        self._log.look_flushed()
        cut: list[Expired] = []
        wants_segment = False
        for marked, marks in states.items():
            topic = marked.topic.removesuffix(DONE_SUFFIX)
            if topic == marked.topic or owner_of_waiting(topic) is None:
                continue
            waiting = states.get(Stream(Topic(topic), marked.origin, marked.partition), [])
            seen = [state.durable for state in (*waiting, *marks)]
            if self._looked.get(marked) == seen:
                continue
            has_more = self._tidy(waiting, marks, cut)
            wants_segment = wants_segment or has_more
            if not has_more:
                self._looked[marked] = seen
        if cut:
            self._tidied([(each.stream, each.epoch, each.end) for each in cut])
        if wants_segment:
            with suppress(DiskFull):
                self._log.begin_segment()
        return cut

    def _is_ours(self, state: StreamState) -> bool:
        return state.stream.origin == self._me and state.epoch <= self._log.epoch

    def _tidy(self, waiting: list[StreamState], marks: list[StreamState], cut: list[Expired]) -> bool:
        """Return whether more could be deleted if the segment were ended."""
        cuts = [(state, self._first_waiting(state, marks)) for state in waiting]
        has_more = self._cut(cuts, cut)
        left = [state.epoch for state in waiting if state.start < state.end]
        done = [(state, state.end) for state in marks if not any(epoch <= state.epoch for epoch in left)]
        return self._cut(done, cut) or has_more

    def _cut(self, cuts: list[tuple[StreamState, int]], cut: list[Expired]) -> bool:
        has_more = False
        for state, end in cuts:
            if end > state.start:
                taken, more = cut_before(self._log, state, end)
                cut += [] if taken is None else [taken]
                has_more = has_more or more
        return has_more

    def _first_waiting(self, state: StreamState, marks: list[StreamState]) -> int:
        """The first event that is neither delivered nor cancelled; the end of the stream if there is none."""
        end, done = state.durable, set[int]()
        for each in marks:
            at, before = each.start, None if each.epoch == state.epoch else state.epoch
            while each.epoch >= state.epoch and (stored := self._log.read(each.stream, each.epoch, at)):
                batches = [Batch.read_stored(data) for data in stored]
                done.update(read_marks(batches, before))
                at = batches[-1].end_offset
        return next((offset for offset in range(state.start, end) if offset not in done), end)


def _say_compacted(logger: BoundLogger, done: Compacted) -> None:
    logger.info(
        "stream_compacted",
        stream=str(done.stream),
        epoch=done.epoch,
        end=done.end,
        removed=done.events_removed,
        kept=done.events_kept,
        bytes=done.bytes_removed,
    )
