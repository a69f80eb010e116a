"""Dead letters for clients: what a group's readers could not handle, listed and dropped.

Every node has the dead letters of every group. A caller that may use a group sees those of its letters whose topics the
caller may subscribe to: as a member of the group it could have read and refused these events anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from weft.errors import UsageError, WeftError
from weft.limits import READ_BYTES_MAX
from weft.log.errors import EventsLost, PositionExpired
from weft.model import Batch, Epoch, Event, EventId, Pattern, Stream, parse_event_id
from weft.model.dead_letters import DeadLetter, read_letter_untrusted
from weft.port.access import Caller, check_group
from weft.port.errors import TooLarge
from weft.port.node import MeshNode
from weft.port.pages import room_for
from weft.wire.mesh import mesh_pb2 as pb

DROPPED_AT_ONCE_MAX: Final = 1000  # letters in one request: 512 KB of the longest identities
TOKEN_BYTES_MAX: Final = 512  # of a page: the text of an event's identity


class DeadLetterQueries:
    def __init__(self, node: MeshNode) -> None:
        self._node = node

    async def letters(self, request: pb.DeadLettersRequest, caller: Caller) -> pb.DeadLettersReply:
        """List the letters in the order in which nodes wrote them, node by node."""
        await check_group(self._node.groups, caller, request.group)
        wanted = parse_event_id(request.event) if request.event else None
        after = _read_token_untrusted(request.page.token)
        room = room_for(request)
        reply = pb.DeadLettersReply(node_id=self._node.node_id)
        last: EventId | None = None
        async for place, letter in self._left(request.group, caller):
            if (wanted is not None and letter.id != wanted) or (after is not None and place <= after):
                continue
            if room.is_full and last is not None:
                reply.next_page = str(last).encode()
                break
            message = _letter_message(letter)
            room.take(message.ByteSize())
            reply.letters.append(message)
            last = place
        return reply

    async def drop(self, request: pb.DropDeadLettersRequest, caller: Caller) -> pb.DropDeadLettersReply:
        if len(request.events) > DROPPED_AT_ONCE_MAX:
            raise TooLarge("too many letters in one request", have=len(request.events), limit=DROPPED_AT_ONCE_MAX)
        self._node.check_open()
        await check_group(self._node.groups, caller, request.group)
        wanted = dict.fromkeys(map(parse_event_id, request.events))
        known = {letter.id async for _, letter in self._left(request.group, caller)}
        missing = next((each for each in wanted if each not in known), None)
        if missing is not None:
            raise UsageError(f"group {request.group} has no dead letter of {missing}")
        if wanted:
            await self._node.drop_dead(request.group, tuple(wanted))
        return pb.DropDeadLettersReply()

    async def _left(self, group: str, caller: Caller) -> AsyncIterator[tuple[EventId, DeadLetter]]:
        """Yield each letter and where it is. Of several letters for one event only the first counts, unless it was
        dropped."""
        topic = self._node.dead_topic(group)
        gone: set[EventId] = set()  # dropped, or yielded already
        async for _, event in self._events(topic):
            found = read_letter_untrusted(event)
            if isinstance(found, EventId):
                gone.add(found)
        async for place, event in self._events(topic):
            found = read_letter_untrusted(event)
            if isinstance(found, DeadLetter) and found.group == group and found.id not in gone:
                gone.add(found.id)
                if caller.may_subscribe(Pattern(found.id.stream.topic)):
                    yield place, found

    async def _events(self, topic: str) -> AsyncIterator[tuple[EventId, Event]]:
        """Yield all events that this node has of a topic. Other tasks have their turn in between."""
        log = self._node.log
        for info in sorted(log.streams(Pattern(topic)), key=lambda each: (each.stream, each.epoch)):
            place = info.start
            while place < info.end:
                try:
                    stored = log.read(info.stream, info.epoch, place, info.end, READ_BYTES_MAX)
                except PositionExpired:
                    place = max(log.info(info.stream, info.epoch).start, place + 1)
                    continue
                except EventsLost as error:
                    place = error.loss.end
                    continue
                for at, event in _numbered(info.stream, info.epoch, stored, place):
                    yield at, event
                place = Batch.read_stored(stored[-1]).end_offset if stored else info.end
                await asyncio.sleep(0)


def _numbered(stream: Stream, epoch: Epoch, stored: Iterable[bytes], first: int) -> Iterable[tuple[EventId, Event]]:
    for data in stored:
        batch = Batch.read_stored(data)
        begin = max(first, batch.base_offset)
        for offset, event in enumerate(batch.events_from(begin), begin):
            yield EventId(stream, epoch, offset), event


def _letter_message(letter: DeadLetter) -> pb.DeadLetter:
    return pb.DeadLetter(
        event=str(letter.id),
        tries=letter.tries,
        reason=letter.reason,
        died_us=letter.died_us,
        timestamp_us=letter.event.timestamp_us,
        key=letter.event.key,
        headers=letter.event.headers or {},
        payload=letter.event.payload,
        lost=letter.is_lost,
        left_out=letter.left_out,
    )


def _read_token_untrusted(token: bytes) -> EventId | None:
    if not token:
        return None
    try:
        return parse_event_id(token[:TOKEN_BYTES_MAX].decode())
    except (WeftError, UnicodeDecodeError):
        raise UsageError("not the token of a page: send the one that came with the page before") from None
