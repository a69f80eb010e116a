"""Long answers, as server-sent events: the live figures of the mesh, and the tail of a pattern.

A browser that reads slowly gets less, not later: new figures are made only when the last ones were sent, and of a busy
pattern only the newest events are sent, with the number of those left out. A browser that does not read at all is cut
off by the door (``weft.doors.http``).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weft.console.asking import Asker, Asking
from weft.console.events import Holding as StreamHolding
from weft.console.events import placed
from weft.console.history import LagHistory
from weft.console.payloads import PREVIEW_BYTES_MAX, event_view
from weft.console.views import TOPICS_SHOWN_MAX, View, groups_view, mesh_view, topics_view
from weft.core.messages import AddCredit, Delivered, Edge
from weft.errors import WeftError
from weft.limits import MIB
from weft.model import Batch, EventId, NodeId, Pattern, Position
from weft.port.held import Use
from weft.wire.mesh import mesh_pb2 as pb

LIVE_INTERVAL_S: Final = 2.0
SNAPSHOT_AGE_S: Final = 1.0  # pages of one key share what is younger
TAIL_INTERVAL_S: Final = 0.25
TAIL_EVENTS_MAX: Final = 50  # at once: nobody reads two hundred lines in a second
TAIL_CREDIT_BYTES: Final = 1 * MIB  # under way to one page
TAIL_PART: Final = 16  # of what its caller may hold
PING_S: Final = 15.0  # so that a connection that is gone is noticed


def said(event: str, value: object) -> bytes:
    """One server-sent event. JSON has no line breaks, so it is one line of data."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(value))


