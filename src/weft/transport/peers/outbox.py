"""What waits to be sent to a peer: it is bounded, and never blocks the sender (PL-02).

- ``DataQueue``: batches and plain events. When it is full, more may wait beside it for a while. If there is still no
  room then, something is dropped. The core is told, and sends it again from the log.
- ``PeerOutbox``: everything for an event stream. Heartbeats go first, then acks and resumes, which are never dropped,
  then requests and replies, of which the newest are dropped when there is no room, and then data.
- ``ControlQueue``: gossip and probes. When it is full, the oldest are dropped: the next round repeats them.

Nothing here reads a clock or sends: the stream's writer takes portions out, and each becomes a frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple, assert_never

from weft.core.call_messages import CallFrame, Question, Reply, SendCall
from weft.core.messages import (
    Copy,
    Past,
    PeerEffect,
    PlainEvent,
    SendAcks,
    SendBegins,
    SendCopies,
    SendPast,
    SendPastRequest,
    SendPlain,
    SendPlainAck,
    SendResume,
    StreamKey,
)
from weft.errors import PeerError
from weft.limits import MIB
from weft.membership import Heartbeat, Message, size_of
from weft.model import NodeId, Position, Topic
from weft.security.key_exchange import KeyTalk
from weft.transport.peers.settings import DropPolicy, LinkSettings

LINK_URGENT_BYTES_MAX: Final = 32 * MIB  # acks and resumes that a peer does not take; with more, the link is given up
LINK_FRAME_BYTES: Final = 1 * MIB  # batches share a frame up to this size: many small frames cost, large ones block
LINK_FRAME_ITEMS_MAX: Final = 512  # batches in one frame, however small: 2 ms to write
LINK_FRAME_ACKS_MAX: Final = 1024  # in one frame: about 100 KiB, 2 ms to write and to read
LINK_CALL_BYTES_MAX: Final = 16 * MIB  # requests and replies that wait; others are dropped, and time out
LINK_CONTROL_FRAMES_MAX: Final = 256  # gossip and probes waiting; the oldest go, the next round repeats them
LINK_CONTROL_BYTES_MAX: Final = 4 * MIB  # 16 of the largest gossip messages
LINK_HEARTBEATS_MAX: Final = 4  # waiting; only the newest matter
ITEM_BYTES: Final = 128  # what surrounds a batch or an event, roughly: names, offsets, tags
POSITION_BYTES: Final = 96  # roughly, with names


class Item(NamedTuple):
    """A batch, a piece of the past or a plain event. It is a tuple because there are so many. Items with the same
    ``key`` have to arrive in order and without gaps."""

    what: Copy | Past | PlainEvent
    key: Hashable
    bytes: int
    since_s: float


class DataQueue:
    """First in, first out, bounded in number and bytes; as much again may wait for room, for a time."""

    def __init__(self, settings: LinkSettings) -> None:
        self._frames_max = settings.queue_frames_max
        self._bytes_max = settings.queue_bytes_max
        self._timeout_s = settings.send_timeout_s
        self._policy = settings.drop_policy
        self._queue: deque[Item] = deque()
        self._waiting: deque[Item] = deque()
        self._queue_bytes = 0
        self._waiting_bytes = 0
        # Keys of which an item was dropped. Until the core knows, no more items with these keys may be sent: the peer
        # would acknowledge them, and with them the events that it never got.
        self._lost: set[Hashable] = set()
        self.drops = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._waiting)

    @property
    def bytes(self) -> int:
        return self._queue_bytes + self._waiting_bytes

    @property
    def dropped(self) -> bool:
        """Whether something was dropped that the core has not been told of."""
        return bool(self._lost)

    def tell(self) -> None:
        """The core is being told now, so items with these keys may be sent again."""
        self._lost.clear()

    def put(self, item: Item) -> None:
        if item.key in self._lost:
            self.drops += 1
        elif not self._waiting and self._fits(item):
            self._append(item)
        elif len(self._waiting) < self._frames_max and self._waiting_bytes + item.bytes <= self._bytes_max:
            self._waiting.append(item)
            self._waiting_bytes += item.bytes
        else:
            self._overflow(item)

    def get_timer(self) -> float | None:
        """When ``expire`` has to be called, unless there is room before."""
        return self._waiting[0].since_s + self._timeout_s if self._waiting else None

    def expire(self, now_s: float) -> None:
        """Drop what has waited too long, by policy."""
        while (deadline_s := self.get_timer()) is not None and deadline_s <= now_s:
            self._overflow(None)

    def take(self, bytes_max: int) -> list[Item]:
        """The next portion: one item of any size, and what fits beside it. Batches share a frame, other items do
        not."""
        portion: list[Item] = []
        portion_bytes = 0
        while self._queue:
            item = self._queue[0]
            if portion and (portion_bytes + item.bytes > bytes_max or not isinstance(item.what, Copy)):
                break
            if len(portion) == LINK_FRAME_ITEMS_MAX:
                break
            portion.append(self._queue.popleft())
            portion_bytes += item.bytes
            if not isinstance(item.what, Copy):
                break
        self._queue_bytes -= portion_bytes
        self._admit()
        return portion

    def clear(self) -> None:
        self._queue.clear()
        self._waiting.clear()
        self._queue_bytes = self._waiting_bytes = 0

    def _fits(self, item: Item) -> bool:
        if not self._queue:
            return True  # a batch of any size
        return len(self._queue) < self._frames_max and self._queue_bytes + item.bytes <= self._bytes_max

    def _append(self, item: Item) -> None:
        self._queue.append(item)
        self._queue_bytes += item.bytes

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0]):
            item = self._waiting.popleft()
            self._waiting_bytes -= item.bytes
            self._append(item)

    def _overflow(self, newcomer: Item | None) -> None:
        """There is no room and no time left: drop the oldest item or the newest, and everything that must not arrive
        without it.

        Dropping the oldest makes room for other streams. If there is only one stream, the oldest stays: otherwise the
        whole stream would be dropped and sent again for ever, and a slow peer would never get any of it.
        """
        if newcomer is not None:
            self._waiting.append(newcomer)
        if self._policy is DropPolicy.OLDEST and self._has_several:
            loser = self._queue[0]
            self._drop(self._queue, loser.key)
        else:  # queued items of the same stream are older than the one to drop, so they may stay
            loser = self._waiting[-1]
        self._drop(self._waiting, loser.key)
        self._lost.add(loser.key)
        self._queue_bytes = sum(item.bytes for item in self._queue)
        self._waiting_bytes = sum(item.bytes for item in self._waiting)
        self._admit()

    @property
    def _has_several(self) -> bool:
        """Whether there are several streams."""
        first = self._queue[0].key
        return any(item.key != first for item in chain(self._queue, self._waiting))

    def _drop(self, items: deque[Item], key: Hashable) -> None:
        kept = [item for item in items if item.key != key]
        self.drops += len(items) - len(kept)
        items.clear()
        items.extend(kept)


# --- the event stream ------------------------------------------------------------------------------------------------


class Portion(NamedTuple):
    """What makes one frame, and since when its oldest item has waited."""

    what: PeerEffect | Heartbeat
    since_s: float


@dataclass(slots=True)
class Acks:
    """Only the last ack of each stream counts, so they do not pile up."""

    positions: dict[StreamKey, Position]
    differing: dict[StreamKey, Position]
    since_s: float


class UrgentOverflow(PeerError):
    """The peer takes nothing at all, not even acks."""


class PeerOutbox:
    """Everything for the event stream of one peer."""

    def __init__(self, peer: NodeId, settings: LinkSettings) -> None:
        self._peer = peer
        self.data = DataQueue(settings)
        self._heartbeats: deque[Portion] = deque(maxlen=LINK_HEARTBEATS_MAX)
        # In the order in which they came: an ack that overtook a resume might say more than the peer can know.
        self._urgent: deque[Acks | Portion] = deque()
        self._urgent_bytes = 0
        self._plain_acks: dict[Topic, Portion] = {}
        self._calls: deque[Portion] = deque()
        self._calls_bytes = 0
        self.calls_dropped = 0

    def __len__(self) -> int:
        urgent = len(self._urgent) + len(self._plain_acks) + len(self._heartbeats)
        return len(self.data) + len(self._calls) + urgent

    def put_heartbeat(self, heartbeat: Heartbeat, now_s: float) -> None:
        self._heartbeats.append(Portion(heartbeat, now_s))

    def put(self, effect: PeerEffect, now_s: float) -> None:
        """Never waits. Raise UrgentOverflow if the link has to be given up."""
        match effect:
            case SendCopies(_, copies):
                for copy in copies:
                    self.data.put(Item(copy, (copy.stream, copy.epoch), len(copy.batch.data) + ITEM_BYTES, now_s))
            case SendPlain(_, events):
                for event in events:
                    self.data.put(Item(event, event.topic, _plain_bytes(event), now_s))
            case SendAcks():
                self._put_acks(effect, now_s)
            case SendResume() | SendBegins() | SendPastRequest():
                self._urgent.append(Portion(effect, now_s))
                self._grow_urgent(_request_bytes(effect))
            case SendPast(_, past):  # the peer asked for this, and asks again if it does not come
                size = sum(len(batch.data) for batch in past.batches) + ITEM_BYTES
                self.data.put(Item(past, ("past", past.stream, past.epoch), size, now_s))
            case SendPlainAck(_, topic):
                self._plain_acks[topic] = Portion(effect, now_s)
            case SendCall(_, frame):
                self._put_call(effect, _call_bytes(frame), now_s)
            case _:
                assert_never(effect)

    def take(self) -> Portion | None:
        """The next frame; None if there is nothing to send."""
        if self._heartbeats:
            return self._heartbeats.popleft()
        if self._urgent:
            return self._take_urgent()
        if self._plain_acks:
            return self._plain_acks.pop(next(iter(self._plain_acks)))
        if self._calls:
            return self._take_call()
        items = self.data.take(LINK_FRAME_BYTES)
        if not items:
            return None
        first = items[0].what
        if isinstance(first, PlainEvent):
            return Portion(SendPlain(self._peer, (first,)), items[0].since_s)
        if isinstance(first, Past):
            return Portion(SendPast(self._peer, first), items[0].since_s)
        copies = tuple(item.what for item in items if isinstance(item.what, Copy))
        return Portion(SendCopies(self._peer, copies), items[0].since_s)

    def clear(self) -> None:
        """Drop what waits."""
        self.data.clear()
        self._heartbeats.clear()
        self._urgent.clear()
        self._plain_acks.clear()
        self._calls.clear()
        self._calls_bytes = 0

    def _put_call(self, call: SendCall, size: int, now_s: float) -> None:
        if self._calls_bytes + size > LINK_CALL_BYTES_MAX:
            self.calls_dropped += 1
            return
        self._calls.append(Portion(call, now_s))
        self._calls_bytes += size

    def _take_call(self) -> Portion:
        portion = self._calls.popleft()
        assert isinstance(portion.what, SendCall), "nothing else is put there"
        self._calls_bytes -= _call_bytes(portion.what.frame)
        return portion

    def _put_acks(self, acks: SendAcks, now_s: float) -> None:
        last = self._urgent[-1] if self._urgent else None
        if not isinstance(last, Acks):
            last = Acks({}, {}, now_s)
            self._urgent.append(last)
        for kept, said in ((last.positions, acks.positions), (last.differing, acks.differing)):
            known = len(kept)
            kept.update(((position.stream, position.epoch), position) for position in said)
            self._grow_urgent(POSITION_BYTES * (len(kept) - known))

    def _take_urgent(self) -> Portion:
        first = self._urgent[0]
        if not isinstance(first, Acks):
            self._urgent.popleft()
            assert isinstance(first.what, SendResume | SendBegins | SendPastRequest), "nothing else is put there"
            self._urgent_bytes -= _request_bytes(first.what)
            return first
        positions = _taken(first.positions, LINK_FRAME_ACKS_MAX)
        differing = _taken(first.differing, LINK_FRAME_ACKS_MAX - len(positions))
        self._urgent_bytes -= POSITION_BYTES * (len(positions) + len(differing))
        if not first.positions and not first.differing:
            self._urgent.popleft()
        return Portion(SendAcks(self._peer, positions, differing), first.since_s)

    def _grow_urgent(self, size: int) -> None:
        self._urgent_bytes += size
        if self._urgent_bytes > LINK_URGENT_BYTES_MAX:
            raise UrgentOverflow("the peer does not take acks", waiting=self._urgent_bytes, limit=LINK_URGENT_BYTES_MAX)


def _taken(kept: dict[StreamKey, Position], most: int) -> tuple[Position, ...]:
    """Take the first ones out."""
    return tuple(kept.pop(key) for key in list(islice(kept, most)))


def _plain_bytes(event: PlainEvent) -> int:
    return ITEM_BYTES + len(event.payload) + sum(len(name) + len(value) for name, value in event.headers.items())


def _call_bytes(frame: CallFrame) -> int:
    body = frame.body
    if not isinstance(body, Question | Reply):
        return ITEM_BYTES
    return ITEM_BYTES + len(body.payload) + sum(len(name) + len(value) for name, value in body.headers.items())


def _request_bytes(request: SendResume | SendBegins | SendPastRequest) -> int:
    if isinstance(request, SendPastRequest):
        return ITEM_BYTES
    if isinstance(request, SendBegins):
        return ITEM_BYTES + POSITION_BYTES * len(request.begins)
    names = (*request.positions, *request.begins, *request.origins, *request.leave)
    return ITEM_BYTES + POSITION_BYTES * len(names)


# --- the control stream ----------------------------------------------------------------------------------------------


class ControlQueue:
    """Gossip, probes and news about API keys; the oldest are dropped when there is no room."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Message | KeyTalk, int]] = deque()
        self._bytes = 0
        self.drops = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, message: Message | KeyTalk) -> None:
        size = message.size_bytes if isinstance(message, KeyTalk) else size_of(message)
        self._queue.append((message, size))
        self._bytes += size
        while len(self._queue) > LINK_CONTROL_FRAMES_MAX or self._bytes > LINK_CONTROL_BYTES_MAX:
            self._bytes -= self._queue.popleft()[1]
            self.drops += 1

    def take(self) -> Message | KeyTalk | None:
        if not self._queue:
            return None
        message, size = self._queue.popleft()
        self._bytes -= size
        return message

    def clear(self) -> None:
        self._queue.clear()
        self._bytes = 0
