"""What nodes tell operators and tools, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.client.errors import BadNode
from weft.client.failing import MAX_DELIVERIES, RETRY_S, Retry, policy_of
from weft.client.hooks import LOG
from weft.client.nodes import Nodes
from weft.client.refs import read_position_untrusted, read_stream_untrusted
from weft.errors import UsageError
from weft.limits import OFFSET_MAX, WHOAMI_TOPICS_MAX
from weft.model import Epoch, Position, Stream
from weft.model.key_info import KeyInfo
from weft.model.topic import OWNER
from weft.wire.mesh import mesh_pb2 as pb

if TYPE_CHECKING:
    from weft.security import KeyRecord


PROBLEM_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class StreamPositions:
    """What a node has of one stream and, on request, a group's position in it, and the offset that belongs to a
    time."""

    stream: Stream
    epoch: Epoch
    earliest_offset: int
    latest_offset: int  # the next offset that will be given
    size_bytes: int
    first_timestamp_us: int
    last_timestamp_us: int
    group_offset: int | None
    timestamp_offset: int | None
    late_us: int | None = None  # the node copies the stream only from this time on; other nodes have earlier events
    history: tuple[tuple[int, int], ...] = ()  # offsets in the node's archive table: first and end of each run
    only_history: bool = False  # only the archive table has the stream, and not the log

    @property
    def first_offset(self) -> int:
        """The first offset that can be read here, in the archive table or in the log."""
        return min(self.earliest_offset, self.history[0][0]) if self.history else self.earliest_offset


@dataclass(frozen=True, slots=True)
class Member:
    """Another node of the mesh, up or down, as the answering node knows it."""

    node_id: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodePositions:
    """What the answering node has, which node that is, and which other nodes may have more."""

    node_id: str
    streams: tuple[StreamPositions, ...]
    members: tuple[Member, ...]
    history_problem: str = ""  # why archive tables are missing or incomplete in this answer


@dataclass(frozen=True, slots=True)
class TopicInfo:
    topic: str
    streams: int
    events: int
    size_bytes: int
    last_timestamp_us: int
    history_events: int = 0  # in the node's archive table; its log may have some of them, too
    history_since_us: int = 0  # the time of the earliest of these events


@dataclass(frozen=True, slots=True)
class Status:
    node_id: str
    epoch: int
    version: str
    uptime_s: int
    streams: int
    events: int
    log_bytes: int
    peers_connected: int
    nodes_known: int
    listeners: tuple[str, ...]
    draining: bool
    console: str = ""  # where its console is; empty if there is none


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Another node. It has no id as long as the node knows only an address that it dials."""

    node_id: str
    addresses: tuple[str, ...]
    state: str
    incarnation: int
    epoch: int
    connected: bool
    dialled_by_us: bool
    rtt_us: int
    queue_frames: int
    lag_events: int
    neighbours: tuple[str, ...]
    interest: tuple[str, ...]
    trouble: str = ""  # why there is no link, if the answering node dials this one


@dataclass(frozen=True, slots=True)
class GroupStream:
    position: Position
    earliest_offset: int
    latest_offset: int
    member: str
    lag_us: int

    @property
    def lag_events(self) -> int:
        """Events that are there and not handled yet."""
        return max(self.latest_offset - max(self.position.offset, self.earliest_offset), 0)


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """What happens to events that a group's readers cannot handle. ``dead_letter`` is the topic of dead letters; if it
    is empty, that is ``weft.dead.<group>``."""

    max_deliveries: int = MAX_DELIVERIES
    retry_s: tuple[float, float] = RETRY_S
    retry: Retry = "in_order"
    dead_letter: str = ""


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group as a node knows it. ``policy`` None: none was set, and the default holds."""

    group: str
    members: tuple[str, ...]
    streams: tuple[GroupStream, ...]
    policy: GroupPolicy | None = None


@dataclass(frozen=True, slots=True)
class Recipient:
    node_id: str
    pattern: str
    path: tuple[str, ...]
    reason: str
    serves: bool = False  # it answers requests to the topic, as its pattern ``weft.serve.<pattern>`` says


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made. ``key`` is the secret itself: nobody else has it, and it cannot be asked for again."""

    info: KeyInfo
    key: str = field(repr=False)


