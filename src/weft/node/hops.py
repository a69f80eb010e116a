"""When events became durable here, and when they were handed to subscribers: for ``weft trace``, and for the latency of
deliveries.

Nothing is kept per event. Each sync of a stream, and each batch for a subscriber, is one point: the offset that was
reached, and when. A stream has a bounded number of points. When there are too many, every second point of the older
half is dropped. So recent times are known exactly, and older ones less and less exactly. All of it is in memory: a
restarted node knows nothing from before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from weft.core.messages import StreamKey
from weft.core.subscriptions import Subscriptions
from weft.port.node import Delivery, Moment

STREAM_POINTS_MAX: Final = 256  # of one stream, 16 bytes each
READER_POINTS_MAX: Final = 64  # of one subscriber in one stream
STREAMS_MAX: Final = 1024  # streams with points: those that moved last. 4 MB at most
READERS_MAX: Final = 1024  # pairs of subscriber and stream: 1 MB at most
DELIVERIES_TOLD_MAX: Final = 256  # of one event


class Timeline:
    """When which offset was reached."""

    __slots__ = ("_ends", "_exact_from", "_first", "_points_max", "_times_us")

    def __init__(self, first: int, points_max: int) -> None:
        """``first``: nothing is known about events before this offset."""
        self._first = first
        self._points_max = points_max
        self._ends = array("q")
        self._times_us = array("q")
        self._exact_from = 0  # points before this place stand for several

    @property
    def end(self) -> int:
        return self._ends[-1] if self._ends else self._first

    def add(self, end: int, time_us: int) -> None:
        """All events before ``end`` are there now. Repetitions, after a failure, change nothing."""
        ends = self._ends
        if ends and end <= ends[-1]:
            return
        if len(ends) == self._points_max:
            self._thin_out()
        self._ends.append(end)
        self._times_us.append(time_us)

    def _thin_out(self) -> None:
        """Drop every second of the older points. Of two, the later one stays, because by then both had happened."""
        half = self._points_max // 2
        self._ends = self._ends[1:half:2] + self._ends[half:]
        self._times_us = self._times_us[1:half:2] + self._times_us[half:]
        self._exact_from = half // 2

    def reached_us(self, offset: int) -> int | None:
        """When the event was there, at the latest."""
        ends = self._ends
        if not ends or offset >= ends[-1] or offset < self._first:
            return None
        if len(ends) > 1 and offset < ends[-2]:  # most requests are about the last point
            return self._times_us[bisect_right(ends, offset)]
        return self._times_us[-1]

    def find(self, offset: int) -> Moment | None:
        if offset < self._first or not self._ends or offset >= self._ends[-1]:
            return None
        place = bisect_right(self._ends, offset)
        at_us = self._times_us[place]
        if place >= self._exact_from:
            return Moment(at_us, at_us)
        return Moment(at_us, self._times_us[place - 1] if place else 0)


class Reader(NamedTuple):
    """One subscriber in one stream."""

    pattern: str
    group: str
    member: str
    timeline: Timeline


class Hops:
    """``ends``: where each stream of the log ends at the start. ``now_us``: µs since 1970."""

    def __init__(self, ends: Mapping[StreamKey, int], subscriptions: Subscriptions, now_us: Callable[[], int]) -> None:
        self.since_us: Final = now_us()
        self.now_us = now_us
        self._subscriptions = subscriptions
        self._ends = dict(ends)  # of streams without a timeline
        self._streams: OrderedDict[StreamKey, Timeline] = OrderedDict()
        self._readers: dict[StreamKey, dict[int, Reader]] = {}
        self._oldest: deque[tuple[StreamKey, int]] = deque()  # readers, in the order in which they came

    # --- what happens --------------------------------------------------------------------------------------------

    def stored(self, advanced: Mapping[StreamKey, int]) -> None:
        """A sync has made these streams durable up to these offsets."""
        now_us = self.now_us()
        for key, end in advanced.items():
            timeline = self._streams.get(key)
            if timeline is None:
                timeline = self._streams[key] = Timeline(self._ends.pop(key, 0), STREAM_POINTS_MAX)
                if len(self._streams) > STREAMS_MAX:
                    old, gone = self._streams.popitem(last=False)
                    self._ends[old] = gone.end
            else:
                self._streams.move_to_end(key)
            timeline.add(end, now_us)

    def delivered(self, numbers: Sequence[int], key: StreamKey, first: int, end: int, now_us: int) -> None:
        """Events of a stream, from ``first`` up to but not including ``end``, are on their way to these subscribers."""
        readers = self._readers.get(key, {})
        for number in numbers:
            reader = readers.get(number)
            if reader is None:
                reader = self._reader(number, first)
                self._remember(key, number, reader)
                readers = self._readers[key]
            reader.timeline.add(end, now_us)

    def _remember(self, key: StreamKey, number: int, reader: Reader) -> None:
        self._readers.setdefault(key, {})[number] = reader
        self._oldest.append((key, number))
        if len(self._oldest) > READERS_MAX:
            gone_key, gone_number = self._oldest.popleft()
            readers = self._readers[gone_key]
            del readers[gone_number]
            if not readers:
                del self._readers[gone_key]

    def _reader(self, number: int, first: int) -> Reader:
        timeline = Timeline(first, READER_POINTS_MAX)
        subscription = self._subscriptions.get(number)
        if subscription is None:
            return Reader("", "", "", timeline)
        return Reader(subscription.pattern, subscription.group, subscription.member, timeline)

    # --- what is asked -------------------------------------------------------------------------------------------

    def waited_us(self, key: StreamKey, offset: int, now_us: int) -> int | None:
        """For how long an event has been durable here; None: unknown."""
        timeline = self._streams.get(key)
        at_us = None if timeline is None else timeline.reached_us(offset)
        return None if at_us is None else now_us - at_us

    def stored_at(self, key: StreamKey, offset: int) -> Moment | None:
        timeline = self._streams.get(key)
        return None if timeline is None else timeline.find(offset)

    def deliveries(self, key: StreamKey, offset: int) -> tuple[Delivery, ...]:
        found = []
        for reader in self._readers.get(key, {}).values():
            when = reader.timeline.find(offset)
            if when is not None:
                found.append(Delivery(reader.pattern, reader.group, reader.member, when))
        return tuple(sorted(found, key=lambda each: each.when)[:DELIVERIES_TOLD_MAX])
