"""The schemas of the mesh at one node: entries of a bucket, so every node has them (LAK-02).

When a node starts, it reads them from its log before it accepts events, so that none slips through. From then on it is
told of every change as it is folded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from weft.core.topics import is_own
from weft.errors import UsageError, WeftError
from weft.log import Log, StreamInfo
from weft.model import Batch, Event, Pattern, Topic
from weft.model.key_value import Op, Record, Revision, check_value, read_record_untrusted, topic_of
from weft.node.kv import KeyValues
from weft.node.schema_gate import SchemaGate
from weft.port.errors import QuotaUsedUp
from weft.port.kv import Write
from weft.schema import registry
from weft.schema.errors import NoSchema
from weft.schema.registry import (
    PATTERNS_MAX,
    SCHEMAS_BUCKET,
    Change,
    TopicSchema,
    changed,
    key_of,
    most_specific,
    write_record,
)

READ_BYTES: Final = 1 << 20  # of one read of the log


class Schemas:
    """``SchemaStore``. It tells the gate which schemas hold."""

    def __init__(self, kv: KeyValues, log: Log, gate: SchemaGate, wall_us: Callable[[], int]) -> None:
        self._kv = kv
        self._gate = gate
        self._wall_us = wall_us
        self._values: dict[str, bytes] = {}  # by key, as they were last read
        self._known: dict[Pattern, TopicSchema] = {}
        self._changing = asyncio.Lock()  # a change depends on what there is: one after the other
        self._take(dict(_stored(log)))
        kv.listen(self._heard)

    # --- what the mesh has -------------------------------------------------------------------------------------------

    def _heard(self) -> None:
        """One of the mesh's own buckets has changed, or all of them have been read."""
        if self._kv.is_ready:
            self._take(self._folded())

    def _folded(self) -> dict[str, bytes]:
        bucket, now_ms = self._kv.state.get(SCHEMAS_BUCKET), self._wall_us() // 1000
        found: dict[str, bytes] = {}
        for entry in () if bucket is None else bucket.entries():
            item = self._kv.latest(SCHEMAS_BUCKET, entry.key) if entry.key and entry.is_live(now_ms) else None
            if item is not None:
                found[entry.key] = item.value
        return found

    def _take(self, values: dict[str, bytes]) -> None:
        if values == self._values:
            return
        self._values = values
        records = (registry.read_record_untrusted(key, value) for key, value in values.items())
        self._known = {Pattern(each.pattern): each for each in records if each is not None}
        self._gate.set_records(self._known.values())

    # --- for callers -------------------------------------------------------------------------------------------------

    async def list(self) -> list[TopicSchema]:
        await self._opened()
        return [self._known[pattern] for pattern in sorted(self._known)]

    async def of_topic(self, topic: Topic) -> TopicSchema | None:
        await self._opened()
        if is_own(topic):
            return None
        pattern = most_specific(topic, self._known)
        return None if pattern is None else self._known[pattern]

    async def put(self, pattern: Pattern, change: Change, by: str, *, dry_run: bool) -> TopicSchema:
        if is_own(pattern):
            raise UsageError("topics below weft. belong to the mesh: they have no schemas", pattern=pattern)
        async with self._changing:
            await self._opened()
            before = self._known.get(pattern)
            if before is None and len(self._known) >= PATTERNS_MAX:
                raise QuotaUsedUp("the mesh has as many schemas as it may", pattern=pattern, limit=PATTERNS_MAX)
            record = changed(pattern, before, change, self._wall_us(), by)
            if dry_run or record == before:
                return record
            value = write_record(record)
            check_value(pattern, value)
            await self._kv.write(Write(SCHEMAS_BUCKET, key_of(pattern), value, by))
            self._heard()
            return record

    async def remove(self, pattern: Pattern, by: str) -> None:
        async with self._changing:
            await self._opened()
            if pattern not in self._known:
                raise NoSchema("no schema is set for that pattern", pattern=pattern)
            await self._kv.write(Write(SCHEMAS_BUCKET, key_of(pattern), None, by))
            self._heard()

    async def _opened(self) -> None:
        """Wait until this node has read all buckets in its log."""
        await self._kv.items(SCHEMAS_BUCKET, Pattern(">"), "", 1)
        self._heard()


def _stored(log: Log) -> Iterator[tuple[str, bytes]]:
    """What the log has of the bucket, by key: for each key the write that counts."""
    latest: dict[str, tuple[Revision, Record]] = {}
    for info in log.streams(Pattern(topic_of(SCHEMAS_BUCKET))):
        for event in _events(log, info):
            record = read_record_untrusted(event)
            revision = None if record is None else record.revision(info.stream.origin)
            if record is not None and revision is not None:
                latest[record.key] = max((revision, record), latest.get(record.key, (revision, record)))
    return ((key, record.value) for key, (_, record) in latest.items() if record.op is Op.PUT)


def _events(log: Log, info: StreamInfo) -> Iterator[Event]:
    offset = info.start
    while offset < info.end:
        try:
            stored = log.read(info.stream, info.epoch, offset, info.end, READ_BYTES)
        except WeftError:  # the code that follows the bucket reports damage
            return
        for data in stored:
            batch = Batch.read_stored(data)
            yield from batch.events_from(offset)
            offset = batch.end_offset
        if not stored:
            return
