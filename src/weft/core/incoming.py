"""What this node takes over from one peer (copies of other nodes' streams), and the acknowledgements that it owes the
peer."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from weft.core.messages import Copy, PeerFault, StreamKey
from weft.errors import WeftError
from weft.log import Log
from weft.model import Batch, Epoch, NodeId, Position, Stream

COPY_OFFSET_MAX: Final = 1 << 56  # two million events a second for a thousand years: no stream gets so far
COPY_GAP_MAX: Final = 1 << 40  # offsets deleted between two batches: four months at 100,000 a second
ASKED_LATELY_S: Final = 30.0  # by then, everything has come that was under way when we left an origin


class Taken(Enum):
    """What became of a copy."""

    KEPT = "kept"  # appended; to be acknowledged after the next sync
    KNOWN = "known"  # it was here already
    MISSING = "missing"  # something before it is not here


def take(log: Log, copy: Copy) -> Taken | PeerFault:
    """Keep a copy if it follows what is here (PL-04) and is plausible (SEC-06). Raise StorageError if there is no
    room."""
    stream, epoch, batch = copy.stream, copy.epoch, copy.batch
    end = end_of(log, stream, epoch)
    if batch.end_offset > COPY_OFFSET_MAX:
        return PeerFault.OFFSET
    if end is not None and batch.base_offset - end > COPY_GAP_MAX:
        return PeerFault.GAP
    if end is not None and batch.base_offset < end and first_difference(log, stream, epoch, batch) is not None:
        return PeerFault.DIFFERS
    if not end and copy.late_us is not None:
        log.begin_late(stream, epoch, batch.base_offset, copy.late_us)
    elif end is None:
        if copy.follows and not copy.expired:
            return Taken.MISSING
        if batch.base_offset and not copy.expired:  # compaction deleted the events before it
            log.restart_copy(stream, epoch, 0)
            log.append_gap(stream, epoch, batch.base_offset, lost=copy.lost)
    else:
        if batch.end_offset <= end:
            return Taken.KNOWN
        if batch.base_offset > end:
            if copy.follows > end:
                return Taken.MISSING
            if copy.expired:
                log.restart_copy(stream, epoch, batch.base_offset)
            else:
                log.append_gap(stream, epoch, batch.base_offset, lost=copy.lost)
        elif batch.base_offset < end:  # compaction at the sender cut the batches elsewhere
            batch = batch.slice(end)
    log.append_copy(stream, epoch, batch)
    return Taken.KEPT


def end_of(log: Log, stream: Stream, epoch: Epoch) -> int | None:
    """Where a stream ends here, including what is not durable yet; None if there is no such stream."""
    state = log.find(stream, epoch)
    return None if state is None else state.end


def first_difference(log: Log, stream: Stream, epoch: Epoch, batch: Batch) -> int | None:
    """The first offset at which a batch has a different event than the log; None if there is none.

    This compares events, not bytes, because compaction cuts batches differently. An event that one side lacks may have
    been compacted away, and proves nothing.
    """
    state = log.find(stream, epoch)
    if state is None:
        return None
    first, end = max(batch.base_offset, state.start), min(batch.end_offset, state.durable)
    if first >= end:
        return None
    try:
        kept = log.read(stream, epoch, first, end)
    except WeftError:  # deleted in between, or damaged here, which is reported elsewhere
        return None
    for data in kept:
        if data == batch.data:
            continue
        stored = Batch.read_stored(data)
        at, until = max(first, stored.base_offset), min(end, stored.end_offset)
        pairs = zip(stored.events_from(at)[: until - at], batch.events_from(at)[: until - at], strict=True)
        for place, (ours, theirs) in enumerate(pairs):
            if ours != theirs:
                return at + place
    return None


class Incoming:
    def __init__(self, peer: NodeId, me: NodeId, log: Log) -> None:
        self.peer = peer
        self.asked: set[NodeId] = set()  # origins that we get from this peer
        self._left_s: dict[NodeId, float] = {}  # origins that we used to get from it, and since when we no longer do
        self._differing: dict[StreamKey, int] = {}  # where the peer's events differ, and from which offset on
        self._me = me
        self._log = log
        self._owed: dict[StreamKey, None] = {}  # streams to acknowledge once they are durable
        self._told: set[StreamKey] = set()  # streams whose missing events the peer was told of

    def ask(self, origins: set[NodeId], now_s: float) -> None:
        """From now on we get exactly these origins from this peer."""
        for origin in self.asked - origins:
            self._left_s[origin] = now_s
        for origin in origins:
            self._left_s.pop(origin, None)
        self.asked = origins

    def may_bring(self, origin: NodeId, now_s: float) -> bool:
        """Whether the peer may bring this origin: it is its own, we asked for it, or it was still under way when we
        asked another peer."""
        if origin == self.peer or origin in self.asked:
            return True
        left_s = self._left_s.get(origin)
        return left_s is not None and now_s - left_s <= ASKED_LATELY_S

    def take(self, copy: Copy) -> Taken | PeerFault:
        key = (copy.stream, copy.epoch)
        if copy.stream.origin == self._me:  # our own events come back only by mistake; the ack makes the peer stop
            self._owed[key] = None
            return Taken.KNOWN
        if key in self._differing:
            return PeerFault.DIFFERS
        taken = take(self._log, copy)
        if taken is PeerFault.DIFFERS:
            at = first_difference(self._log, copy.stream, copy.epoch, copy.batch)
            self._differing[key] = copy.batch.base_offset if at is None else at
            self._owed.pop(key, None)
        elif isinstance(taken, Taken) and taken is not Taken.MISSING:
            self._owed[key] = None
            self._told.discard(key)
        return taken

    def differs_at(self, key: StreamKey) -> int:
        return self._differing[key]

    def is_known(self, copy: Copy) -> bool:
        """Whether this node has all of a copy already."""
        end = end_of(self._log, copy.stream, copy.epoch)
        return end is not None and copy.batch.end_offset <= end

    @property
    def owes(self) -> bool:
        return bool(self._owed)

    def tell_missing(self, key: StreamKey) -> bool:
        """Whether the peer has to be told again what we have. Once is enough until the stream goes on."""
        if key in self._told:
            return False
        self._told.add(key)
        return True

    def no_room(self, copies: Iterable[Copy]) -> None:
        """Note that these copies were not kept. If their streams have gaps later on, the peer is told again."""
        self._told.difference_update((each.stream, each.epoch) for each in copies)

    def acks(self) -> tuple[Position, ...]:
        """What to acknowledge now: copies that a sync made durable, and copies that were durable before they came
        again."""
        owed, self._owed = self._owed, {}
        acks = []
        for key in owed:
            stream, epoch = key
            state = self._log.find(stream, epoch)
            if state is None:
                continue
            if state.durable < state.end:  # the next sync covers it, even if the last one covered a part
                self._owed[key] = None
            acks.append(Position(stream, epoch, state.durable))
        return tuple(acks)
