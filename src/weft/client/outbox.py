"""Events on their way out, gathered into batches. Pure: other classes have the clock and do the sending.

Events of one topic and partition wait in a **lane**, in **chunks**. A chunk takes events until it is sent or full. So a
single event leaves at once, and the next chunk grows while one is under way; there is no timer. Each event's publisher
holds a **ticket**, which is a chunk and an index. The outcome of a chunk counts for all its tickets, so that an event
needs no future or callback of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from weft.client.chunk import CLIENT_EVENT_BYTES, Chunk, Lane, Published, Timing, Whole, size_of
from weft.client.errors import Backpressure
from weft.errors import UsageError, WeftError
from weft.limits import EVENT_PAYLOAD_BYTES_MAX, PRODUCER_RECEIPTS_MAX
from weft.model import Receipt, parse_topic, partition_of
from weft.model.later import SLOT_US

CLIENT_BATCHES_IN_FLIGHT_MAX: Final = PRODUCER_RECEIPTS_MAX // 2  # per stream: few enough for a node to know repeats
CLIENT_LANES_KEPT_MAX: Final = 4096  # topics published to; those with nothing under way may be forgotten
HEADER_BYTES: Final = 8  # the offsets that Arrow keeps for each header


class PublishOutbox:
    """All lanes, and the bound for unacknowledged events."""

    def __init__(
        self,
        *,
        partitions: int,
        batch_bytes: int,
        bytes_max: int,
        wake: Callable[[], None],
        read_clock: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._batch_bytes = batch_bytes
        self._bytes_max: Final = bytes_max
        self._room_bytes = bytes_max
        self._wake = wake  # called when something may be ready to send; raises if nothing can be sent ever again
        self._read_clock = read_clock
        self.now_us = 0  # the time, cached until the owner of the clock resets it to 0; 0: read the clock
        self._lanes: dict[str, Lane] = {}  # of partition 0, which is often the only one
        self._others: dict[tuple[str, int, Timing, int], Lane] = {}
        self._purge_at = CLIENT_LANES_KEPT_MAX
        self._ready: deque[Lane] = deque()
        self.unsettled: dict[Chunk, None] = {}  # all chunks without an outcome, in the order in which they were begun

    # --- in --------------------------------------------------------------------------------------------------------

    def add(
        self,
        topic: str,
        payload: bytes,
        key: bytes | None,
        headers: Mapping[str, str] | None,
        timestamp_us: int | None,
        copies: int,
        timing: Timing = Timing.NOW,
    ) -> Published:
        """Take one event. A million a second come through here: nothing is done twice, and few functions are called."""
        size = len(payload) + CLIENT_EVENT_BYTES
        if key is not None or headers is not None:
            size += self._size_of(key, headers)
        if size > self._room_bytes and not self.fits(size):
            self._refuse(size)
        if timing is not Timing.NOW:
            slot = (timestamp_us or 0) // SLOT_US  # each slot gets its own batch: a node files it by its first event
            lane: Lane | None = self._lane_of(topic, partition_of(key, self._partitions), timing, slot)
        else:
            lane = self._lanes.get(topic) if key is None or self._partitions == 1 else self._lane(topic, key)
        if lane is None:
            lane = self._lane(topic, key)
        chunk = lane.open
        if chunk is None or chunk.size_bytes + size > self._batch_bytes or copies != chunk.copies:
            if len(payload) > EVENT_PAYLOAD_BYTES_MAX:
                raise UsageError("payload too long", topic=topic, have=len(payload), limit=EVENT_PAYLOAD_BYTES_MAX)
            chunk = self._start_chunk(lane, copies)
        payloads = chunk.payloads
        payloads.append(payload)
        chunk.timestamps_us.append(timestamp_us if timestamp_us is not None else self.now_us or self._read_clock())
        if key is not None or chunk.keys is not None:
            chunk.add_key(key)
        if headers is not None or chunk.headers is not None:
            chunk.add_headers(headers)
        chunk.size_bytes += size
        self._room_bytes -= size
        return Published(chunk, len(payloads) - 1)

    def add_whole(self, topic: str, partition: int, whole: Whole, copies: int) -> Chunk:
        """Take events that come together: they become a batch of their own."""
        size = size_of(whole)
        if not self.fits(size):
            self._refuse(size)
        lane = self._lane_of(topic, partition)
        chunk = self._start_chunk(lane, copies)
        lane.open = None
        chunk.whole, chunk.is_whole, chunk.size_bytes = whole, True, size
        chunk.timestamps_us.append(self.now_us or self._read_clock())
        self._room_bytes -= size
        return chunk

    # --- out -------------------------------------------------------------------------------------------------------

    def next(self, in_flight: Mapping[Lane, int]) -> Chunk | None:
        """The next chunk to send. ``in_flight``: how many chunks of each lane are under way to this node. Lanes take
        turns.

        While a chunk of a lane is under way, only a full chunk follows: a small one should grow meanwhile.
        """
        while self._ready:
            lane = self._ready.popleft()
            lane.ready = False
            if not lane.waiting or lane.stalled:
                continue  # the end of the stall lists it again
            chunk = lane.waiting[0]
            busy = in_flight.get(lane, 0)
            if busy and (chunk is lane.open or busy >= CLIENT_BATCHES_IN_FLIGHT_MAX):
                continue  # the next receipt, or a full chunk, lists it again
            lane.waiting.popleft()
            if chunk is lane.open:
                lane.open = None
            if lane.waiting:
                self._list(lane)
            return chunk
        return None

    @property
    def has_ready(self) -> bool:
        """Whether ``next`` may find another chunk."""
        return bool(self._ready)

    def list_again(self, lane: Lane) -> None:
        """Something has changed for this lane: list it again."""
        self._list(lane)
        if lane.ready:
            self._wake()

    def list_all(self) -> None:
        """There is a new node: everything that waits may go there."""
        for lane in (*self._lanes.values(), *self._others.values()):
            self._list(lane)

    def refused(self, chunk: Chunk) -> None:
        """A node refuses this chunk for now. Chunks behind it in its lane that were not sent yet wait. Those that were
        sent already may still be accepted; then they come before this one."""
        chunk.lane.refused.append(chunk)
        chunk.lane.stalled = True

    def resume(self, lane: Lane) -> None:
        """What was refused is next again, in its old order."""
        lane.waiting.extendleft(sorted(lane.refused, key=lambda chunk: -chunk.sequence))
        lane.refused.clear()
        lane.stalled = lane.waits_out = False
        self.list_again(lane)

    def resume_all(self) -> None:
        """The node that refused is gone, so there is nothing to wait for."""
        for lane in (*self._lanes.values(), *self._others.values()):
            if lane.stalled:
                self.resume(lane)

    def settle(self, chunk: Chunk, outcome: Receipt | WeftError) -> None:
        self._room_bytes += chunk.size_bytes
        del self.unsettled[chunk]
        chunk.lane.unsettled -= 1
        chunk.settle(outcome)

    def take_all(self) -> list[Chunk]:
        """Take everything that is not under way, to give it up."""
        chunks: list[Chunk] = []
        for lane in (*self._lanes.values(), *self._others.values()):
            chunks += [*lane.refused, *lane.waiting]
            lane.refused.clear()
            lane.waiting.clear()
            lane.open, lane.stalled = None, False
        return chunks

    @property
    def waiting(self) -> bool:
        """Whether anything could be sent if there were a node."""
        return any(lane.waiting or lane.refused for lane in (*self._lanes.values(), *self._others.values()))

    @property
    def has_plenty(self) -> bool:
        """Whether at least half of the bound is free: then publishers that waited may go on for a while."""
        return self._room_bytes * 2 >= self._bytes_max

    def fits(self, size: int) -> bool:
        """Whether this many bytes may be added now. Something larger than the bound may be added if nothing else is
        there."""
        return size <= self._room_bytes or self._room_bytes == self._bytes_max

    # --- within ----------------------------------------------------------------------------------------------------

    def _start_chunk(self, lane: Lane, copies: int) -> Chunk:
        if copies < 0:
            raise UsageError("copies cannot be negative", copies=copies)
        self._wake()
        chunk = Chunk(lane, copies)
        lane.waiting.append(chunk)
        lane.open = chunk
        self.unsettled[chunk] = None
        lane.unsettled += 1
        self._list(lane)
        return chunk

    def _list(self, lane: Lane) -> None:
        if lane.waiting and not lane.ready and not lane.stalled:
            lane.ready = True
            self._ready.append(lane)

    def _lane(self, topic: str, key: bytes | None) -> Lane:
        return self._lane_of(topic, partition_of(key, self._partitions))

    def _lane_of(self, topic: str, partition: int, timing: Timing = Timing.NOW, slot: int = 0) -> Lane:
        is_usual = partition == 0 and timing is Timing.NOW
        place = (topic, partition, timing, slot)
        lane = self._lanes.get(topic) if is_usual else self._others.get(place)
        if lane is None:
            lane = Lane(parse_topic(topic), partition, timing)
            if len(self._lanes) + len(self._others) >= self._purge_at:
                self._purge()
            if is_usual:
                self._lanes[topic] = lane
            else:
                self._others[place] = lane
        return lane

    def _purge(self) -> None:
        """Forget lanes without events: a client that answers requests publishes to new topics for ever."""
        self._lanes = {topic: lane for topic, lane in self._lanes.items() if lane.unsettled}
        self._others = {place: lane for place, lane in self._others.items() if lane.unsettled}
        self._purge_at = CLIENT_LANES_KEPT_MAX + len(self._lanes) + len(self._others)

    def _refuse(self, size: int) -> NoReturn:
        raise Backpressure(
            "too much is published and not yet acknowledged",
            unacknowledged_bytes=self._bytes_max - self._room_bytes,
            need=size,
            limit=self._bytes_max,
        )

    @staticmethod
    def _size_of(key: bytes | None, headers: Mapping[str, str] | None) -> int:
        size = len(key) if key is not None else 0
        if headers:
            try:
                size += sum(map(len, headers)) + sum(map(len, headers.values())) + HEADER_BYTES * len(headers)
            except (TypeError, AttributeError):
                raise UsageError("headers must be a mapping of str to str") from None
        return size
