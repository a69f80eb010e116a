"""The buckets of a node: what the log has of them, folded in memory, and what callers read and write.

Only the log is stored. When the first bucket is used, the node reads the entries of all buckets in its log; from then
on it follows them like a subscriber. What it writes itself counts as soon as it is durable, before the writer gets its
answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Final

from weft.core.kv import Bucket, Buckets, Entry, KvSettings, Place
from weft.core.kv.bucket import selects_key
from weft.core.kv.buckets import Change
from weft.core.messages import AddCredit, Delivered, Edge, FromPositions, Receipted, StreamKey
from weft.errors import WeftError
from weft.limits import MIB
from weft.log.errors import EventsLost
from weft.model import Batch, EventId, NodeId, Pattern, Position, Topic
from weft.model.key_value import (
    KEY_VALUES,
    SETTINGS_KEY,
    BucketSettings,
    Op,
    Record,
    Revision,
    is_of_mesh,
    settings_value,
    topic_of,
)
from weft.model.pipeline_reports import PIPELINES_BUCKET, PipelineReport, read_report_untrusted
from weft.node.figures import KvFigures
from weft.port.errors import Busy, NotOwner, RevisionConflict
from weft.port.held import Use
from weft.port.kv import (
    ABSENT,
    BucketInfo,
    Item,
    NotHeldWhole,
    State,
    Write,
)
from weft.port.node import MeshNode, Part
from weft.port.pages import PageRoom
from weft.routing import in_pieces

CREDIT_BYTES: Final = 4 * MIB  # read ahead of folding
READY_S: Final = 30.0  # to read what the log has; after that, callers are told to come back
ARRIVAL_S: Final = 4.0  # for a revision that somebody has seen elsewhere; clients give a call five seconds
RETRY_S: Final = 1.0  # after the node ended the subscription
ADOPT_S: Final = 5.0  # between two searches for what a lost disk left behind
ADOPTED_AT_ONCE: Final = 1000  # entries per search: other writers have their turn in between
ALARM_S_MAX: Final = 60.0  # then the clock is read again: it may have been set, or the machine slept
ITEM_BYTES: Final = 128  # of an item beside its key and value, roughly
PIPELINES_MAX: Final = 256  # pipelines with metrics and a row; others are in the bucket all the same
LOOKED_MAX: Final = 10_000  # keys looked at for one page; then the caller is told where to go on


@dataclass(slots=True)
class Pending:
    """A write without a receipt."""

    bucket: str
    record: Record
    done: asyncio.Future[None]


class KeyValues:
    """``KeyValueStore``. To the node it is a publisher and a subscriber. ``now_ms``: milliseconds since 1970, by the
    machine's clock. ``epoch_of``: the epoch of the log that a node has now, 0 if unknown."""

    def __init__(
        self,
        node: MeshNode,
        settings: KvSettings,
        now_ms: Callable[[], int],
        epoch_of: Callable[[NodeId], int],
    ) -> None:
        self.settings = settings
        self.state = Buckets(node.node_id, settings)
        self.gets = 0
        self.writes = 0
        self.conflicts = 0
        self._listeners: list[Callable[[], None]] = []
        self._node = node
        self._me = node.node_id
        self.now_ms = now_ms
        self._epoch_of = epoch_of
        self._loop = asyncio.get_running_loop()
        self._subscription: int | None = None
        self._is_open = False
        self._is_joined = False
        self._holding = node.held.holding("buckets", Use.SUBSCRIBE)
        self._folded: dict[StreamKey, int] = {}  # the next offset of each stream
        self._missing: dict[StreamKey, int] | None = None  # what has to be read before anybody gets an answer
        self._ready = asyncio.Event()
        self._waiting: deque[Delivered] = deque()
        self._is_working = False
        self._requests = count(1)
        self._pending: dict[int, Pending] = {}
        self._beside: set[int] = set()  # requests for events that are written together with an entry
        self._adopted: dict[StreamKey, int] = {}  # what was searched for entries to adopt, and how far
        self._unsynced: dict[tuple[str, str], list[Revision]] = {}  # per key, the latest last
        self._watches: dict[str, set[Watch]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    # --- reading -------------------------------------------------------------------------------------------------

    async def get(self, bucket: str, key: str, at_least: Revision | None) -> Item | None:
        found = await self._bucket(bucket)
        self.gets += 1
        if at_least is not None:
            await self._wait_for(bucket, key, at_least)
            found = self.state.get(bucket)
        entry = None if found is None else found.get(key, self.now_ms())
        return None if entry is None else self._item(entry)

    async def _wait_for(self, name: str, key: str, revision: Revision) -> None:
        def has_come() -> bool:
            bucket = self.state.get(name)
            latest = None if bucket is None else bucket.latest(key)
            return latest is not None and latest.revision >= revision

        if has_come():
            return
        with_key = Watch(self, name, Pattern(key))
        try:
            async with asyncio.timeout(ARRIVAL_S):
                while not has_come():
                    await with_key.wait()
        except TimeoutError:
            raise Busy(
                "that revision has not come here yet", bucket=name, key=key, revision=revision, node=self._me
            ) from None
        finally:
            with_key.close()

    async def items(self, bucket: str, pattern: Pattern, after: str, bytes_max: int) -> tuple[list[Item], str]:
        found = await self._bucket(bucket)
        items: list[Item] = []
        now_ms, size = self.now_ms(), 0
        for looked, key in enumerate(() if found is None else found.keys_after(after)):
            if size >= bytes_max or looked >= LOOKED_MAX:
                return items, after
            after = key
            assert found is not None, "it has keys"
            entry = found.get(key, now_ms) if selects_key(pattern, key) else None
            item = None if entry is None else self._item(entry)
            if item is not None:
                items.append(item)
                size += len(key) + len(item.value) + ITEM_BYTES
        return items, ""

    async def history(
        self, bucket: str, key: str, before: Revision | None, room: PageRoom
    ) -> tuple[list[Item], Revision | None]:
        found = await self._bucket(bucket)
        items: list[Item] = []
        for entry in () if found is None else found.history(key):
            if before is not None and entry.revision >= before:
                continue
            if room.is_full:
                return items, items[-1].revision
            item = self._item(entry)
            if item is not None:
                items.append(item)
                room.take(len(key) + len(item.value) + ITEM_BYTES)
        return items, None

    async def buckets(self, after: str, may_see: Callable[[str], bool], room: PageRoom) -> tuple[list[BucketInfo], str]:
        await self._opened()
        found: list[BucketInfo] = []
        for name in sorted(each.name for each in self.state if each.name > after and may_see(each.name)):
            if room.is_full:
                return found, found[-1].name
            info = await self._info(name)
            if info is not None:
                found.append(info)
                room.take(len(name) + ITEM_BYTES)
        return found, ""

    async def _info(self, name: str) -> BucketInfo | None:
        """Count its keys, some in each turn of the loop. None if the bucket has gone meanwhile."""
        bucket = self.state.get(name)
        if bucket is None:
            return None
        now_ms, keys = self.now_ms(), 0
        for piece in in_pieces(list(bucket.entries())):
            keys += sum(entry.is_live(now_ms) for entry in piece if entry.key != SETTINGS_KEY)
            await asyncio.sleep(0)
        return BucketInfo(name, keys, bucket.settings)

    async def watch(self, bucket: str, pattern: Pattern, *, snapshot: bool, gone: bool) -> Watch:
        found = await self._bucket(bucket)
        watch = Watch(self, bucket, pattern)
        if snapshot and found is not None:
            now_ms = self.now_ms()
            for entry in found.entries():
                if selects_key(pattern, entry.key) and (gone or entry.is_live(now_ms)):
                    watch.changed(entry.key)
        return watch

    def latest(self, bucket: str, key: str) -> Item | None:
        """A key as it is now, for watchers; None if nothing is left of it."""
        found = self.state.get(bucket)
        entry = None if found is None else found.latest(key)
        return None if entry is None else self._item(entry)

    def _item(self, entry: Entry) -> Item | None:
        """What callers see of an entry; None if compaction has deleted it meanwhile."""
        state = State.DELETED if entry.op is Op.DELETE else State.PUT
        if state is State.PUT and entry.has_expired(self.now_ms()):
            state = State.EXPIRED
        value: bytes | None = b""
        if state is State.PUT:
            value = entry.value if entry.value is not None else self._stored(entry)
        if value is None:
            return None
        return Item(entry.key, state, entry.revision, entry.expires_ms, entry.author, value)

    def _stored(self, entry: Entry) -> bytes | None:
        """The value from the log, when memory does not have it."""
        stream, epoch, offset = entry.place
        for data in self._node.log.read(stream, epoch, offset, offset + 1, 1):
            batch = Batch.read_stored(data)
            if batch.base_offset <= offset < batch.end_offset:
                return batch.events_from(offset)[0].payload
        return None

    async def _bucket(self, name: str) -> Bucket | None:
        await self._opened()
        bucket = self.state.get(name)
        if bucket is not None and bucket.is_overfull:
            raise NotHeldWhole(
                "this node cannot hold all of the bucket: it has more keys than kv.keys_max allows here",
                bucket=name,
                node=self._me,
                limit=self.settings.keys_max,
            )
        return bucket

    # --- writing -------------------------------------------------------------------------------------------------

    async def write(self, write: Write) -> Revision:
        bucket = await self._bucket(write.bucket)
        self._node.check_open()
        self._check_owner(write, BucketSettings() if bucket is None else bucket.settings)
        if write.if_revision is not None:
            self._check_revision(write, bucket)
        expires_ms = 0 if write.ttl_s is None else self.now_ms() + max(round(write.ttl_s * 1000), 1)
        op = Op.DELETE if write.value is None else Op.PUT
        return await self._write(
            write.bucket, op, write.key, write.value or b"", expires_ms, write.author, write.copies
        )

    async def configure(self, bucket: str, settings: BucketSettings, author: str, *, force: bool) -> None:
        found = await self._bucket(bucket)
        owner = "" if found is None else found.settings.owner
        if owner not in ("", self._me) and not force:
            raise _not_owner(bucket, owner, self._me, "change its settings there, or with force if that node is lost")
        await self._write(bucket, Op.SETTINGS, SETTINGS_KEY, settings_value(settings), 0, author, 0)

    def _check_owner(self, write: Write, settings: BucketSettings) -> None:
        owner = settings.owner
        if owner not in ("", self._me):
            raise _not_owner(write.bucket, owner, self._me, "write there")
        if not owner and write.if_revision is not None:
            raise NotOwner(
                "several nodes may write this bucket, so none can promise a revision: give it an owner "
                "(weft kv configure)",
                bucket=write.bucket,
                node=self._me,
            )

    def _check_revision(self, write: Write, bucket: Bucket | None) -> None:
        """Raise RevisionConflict if the key has another revision than the writer wants. Writes that are on their way
        into the log count."""
        live = None if bucket is None else bucket.get(write.key, self.now_ms())
        unsynced = self._unsynced.get((write.bucket, write.key))
        latest = unsynced[-1] if unsynced else live and live.revision
        is_at = ABSENT if latest is None else str(latest)
        if is_at != write.if_revision:
            self.conflicts += 1
            raise RevisionConflict(
                "the key is at another revision",
                bucket=write.bucket,
                key=write.key,
                revision=is_at or "absent",
                wanted=write.if_revision or "absent",
            )

    async def _write(
        self, bucket: str, op: Op, key: str, value: bytes, expires_ms: int, author: str, copies: int
    ) -> Revision:
        self.state.check_room(bucket, key)
        record = Record(op, key, self.state.clock.tick(self.now_ms()), expires_ms, author, value)
        await self._publish(bucket, record, copies)
        self.writes += 1
        return record.revision(self._me)

    def write_with(
        self, bucket: str, key: str, value: bytes, author: str, topic: Topic, batch: Batch
    ) -> asyncio.Future[None]:
        """Write an entry, and publish a batch of another topic in the same write: after a crash, both are there or
        neither. The future is done when they are durable."""
        self._node.check_open()
        self.state.check_room(bucket, key)
        record = Record(Op.PUT, key, self.state.clock.tick(self.now_ms()), 0, author, value)
        number, entry, done = self._pend(bucket, record)
        beside = next(self._requests)
        self._beside.add(beside)
        self._node.publish_as_one(self, [Part(number, topic_of(bucket), 0, entry), Part(beside, topic, 0, batch)])
        return done

    def _publish(self, bucket: str, record: Record, copies: int) -> asyncio.Future[None]:
        """Publish an entry. The future is done when the entry is durable and folded here."""
        number, batch, done = self._pend(bucket, record)
        self._node.publish(self, number, topic_of(bucket), 0, batch, copies)
        return done

    def _pend(self, bucket: str, record: Record) -> tuple[int, Batch, asyncio.Future[None]]:
        """Note a write that is about to be published. Return its number, its batch, and the future of its receipt."""
        if not self._is_joined:
            self._node.join(self)
            self._is_joined = True
        key = record.key.encode()
        batch = Batch.from_columns([record.value], self.now_ms() * 1000, [key], [record.headers()])
        number = next(self._requests)
        pending = self._pending[number] = Pending(bucket, record, self._loop.create_future())
        self._unsynced.setdefault((bucket, record.key), []).append(record.revision(self._me))
        return number, batch, pending.done

    # --- what the node says: PublishClient -----------------------------------------------------------------------

    def receipts(self, receipts: Sequence[tuple[int, Receipted]]) -> None:
        for number, receipted in receipts:
            if number in self._beside:
                self._beside.discard(number)
                continue
            pending, place = self._take_pending(number), receipted.place
            at = Place(place.stream, place.epoch, place.first_offset)
            self._changed(self.state.take(pending.bucket, pending.record, at, self.now_ms()))
            key = (place.stream, place.epoch)
            if self._folded.get(key, 0) == place.first_offset:  # then the subscription need not fold it again
                self._folded[key] = place.first_offset + place.count
            if not pending.done.done():
                pending.done.set_result(None)
        self._set_alarm()
        self._leave_when_done()

    def refused(self, request: int, error: WeftError) -> None:
        if request in self._beside:
            self._beside.discard(request)
            return
        pending = self._take_pending(request)
        self._adopted.clear()  # the refused write may have been an adoption: search again
        if not pending.done.done():
            pending.done.set_exception(error)
        self._leave_when_done()

    def _take_pending(self, number: int) -> Pending:
        pending = self._pending.pop(number)
        at = (pending.bucket, pending.record.key)
        self._unsynced[at].remove(pending.record.revision(self._me))
        if not self._unsynced[at]:
            del self._unsynced[at]
        return pending

    def drain(self) -> None:
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        if self._is_joined and not (self._pending or self._beside) and self._is_draining():
            self._is_joined = False
            self._node.leave(self)

    def _is_draining(self) -> bool:
        try:
            self._node.check_open()
        except WeftError:
            return True
        return False

    # --- what a lost disk left behind ----------------------------------------------------------------------------

    def _adopt_later(self) -> None:
        """Search for such entries again and again, as long as buckets are followed."""
        self._loop.call_later(ADOPT_S, self._adopt)

    def _adopt(self) -> None:
        """Some entries that count are only in streams of a log that its node has lost. Nobody asks for those streams
        any longer, so nodes without a copy would never get one. So write these entries again here. They keep their
        revisions, so nothing changes for readers."""
        if self._is_draining():
            return
        left = ADOPTED_AT_ONCE
        orphaned = self._orphaned() if self._ready.is_set() else {}
        for bucket in list(self.state) if orphaned else ():
            for entry in list(bucket.entries()):
                if left and entry.place[:2] in orphaned and self._is_adopted(bucket.name, entry):
                    left -= 1
        if left:
            self._adopted |= orphaned
        self._adopt_later()

    def _orphaned(self) -> dict[StreamKey, int]:
        """Streams of earlier epochs of their nodes' logs, with how far they were read. Streams of which nothing was
        read since the last search are left out."""
        return {
            (stream, epoch): end
            for (stream, epoch), end in self._folded.items()
            if epoch < self._epoch_of(stream.origin) and self._adopted.get((stream, epoch)) != end
        }

    def _is_adopted(self, bucket: str, entry: Entry) -> bool:
        """Write an entry into our own log. Return whether it is on its way there now."""
        value = entry.value if entry.value is not None else self._stored(entry)
        if value is None or (bucket, entry.key) in self._unsynced:
            return False
        node = "" if entry.revision.node == self._me else entry.revision.node
        record = Record(entry.op, entry.key, entry.revision.time, entry.expires_ms, entry.author, value, node)
        try:
            done = self._publish(bucket, record, 0)
        except WeftError:
            return False
        done.add_done_callback(_heard)
        return True

    # --- following the log: SubscribeClient ----------------------------------------------------------------------

    def follow(self) -> None:
        """The log has buckets: from now on they are folded, whether somebody asks for them or not."""
        if not self._is_open and not self._is_draining():
            self._is_open = True
            self._loop.call_soon(self._reopen)  # not in the middle of a step
            self._adopt_later()

    async def _opened(self) -> None:
        if self._ready.is_set():
            return
        self._node.check_open()
        self.follow()
        try:
            async with asyncio.timeout(READY_S):
                await self._ready.wait()
        except TimeoutError:
            raise Busy("this node still reads its buckets", node=self._me, waited_s=READY_S) from None

    def _open(self) -> None:
        """Subscribe to all buckets. Raise Busy or ShuttingDown, as for any subscriber that is refused."""
        self._holding = self._node.held.holding("buckets", Use.SUBSCRIBE)
        start = FromPositions(self._positions()) if self._folded else Edge.EARLIEST
        self._subscription = self._node.subscribe(self, KEY_VALUES, start, CREDIT_BYTES, "", "", self._holding)

    def _positions(self) -> tuple[Position, ...]:
        """The positions from which to go on. They skip what retention or a lost disk has removed meanwhile."""
        found: list[Position] = []
        for (stream, epoch), offset in self._folded.items():
            state = self._node.log.find(stream, epoch)
            if state is not None and offset <= state.durable:
                found.append(Position(stream, epoch, max(offset, state.start)))
        return tuple(found)

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        if not more and not self._ready.is_set():
            infos = self._node.log.streams(KEY_VALUES)
            self._missing = {(info.stream, info.epoch): info.end for info in infos if info.end > info.start}
            for key in list(self._missing):
                self._check_missing(key)
            self._check_ready()

    def deliver(self, batches: Sequence[Delivered]) -> None:
        """This may even come before ``subscribe`` has returned."""
        self._waiting.extend(batches)
        self._work_soon()

    def assigned(self, generation: int, positions: Sequence[Position]) -> None:
        raise AssertionError("there is no group")

    def withdrawn(self, event: EventId, rest: bool) -> None:
        raise AssertionError("no event is refused")

    def ended(self, error: WeftError) -> None:
        self._subscription = None
        self._waiting.clear()
        self._holding.close()
        if isinstance(error, EventsLost):  # unreadable entries are skipped: the rest still counts
            self._folded[error.loss.stream, error.loss.epoch] = error.loss.end
            self._node.count_refusal(error)
        if not self._is_draining():
            self._loop.call_later(RETRY_S, self._reopen)
            return
        for watch in [each for some in self._watches.values() for each in some]:
            watch.end(error)

    def _reopen(self) -> None:
        try:
            self._open()
        except WeftError:
            if not self._is_draining():
                self._loop.call_later(RETRY_S, self._reopen)

    def _work_soon(self) -> None:
        if not self._is_working and self._waiting:
            self._is_working = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        """Take one batch in each turn of the loop: others have their turns in between."""
        self._is_working = False
        if not self._waiting:
            return
        delivered = self._waiting.popleft()
        key = (delivered.stream, delivered.epoch)
        batch = Batch.read_stored(delivered.data)
        first = max(delivered.first_offset, self._folded.get(key, 0))
        if first < batch.end_offset:
            self._changed(self.state.fold(*key, batch, first, self.now_ms()))
            self._folded[key] = batch.end_offset
        self._holding.give_back(len(delivered.data))
        if self._subscription is not None:
            self._node.tell(AddCredit(self._subscription, len(delivered.data)))
        self._check_missing(key)
        self._check_ready()
        self._set_alarm()
        self._work_soon()

    def _check_missing(self, key: StreamKey) -> None:
        """Check whether everything that the log had of a stream is folded. Compaction may have deleted its last
        entry."""
        if self._missing is not None and key in self._missing:
            first = max(self._folded.get(key, 0), self._node.log.info(*key).start)
            if first >= self._missing[key] or not self._node.log.read(*key, first, self._missing[key], 1):
                del self._missing[key]

    def _check_ready(self) -> None:
        if self._missing is not None and not self._missing:
            self._missing = None
            self._ready.set()
            self._tell()

    @property
    def is_ready(self) -> bool:
        """Whether this node has read all buckets in its log."""
        return self._ready.is_set()

    def listen(self, listener: Callable[[], None]) -> None:
        """``listener`` is called when the mesh's own buckets change, and once when all buckets are read."""
        self._listeners.append(listener)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    # --- who watches, and time -----------------------------------------------------------------------------------

    def _changed(self, changes: Sequence[Change]) -> None:
        if any(is_of_mesh(name) for name, _ in changes):
            self._tell()
        for name, key in changes:
            for watch in self._watches.get(name, ()):
                watch.changed(key)

    def join_watch(self, watch: Watch) -> None:
        self._watches.setdefault(watch.bucket, set()).add(watch)

    def leave_watch(self, watch: Watch) -> None:
        watches = self._watches.get(watch.bucket, set())
        watches.discard(watch)
        if not watches:
            self._watches.pop(watch.bucket, None)

    @property
    def watches(self) -> int:
        return sum(map(len, self._watches.values()))

    def _set_alarm(self) -> None:
        due_ms = self.state.next_due_ms()
        if due_ms is None or (self._alarm is not None and self._alarm_ms <= due_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = due_ms
        wait_s = min(max((due_ms - self.now_ms()) / 1000, 0.0), ALARM_S_MAX)
        self._alarm = self._loop.call_later(wait_s, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._changed(self.state.due(self.now_ms()))
        self._set_alarm()

    def figures(self) -> KvFigures:
        return KvFigures(
            buckets=len(self.state),
            keys=self.state.keys,
            cached_bytes=self.state.cached_bytes,
            gets=self.gets,
            writes=self.writes,
            conflicts=self.conflicts,
            watches=self.watches,
            ahead=self.state.ahead,
        )

    def pipelines(self) -> list[PipelineReport]:
        """What pipelines report about themselves; as many as have their own label."""
        bucket = self.state.get(PIPELINES_BUCKET)
        now_ms = self.now_ms()
        found: list[PipelineReport] = []
        for key in () if bucket is None else islice(bucket.keys_after(""), PIPELINES_MAX):
            assert bucket is not None, "it has keys"
            entry = bucket.get(key, now_ms)
            item = None if entry is None else self._item(entry)
            report = None if item is None else read_report_untrusted(key, item.value)
            if report is not None:
                found.append(report)
        return found

    def forget(self, topic: Topic, gone: Sequence[tuple[str, Revision]]) -> None:
        """For maintenance, from any thread: compaction deleted the last trace of these keys from the log."""
        self._loop.call_soon_threadsafe(partial(self.state.forget, topic.removeprefix(topic_of("")), list(gone)))


class Watch:
    """``Watching``: the keys of a bucket that changed and were not taken yet, each once."""

    def __init__(self, store: KeyValues, bucket: str, pattern: Pattern) -> None:
        self.bucket = bucket
        self._store = store
        self._pattern = pattern
        self._keys: dict[str, None] = {}
        self._arrived = asyncio.Event()
        self._error: WeftError | None = None
        store.join_watch(self)

    def changed(self, key: str) -> None:
        if selects_key(self._pattern, key):
            self._keys[key] = None
            self._arrived.set()

    async def wait(self) -> None:
        """Wait until something has changed, and forget what it was."""
        await self._arrived.wait()
        self._arrived.clear()
        self._keys.clear()

    async def next(self, bytes_max: int) -> list[Item]:
        found: list[Item] = []
        while not found:
            await self._arrived.wait()
            if self._error is not None:
                raise self._error
            size = 0
            while self._keys and size < bytes_max:
                key = next(iter(self._keys))
                del self._keys[key]
                item = self._store.latest(self.bucket, key)
                if item is not None:
                    found.append(item)
                    size += len(key) + len(item.value) + ITEM_BYTES
            if not self._keys:
                self._arrived.clear()
        return found

    def end(self, error: WeftError) -> None:
        self._error = error
        self._arrived.set()

    def close(self) -> None:
        self._store.leave_watch(self)


def _heard(done: asyncio.Future[None]) -> None:
    """Fetch the outcome of a write for which nobody waits. If it failed, it is tried again."""
    if not done.cancelled():
        done.exception()


def _not_owner(bucket: str, owner: str, me: NodeId, advice: str) -> NotOwner:
    return NotOwner(f"bucket {bucket} is owned by node {owner}, and this is {me}: {advice}", bucket=bucket, owner=owner)
