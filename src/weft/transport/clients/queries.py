"""The calls of ``Mesh`` that look or move once: Fetch, Positions, Commit, DropGroup, Topics, Whoami."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Final

from weft.errors import UsageError, WeftError
from weft.limits import MIB, WHOAMI_TOPICS_MAX
from weft.log import Log, StreamInfo
from weft.log.errors import EventsLost, PositionExpired
from weft.model import COLUMNS, Batch, Epoch, Pattern, Position, Stream
from weft.port.access import Caller
from weft.port.errors import TooLarge, error_message
from weft.port.groups import check_group
from weft.port.held import Holding, Use
from weft.port.node import MeshNode
from weft.port.pages import (
    PageRoom,
    limit_of,
    read_stream_token_untrusted,
    read_text_token_untrusted,
    stream_token,
)
from weft.port.topics import read_topic_untrusted, streams_of, topics_of
from weft.transport.clients.values import (
    fetched_parts,
    read_pattern_untrusted,
    read_positions_untrusted,
    read_range_untrusted,
)
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import read_stream_untrusted, stream_ref

REPLY_BYTES: Final = 1 * MIB  # of a fetch that does not say


class Queries:
    """What a method raises ends its call."""

    def __init__(self, node: MeshNode) -> None:
        self._node = node

    # --- a range of a stream -------------------------------------------------------------------------------------

    async def fetch(self, request: pb.FetchRequest, call: ServerCall, caller: Caller) -> None:
        """The next part is read when the one before it has left, and the caller holds not too much otherwise."""
        with closing(self._node.held.holding(caller.who, Use.FETCH)) as holding:
            await self._fetch(request, call, caller, holding)

    async def _fetch(self, request: pb.FetchRequest, call: ServerCall, caller: Caller, holding: Holding) -> None:
        try:
            stream, epoch = read_stream_untrusted(request.stream)
            caller.check_subscribe(Pattern(stream.topic))
            first, end = read_range_untrusted(request)
            columns = _columns_untrusted(request.columns)
            bytes_max = min(request.bytes_max or REPLY_BYTES, self._node.limits.reply_bytes_max)
            while first < end:
                await holding.room()
                caller.check()
                stored = self._node.log.read(stream, epoch, first, end, bytes_max)
                if not stored:
                    return
                place, first = first, Batch.read_stored(stored[-1]).end_offset
                head, rest = (b"", _projected(stored, columns, place, end)) if columns else fetched_parts(stored)
                del stored
                holding.take(len(head) + len(rest))
                call.write_nowait(rest, head)
                del rest
                await call.wait_sent()
                holding.keep(0)
        except WeftError as error:
            self._node.count_refusal(error)
            await call.write(pb.FetchReply(error=error_message(error)).SerializeToString())

    # --- where streams begin and end -----------------------------------------------------------------------------

    async def positions(self, request: pb.PositionsRequest, caller: Caller) -> pb.PositionsReply:
        pattern = read_pattern_untrusted(request.pattern)
        caller.check_subscribe(pattern)
        if request.group:
            await check_group(self._node.groups, caller, request.group)
        stands = self._stands(request.group)
        timestamp_us = request.timestamp_us if request.HasField("timestamp_us") else None
        after = read_stream_token_untrusted(request.page.token)
        room = PageRoom.wanted(limit_of(request.page if request.HasField("page") else None))
        reply = pb.PositionsReply(node_id=self._node.node_id, members=[] if after else self._members())
        last: StreamInfo | None = None
        async for info in streams_of(self._node.log, pattern, after):
            if room.is_full and last is not None:
                reply.next_page = stream_token(last.stream, last.epoch)
                break
            place = self._place(info, stands, timestamp_us)
            room.take(place.ByteSize())
            reply.streams.append(place)
            last = info
        return reply

    def _members(self) -> list[pb.Member]:
        return [pb.Member(node_id=each.node_id, addresses=each.addresses) for each in self._node.members()]

    def _stands(self, group: str) -> dict[tuple[Stream, Epoch], int]:
        positions = self._node.groups.positions(group) if group else []
        return {(each.stream, each.epoch): each.offset for each in positions}

    def _place(
        self, info: StreamInfo, stands: dict[tuple[Stream, Epoch], int], timestamp_us: int | None
    ) -> pb.PositionsOfStream:
        log = self._node.log
        place = pb.PositionsOfStream(
            info=pb.StreamInfo(
                stream=stream_ref(info.stream, info.epoch),
                earliest_offset=info.start,
                latest_offset=info.end,
                bytes=info.bytes,
                first_timestamp_us=_first_timestamp_us(log, info),
                last_timestamp_us=max(info.latest_us, 0),
                late_us=info.late_us,
            ),
            group_offset=stands.get((info.stream, info.epoch)),
        )
        if timestamp_us is not None:
            place.timestamp_offset = log.seek(info.stream, info.epoch, timestamp_us)
        return place

    async def topics(self, request: pb.TopicsRequest, caller: Caller) -> pb.TopicsReply:
        """Of those that match, the ones the caller may subscribe to: the rest are none of its business."""
        pattern = read_pattern_untrusted(request.pattern)
        room = PageRoom.wanted(limit_of(request.page if request.HasField("page") else None))
        after = read_text_token_untrusted(request.page.token)
        topics, last = await topics_of(self._node.log, pattern, caller, room, after)
        return pb.TopicsReply(topics=topics, next_page=last.encode(), node_id=self._node.node_id)

    async def whoami(self, request: pb.WhoamiRequest, caller: Caller) -> pb.WhoamiReply:
        """Who is calling; refused as a publish would be if it may not publish to the topics that it asks about."""
        if len(request.publish_to) > WHOAMI_TOPICS_MAX:
            raise TooLarge("too many topics in one message", have=len(request.publish_to), limit=WHOAMI_TOPICS_MAX)
        for topic in request.publish_to:
            caller.check_publish(read_topic_untrusted(topic))
        return pb.WhoamiReply(who=caller.who, owner=caller.owner)

    # --- groups --------------------------------------------------------------------------------------------------

    async def commit(self, request: pb.CommitRequest, caller: Caller) -> pb.CommitReply:
        """Whoever may use the group and read all these topics may say how far it has read them."""
        try:
            self._node.check_open()
            positions = read_positions_untrusted(request.positions)
            for topic in {position.stream.topic for position in positions}:
                caller.check_subscribe(Pattern(topic))
            self._check_places(positions)
            if request.group:
                await check_group(self._node.groups, caller, request.group)
                self._node.quotas.usage(caller).use_group(self._node.groups, request.group)
            await self._node.move_group(request.group, positions)
            return pb.CommitReply()
        except WeftError as error:
            self._node.count_refusal(error)
            return pb.CommitReply(error=error_message(error))

    async def drop_group(self, request: pb.DropGroupRequest, caller: Caller) -> pb.DropGroupReply:
        try:
            self._node.check_open()
            await check_group(self._node.groups, caller, request.group)
            await self._node.drop_group(request.group)
            return pb.DropGroupReply()
        except WeftError as error:
            self._node.count_refusal(error)
            return pb.DropGroupReply(error=error_message(error))

    def _check_places(self, positions: Iterable[Position]) -> None:
        """A group is not put where there is nothing: it would only fail later, far from the mistake."""
        for position in positions:
            self._node.log.read(position.stream, position.epoch, position.offset, position.offset)


def _first_timestamp_us(log: Log, info: StreamInfo) -> int:
    """0 if the stream is empty, or damaged where it begins: who reads it is told."""
    try:
        stored = log.read(info.stream, info.epoch, info.start, bytes_max=1)
    except (EventsLost, PositionExpired):
        return 0
    return Batch.read_stored(stored[0]).timestamp_us_min if stored else 0


def _columns_untrusted(names: Iterable[str]) -> list[str]:
    columns = list(dict.fromkeys(names))
    unknown = next((name for name in columns if name not in COLUMNS), None)
    if unknown is not None:
        raise UsageError("no such column", column=unknown[:64], known=", ".join(COLUMNS))
    return columns


def _projected(stored: list[bytes], columns: list[str], first: int, end: int) -> bytes:
    from weft.transport.clients.projection import projected  # with Arrow

    return projected(stored, columns, first, end)
