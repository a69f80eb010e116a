"""One EXMP connection of a node: each request is processed in its turn and answered in order (EXM-06).

The document says that a request is processed only after the one before it is answered. Publishes that follow each other
are under way together all the same, because nobody can tell: ``Publishing`` gives them their effects in order, their
answers wait for each other, a refused one stops no other, and what ends the connection does so in its turn, with
nothing behind it handed to us (``weft.wire.exmp``). Everything else begins when everything before it is answered: a
``fetch`` sees what was published before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Final, TypeAlias

from weft.errors import UsageError, WeftError
from weft.exmp.peer import INTERNAL_ERROR, INVALID_REQUEST, UNKNOWN_OPERATION
from weft.gateway.exmp.admission import Admission, Credential
from weft.gateway.exmp.feed import Feed
from weft.gateway.exmp.outcomes import OTHER, UNREADABLE, RequestCounts, failure_of
from weft.gateway.exmp.values import (
    PublishFields,
    check_place_untrusted,
    due_us_of,
    fields_untrusted,
    key_untrusted,
    payload_untrusted,
    receipt_json,
)
from weft.gateway.publishing import Publishing
from weft.limits import EXMP_MESSAGE_BYTES_MAX, EXMP_OP_SHOWN_CHARS, KIB
from weft.model import Receipt, Topic
from weft.port.access import Caller
from weft.port.held import Holding, Use
from weft.port.node import MeshNode
from weft.port.topics import read_topic_untrusted
from weft.security import Refused
from weft.transport.tcp import Answer, ExmpConnection, ReceivedRequest
from weft.wire.exmp import (
    Closed,
    ErrorCode,
    Failure,
    InvalidRequestReceived,
    JsonObject,
    Outcome,
    RequestReceived,
    Success,
)

EXMP_STRANGER_BYTES_MAX: Final = 64 * KIB  # of a message before the client has authenticated: a key has 80 characters
EXMP_STRANGER_S: Final = 30.0  # to authenticate in, because strangers must not use up the connections
EXMP_FLUSH_BYTES: Final = 256 * KIB  # of events written at a time: what a client does not take is at most this more
PUBLISH: Final = "publish"
ECHO: Final = "$echo"
EVENT: Final = "event"
ENDED: Final = "ended"
PUBLISH_PART: Final = 2  # the publishes of one connection get half of what its caller may hold
FEED_PART: Final = 16  # a subscription gets a sixteenth of what its caller may hold
EVENT_BYTES: Final = 200  # of an event's JSON without its payload, roughly


class Slot:
    """A request that is answered when those before it are."""

    __slots__ = ("holding", "id", "operation", "outcome", "session", "size")

    def __init__(
        self, session: ClientSession, request_id: int, operation: str, holding: Holding | None = None, size: int = 0
    ) -> None:
        self.session = session
        self.id = request_id
        self.operation = operation  # as it is counted
        self.outcome: Outcome | None = None
        self.holding = holding
        self.size = size
        if holding is not None:
            holding.take(size)

    def published(self, receipt: Receipt, number: int) -> None:
        self._settle(Success(receipt_json(receipt, number)))

    def refused(self, error: WeftError) -> None:
        self._settle(failure_of(error))

    def _settle(self, outcome: Outcome) -> None:
        self.let_go()
        self.outcome = outcome
        self.session.settled()

    def let_go(self) -> None:
        """What was published is held no longer."""
        if self.holding is not None:
            self.holding.give_back(self.size)
            self.holding = None


class ClientSession:
    """``LinkUser`` of one connection. ``operations`` are those that take time; ``owned`` holds their tasks, and
    ``sessions`` all current sessions."""

    def __init__(
        self,
        link: ExmpConnection,
        mesh: MeshNode,
        publishing: Publishing,
        admission: Admission,
        operations: Mapping[str, Operate],
        owned: set[asyncio.Task[None]],
        sessions: set[ClientSession],
        counts: RequestCounts,
    ) -> None:
        self.mesh = mesh
        self.credential = Credential(admission, self._expelled)
        self.feeds: dict[int, Feed] = {}
        self.opening: Feed | None = None  # the client does not know its number yet
        self._link = link
        self._publishing = publishing
        self._operations = operations
        self._owned = owned
        self._sessions = sessions
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._queue: deque[ReceivedRequest] = deque()  # not begun
        self._slots: deque[Slot] = deque()  # begun and not answered
        self._holding: Holding | None = None  # of the caller, for what it publishes
        self.fetched: Holding | None = None  # of the caller, for what it has fetched and does not read
        self._task: asyncio.Task[None] | None = None  # one operation that takes time, or the wait for room
        self._is_advancing = False
        self._feed_names = count(1)
        self._pumping: asyncio.Handle | None = None
        self._patience: asyncio.TimerHandle | None = None
        sessions.add(self)
        self._begin()

    def _begin(self) -> None:
        try:
            known = self.credential.begin_untrusted(self._link.tls)
        except Refused as error:
            self._loop.call_soon(self._link.fail, ErrorCode.UNAVAILABLE, str(error))
            return
        if known:
            self.trust()
        else:
            self._expect_key()

    @property
    def host(self) -> str:
        return self._link.peer_address.host

    def trust(self) -> None:
        """A known client may send more at a time than a stranger."""
        self._link.allow_message_bytes(EXMP_MESSAGE_BYTES_MAX)
        self._link.prove()
        who = self.credential.caller.who
        self._holding = self.mesh.held.holding(who, Use.PUBLISH, PUBLISH_PART)
        if self.fetched is not None:
            self.fetched.close()
        self.fetched = self.mesh.held.holding(who, Use.FETCH)
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _expect_key(self) -> None:
        reason = f"the client has not authenticated within {EXMP_STRANGER_S:g} s"
        self._patience = self._loop.call_later(EXMP_STRANGER_S, self._link.fail, ErrorCode.UNAVAILABLE, reason)

    def _expelled(self, caller: Caller, error: Refused) -> None:
        """A key is no longer valid: everything it was used for ends, also if another one has been shown since."""
        opening = () if self.opening is None else (self.opening,)
        for feed in [feed for feed in (*self.feeds.values(), *opening) if feed.caller is caller]:
            feed.ended(error)
        if not self.credential.is_shown and self._patience is None:
            self._link.allow_message_bytes(EXMP_STRANGER_BYTES_MAX)
            self._expect_key()

    # --- LinkUser ------------------------------------------------------------------------------------------------

    def opened(self) -> None: ...

    def requested(self, requests: Sequence[ReceivedRequest]) -> None:
        self._queue.extend(requests)
        self._advance()

    def writable(self) -> None:
        self._release_fetched()
        self._advance()
        self.pump()

    def closed(self, closed: Closed) -> None:
        self._sessions.discard(self)
        self._counts.ends[closed.end] += 1
        self._queue.clear()
        for slot in self._slots:
            slot.let_go()
        self._slots.clear()
        for handle in (self._pumping, self._patience):
            if handle is not None:
                handle.cancel()
        if self._task is not None:
            self._task.cancel()
        for feed in self.feeds.values():
            feed.close()
        self.feeds.clear()
        if self.fetched is not None:
            self.fetched.close()
        self.credential.end()

    # --- requests ------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin what can be begun."""
        if self._is_advancing:
            return  # a request that is settled on the spot comes back here
        self._is_advancing = True
        try:
            self._begin_all()
        finally:
            self._is_advancing = False

    def _begin_all(self) -> None:
        allowed: dict[str, Topic] = {}  # rights are checked once per turn, not for every event
        is_full = self._holding is not None and self._holding.is_full  # and so is how much is under way
        queue = self._queue
        while queue and self._task is None and not self._link.is_congested:
            request = queue.popleft()
            if isinstance(request, InvalidRequestReceived):
                self._settle(request.id, UNREADABLE, Failure(request.reason, INVALID_REQUEST))
            elif request.operation.op == PUBLISH:
                if is_full:
                    queue.appendleft(request)
                    self._begin_task(self._wait_for_room())
                    return
                self._publish(request, allowed)
            elif request.operation.op == ECHO:
                self._settle(request.id, ECHO, Success(request.operation.data))
            elif self._slots:
                queue.appendleft(request)  # it begins when everything before it is answered
                return
            else:
                self._begin_operation(request)

    def _settle(self, request_id: int, operation: str, outcome: Outcome) -> None:
        """Answered at once, unless others come first."""
        if not self._slots:
            self._respond(request_id, operation, outcome)
            return
        slot = Slot(self, request_id, operation)
        slot.outcome = outcome
        self._slots.append(slot)

    def settled(self) -> None:
        """A slot has its outcome."""
        slots = self._slots
        while slots and (outcome := slots[0].outcome) is not None:
            slot = slots.popleft()
            self._respond(slot.id, slot.operation, outcome)
        if not slots and self._queue:
            self._advance()

    def _respond(self, request_id: int, operation: str, outcome: Outcome) -> None:
        try:
            self._link.respond(request_id, outcome)
        except UsageError as error:  # longer than a message may be
            outcome = failure_of(error)
            self._link.respond(request_id, outcome)
        self._counts.answered(operation, outcome)

    def _publish(self, request: RequestReceived, allowed: dict[str, Topic]) -> None:
        try:
            fields = fields_untrusted(PublishFields, request.operation.data)
            topic = allowed.get(fields.topic)
            if topic is None:
                self.mesh.check_open()
                topic = read_topic_untrusted(fields.topic)
                self.credential.caller.check_publish(topic)
                allowed[fields.topic] = topic
            payload = payload_untrusted(fields)
            key = key_untrusted(fields)
            check_place_untrusted(fields)
            usage, now_s = self.mesh.quotas.usage(self.credential.caller), self._loop.time()
            usage.publish(self.mesh.log, self.mesh.node_id, topic, 1, len(payload), now_s, fields.partition)
        except WeftError as error:
            self.mesh.count_refusal(error)
            self._settle(request.id, PUBLISH, failure_of(error))
            return
        slot = Slot(self, request.id, PUBLISH, self._holding, len(payload))
        self._slots.append(slot)
        if fields.deliver_at_us is not None or fields.delay_s is not None:
            self._publish_later(fields, topic, payload, key, slot)
            return
        self._publishing.add(
            topic,
            payload,
            key,
            fields.headers,
            slot,
            partition=fields.partition,
            copies=fields.copies,
            timestamp_us=fields.timestamp_us,
        )

    def _publish_later(
        self, fields: PublishFields, topic: Topic, payload: bytes, key: bytes | None, slot: Slot
    ) -> None:
        try:
            self._publishing.add_later(
                topic,
                payload,
                key,
                fields.headers,
                slot,
                owner=self.credential.caller.owner,
                partition=fields.partition,
                due_us=partial(due_us_of, fields),
            )
        except WeftError as error:
            self.mesh.count_refusal(error)
            slot.refused(error)

    # --- operations that take their time -------------------------------------------------------------------------

    def _begin_operation(self, request: RequestReceived) -> None:
        operate = self._operations.get(request.operation.op)
        if operate is None:
            name = request.operation.op[:EXMP_OP_SHOWN_CHARS]
            self._respond(request.id, OTHER, Failure(f"there is no operation {name!r}", UNKNOWN_OPERATION))
        else:
            self._begin_task(self._operate(operate, request))

    def _begin_task(self, work: Coroutine[None, None, None]) -> None:
        self._task = self._loop.create_task(work)
        self._owned.add(self._task)
        self._task.add_done_callback(self._owned.discard)

    async def _operate(self, operate: Operate, request: RequestReceived) -> None:
        try:
            outcome: Outcome = Success(await operate(self, request.operation.data))
        except WeftError as error:
            self.mesh.count_refusal(error)
            outcome = failure_of(error)
        except Exception as defect:  # a bug of ours: it must be noticed, and the client must not wait for ever
            self._loop.call_exception_handler({"message": "exmp operation", "exception": defect})
            outcome = Failure("a defect in this node; its log says more", INTERNAL_ERROR)
        self._respond(request.id, request.operation.op, outcome)
        self._release_fetched()
        self._go_on()

    def _release_fetched(self) -> None:
        """The caller has taken what it fetched; if it does not read, that still counts as held for it."""
        if self.fetched is not None and self.fetched.bytes:
            self._link.flush()
            if not self._link.is_congested:
                self.fetched.keep(0)

    async def _wait_for_room(self) -> None:
        """The node holds as much for this caller as it may."""
        assert self._holding is not None, "it is full"
        room = asyncio.Event()
        self._holding.when_room(room.set)
        await room.wait()
        self._go_on()

    def _go_on(self) -> None:
        self._task = None
        self._advance()

    # --- subscriptions -------------------------------------------------------------------------------------------

    def new_feed(self, window: int, closed: Callable[[], None], settles: bool) -> Feed:
        caller = self.credential.caller
        holding = self.mesh.held.holding(caller.who, Use.SUBSCRIBE, FEED_PART)
        name = next(self._feed_names)
        return Feed(self.mesh, holding, name, window, self.pump_soon, self.feed_over, closed, settles, caller)

    def answer_then_send(self, feed: Feed) -> None:
        """The answer with its number goes out in this turn, and events from the next one on."""
        if not feed.is_over:
            self.feeds[feed.name] = feed
            self.pump_soon()

    def pump_soon(self) -> None:
        """Send what feeds have, once for everything that happened in this turn."""
        if self._pumping is None:
            self._pumping = self._loop.call_soon(self.pump)

    def pump(self) -> None:
        self._pumping = None
        unwritten = 0
        while self._link.is_open and not self._link.is_congested:
            sent = sum(map(self._send_next, list(self.feeds.values())))  # one event of each in turn
            if not sent:
                return
            unwritten += sent
            if unwritten > EXMP_FLUSH_BYTES:
                unwritten = 0
                self._link.flush()  # shows whether the client takes it

    def _send_next(self, feed: Feed) -> int:
        """Return roughly how many bytes were sent; 0 if there is nothing, or the window is full."""
        event = feed.next() if self._link.requests_out < self._link.pending_max else None
        if event is None:
            return 0
        try:
            self._link.request(EVENT, event, feed.answered)
        except UsageError as error:  # longer than a message may be
            feed.ended(error)
        return EVENT_BYTES + len(event.get("payload") or event.get("payload_base64") or "")

    def feed_over(self, feed: Feed, error: WeftError) -> None:
        """It ended by itself: tell the client in a separate request."""
        self.feeds.pop(feed.name, None)
        if not self._link.is_open:
            return
        reason = failure_of(error)
        if self._link.requests_out >= self._link.pending_max:
            self._link.fail(ErrorCode.UNAVAILABLE, f"subscription {feed.name} has ended: {reason.description}")
            return
        told = {"subscription": feed.name, "code": reason.code, "description": reason.description}
        self._link.request(ENDED, told, _nothing_to_do)


def _nothing_to_do(answer: Answer) -> None:
    """Any answer to the end of a subscription will do."""


Operate: TypeAlias = Callable[[ClientSession, JsonObject | None], Awaitable[JsonObject | None]]
