"""What the mesh is compared by: one set of tasks for Weft and for every peer, and what doing one of them showed.

A task works for about as many seconds as it is told. Every event of it is synced before it counts.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.load.work import Budget, at_rate

PAYLOAD_BYTES = 100
NUMBER_DIGITS = 8
FILLER = os.urandom(PAYLOAD_BYTES - NUMBER_DIGITS - 1)
PAYLOAD = b"00000000 " + FILLER
CALL_EVENTS = 1_000  # in one call or one batch
CALLS_IN_FLIGHT = 64
DONE_S_MAX = 60.0  # a bound, not an expectation


class LeftOut(Exception):
    """This system has no such thing, or not simply enough; the text says which."""


@dataclass(frozen=True)
class Sample:
    """One round of a task: how many events in how many seconds, and how long single ones took, by name."""

    events: int = 0
    seconds: float = 0.0
    times: Mapping[str, Sequence[float]] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)  # what is neither a rate nor a time of an event


class System:
    """A server that was started, with a client that drives it. What it cannot do is LeftOut."""

    pid: int
    ready_s: float  # from the start of its process until it served

    async def close(self) -> None:
        """Let go of all connections."""

    async def lone(self, seconds: float) -> Sample:
        """Publish, wait for the receipt, publish the next. Times: ``receipt``."""
        raise LeftOut("lone")

    async def paced(self, seconds: float, rate: float, subscribers: int) -> Sample:
        """Publish at a rate, whether or not anything has arrived. Times: ``receipt``, ``delivery``."""
        raise LeftOut("paced")

    async def hop(self, seconds: float, rate: float) -> Sample:
        """Publish at a rate to one server, read at another that copies durably from it. Times: ``delivery``."""
        raise LeftOut("hop")

    async def waiting(self, seconds: float, connections: int) -> Sample:
        """As ``lone``, by so many connections at once."""
        raise LeftOut("waiting")

    async def singles(self, seconds: float, topics: int) -> Sample:
        """Single events, many in flight, to so many topics in turn; each topic has an event before it counts."""
        raise LeftOut("singles")

    async def thousands(self, seconds: float) -> Sample:
        """1,000 events a call, many calls in flight."""
        raise LeftOut("thousands")

    async def blobs(self, seconds: float) -> Sample:
        """The same bytes as one opaque message a call."""
        raise LeftOut("blobs")

    async def replay(self, seconds: float, events: int) -> Sample:
        """Read that many, which were stored before, again and again. Values: events/s ``to Arrow``, ``to objects``."""
        raise LeftOut("replay")

    async def flood(self, seconds: float, subscribers: int) -> Sample:
        """1,000 a call to subscribers that read along; the events that each of them got."""
        raise LeftOut("flood")

    async def asking(self, seconds: float) -> Sample:
        """A request, its reply by another client, the next request. Times: ``receipt``, of the reply."""
        raise LeftOut("requests and replies")

    async def commands(self) -> Sample:
        """Values: seconds of CPU of some commands of its own, by their words."""
        raise LeftOut("commands")


def numbered(number: int) -> bytes:
    """A payload that tells which it is."""
    return b"%08d " % number + FILLER


class Stopwatch:
    """When events were handed in, and how long they took from there; by the number in their payload."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.times: dict[str, list[float]] = {"receipt": [], "delivery": []}

    def hand_in(self) -> tuple[int, bytes]:
        number = len(self.begun)
        payload = numbered(number)
        self.begun.append(time.perf_counter())
        return number, payload

    def receipt(self, number: int) -> None:
        self.times["receipt"].append(time.perf_counter() - self.begun[number])

    def delivery(self, payload: bytes) -> None:
        self.times["delivery"].append(time.perf_counter() - self.begun[int(payload[:NUMBER_DIGITS])])

    def start_over(self) -> None:
        """What came so far does not count."""
        for times in self.times.values():
            times.clear()

    async def complete(self, events: int, subscribers: int) -> None:
        """Until every receipt and every delivery of so many events has arrived. A system may hand them in later."""
        async with asyncio.timeout(DONE_S_MAX):
            while len(self.times["receipt"]) < events or len(self.times["delivery"]) < events * subscribers:
                await asyncio.sleep(0.005)


async def paced_sample(
    seconds: float, rate: float, subscribers: int, watch: Stopwatch, hand_in: Callable[[], object]
) -> Sample:
    """The whole of ``paced``, once its subscribers are there. One event opens the way to all of them first."""
    hand_in()
    await watch.complete(1, subscribers)
    watch.start_over()
    events = int(seconds * rate)
    begin, budget = time.perf_counter(), Budget(events=events)

    def call() -> bool:
        if is_due := bool(budget.take(1)):
            hand_in()
        return is_due

    await at_rate(rate, call)
    await watch.complete(events, subscribers)
    return Sample(events, time.perf_counter() - begin, watch.times)


class Crowd:
    """How many events each of the subscribers of a flood has seen."""

    def __init__(self, subscribers: int) -> None:
        self.seen = [0] * subscribers
        self.last = time.perf_counter()
        self._moved = asyncio.Event()

    def saw(self, subscriber: int, events: int) -> None:
        self.seen[subscriber] += events
        self.last = time.perf_counter()
        self._moved.set()

    async def within(self, sent: int, window: int) -> None:
        """Wait until the slowest is at most so far behind."""
        async with asyncio.timeout(DONE_S_MAX):
            while sent - min(self.seen) > window:
                self._moved.clear()
                await self._moved.wait()


async def flood_sample(seconds: float, crowd: Crowd, send: Callable[[int], Awaitable[None]]) -> Sample:
    """The whole of ``flood``: ``send`` sends call number n. It gets ahead of the slowest subscriber by a bounded lead,
    which is smaller for many subscribers, so that the end does not take for ever."""
    window = CALL_EVENTS * int(CALLS_IN_FLIGHT / math.sqrt(len(crowd.seen)))
    begin = time.perf_counter()
    calls = 0
    while time.perf_counter() < begin + seconds:
        await crowd.within((calls + 1) * CALL_EVENTS, window)
        await send(calls)
        calls += 1
    await crowd.within(calls * CALL_EVENTS, 0)
    return Sample(calls * CALL_EVENTS, crowd.last - begin)


async def replayed(seconds: float, events: int, read: Callable[[], Awaitable[None]]) -> float:
    """Events per second, if ``read`` reads them all, again and again."""
    begin = time.perf_counter()
    times = 0
    while time.perf_counter() < begin + seconds:
        await read()
        times += 1
    return times * events / (time.perf_counter() - begin)
