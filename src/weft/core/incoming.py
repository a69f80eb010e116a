"""What this node takes over from one peer: copies of other nodes' streams, and the acknowledgements it owes it."""

from __future__ import annotations

from enum import Enum

from weft.core.messages import Copy, StreamKey
from weft.log import Log
from weft.model import Epoch, NodeId, Position, Stream


class Taken(Enum):
    """What became of a copy."""

    KEPT = "kept"  # appended; to be acknowledged after the next sync
    KNOWN = "known"  # it was here already
    MISSING = "missing"  # something before it is not here


def take(log: Log, copy: Copy) -> Taken:
    """Keep a copy if it follows what is here (PL-04); StorageError if there is no room."""
    stream, epoch, batch = copy.stream, copy.epoch, copy.batch
    end = end_of(log, stream, epoch)
    if end is None:
        if copy.follows and not copy.expired:
            return Taken.MISSING
        if batch.base_offset and not copy.expired:  # compaction took its beginning: it begins all the same
            log.restart_copy(stream, epoch, 0)
            log.append_gap(stream, epoch, batch.base_offset)
    else:
        if batch.end_offset <= end:
            return Taken.KNOWN
        if batch.base_offset > end:
            if copy.follows > end:
                return Taken.MISSING
            if copy.expired:
                log.restart_copy(stream, epoch, batch.base_offset)
            else:
                log.append_gap(stream, epoch, batch.base_offset)
        elif batch.base_offset < end:  # its batches were cut elsewhere, by compaction at the sender
            batch = batch.slice(end)
    log.append_copy(stream, epoch, batch)
    return Taken.KEPT


def end_of(log: Log, stream: Stream, epoch: Epoch) -> int | None:
    """Where a stream ends here, what is not yet durable included; None if there is no such stream."""
    state = log.find(stream, epoch)
    return None if state is None else state.end


class Incoming:
    def __init__(self, peer: NodeId, me: NodeId, log: Log) -> None:
        self.peer = peer
        self.asked: set[NodeId] = set()  # origins that we get from this peer
        self._me = me
        self._log = log
        self._owed: dict[StreamKey, None] = {}  # streams to acknowledge once they are durable
        self._told: set[StreamKey] = set()  # streams in which something was missing, until they go on

    def take(self, copy: Copy) -> Taken:
        key = (copy.stream, copy.epoch)
        if copy.stream.origin == self._me:  # our own come back to us only by mistake; so that they stop:
            self._owed[key] = None
            return Taken.KNOWN
        taken = take(self._log, copy)
        if taken is not Taken.MISSING:
            self._owed[key] = None
            self._told.discard(key)
        return taken

    @property
    def owes(self) -> bool:
        return bool(self._owed)

    def tell_missing(self, key: StreamKey) -> bool:
        """Whether the peer has to be told again what we have; once is enough until it goes on."""
        if key in self._told:
            return False
        self._told.add(key)
        return True

    def acks(self) -> tuple[Position, ...]:
        """What to acknowledge now: what a sync made durable, and what was durable before it came."""
        owed, self._owed = self._owed, {}
        acks = []
        for key in owed:
            stream, epoch = key
            state = self._log.find(stream, epoch)
            if state is None:
                continue
            if state.durable < state.end:  # the next sync covers it, also if the last one has covered a part
                self._owed[key] = None
            acks.append(Position(stream, epoch, state.durable))
        return tuple(acks)