class Snapshots:
    """The current state of the mesh, for each key. It is asked for once, however many pages are open."""

    def __init__(self, asking: Asking, history: LagHistory) -> None:
        """``history`` gets the lag of all groups of the mesh."""
        self._asking = asking
        self._history = history
        self._taken: dict[str, tuple[float, asyncio.Task[View]]] = {}

    async def take(self, asker: Asker) -> View:
        """Raise WeftError."""
        now_s = asyncio.get_running_loop().time()
        for who in [who for who, (at_s, task) in self._taken.items() if task.done() and now_s - at_s > SNAPSHOT_AGE_S]:
            del self._taken[who]
        asker.caller.check()
        kept = self._taken.get(asker.caller.who)
        if kept is None:
            kept = self._taken[asker.caller.who] = (now_s, asyncio.create_task(self._make(asker)))
        return await asyncio.shield(kept[1])

    async def _make(self, asker: Asker) -> View:
        asking, page = self._asking, pb.Page(limit=TOPICS_SHOWN_MAX)
        asking.forget_gone()
        topics = asking.everywhere("Topics", pb.TopicsRequest(page=page), asker)
        view: View = {"at_ms": time.time_ns() // 1_000_000}
        if not asker.caller.acl.admin:
            return view | topics_view(await topics)
        found, peers, statuses, groups = await asyncio.gather(
            topics,
            asking.everywhere("Peers", pb.PeersRequest(page=pb.Page(limit=0)), asker),
            asking.everywhere("Status", pb.StatusRequest(), asker),
            asking.everywhere("Groups", pb.GroupsRequest(page=pb.Page(limit=0)), asker),
        )
        lags = groups_view(groups)
        self._history.add(time.time(), ((each["group"], each["lag_events"], each["lag_us"] / 1e6) for each in lags))
        mesh = mesh_view(asking.node.node_id, peers, statuses)
        return view | topics_view(found) | {"mesh": mesh, "groups": lags}

    async def close(self) -> None:
        tasks = [task for _, task in self._taken.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(eq=False, slots=True)
class Feed:
    """One open page. ``end`` has it say why and stop."""

    over: asyncio.Event
    why: str = ""

    def end(self, why: str) -> None:
        self.why = self.why or why
        self.over.set()

    async def pause(self, seconds: float) -> None:
        """Or until it is over."""
        try:
            async with asyncio.timeout(seconds):
                await self.over.wait()
        except TimeoutError:
            pass


async def live(feed: Feed, snapshots: Snapshots, asker: Asker) -> AsyncGenerator[bytes, None]:
    while not feed.over.is_set():
        try:
            yield said("snapshot", await snapshots.take(asker))
        except WeftError as error:
            feed.end(str(error))
            break
        await feed.pause(LIVE_INTERVAL_S)
    yield said("over", {"why": feed.why})


class Tail:
    """``SubscribeClient`` of a page: what is published from now on."""

    def __init__(self, asking: Asking, asker: Asker, pattern: Pattern, key: bytes | None) -> None:
        self._node = asking.node
        self._caller = asker.caller
        self._pattern = pattern
        self._key = key
        self._waiting: deque[Delivered] = deque()
        self._arrived = asyncio.Event()
        self._failure: WeftError | None = None

    # --- what the node says --------------------------------------------------------------------------------------

    def opened(self, positions: Sequence[Position], more: bool) -> None:
        pass

    def deliver(self, batches: Sequence[Delivered]) -> None:
        self._waiting.extend(batches)
        self._arrived.set()

    def assigned(self, generation: int, positions: Sequence[Position]) -> None:
        """It is in no group."""

    def withdrawn(self, event: EventId, rest: bool) -> None:
        raise AssertionError("a page refuses no event")

    def ended(self, error: WeftError) -> None:
        self._failure = error
        self._arrived.set()

    # --- the page ------------------------------------------------------------------------------------------------

    async def run(self, feed: Feed) -> AsyncGenerator[bytes, None]:
        """The rights were checked before. Raises nothing; the page is told why it ended."""
        usage = self._node.quotas.usage(self._caller)
        holding = self._node.held.holding(self._caller.who, Use.SUBSCRIBE, TAIL_PART)
        number: int | None = None
        try:
            usage.subscribe()
            try:
                number = self._node.subscribe(self, self._pattern, Edge.LATEST, TAIL_CREDIT_BYTES, "", "", holding)
                yield said("ready", {"pattern": self._pattern})
                async for part in self._parts(feed):
                    yield part
                    taken = self._take_back()
                    holding.keep(max(holding.bytes - taken, 0))
                    if taken:
                        self._node.tell(AddCredit(number, taken))
            finally:
                usage.unsubscribed()
                if number is not None:
                    self._node.unsubscribe(number)
        except WeftError as error:
            feed.end(str(error))
        finally:
            holding.close()
        yield said("over", {"why": feed.why})

    async def _parts(self, feed: Feed) -> AsyncIterator[bytes]:
        self._taken_bytes = 0
        while not feed.over.is_set():
            if not await self._wait(feed):
                yield b": still here\n\n"
                continue
            if self._failure is not None:
                raise self._failure
            self._caller.check_subscribe(self._pattern)  # the rights may have changed meanwhile
            events, passed_over = self._newest()
            if events or passed_over:
                yield said("events", {"events": events, "passed_over": passed_over})
            await feed.pause(TAIL_INTERVAL_S)

    async def _wait(self, feed: Feed) -> bool:
        """Whether something has come; not, after a while."""
        arrived = asyncio.create_task(self._arrived.wait())
        over = asyncio.create_task(feed.over.wait())
        try:
            await asyncio.wait((arrived, over), timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
            return self._arrived.is_set()
        finally:
            arrived.cancel()
            over.cancel()

    def _newest(self) -> tuple[list[View], int]:
        """The events that came, the newest last, and how many were left out."""
        self._arrived.clear()
        batches = list(self._waiting)
        self._waiting.clear()
        self._taken_bytes += sum(len(each.data) for each in batches)
        shown: list[View] = []
        passed_over = 0
        for each in reversed(batches):
            batch = Batch.read_stored(each.data)
            first = max(each.first_offset, batch.base_offset)
            if len(shown) >= TAIL_EVENTS_MAX:
                passed_over += batch.end_offset - first
                continue
            holding = StreamHolding(NodeId(""), each.stream, each.epoch, first, batch.end_offset, 0, 0)
            events = [found for found in placed(holding, batch, first) if self._key in (None, found[0].key)]
            room = TAIL_EVENTS_MAX - len(shown)
            passed_over += max(len(events) - room, 0)
            shown += [event_view(place, event, PREVIEW_BYTES_MAX) for event, place in reversed(events[-room:])]
        shown.reverse()
        return shown, passed_over

    def _take_back(self) -> int:
        taken, self._taken_bytes = self._taken_bytes, 0
        return taken


def history_view(history: LagHistory, group: str) -> list[list[Any]]:
    return [list(point) for point in history.of(group)]
