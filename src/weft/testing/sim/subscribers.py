"""Subscribers that remember where they are, and what is checked of everything that they are handed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, assert_never

from weft.core import messages as core
from weft.core.messages import Edge, FromPositions, FromTime, Start
from weft.errors import StorageError
from weft.log.errors import PositionExpired, UnknownStream
from weft.model import Batch, NodeId, Pattern, Position, matches
from weft.port.errors import ShuttingDown
from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Violation
from weft.testing.sim.sessions import Desk, Feed, SimFeed, SimSession
from weft.testing.sim.truth import EndOf, StreamKey, name_of

CREDIT_BYTES: Final = 4000


class SimSubscriber:
    """``positions`` is what the client remembers: everything before them has arrived."""

    def __init__(self, name: str, desk: Desk, nodes: Sequence[SimNode], pattern: Pattern, start: Start) -> None:
        self.name = name
        self.pattern = pattern
        self.positions: dict[StreamKey, int] = {}
        self.slow_s = 0.01
        self.node: SimNode | None = None  # that it is connected to
        self.restarts = 0
        self._desk = desk
        self._nodes = nodes
        self._start = start
        self._session: SimSession | None = None
        self._feed: SimFeed | None = None
        self._began: Start = start  # of this subscription
        self._offered: dict[StreamKey, int] = {}  # where the node has to go on, in this subscription
        self._credit_bytes = 0

    # --- connections ---

    def connect(self) -> None:
        """To any node that runs; where it has been before, it goes on."""
        running = [node for node in self._nodes if node.running]
        if self._session is not None or not running:
            self._desk.schedule.at(0.5, self.connect)
            return
        self.node = self._desk.chance.choice(running)
        self._session = self._desk.connect(self.node, self._broken)
        self._began = self._begin()
        self._offered = dict(self.positions)
        self._credit_bytes = CREDIT_BYTES
        where = f"{len(self.positions)} positions" if self.positions else self._start
        self._desk.schedule.tell(self.name, f"subscribes to {self.pattern} at {self.node.node_id} from {where}")
        self._feed = self._desk.subscribe(self._session, self)
        self._open(self._feed)

    def _open(self, feed: SimFeed) -> None:
        feed.open(self.pattern, self._began, CREDIT_BYTES, "", "")

    def _begin(self) -> Start:
        if not self.positions:
            return self._start
        otherwise_us = self._start.timestamp_us if isinstance(self._start, FromTime) else None
        return FromPositions(
            tuple(Position(*key, offset) for key, offset in self.positions.items()), otherwise_us=otherwise_us
        )

    def _broken(self) -> None:
        self._session = None
        self.node = None
        self._desk.schedule.at(self._desk.chance.random(), self.connect)

    def disconnect(self) -> None:
        if self._session is not None:
            self._desk.break_session(self._session)

    # --- what the node says ---

    def said(self, effect: Feed) -> None:
        """Checked when it is said, against this subscription alone."""
        assert self.node is not None, "nobody speaks to a client that is not connected"
        match effect:
            case core.Opened(_, positions):
                for position in positions:
                    self._offered.setdefault((position.stream, position.epoch), position.offset)
            case core.Deliver(_, batches):
                for delivered in batches:
                    self._check(self.node.node_id, delivered)
                largest = max(len(each.data) for each in batches)
                if self._credit_bytes < -largest:
                    raise Violation(f"{self.name} gets {-self._credit_bytes} bytes more than it has credit for")
            case core.Assigned():
                raise Violation(f"{self.name} is in no group, but is assigned streams")
            case core.Withdrawn():
                raise Violation(f"{self.name} refused nothing, but is answered")
            case core.Ended(_, error):
                self._check_end(self.node, error)
            case _:
                assert_never(effect)

    def _check(self, node: NodeId, delivered: core.Delivered) -> None:
        key = (delivered.stream, delivered.epoch)
        if not self.selects(key):
            raise Violation(f"{self.name} wants {self.pattern} and gets {delivered.stream.topic}")
        self._credit_bytes -= len(delivered.data)
        first, end = self._desk.truth.check_delivered(node, delivered)
        is_new = key not in self._offered
        expected = self._offered.get(key, self._first_of(first))
        if first < expected:
            raise Violation(f"{self.name} gets {name_of(key)} from {first} on again; it had all before {expected}")
        who = f"{self.name} at {node}"
        if is_new and (since_us := self._since_us) is not None:
            self._desk.truth.check_since(who, key, since_us, first)
        self._desk.truth.check_gap(who, key, expected, first, retention=is_new)
        self._offered[key] = end

    def _first_of(self, first: int) -> int:
        """Where a stream has to begin that is new to the subscription. "Latest" may be anywhere."""
        return first if self._began is Edge.LATEST or self._since_us is not None else 0

    @property
    def _since_us(self) -> int | None:
        """Since when it wants streams that are new to the subscription."""
        match self._began:
            case FromTime(since_us) | FromPositions(_, int(since_us)):
                return since_us
            case _:
                return None

    def _check_end(self, node: SimNode, error: Exception) -> None:
        """A subscription ends only where something is gone, and that is an error, never a silent jump."""
        if isinstance(error, UnknownStream) and self._lost(node):
            return
        if (isinstance(error, ShuttingDown) and node.clients.draining) or node.failed:
            return
        if not isinstance(error, PositionExpired):
            raise Violation(f"the subscription of {self.name} at {node.node_id} ends: {error}")
        if not self._expired(node) and not self._expired_unseen(error):
            raise Violation(f"{self.name} is told by {node.node_id} that it is too late, and it is not: {error}")

    def _lost(self, node: SimNode) -> list[StreamKey]:
        """Streams that went with the node's disk."""
        return [key for key in self.positions if key[0].origin == node.node_id and key[1] != node.log.epoch]

    def _expired_unseen(self, error: PositionExpired) -> bool:
        """Of a stream that it has got nothing of yet: it was not there when the subscription was opened, or that began
        with what was new; and retention was quicker."""
        return any(
            str(key[0]) in error.what
            and key not in self.positions
            and (self._began is Edge.LATEST or self._since_us is not None or key not in self._offered)
            and history.expired >= int(str(error.facts["earliest"]))
            for key, history in self._desk.truth.streams.items()
        )

    def _expired(self, node: SimNode) -> dict[StreamKey, int]:
        """Streams in which the node no longer has what this client wants next, and where they begin there."""
        found = {}
        for key, offset in {**self.positions, **self._offered}.items():
            try:
                info = node.log.info(*key)
            except UnknownStream:
                continue
            if min(offset, self.positions.get(key, offset)) < info.start:
                found[key] = info.start
        return found

    # --- what arrives ---

    def heard(self, effect: Feed) -> None:
        match effect:
            case core.Opened(_, positions):
                for position in positions:
                    self.positions.setdefault((position.stream, position.epoch), position.offset)
            case core.Deliver(_, batches):
                for delivered in batches:
                    self._take(delivered)
                size = sum(len(each.data) for each in batches)
                self._desk.schedule.at(
                    self._desk.chance.random() * self.slow_s, partial(self._give_credit, self._feed, size)
                )
            case core.Assigned() | core.Withdrawn():
                pass
            case core.Ended(_, error):
                if isinstance(error, ShuttingDown | StorageError):
                    self.disconnect()
                else:
                    self._restart()
            case _:
                assert_never(effect)

    def _take(self, delivered: core.Delivered) -> None:
        key, end = (delivered.stream, delivered.epoch), end_offset(delivered)
        self._desk.schedule.tell(self.name, f"gets {name_of(key)} up to {end}")
        self.positions[key] = end

    def _give_credit(self, feed: SimFeed | None, size: int) -> None:
        if self._session is not None and feed is not None and feed is self._feed:
            self._credit_bytes += size
            feed.add_credit(size)

    def _restart(self) -> None:
        """Retention was faster, or a disk was lost. The person in charge decides to go on with what exists."""
        assert self.node is not None and self._session is not None, "only who is connected hears that it ended"
        self.restarts += 1
        for key in self._lost(self.node):
            del self.positions[key]
        for key, start in self._expired(self.node).items():
            had = self.positions.get(key, 0)
            self._desk.truth.check_gap(f"{self.name} at {self.node.node_id}", key, had, start, retention=True)
            self.positions[key] = start
        self._desk.close(self._session)
        self._broken()

    # --- at the end ---

    def lacks(self, end_of: EndOf) -> str:
        """What it still has to get; empty if it has everything. Of what is not promised, what its node has."""
        if self.node is None:
            return f"{self.name} is not connected"
        there = {(info.stream, info.epoch): info for info in self.node.log.streams()}
        for key in self._desk.truth.streams:
            if not self.selects(key) or (self._start is Edge.LATEST and key not in self.positions):
                continue
            end = end_of(key)
            if end is None:
                end = there[key].end if key in there else 0
            if (have := self.positions.get(key, self.first_wanted(key))) < end and not self._is_taken(key, have, end):
                return f"{self.name} at {self.node.node_id} has {name_of(key)} up to {have} of {end}"
        return ""

    def first_wanted(self, key: StreamKey) -> int:
        """What it wants first of a stream that it has got nothing of."""
        if not isinstance(self._start, FromTime):
            return 0
        times_us = self._desk.truth.streams[key].times_us
        late = (offset for offset, time_us in enumerate(times_us) if time_us >= self._start.timestamp_us)
        return next(late, len(times_us))

    def selects(self, key: StreamKey) -> bool:
        """A pattern selects the mesh's own topics only if it names their first token."""
        topic = key[0].topic
        return matches(self.pattern, topic) and topic.startswith("weft.") == self.pattern.startswith("weft.")

    def _is_taken(self, key: StreamKey, first: int, end: int) -> bool:
        """Whether nothing is left of these offsets."""
        try:
            self._desk.truth.check_gap(self.name, key, first, end, retention=True)
        except Violation:
            return False
        return True


def end_offset(delivered: core.Delivered) -> int:
    return Batch.read_stored(delivered.data).end_offset
