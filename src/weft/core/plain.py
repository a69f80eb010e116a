"""Peers that know only the four messages of the design document (PL-05).

What such a peer sends on a topic becomes the stream (topic, the peer's node id, partition 0). An ack names the highest
durable offset without a gap before it (PL-04), so events after a gap are not taken:

1. The first event of a stream may have any offset: the peer has dropped the ones before it.
2. After a gap, nothing is kept or acknowledged. The peer gets the last ack again, so that it can go back.
3. The document lets a sender go back only on a new link. So a peer that has not gone back within PLAIN_GAP_S loses its
   link, and resumes after the ack on the next one.
4. A gap on two links in a row is no accident: the peer no longer has these events. Its stream goes on after the gap,
   and the node reports which events are gone (``EventsGone``).

Plain peers get all streams of a topic, merged into one sequence without gaps. Each peer and topic has such a sequence.
It is a stream of its own in our log, so that an event keeps its number over crashes. This node merges events first and
notes that afterwards, so a crash in between merges a few events again and loses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from weft.core.incoming import Taken, end_of
from weft.core.messages import PlainEvent, StreamKey
from weft.core.reading import LINK_READ_BYTES_MAX, read_behind_losses
from weft.core.topics import PLAIN_PREFIX, is_own, selects
from weft.errors import StorageError
from weft.log import Log, StreamInfo
from weft.log.errors import DiskFull, PositionExpired
from weft.model import Batch, Epoch, Event, NodeId, Pattern, Position, Stream, Topic, parse_topic

PLAIN_WINDOW_EVENTS: Final = 1000  # sent to a plain peer and not yet acknowledged
PLAIN_GAP_S: Final = 3.0  # time for a plain peer to go back to missing events, many round trips; then its link ends
PLAIN_EPOCH: Final = Epoch(1)  # the document has no epochs
DIGEST_BYTES: Final = 12


def merged_stream(me: NodeId, peer: NodeId, topic: Topic) -> Stream:
    """The stream that holds the sequence for a peer and topic. Its topic contains a digest of both names, because
    together they may be too long."""
    digest = blake2b(f"{peer}\n{topic}".encode(), digest_size=DIGEST_BYTES).hexdigest()
    return Stream(parse_topic(f"{PLAIN_PREFIX}{digest}"), me, 0)


class Gap(NamedTuple):
    """Offsets that have not come, from ``first`` up to but not including ``end``. ``since_s``: since when they are
    missing."""

    first: int
    end: int
    since_s: float


class PlainLink:
    """One plain peer, as long as its link stands. ``gaps`` outlives the link: it says which topics stopped before a
    gap, and where. ``lacks`` tells whether to wait for the past of a copy, from an offset on."""

    def __init__(
        self,
        peer: NodeId,
        me: NodeId,
        log: Log,
        patterns: Iterable[Pattern],
        gaps: MutableMapping[Topic, int],
        lacks: Callable[[StreamInfo, int], bool],
    ) -> None:
        self.peer = peer
        self._me = me
        self._log = log
        self._patterns = tuple(patterns)
        self._lacks = lacks
        self._places = {(each.stream, each.epoch): each.offset for each in log.cursors(peer)}
        self._topics: dict[Stream, Topic] = {}  # merged stream -> topic
        self._sent: dict[Stream, int] = {}  # merged stream -> next number to send
        self._ready: dict[Stream, None] = {}  # merged streams that may have something to send
        self._owed: dict[Topic, None] = {}  # topics to acknowledge once durable
        self.unmerged: dict[StreamKey, None] = {}  # streams with events that found no room when they were merged
        self._damaged: set[StreamKey] = set()  # streams that cannot be read any further
        self._untold: list[StorageError] = []
        self._gaps = gaps
        self._gaps_before = dict(gaps)  # the gaps found on earlier links
        self._missing: dict[Topic, Gap] = {}  # the gaps that topics wait for
        for info in log.streams():
            self.stream_known((info.stream, info.epoch))

    def selects(self, key: StreamKey) -> bool:
        """Whether the peer gets this stream. It never gets its own streams, nor those that the mesh keeps for
        itself."""
        stream, _ = key
        if stream.origin == self.peer or is_own(stream.topic):
            return False
        return any(selects(pattern, stream.topic) for pattern in self._patterns)

    # --- to the peer ---------------------------------------------------------------------------------------------

    def stream_known(self, key: StreamKey) -> None:
        stream, _ = key
        if self.selects(key):
            merged = merged_stream(self._me, self.peer, stream.topic)
            if merged not in self._topics:
                self._topics[merged] = stream.topic
                self._sent[merged] = self._places.get((merged, self._log.epoch), 0)
                self._ready[merged] = None
            self.merge(key)

    def advanced(self, key: StreamKey) -> None:
        """Note that a stream has more that is durable."""
        if key[0] in self._topics:
            self._ready[key[0]] = None
        else:
            self.merge(key)

    def merge(self, key: StreamKey) -> None:
        """Append the stream's new durable events to the sequence for the peer, which gives them their numbers.

        If the disk is full, ``merge_rest`` tries the stream again later.
        """
        if self.selects(key) and key not in self._damaged:
            self.unmerged.pop(key, None)
            try:
                self._merge(key)
            except DiskFull:
                self.unmerged[key] = None
            except StorageError as error:
                self._note_damage(key, error)

    def _note_damage(self, key: StreamKey, error: StorageError) -> None:
        self._damaged.add(key)
        self._untold.append(error)

    def take_damage(self) -> list[StorageError]:
        """Take the damage found since the last call."""
        untold, self._untold = self._untold, []
        return untold

    def merge_rest(self) -> None:
        for key in list(self.unmerged):
            self.merge(key)

    def _merge(self, key: StreamKey) -> None:
        stream, epoch = key
        info = self._log.info(stream, epoch)
        place = self._places.get(key, 0)
        if self._lacks(info, place):
            return
        place = max(place, info.start)
        while place < info.end:
            try:
                stored, losses = read_behind_losses(self._log, key, place, info.end, LINK_READ_BYTES_MAX)
            except PositionExpired:
                place = self._log.info(stream, epoch).start
                continue
            self._untold += losses
            merged = merged_stream(self._me, self.peer, stream.topic)
            for data in stored:  # slices have no producer: with one, the log would take them for repeats
                self._log.append(merged, Batch.read_stored(data).slice(place))
            place = Batch.read_stored(stored[-1]).end_offset if stored else info.end
            self._move(Position(stream, epoch, place))

    def _move(self, position: Position) -> None:
        self._places[(position.stream, position.epoch)] = position.offset
        self._log.move_cursor(self.peer, [position])

    def to_send(self) -> list[PlainEvent]:
        """What the peer can get now: numbered, durable events, as far as the window allows."""
        events: list[PlainEvent] = []
        ready, self._ready = self._ready, {}
        for merged in ready:
            key = (merged, self._log.epoch)
            if key not in self._damaged:
                try:
                    events += self._events(merged, self._topics[merged])
                except StorageError as error:
                    self._note_damage(key, error)
        return events

    def _events(self, merged: Stream, topic: Topic) -> list[PlainEvent]:
        state = self._log.find(merged, self._log.epoch)
        if state is None:
            return []
        acked = max(self._places.get((merged, self._log.epoch), 0), state.start)
        first = max(self._sent[merged], state.start)
        end = min(state.durable, acked + PLAIN_WINDOW_EVENTS)
        if first >= end:
            return []
        events: list[PlainEvent] = []
        stored, losses = read_behind_losses(self._log, (merged, self._log.epoch), first, end, LINK_READ_BYTES_MAX)
        self._untold += losses
        if losses and losses[0].loss.first <= acked:  # the window has to begin after what is gone for good
            with suppress(DiskFull):
                self._move(Position(merged, self._log.epoch, losses[-1].loss.end))
            if not stored:
                self._sent[merged] = losses[-1].loss.end
                return self._events(merged, topic)
        for data in stored:
            batch = Batch.read_stored(data)
            at = max(first, batch.base_offset)
            wanted = batch.events_from(at)[: end - at]
            events += (PlainEvent(topic, at + place, e.payload, e.headers or {}) for place, e in enumerate(wanted))
        if events:
            self._sent[merged] = events[-1].offset + 1
        return events

    def acked(self, topic: Topic, offset: int) -> None:
        """Note that the peer has everything of the topic up to and including this number."""
        merged = merged_stream(self._me, self.peer, topic)
        if merged in self._topics and self._places.get((merged, self._log.epoch), 0) <= offset < self._sent[merged]:
            self._ready[merged] = None
            with suppress(DiskFull):  # the ack counts all the same; after a crash, a few events are sent again
                self._move(Position(merged, self._log.epoch, offset + 1))

    def rewind(self) -> None:
        """Send again what was not acknowledged."""
        for merged in self._sent:
            self._sent[merged] = self._places.get((merged, self._log.epoch), 0)
            self._ready[merged] = None

    # --- from the peer -------------------------------------------------------------------------------------------

    def end_of(self, topic: Topic) -> int | None:
        """Where the peer's stream ends here; None if we have nothing of it."""
        return end_of(self._log, Stream(topic, self.peer, 0), PLAIN_EPOCH)

    def pass_gap(self, event: PlainEvent) -> tuple[int, int] | None:
        """If the event comes after a gap that was also there on an earlier link, go on after the gap. Return the first
        offset that is gone and the one after the last. Raise StorageError if there is no room to note that."""
        end = self.end_of(event.topic)
        if end is None or event.offset <= end or self._gaps_before.get(event.topic) != end:
            return None
        self._log.append_gap(Stream(event.topic, self.peer, 0), PLAIN_EPOCH, event.offset)
        return end, event.offset

    def take(self, event: PlainEvent, now_us: int) -> Taken:
        """Keep an event if it follows what is here. Raise UsageError if it cannot be kept at all, StorageError if there
        is no room."""
        topic, end = event.topic, self.end_of(event.topic)
        if end is not None and event.offset > end:
            return Taken.MISSING
        self._missing.pop(topic, None)
        self._owed[topic] = None
        if end is not None and event.offset < end:
            return Taken.KNOWN
        batch = Batch.from_events([Event(event.payload, now_us, None, event.headers or None)])
        self._log.append_copy(Stream(topic, self.peer, 0), PLAIN_EPOCH, batch.with_base_offset(event.offset))
        self._gaps.pop(topic, None)
        return Taken.KEPT

    def tell_missing(self, event: PlainEvent, now_s: float) -> bool:
        """Whether the peer has to be told again what we have. Once is enough until the stream goes on."""
        topic, end = event.topic, self.end_of(event.topic)
        assert end is not None, "a stream that is not here can begin anywhere"
        if topic in self._missing:
            return False
        self._missing[topic] = Gap(end, event.offset, now_s)
        self._gaps[topic] = end
        self._owed[topic] = None
        return True

    @property
    def gap_due_s(self) -> float | None:
        """When a peer that does not go back loses its link; None if nothing is missing."""
        return min((gap.since_s + PLAIN_GAP_S for gap in self._missing.values()), default=None)

    def missing(self) -> str:
        """The gap that has waited longest, for people."""
        topic, gap = min(self._missing.items(), key=lambda each: each[1].since_s)
        return f"{topic} from {gap.first} to {gap.end - 1}"

    def acks(self) -> list[tuple[Topic, int]]:
        """The topics to acknowledge, and the last durable number of each."""
        acks = []
        for topic in list(self._owed):
            state = self._log.find(Stream(topic, self.peer, 0), PLAIN_EPOCH)
            if state is not None and state.durable > state.start:
                acks.append((topic, state.durable - 1))
            if state is None or state.durable == state.end:
                del self._owed[topic]
        return acks
