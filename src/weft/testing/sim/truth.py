"""What really happened: every durable event, whatever was promised about it, and whether a claim of a node is true.

The truth is read from the origins' disks, sync by sync. Whatever a node says later, to a publisher, a subscriber or a
peer, is held against it, so that a claim that is false, early or about another life of a log is found where it is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from weft.core.messages import Delivered
from weft.log import Log
from weft.log.errors import PositionExpired
from weft.log.retention import Expired
from weft.membership import Liveness, NodeState
from weft.model import Batch, Epoch, NodeId, Position, Receipt, Stream
from weft.model.key_value import KV_PREFIX
from weft.testing.sim.schedule import Violation

StreamKey: TypeAlias = tuple[Stream, Epoch]
EndOf: TypeAlias = Callable[[StreamKey], int | None]


@dataclass(slots=True)
class History:
    """Of one stream in one epoch: all events from offset 0 on, as its origin had them when they became durable."""

    payloads: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)
    batches: dict[int, bytes] = field(default_factory=dict)  # as stored, by their first offset
    places: dict[bytes, int] = field(default_factory=dict)  # payload -> offset
    latest: dict[bytes, int] = field(default_factory=dict)  # key -> offset of its last event
    expired: int = 0  # some node's retention has taken everything before this offset
    forgotten: set[int] = field(
        default_factory=set
    )  # offsets that a plain peer lost before anybody else had to have it

    @property
    def end(self) -> int:
        return len(self.payloads)


class Truth:
    def __init__(self) -> None:
        self.streams: defaultdict[StreamKey, History] = defaultdict(History)
        self.durable: defaultdict[NodeId, dict[StreamKey, int]] = defaultdict(dict)  # how far disks have streams
        self.reached: defaultdict[StreamKey, dict[NodeId, int]] = defaultdict(dict)  # the same, lost disks included
        self.starts: defaultdict[NodeId, dict[StreamKey, int]] = defaultdict(dict)  # from where on disks have streams
        self.began: defaultdict[StreamKey, dict[NodeId, int]] = defaultdict(dict)  # the earliest that a node ever had
        self.is_gone: Callable[[StreamKey, int], bool] = lambda key, offset: False  # no node has it, or ever will
        self.lost: set[tuple[NodeId, Epoch]] = set()  # logs whose disk is gone
        self.refused: set[bytes] = set()  # payloads of batches that a node refused to keep
        self.liars: set[NodeId] = set()  # what they say of themselves may be anything
        self.honest: set[NodeId] = set()  # those that said something of themselves, in their own machinery
        self.said: defaultdict[tuple[NodeId, int, int], set[NodeState]] = defaultdict(set)  # by nodes of themselves
        self.left: dict[NodeId, int] = {}  # nodes that said goodbye, and in which incarnation
        self.events_delivered = 0
        self.repeating: set[str] = set()  # topics of schedules, whose events are alike
        self.watchers: list[Callable[[StreamKey, Batch], None]] = []  # are told of what becomes durable at its origin

    # --- what disks have ---

    def synced(self, node: NodeId, log: Log, advanced: Mapping[StreamKey, int]) -> None:
        """A sync, or recovery, has made these streams durable up to these offsets."""
        ends = self.durable[node]
        for key, end in advanced.items():
            ends[key] = max(end, ends.get(key, 0))
            self.reached[key][node] = max(end, self.reached[key].get(node, 0))
            start = self.starts[node][key] = 0 if log.find(*key) is None else log.info(*key).start
            self.began[key][node] = min(start, self.began[key].get(node, start))
            if key[0].origin == node and key[1] == log.epoch:
                self._learn(log, key, end)

    def _learn(self, log: Log, key: StreamKey, end: int) -> None:
        history = self.streams[key]
        while history.end < end:
            for data in log.read(*key, history.end, end):
                self._append(key, history, Batch.read_stored(data), data)

    def _append(self, key: StreamKey, history: History, batch: Batch, data: bytes) -> None:
        if batch.base_offset != history.end:
            raise Violation(f"{name_of(key)} goes on at {batch.base_offset} and not at {history.end}")
        history.times_us += (event.timestamp_us for event in batch.events_from(batch.base_offset))
        for payload, event_key in zip(batch.payloads.to_pylist(), batch.keys.to_pylist(), strict=True):
            if payload in history.places and not is_internal(key) and key[0].topic not in self.repeating:
                raise Violation(f"{payload!r} is in {name_of(key)} twice, at {history.places[payload]}, {history.end}")
            history.places[payload] = history.end
            if event_key is not None:
                history.latest[event_key] = history.end
            history.payloads.append(payload)
            history.keys.append(event_key)
        history.batches[batch.base_offset] = data
        for watcher in self.watchers:
            watcher(key, batch)

    def published_plain(self, key: StreamKey, payload: bytes) -> None:
        """A plain peer is the origin of what it publishes, and has no disk that could be checked."""
        self.streams[key].payloads.append(payload)
        self.streams[key].keys.append(None)
        self.streams[key].times_us.append(-1)  # its home says when it came; not looked at

    def recovered(self, node: NodeId, log: Log) -> None:
        """A node has opened its log again: check that what was promised is there, and note what else survived."""
        for info in log.streams():
            key = (info.stream, info.epoch)
            if info.end < self.durable[node].get(key, 0):
                raise Violation(f"{node} had {name_of(key)} up to {self.durable[node][key]} and now has {info.end}")
            start = self.starts[node].get(key, info.start)
            if not all(self.may_be_gone(key, offset) for offset in range(start, info.start)):
                raise Violation(f"{node} had {name_of(key)} from {start} on, and now from {info.start} on")
            self.synced(node, log, {key: info.end})
        there = {(info.stream, info.epoch) for info in log.streams()}
        for key, end in self.durable[node].items():
            if key not in there:
                raise Violation(f"{node} had {name_of(key)} up to {end} and now has nothing of it")

    def disk_lost(self, node: NodeId, epoch: Epoch) -> None:
        self.lost.add((node, epoch))
        self.durable.pop(node, None)
        self.starts.pop(node, None)

    def expired(self, taken: Iterable[Expired]) -> None:
        for each in taken:
            history = self.streams[(each.stream, each.epoch)]
            history.expired = max(history.expired, each.end)

    # --- what nodes claim ---

    def check_receipt(self, receipt: Receipt, payloads: tuple[bytes, ...]) -> None:
        key = (receipt.stream, receipt.epoch)
        end = receipt.first_offset + receipt.count
        found = tuple(self.streams[key].payloads[receipt.first_offset : end])
        if found != payloads:
            raise Violation(f"receipt {receipt} is for {payloads[:2]} but {found[:2]} is durable there")
        began = self.began[key]
        copies = sum(
            reached >= end and began[node] <= receipt.first_offset for node, reached in self.reached[key].items()
        )
        if copies + len(self.liars) < receipt.copies:  # a node that acknowledges what it did not keep is counted
            raise Violation(f"receipt {receipt}, but only {copies} nodes ever had it on their disks")

    def check_acks(self, node: NodeId, log: Log, positions: Iterable[Position]) -> None:
        """That what is acknowledged is on the disk, or exists nowhere. What is before the beginning of a copy is not
        meant: the code that counts copies knows where they begin."""
        for position in positions:
            key = (position.stream, position.epoch)
            if position.stream.origin in self.liars:
                continue
            durable = self.durable[node].get(key, 0)
            first = max(durable, log.info(*key).start if log.find(*key) is not None else 0)
            if not all(self.may_be_gone(key, offset) for offset in range(first, position.offset)):
                raise Violation(f"{node} acknowledges {position}, its disk has it up to {durable}")

    def check_delivered(self, node: NodeId, delivered: Delivered) -> tuple[int, int]:
        """Check that delivered events are durable and are what their origin had. Return the offsets."""
        key = (delivered.stream, delivered.epoch)
        batch = Batch.read_stored(delivered.data)
        if batch.end_offset > self.durable[node].get(key, 0):
            raise Violation(f"{node} delivers {name_of(key)} up to {batch.end_offset} before it is durable there")
        self.check_batch(key, batch, delivered.data)
        first = max(batch.base_offset, delivered.first_offset)
        if first >= batch.end_offset:
            raise Violation(f"{node} delivers a batch of {name_of(key)} without an event that is meant")
        self.events_delivered += batch.end_offset - first
        return first, batch.end_offset

    def check_batch(self, key: StreamKey, batch: Batch, data: bytes) -> None:
        history = self.streams[key]
        if history.batches.get(batch.base_offset) == data:
            return
        found = batch.payloads.to_pylist()
        if history.payloads[batch.base_offset : batch.end_offset] != found:
            raise Violation(f"{name_of(key)} at {batch.base_offset}: {found[:3]} is not what its origin has there")

    def check_member(self, node: NodeId, heard: NodeState) -> None:
        """Check that a node believes about another only what that one has said about itself (SEC-06)."""
        key = (heard.node_id, heard.incarnation, heard.version)
        if heard.node_id == node:
            self.honest.add(node)
            self.said[key].add(replace(heard, liveness=Liveness.ALIVE))
            if heard.liveness is Liveness.LEFT:
                self.left[node] = heard.incarnation
        elif heard.node_id in self.honest and replace(heard, liveness=Liveness.ALIVE) not in self.said[key]:
            raise Violation(f"{node} believes {heard}, and that node never said so")
        elif (
            heard.node_id in self.honest
            and heard.liveness is Liveness.LEFT
            and heard.incarnation > self.left.get(heard.node_id, -1)  # links know it as it was when they came up
        ):
            raise Violation(f"{node} believes that {heard.node_id} has left, and it never said so")

    # --- what may be missing ---

    def check_gap(self, who: str, key: StreamKey, first: int, end: int, *, retention: bool) -> None:
        """Check that no offset from ``first`` up to ``end`` must still be there; ``retention`` may have removed it."""
        for offset in range(first, end):
            if not self._is_nowhere(key, offset) and not (retention and offset < self.streams[key].expired):
                raise Violation(f"{who} misses {name_of(key)} from {offset} on; the next it gets is {end}")

    def check_since(self, who: str, key: StreamKey, since_us: int, first: int) -> None:
        """That nothing before ``first`` is as late as that."""
        for offset, time_us in enumerate(self.streams[key].times_us[:first]):
            if time_us >= since_us and not self.may_be_gone(key, offset):
                raise Violation(f"{who} wants {name_of(key)} since {since_us}, begins at {first} and misses {offset}")

    def may_be_gone(self, key: StreamKey, offset: int) -> bool:
        return offset < self.streams[key].expired or self._is_nowhere(key, offset)

    def check_gone(self, node: NodeId, key: StreamKey, first: int, end: int) -> None:
        """That a plain peer really has lost these."""
        for offset in range(first, end):
            if offset not in self.streams[key].forgotten:
                raise Violation(f"{node} takes {name_of(key)} from {first} to {end - 1} for gone, and {offset} is not")

    def _is_nowhere(self, key: StreamKey, offset: int) -> bool:
        """Whether compaction may have taken it, because a later event has its key, or its origin lost it."""
        history = self.streams[key]
        if offset in history.forgotten or key[0].topic.startswith(KV_PREFIX):
            return True  # of buckets, the sum of all streams is checked (``kv``): one may settle what another says
        if self.is_gone(key, offset):
            return True
        if offset >= history.end:
            return False
        event_key = history.keys[offset]
        return event_key is not None and history.latest[event_key] > offset

    def check_log(self, node: NodeId, log: Log) -> None:
        """Check that a node's log has what the origins had, without gaps, and everything that it gave receipts for."""
        for info in log.streams():
            key = (info.stream, info.epoch)
            if info.stream.origin in self.liars:
                continue
            expected = info.start
            while expected < info.end:
                try:
                    found = log.read(*key, expected)
                except PositionExpired as error:
                    raise Violation(f"{node}: {error}") from error
                for data in found:
                    batch = Batch.read_stored(data)
                    self.check_batch(key, batch, data)
                    self.check_gap(f"the log of {node}", key, expected, batch.base_offset, retention=False)
                    expected = batch.end_offset
                if not found:
                    self.check_gap(f"the log of {node}", key, expected, info.end, retention=False)
                    expected = info.end
            if info.stream.origin == node and info.epoch == log.epoch:
                if info.end != self.streams[key].end:
                    raise Violation(f"{node} has {name_of(key)} up to {info.end} of {self.streams[key].end}")
                self.check_gap(f"the log of {node}", key, 0, info.start, retention=True)

    def check_refusals(self) -> None:
        for key, history in self.streams.items():
            kept = self.refused.intersection(history.places)
            if kept:
                raise Violation(f"{min(kept)!r} was refused, but it is in {name_of(key)}")


def name_of(key: StreamKey) -> str:
    return f"{key[0]}:e{key[1]}"


def is_internal(key: StreamKey) -> bool:
    """Topics that nodes talk to each other on; their payloads are theirs."""
    return key[0].topic.startswith("weft.")