class Admin:
    """The calls of the gRPC service Admin, and those calls of the service Mesh that only ask for something."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def positions(self, pattern: str, group: str, timestamp_us: int | None, *, history: bool) -> NodePositions:
        request = pb.PositionsRequest(pattern=pattern, group=group, timestamp_us=timestamp_us, history=history)
        replies = await self._pages("/weft.mesh.v1.Mesh/Positions", request, pb.PositionsReply)
        return NodePositions(
            node_id=replies[0].node_id,
            streams=tuple(read_positions_untrusted(found) for reply in replies for found in reply.streams),
            members=tuple(Member(each.node_id, tuple(each.addresses)) for each in replies[0].members),
            history_problem=_problem_of(replies),
        )

    async def _pages(self, method: str, request: Any, reply_type: Any) -> list[Any]:
        return await pages_of(self._nodes, method, request, reply_type)

    async def topics(self, pattern: str) -> list[TopicInfo]:
        request = pb.TopicsRequest(pattern=pattern, history=True)
        replies = await self._pages("/weft.mesh.v1.Mesh/Topics", request, pb.TopicsReply)
        if problem := _problem_of(replies):
            LOG.warning("what archive tables have is not shown, or not all: %s", problem)
        return [
            TopicInfo(
                found.topic,
                found.streams,
                found.events,
                found.bytes,
                found.last_timestamp_us,
                found.history_events,
                found.history_since_us,
            )
            for reply in replies
            for found in reply.topics
        ]

    async def check_publish(self, topics: Sequence[str]) -> None:
        for first in range(0, len(topics), WHOAMI_TOPICS_MAX):
            request = pb.WhoamiRequest(publish_to=topics[first : first + WHOAMI_TOPICS_MAX])
            await self._nodes.call("/weft.mesh.v1.Mesh/Whoami", request, pb.WhoamiReply)

    async def owner(self) -> str:
        reply = await self._nodes.call("/weft.mesh.v1.Mesh/Whoami", pb.WhoamiRequest(), pb.WhoamiReply)
        if not OWNER.fullmatch(reply.owner):
            raise BadNode("the node does not say what this client's topics are called", owner=reply.owner[:64])
        return str(reply.owner)

    async def status(self) -> Status:
        reply = await self._nodes.call("/weft.mesh.v1.Admin/Status", pb.StatusRequest(), pb.StatusReply)
        return Status(
            node_id=reply.node_id,
            epoch=reply.epoch,
            version=reply.version,
            uptime_s=reply.uptime_s,
            streams=reply.streams,
            events=reply.events,
            log_bytes=reply.log_bytes,
            peers_connected=reply.peers_connected,
            nodes_known=reply.nodes_known,
            listeners=tuple(reply.listeners),
            draining=reply.draining,
            console=reply.console,
        )

    async def peers(self) -> list[PeerInfo]:
        replies = await self._pages("/weft.mesh.v1.Admin/Peers", pb.PeersRequest(), pb.PeersReply)
        return [
            PeerInfo(
                node_id=peer.node_id,
                addresses=tuple(peer.addresses),
                state=peer.state,
                incarnation=peer.incarnation,
                epoch=peer.epoch,
                connected=peer.connected,
                dialled_by_us=peer.dialled_by_us,
                rtt_us=peer.rtt_us,
                queue_frames=peer.queue_frames,
                lag_events=peer.lag_events,
                neighbours=tuple(peer.neighbours),
                interest=tuple(peer.interest),
                trouble=peer.trouble,
            )
            for reply in replies
            for peer in reply.peers
        ]

    async def groups(self, group: str) -> list[GroupInfo]:
        replies = await self._pages("/weft.mesh.v1.Admin/Groups", pb.GroupsRequest(group=group), pb.GroupsReply)
        members: dict[str, tuple[str, ...]] = {}
        policies: dict[str, GroupPolicy] = {}
        streams: dict[str, list[GroupStream]] = {}
        for found in (each for reply in replies for each in reply.groups):
            members.setdefault(found.group, tuple(found.members))
            streams.setdefault(found.group, []).extend(map(_read_group_stream_untrusted, found.streams))
            if found.HasField("policy"):
                policies[found.group] = _read_policy_untrusted(found.policy)
        return [GroupInfo(name, members[name], tuple(streams[name]), policies.get(name)) for name in members]

    async def set_group(self, group: str, policy: GroupPolicy) -> None:
        wanted = policy_of(policy.max_deliveries, policy.retry_s, policy.retry, policy.dead_letter or None)
        request = pb.SetGroupRequest(group=group, policy=wanted)
        await self._nodes.call("/weft.mesh.v1.Admin/SetGroup", request, pb.SetGroupReply)

    async def explain(self, topic: str, origin: str) -> list[Recipient]:
        request = pb.ExplainRequest(topic=topic, origin=origin)
        replies = await self._pages("/weft.mesh.v1.Admin/Explain", request, pb.ExplainReply)
        found = [(each, False) for reply in replies for each in reply.recipients]
        found += [(each, True) for each in replies[0].servers]
        return [Recipient(each.node_id, each.pattern, tuple(each.path), each.reason, serves) for each, serves in found]

    async def keys(self, key: str) -> list[KeyInfo]:
        replies = await self._pages("/weft.mesh.v1.Admin/Keys", pb.KeysRequest(key=key), pb.KeysReply)
        return [_read_key_untrusted(each) for reply in replies for each in reply.keys]

    async def create_key(self, record: KeyRecord) -> KeyInfo:
        """Make a key. A retry does not make a second one."""
        request = pb.CreateKeyRequest(record=msgspec.json.encode(record))
        reply = await self._nodes.call("/weft.mesh.v1.Admin/CreateKey", request, pb.CreateKeyReply)
        return _read_key_untrusted(reply.key)

    async def revoke_key(self, key: str) -> KeyInfo:
        request = pb.RevokeKeyRequest(key=key)
        reply = await self._nodes.call("/weft.mesh.v1.Admin/RevokeKey", request, pb.RevokeKeyReply)
        return _read_key_untrusted(reply.key)

    async def leave(self) -> str:
        """Make the node leave. This asks only one node, and only once, because a retry might make another node
        leave."""
        given = self._nodes.book.given
        if len(given) != 1:
            raise UsageError("name one node only, the one that is to leave", nodes=", ".join(given))
        reply = await self._nodes.call_one(given[0], "/weft.mesh.v1.Admin/Leave", pb.LeaveRequest(), pb.LeaveReply)
        return str(reply.node_id)


async def pages_of(nodes: Nodes, method: str, request: Any, reply_type: Any) -> list[Any]:
    """All pages of a reply, from one node. If the node is lost in between, the next node is asked for all pages from
    the first one on."""
    replies: list[Any] = []
    request.page.SetInParent()
    while True:
        reply = await nodes.call(method, request, reply_type)
        if replies and reply.node_id != replies[0].node_id:
            replies.clear()
            request.page.token = b""
            continue
        replies.append(reply)
        if not reply.next_page:
            return replies
        if reply.next_page == request.page.token:
            raise BadNode("the node gives the same page again", method=method)
        request.page.token = reply.next_page


def _read_policy_untrusted(policy: pb.GroupPolicy) -> GroupPolicy:
    return GroupPolicy(
        max_deliveries=policy.max_deliveries,
        retry_s=(policy.retry_s_min, policy.retry_s_max),
        retry="set_aside" if policy.set_aside else "in_order",
        dead_letter=policy.dead_letter,
    )


def read_positions_untrusted(found: pb.PositionsOfStream) -> StreamPositions:
    info = found.info
    stream, epoch = read_stream_untrusted(info.stream)
    return StreamPositions(
        stream=stream,
        epoch=epoch,
        earliest_offset=info.earliest_offset,
        latest_offset=info.latest_offset,
        size_bytes=info.bytes,
        first_timestamp_us=info.first_timestamp_us,
        last_timestamp_us=info.last_timestamp_us,
        group_offset=found.group_offset if found.HasField("group_offset") else None,
        timestamp_offset=found.timestamp_offset if found.HasField("timestamp_offset") else None,
        late_us=info.late_us if info.HasField("late_us") else None,
        history=_read_runs_untrusted(found.history, stream),
        only_history=found.only_history,
    )


def _read_runs_untrusted(numbers: Sequence[int], stream: Stream) -> tuple[tuple[int, int], ...]:
    if (
        len(numbers) % 2
        or any(low >= high for low, high in pairwise(numbers))
        or (numbers and numbers[-1] > OFFSET_MAX)
    ):
        raise BadNode("the node tells of a history what cannot be", stream=stream)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _problem_of(replies: Sequence[pb.PositionsReply | pb.TopicsReply]) -> str:
    return next((reply.history_problem[:PROBLEM_CHARS_MAX] for reply in replies if reply.history_problem), "")


def _read_key_untrusted(data: bytes) -> KeyInfo:
    try:
        return msgspec.json.decode(data, type=KeyInfo)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadNode(f"the node tells of a key what cannot be read: {error}") from None


def _read_group_stream_untrusted(place: pb.GroupStream) -> GroupStream:
    return GroupStream(
        position=read_position_untrusted(place.position),
        earliest_offset=place.earliest_offset,
        latest_offset=place.latest_offset,
        member=place.member,
        lag_us=place.lag_us,
    )
