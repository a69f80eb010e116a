"""The operations of a node that take time: all except ``$echo`` and ``publish`` (EXM-11).

Each gets the session and the request's data, returns the answer's data, and raises WeftError to refuse.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from weft.core.call_messages import Question, Reply
from weft.errors import UsageError, WeftError
from weft.gateway.exmp.session import ClientSession, Operate
from weft.gateway.exmp.values import (
    AuthenticateFields,
    FetchFields,
    NoFields,
    RequestFields,
    SubscribeFields,
    TopicsFields,
    UnsubscribeFields,
    events_json,
    fields_untrusted,
    payload_untrusted,
    put_bytes,
    start_untrusted,
    stream_untrusted,
    within,
)
from weft.limits import EXMP_PENDING_MAX, MIB, OFFSET_MAX
from weft.log import Log
from weft.log.errors import UnknownStream
from weft.model import Batch, Epoch, Pattern, Stream, parse_pattern, parse_topic
from weft.port.access import check_group
from weft.port.calls import CallDesk, checked_question
from weft.port.errors import Busy, ServerFailed
from weft.port.pages import PAGE_ENTRIES_MAX, PageRoom
from weft.port.topics import KnownStreams, topics_of
from weft.security import Secret
from weft.wire.exmp import JsonObject
from weft.wire.mesh.mesh_pb2 import StatusReply

EXMP_SUBSCRIPTIONS_MAX: Final = 64  # of one connection: one for each thing that a program watches
EXMP_WINDOW_MAX: Final = EXMP_PENDING_MAX  # more are not sent on one connection
EXMP_FETCH_EVENTS_MAX: Final = 1000  # a few milliseconds in which nobody else is served
EXMP_FETCH_BYTES_MAX: Final = 4 * MIB  # of batches read for one fetch: as JSON, well below the longest message


Status = Callable[[], Awaitable[StatusReply]]
MEMBER_BYTES: Final = 8  # of chance, in the name of a member that has none


async def authenticate(session: ClientSession, data: JsonObject | None) -> None:
    fields = fields_untrusted(AuthenticateFields, data)
    await session.credential.show_key_untrusted(Secret(fields.key), session.host)
    session.credential.keep([feed.caller for feed in session.feeds.values() if feed.caller is not None])
    session.trust()


async def fetch(session: ClientSession, data: JsonObject | None) -> JsonObject:
    """Return the current events of a stream, and where to go on."""
    fields = fields_untrusted(FetchFields, data)
    stream = stream_untrusted(fields, session.mesh.node_id)
    events_max = within("events_max", fields.events_max, 1, EXMP_FETCH_EVENTS_MAX)
    session.credential.caller.check_subscribe(Pattern(stream.topic))
    log = session.mesh.log
    epoch = _newest_epoch(log, stream) if fields.epoch is None else Epoch(fields.epoch)
    info = log.info(stream, epoch)
    offset = info.start if fields.offset is None else within("offset", fields.offset, 0, OFFSET_MAX - events_max)
    bytes_max = min(EXMP_FETCH_BYTES_MAX, session.mesh.limits.reply_bytes_max)
    assert session.fetched is not None, "who may subscribe is known"
    await session.fetched.room()
    session.credential.caller.check()
    events: list[JsonObject] = []
    for stored in log.read(stream, epoch, offset, offset + events_max, bytes_max):
        session.fetched.take(len(stored))
        batch = Batch.read_stored(stored)
        events += events_json(stream, epoch, batch, offset, min(offset + events_max, batch.end_offset))
    after = events[-1]["offset"] + 1 if events else info.end
    return {"epoch": epoch, "events": events, "next_offset": after, "end_offset": info.end}


def _newest_epoch(log: Log, stream: Stream) -> Epoch:
    epochs = [info.epoch for info in log.streams(Pattern(stream.topic)) if info.stream == stream]
    if not epochs:
        raise UnknownStream(f"there is no stream {stream} here")
    return max(epochs)


async def subscribe(session: ClientSession, data: JsonObject | None) -> JsonObject:
    """After the answer, the node sends ``event`` requests; the answer to each says that the event is handled."""
    fields = fields_untrusted(SubscribeFields, data)
    pattern = parse_pattern(fields.pattern)
    start, window = start_untrusted(fields), within("window", fields.window, 1, EXMP_WINDOW_MAX)
    if fields.member and not fields.group:
        raise UsageError("a member belongs to a group: name the group, too")
    if fields.settle and not fields.group:
        raise UsageError("only a group settles events one by one: name the group, too")
    session.credential.caller.check_subscribe(pattern)
    if fields.group:
        await check_group(session.mesh.groups, session.credential.caller, fields.group)
    if len(session.feeds) >= EXMP_SUBSCRIPTIONS_MAX:
        raise Busy("too many subscriptions on one connection", limit=EXMP_SUBSCRIPTIONS_MAX)
    member = fields.member
    if fields.group and not member:
        member = f"exmp-{secrets.token_hex(MEMBER_BYTES)}"
    caller = session.credential.caller
    usage = session.mesh.quotas.usage(caller)
    if fields.group:
        usage.use_group(session.mesh.groups, fields.group)
    usage.subscribe()
    feed = session.opening = session.new_feed(window, usage.unsubscribed, fields.settle)
    try:
        feed.open(pattern, start, fields.group, member, caller.owner)
        await feed.ready
    except BaseException:
        feed.close()
        raise
    finally:
        session.opening = None
    session.answer_then_send(feed)
    return {"subscription": feed.name}


async def unsubscribe(session: ClientSession, data: JsonObject | None) -> None:
    number = fields_untrusted(UnsubscribeFields, data).subscription
    feed = session.feeds.pop(number, None)
    if feed is None:
        raise UsageError("there is no such subscription on this connection", subscription=number)
    feed.close()


class OneCall:
    """A request to a server of a topic: one call, in memory, and its first reply (CON-04). A ``CallClient`` with one
    request."""

    def __init__(self, desk: CallDesk) -> None:
        self._desk = desk
        self._reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    async def ask(self, question: Question) -> Reply:
        """The first reply; raise why there is none. The node ends the call when its time is over."""
        self._desk.join(self)
        try:
            self._desk.ask(self, 1, question)
            return await self._reply
        finally:
            self._desk.leave(self)

    # --- CallClient ---

    def replied(self, number: int, reply: Reply) -> None:
        if not self._reply.done():
            self._reply.set_result(reply)

    def failed(self, number: int, error: WeftError) -> None:
        if not self._reply.done():
            self._reply.set_exception(error)

    def ended(self, error: WeftError) -> None:
        self.failed(1, error)

    def handed(self, server: int, handle: int, question: Question) -> None:
        raise AssertionError("it serves nothing")

    def over(self, handle: int) -> None:
        raise AssertionError("it serves nothing")

    def took(self, handle: int, count: int) -> None:
        raise AssertionError("it serves nothing")


async def request(desk: CallDesk, session: ClientSession, data: JsonObject | None) -> JsonObject:
    """Ask one server of a topic, and return the first reply. None of this is written to a log."""
    fields = fields_untrusted(RequestFields, data)
    topic, payload = parse_topic(fields.topic), payload_untrusted(fields)
    question = checked_question(Question(topic, payload, fields.headers or {}, fields.timeout_s))
    caller = session.credential.caller
    caller.check_publish(topic)
    session.mesh.quotas.usage(caller).ask(topic, question.size, asyncio.get_running_loop().time())
    reply = await OneCall(desk).ask(question)
    if reply.failed:
        raise ServerFailed(f"the server failed: {reply.payload.decode(errors='replace')}", topic=topic)
    answer: JsonObject = {"headers": dict(reply.headers)} if reply.headers else {}
    put_bytes(answer, "payload", reply.payload)
    return answer


async def topics(session: ClientSession, data: JsonObject | None) -> JsonObject:
    """List the topics that match a pattern and that the caller may read; with a limit, one page of them."""
    fields = fields_untrusted(TopicsFields, data)
    if fields.after:
        parse_topic(fields.after)
    room = PageRoom.wanted(fields.limit and within("limit", fields.limit, 1, PAGE_ENTRIES_MAX))
    pattern, caller = parse_pattern(fields.pattern), session.credential.caller
    found, last = await topics_of(KnownStreams(session.mesh.log, None), pattern, caller, room, fields.after)
    return {
        "topics": [
            {
                "topic": each.topic,
                "streams": each.streams,
                "events": each.events,
                "bytes": each.bytes,
                "last_timestamp_us": each.last_timestamp_us,
            }
            for each in found
        ],
        **({"next_after": last} if last else {}),
    }


async def status(read_status: Status, session: ClientSession, data: JsonObject | None) -> JsonObject:
    """What the node says about itself, for callers with the right to administer, as everywhere."""
    fields_untrusted(NoFields, data)
    session.credential.caller.check_admin("see the status")
    reply = await read_status()
    return {
        "node": reply.node_id,
        "epoch": reply.epoch,
        "version": reply.version,
        "uptime_s": reply.uptime_s,
        "streams": reply.streams,
        "events": reply.events,
        "log_bytes": reply.log_bytes,
        "peers_connected": reply.peers_connected,
        "nodes_known": reply.nodes_known,
        "listeners": list(reply.listeners),
        "draining": reply.draining,
    }


def operations(read_status: Status, desk: CallDesk) -> Mapping[str, Operate]:
    return {
        "authenticate": authenticate,
        "fetch": fetch,
        "subscribe": subscribe,
        "unsubscribe": unsubscribe,
        "topics": topics,
        "status": partial(status, read_status),
        "request": partial(request, desk),
    }
