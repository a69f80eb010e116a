"""Events on their way out, gathered into batches. Pure: the clock and the sending are somebody else's.

Events of one topic and partition wait in a **lane**, in **chunks**. A chunk takes events until it is sent or full, so
while one is under way the next one grows, and a lone event leaves at once: no timer is involved. Each event's publisher
holds a **ticket**, which is a chunk and an index; the one outcome of a chunk serves all of its tickets, so that an
event costs no future and no callback of its own.
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

CLIENT_BATCHES_IN_FLIGHT_MAX: Final = PRODUCER_RECEIPTS_MAX // 2  # per stream: a node recognises each that comes again
CLIENT_LANES_KEPT_MAX: Final = 4096  # topics published to; those with nothing under way are forgotten, at no loss
HEADER_BYTES: Final = 8  # of offsets that Arrow keeps for each


class PublishOutbox:
    """All lanes, and the bound on what is unacknowledged."""

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
        self._wake = wake  # something may be ready to be sent; raises if nothing ever will be
        self._read_clock = read_clock
        self.now_us = 0  # the time, until whoever owns the clock takes it back; 0: ask
        self._lanes: dict[str, Lane] = {}  # of partition 0, which is most often all there is
        self._others: dict[tuple[str, int, Timing, int], Lane] = {}
        self._purge_at = CLIENT_LANES_KEPT_MAX
        self._ready: deque[Lane] = deque()
        self.unsettled: dict[Chunk, None] = {}  # all chunks without an outcome, in order of their beginning

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
        """Take one event. A million a second come through here: nothing is done twice, little is called."""
        size = len(payload) + CLIENT_EVENT_BYTES
        if key is not None or headers is not None:
            size += self._size_of(key, headers)
        if size > self._room_bytes and not self.fits(size):
            self._refuse(size)
        if timing is not Timing.NOW:
            slot = (timestamp_us or 0) // SLOT_US  # one batch for each: a node keeps it where its first event is due
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
        """Take events that come together: they are a batch of their own."""
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
        """The next chunk to be sent to a node that has so many of each lane already, lanes taking turns.

        With something under way, only a full chunk follows it: a small one had better grow meanwhile.
        """
        while self._ready:
            lane = self._ready.popleft()
            lane.ready = False
            if not lane.waiting or lane.stalled:
                continue  # it is listed again when the stall ends
            chunk = lane.waiting[0]
            busy = in_flight.get(lane, 0)
            if busy and (chunk is lane.open or busy >= CLIENT_BATCHES_IN_FLIGHT_MAX):
                continue  # it is listed again with the next receipt, or when its chunk is full
            lane.waiting.popleft()
            if chunk is lane.open:
                lane.open = None
            self._list(lane)
            return chunk
        return None

    @property
    def has_ready(self) -> bool:
        """``next`` may find another one."""
        return bool(self._ready)

    def list_again(self, lane: Lane) -> None:
        """Something has changed for this lane: look at it again."""
        self._list(lane)
        if lane.ready:
            self._wake()

    def list_all(self) -> None:
        """A new node: everything that waits may go there."""
        for lane in (*self._lanes.values(), *self._others.values()):
            self._list(lane)

    def refused(self, chunk: Chunk) -> None:
        """A node does not want it now. It keeps its place: whatever waits in its lane waits on."""
        chunk.lane.refused.append(chunk)
        chunk.lane.stalled = True

    def resume(self, lane: Lane) -> None:
        """What was refused is next again, in the order it was sent."""
        lane.waiting.extendleft(sorted(lane.refused, key=lambda chunk: -chunk.sequence))
        lane.refused.clear()
        lane.stalled = lane.waits_out = False
        self.list_again(lane)

    def resume_all(self) -> None:
        """The node that refused is gone: there is nothing to wait out."""
        for lane in (*self._lanes.values(), *self._others.values()):
            if lane.stalled:
                self.resume(lane)

    def settle(self, chunk: Chunk, outcome: Receipt | WeftError) -> None:
        self._room_bytes += chunk.size_bytes
        del self.unsettled[chunk]
        chunk.lane.unsettled -= 1
        chunk.settle(outcome)

    def take_all(self) -> list[Chunk]:
        """Everything that is not under way, to be given up."""
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
        """Whether at least half of the bound is free: who waited may go on for a while."""
        return self._room_bytes * 2 >= self._bytes_max

    def fits(self, size: int) -> bool:
        """Whether so much may be added now. What is larger than the bound may when there is nothing else."""
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
        """Forget lanes without events: who answers requests publishes to one topic after the other, for ever."""
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
