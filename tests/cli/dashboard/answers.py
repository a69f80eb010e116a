"""Answers of nodes, made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.cli.dashboard.board import Answers
from weft.client import GroupInfo, GroupStream, PeerInfo, Status, TopicInfo
from weft.model import Epoch, NodeId, Position, Stream, parse_topic


def answers(
    at_s: float = 1.0,
    topics: Mapping[str, Sequence[TopicInfo]] | None = None,
    statuses: Sequence[Status] = (),
    peers: Sequence[PeerInfo] = (),
    groups: Sequence[GroupInfo] = (),
) -> Answers:
    return Answers(at_s, "a", {each.node_id: each for each in statuses}, peers, topics or {}, groups)


def status(node: str, events: int, draining: bool = False) -> Status:
    return Status(node, 7, "1.2.3", 60, 1, events, 1_000, 1, 2, (f"grpc {node}:7400",), draining)


def topic(name: str, events: int) -> TopicInfo:
    return TopicInfo(name, 1, events, events * 100, 1_700_000_000_000_000)


def peer(node: str, state: str, rtt_us: int = 0) -> PeerInfo:
    is_linked = rtt_us > 0
    return PeerInfo(node, (f"{node}:7400",), state, 1, 7, is_linked, is_linked, rtt_us, 0, 0, ("a",), ("plant.>",))


def group(name: str, *places: tuple[int, int]) -> GroupInfo:
    """With a stream for each place: the offset that the group is at, and the end."""
    streams = [
        GroupStream(Position(Stream(parse_topic(f"t{each}"), NodeId("a"), 0), Epoch(7), at), 0, end, "m", 1_500_000)
        for each, (at, end) in enumerate(places)
    ]
    return GroupInfo(name, ("m",), tuple(streams))
