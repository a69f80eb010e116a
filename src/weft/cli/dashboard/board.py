"""The figures of ``weft top``, computed from what nodes answered now and before. No I/O; times are passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weft.client import GroupInfo, PeerInfo, Status, TopicInfo

SAMPLES: Final = 20  # of a sparkline
BLOCKS: Final = "▁▂▃▄▅▆▇█"
UNASKED: Final = "no answer"


@dataclass(frozen=True, slots=True)
class Answers:
    """What nodes answered at one moment. ``topics`` are by the node that has them."""

    at_s: float
    node_id: str  # the one that tells of peers and groups
    statuses: Mapping[str, Status]
    peers: Sequence[PeerInfo]
    topics: Mapping[str, Sequence[TopicInfo]]
    groups: Sequence[GroupInfo]
    refused: Sequence[str] = ()  # what the key may not ask


@dataclass(slots=True)
class Flow:
    """A count that grows, and how fast it has grown in the last samples."""

    total: int = 0
    at_s: float = 0.0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def count(self, total: int, at_s: float) -> None:
        """A total that is smaller than before starts over: the node was restarted, or the topic was cut."""
        if self.at_s and at_s > self.at_s:
            self.rates.append(max(total - self.total, 0) / (at_s - self.at_s))
        self.total, self.at_s = total, at_s

    @property
    def rate(self) -> float:
        return self.rates[-1] if self.rates else 0.0

    @property
    def sparkline(self) -> str:
        """The highest of them is a full block; nothing at all is the lowest."""
        most = max(self.rates, default=0.0)
        return "".join(BLOCKS[round(rate / most * (len(BLOCKS) - 1)) if most else 0] for rate in self.rates)


@dataclass(frozen=True, slots=True)
class NodeRow:
    node: str
    state: str
    events_per_s: float
    flow: str
    events: int | None
    log_bytes: int | None
    streams: int | None
    links: int | None
    rtt_ms: float | None  # of the link from the node that was asked
    lag_events: int | None
    uptime_s: int | None
    version: str


@dataclass(frozen=True, slots=True)
class TopicRow:
    """As the node has it that has most of it."""

    topic: str
    events_per_s: float
    flow: str
    events: int
    bytes: int
    streams: int
    nodes: int  # that have events of it
    last_timestamp_us: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    group: str
    handled_per_s: float
    flow: str
    lag_events: int
    lag_s: float
    members: int
    streams: int


Row = NodeRow | TopicRow | GroupRow


class Board:
    """The newest answers as rows, with rates since those before."""

    def __init__(self) -> None:
        self.answers: Answers | None = None
        self.nodes: list[NodeRow] = []
        self.topics: list[TopicRow] = []
        self.groups: list[GroupRow] = []
        self._flows: dict[tuple[str, str], Flow] = {}

    def take(self, answers: Answers) -> None:
        self.answers = answers
        self.nodes = list(self._node_rows(answers))
        self.topics = list(self._topic_rows(answers))
        self.groups = [self._group_row(group, answers.at_s) for group in answers.groups]
        kept = {("node", row.node) for row in self.nodes} | {("topic", row.topic) for row in self.topics}
        kept |= {("group", row.group) for row in self.groups}
        self._flows = {name: flow for name, flow in self._flows.items() if name in kept}

    @property
    def events_per_s(self) -> float:
        """Of all topics together."""
        return sum(row.events_per_s for row in self.topics)

    def _flow(self, kind: str, name: str, total: int, at_s: float) -> Flow:
        flow = self._flows.setdefault((kind, name), Flow())
        flow.count(total, at_s)
        return flow

    def _node_rows(self, answers: Answers) -> Iterable[NodeRow]:
        peers = {peer.node_id or peer.addresses[0]: peer for peer in answers.peers}
        for node in sorted({answers.node_id, *peers, *answers.statuses}):
            peer, status = peers.get(node), answers.statuses.get(node)
            flow = Flow() if status is None else self._flow("node", node, status.events, answers.at_s)
            is_linked = peer is not None and peer.connected
            yield NodeRow(
                node=node,
                state=_state(peer, status),
                events_per_s=flow.rate,
                flow=flow.sparkline,
                events=None if status is None else status.events,
                log_bytes=None if status is None else status.log_bytes,
                streams=None if status is None else status.streams,
                links=None if status is None else status.peers_connected,
                rtt_ms=peer.rtt_us / 1000 if peer is not None and is_linked else None,
                lag_events=peer.lag_events if peer is not None and is_linked else None,
                uptime_s=None if status is None else status.uptime_s,
                version="" if status is None else status.version,
            )

    def _topic_rows(self, answers: Answers) -> Iterable[TopicRow]:
        holdings: dict[str, list[TopicInfo]] = {}
        for found in answers.topics.values():
            for info in found:
                holdings.setdefault(info.topic, []).append(info)
        for topic, infos in sorted(holdings.items()):
            most = max(infos, key=lambda info: info.events)
            flow = self._flow("topic", topic, most.events, answers.at_s)
            yield TopicRow(
                topic=topic,
                events_per_s=flow.rate,
                flow=flow.sparkline,
                events=most.events,
                bytes=most.size_bytes,
                streams=max(info.streams for info in infos),
                nodes=len(infos),
                last_timestamp_us=max(info.last_timestamp_us for info in infos),
            )

    def _group_row(self, group: GroupInfo, at_s: float) -> GroupRow:
        flow = self._flow("group", group.group, sum(stream.position.offset for stream in group.streams), at_s)
        return GroupRow(
            group=group.group,
            handled_per_s=flow.rate,
            flow=flow.sparkline,
            lag_events=sum(stream.lag_events for stream in group.streams),
            lag_s=max((stream.lag_us for stream in group.streams), default=0) / 1e6,
            members=len(group.members),
            streams=len(group.streams),
        )


def _state(peer: PeerInfo | None, status: Status | None) -> str:
    if status is not None:
        return "draining" if status.draining else "up"
    if peer is None or peer.state == "alive":
        return UNASKED
    return peer.state


def arranged(rows: Iterable[Any], words: str, column: str, is_descending: bool) -> list[Any]:
    """The rows whose names contain all the words, sorted by one column. Rows without a figure in it come last."""
    wanted = words.lower().split()

    def name(row: Any) -> str:
        return str(getattr(row, row.__slots__[0]))

    def place(row: Any) -> Any:
        return getattr(row, column)

    found = [row for row in rows if all(word in name(row).lower() for word in wanted)]
    known = sorted((row for row in found if place(row) is not None), key=name)
    known.sort(key=place, reverse=is_descending)  # stable: equals stay in the order of their names
    return known + sorted((row for row in found if place(row) is None), key=name)
