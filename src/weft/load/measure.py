"""A whole load: publishers and subscribers with a connection each, and what they saw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from weft.client import Client, Subscription
from weft.errors import UsageError
from weft.limits import EVENT_PAYLOAD_BYTES_MAX
from weft.load.histogram import Histogram
from weft.load.work import STAMP, Budget, Payloads, in_batches, one_by_one, paced, singles
from weft.model import parse_topic

CLIENTS_MAX: Final = 1_000
TOPICS_MAX: Final = 100_000
BATCH_MAX: Final = 100_000
IN_FLIGHT_MAX: Final = 100_000
SILENCE_S_MAX: Final = 10.0  # subscribers to which nothing comes for so long have missed the rest

Connect = Callable[[], AbstractAsyncContextManager[Client]]
Watch = Callable[["Report"], None]  # is shown the figures so far


@dataclass(frozen=True, slots=True)
class Load:
    """What to do. It ends after ``seconds``, or after ``events`` in all, if that comes first."""

    topic: str
    publishers: int = 1
    subscribers: int = 0
    size: int = 100  # bytes of a payload
    batch: int = 1  # events in a call
    in_flight: int = 1  # calls that each publisher has under way
    topics: int = 1  # if there are more: <topic>.0, <topic>.1, ... in turn
    rate: float | None = None  # events per second of all publishers; None: as fast as it goes
    seconds: float | None = None
    events: int | None = None
    is_fresh: bool = True  # nobody else has used this topic: subscribers read it from its beginning

    def __post_init__(self) -> None:
        parse_topic(self.topic_names[-1])
        bounds = {
            "publishers": (self.publishers, 0, CLIENTS_MAX),
            "subscribers": (self.subscribers, 0, CLIENTS_MAX),
            "size": (self.size, 0, EVENT_PAYLOAD_BYTES_MAX),
            "batch": (self.batch, 1, BATCH_MAX),
            "in-flight": (self.in_flight, 1, IN_FLIGHT_MAX),
            "topics": (self.topics, 1, TOPICS_MAX),
        }
        for name, (value, least, most) in bounds.items():
            if not least <= value <= most:
                raise UsageError(f"{name} is out of bounds", value=value, least=least, limit=most)
        if self.publishers == self.subscribers == 0:
            raise UsageError("nothing to do: there are neither publishers nor subscribers")
        if self.seconds is None and self.events is None:
            raise UsageError("a load needs an end: give seconds, events, or both")

    @property
    def topic_names(self) -> Sequence[str]:
        return [self.topic] if self.topics == 1 else [f"{self.topic}.{number}" for number in range(self.topics)]

    @property
    def pattern(self) -> str:
        return self.topic if self.topics == 1 else f"{self.topic}.*"


@dataclass(slots=True)
class Report:
    """What has been seen. ``receipts`` are times from handing in to the receipt, ``deliveries`` from handing in to a
    subscriber of this process."""

    load: Load
    sent: int = 0
    sent_s: float = 0.0  # from the first event handed in to the last receipt
    receipts: Histogram = field(default_factory=Histogram)
    delivered: list[int] = field(default_factory=list)  # to each subscriber
    delivered_s: float = 0.0  # from the first event handed in to the last that came
    deliveries: Histogram = field(default_factory=Histogram)

    @property
    def missing(self) -> int:
        """Events that were acknowledged and have not come to a subscriber of this process, of all subscribers."""
        return sum(max(self.sent - count, 0) for count in self.delivered) if self.load.publishers else 0


async def measure(load: Load, connect: Connect, run: bytes, watch: Watch | None = None) -> Report:
    """Connect everybody, then begin. ``run`` is 8 bytes that no other run has."""
    payloads = Payloads(run[: STAMP.size // 2], load.size)
    report = Report(load, delivered=[0] * load.subscribers)
    async with AsyncExitStack() as stack:
        publishers = [await stack.enter_async_context(connect()) for _ in range(load.publishers)]
        readers = [await stack.enter_async_context(connect()) for _ in range(load.subscribers)]
        subscriptions = [
            each.subscribe(load.pattern, start="earliest" if load.is_fresh else "latest") for each in readers
        ]
        for subscription in subscriptions:
            await subscription.opened()
        try:
            async with watched(report, watch), asyncio.TaskGroup() as tasks:
                budget, crowd = Budget(seconds=load.seconds, events=load.events), Crowd(report, payloads)
                reading = [tasks.create_task(crowd.read(*each)) for each in enumerate(subscriptions)]
                async with asyncio.TaskGroup() as work:
                    for number, client in enumerate(publishers):
                        work.create_task(publish(load, client, number, payloads, budget, report))
                await crowd.complete(budget)
                for task in reading:
                    task.cancel()
        except ExceptionGroup as group:
            raise first_of(group) from None
    return report


def first_of(group: ExceptionGroup[Exception]) -> Exception:
    """The error that ended the others."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, ExceptionGroup) else first


async def publish(load: Load, client: Client, number: int, payloads: Payloads, budget: Budget, report: Report) -> None:
    """Run one publisher to its end. Several publishers begin at different topics."""
    names = load.topic_names
    first = number * len(names) // load.publishers
    topics, make, begin = [*names[first:], *names[:first]], payloads.make, time.perf_counter()

    def record(took_s: float) -> None:
        report.receipts.record(took_s)
        report.sent, report.sent_s = budget.sent, max(report.sent_s, time.perf_counter() - begin)

    if load.rate is not None:
        await paced(client, topics, make, budget, record, load.batch, load.rate / load.batch / load.publishers)
    elif load.batch > 1:
        await in_batches(client, topics, make, budget, record, load.batch, load.in_flight)
    elif load.in_flight > 1:
        await singles(client, topics, make, budget, record, load.in_flight)
    else:
        await one_by_one(client, topics, make, budget, record)


class Crowd:
    """The subscribers: what each one got, and when the last event came."""

    def __init__(self, report: Report, payloads: Payloads) -> None:
        self._report = report
        self._payloads = payloads
        self._begin = time.perf_counter()
        self._moved = asyncio.Event()

    async def read(self, number: int, subscription: Subscription) -> None:
        """A batch at a time. The time of its first event, which is the oldest, stands for all of them."""
        report, payloads = self._report, self._payloads
        async for batch in subscription.batches():
            age_s = payloads.age_s(batch.first_payload())
            if age_s is not None:
                report.deliveries.record(age_s, len(batch))
            report.delivered[number] += len(batch)
            report.delivered_s = time.perf_counter() - self._begin
            self._moved.set()

    async def complete(self, budget: Budget) -> None:
        """Wait until all subscribers have everything, or nothing has come for long. Without publishers, read to the
        end.
        """
        load, delivered = self._report.load, self._report.delivered
        wanted = budget.sent if load.publishers else load.events
        end = None if load.publishers or load.seconds is None else asyncio.get_running_loop().time() + load.seconds
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                while delivered and (wanted is None or min(delivered) < wanted):
                    self._moved.clear()
                    async with asyncio.timeout(SILENCE_S_MAX if load.publishers else None):
                        await self._moved.wait()


@asynccontextmanager
async def watched(report: Report, watch: Watch | None, every_s: float = 1.0) -> AsyncIterator[None]:
    """Show the report every second."""

    async def show() -> None:
        while watch is not None:
            await asyncio.sleep(every_s)
            watch(report)

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
