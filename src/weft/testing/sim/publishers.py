"""Publishers that behave as the SDK does: numbered batches, sent again in order, and to another node only if new."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final

from weft.core.errors import CopiesMissing
from weft.errors import StorageError
from weft.log.errors import DiskFull, OutOfSequence
from weft.model import Batch, Epoch, NodeId, Receipt, Topic
from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Violation
from weft.testing.sim.sessions import Answer, Desk, Request, SimSession

IN_FLIGHT_MAX: Final = 8
BURSTS: Final = (1, 1, 1, 4)  # batches at once
EVENTS_MAX: Final = 5
KEYS: Final = 4  # few, so that compaction finds something to take away


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch without an answer. It belongs to one node, and to one epoch of its log."""

    topic: Topic
    partition: int
    batch: Batch
    payloads: tuple[bytes, ...]
    copies: int


class SimPublisher:
    """``batches``: how many it is going to publish in all."""

    def __init__(self, name: str, desk: Desk, nodes: Sequence[SimNode], topics: Sequence[Topic], batches: int) -> None:
        self.name = name
        self.left = batches
        self.home = desk.chance.choice(list(nodes))
        self.in_doubt = 0  # batches of which nobody will ever know
        self._desk = desk
        self._nodes = nodes
        self._topics = topics
        self._stream = (topics[0], 0)  # that it published to last
        self._producer = blake2b(name.encode(), digest_size=16).digest()
        self._sequences: defaultdict[tuple[NodeId, Topic, int], int] = defaultdict(int)
        self._pending: defaultdict[NodeId, deque[Pending]] = defaultdict(deque)
        self._sessions: dict[NodeId, SimSession] = {}
        self._epochs: dict[NodeId, Epoch] = {}

    @property
    def done(self) -> bool:
        return not self.left and not any(self._pending.values())

    def run(self, pause_s: float) -> None:
        """Publish one after the other, sometimes several at once, until all are out."""
        if self.left:
            for _ in range(min(self.left, self._desk.chance.choice(BURSTS))):
                self._publish()
            self._desk.schedule.at(self._desk.chance.random() * 2 * pause_s, partial(self.run, pause_s))

    def _publish(self) -> None:
        home = self.home
        in_doubt = home.node_id not in self._sessions and self._pending[home.node_id]
        if home.retired or (in_doubt and self._desk.chance.random() < 0.5):  # what is in doubt waits for the old one
            home = self.home = self._desk.chance.choice([node for node in self._nodes if not node.retired])
        pending = self._pending[home.node_id]
        if len(pending) >= IN_FLIGHT_MAX:
            return
        self.left -= 1
        pending.append(self._next(home))
        if home.node_id in self._sessions:
            self._send(self._sessions[home.node_id], pending[-1])
        else:
            self._connect(home)

    def _next(self, home: SimNode) -> Pending:
        chance = self._desk.chance
        if chance.random() < 0.5:
            self._stream = (chance.choice(list(self._topics)), chance.randrange(2))
        topic, partition = self._stream
        key = (home.node_id, topic, partition)
        self._sequences[key] += chance.choice([1, 1, 1, 3])  # gaps are fine
        sequence = self._sequences[key]
        count = chance.randint(1, EVENTS_MAX)
        at = f"{self.name} {topic}@{home.node_id}/{partition} {sequence}"
        payloads = tuple(f"{at}.{number}".encode() for number in range(count))
        keys = [b"key%d" % chance.randrange(KEYS) for _ in payloads] if topic.startswith("keyed") else None
        batch = Batch.from_columns(payloads, home.wall_us, keys, producer=self._producer, sequence=sequence)
        copies = chance.choice([0, 2, 3]) if topic.startswith("safe") else 0
        return Pending(topic, partition, batch, payloads, copies)

    # --- connections ---

    def _connect(self, node: SimNode) -> None:
        if node.node_id in self._sessions or not self._pending[node.node_id]:
            return
        if node.retired:
            self._give_up(node)
            return
        if not node.running:
            self._desk.schedule.at(0.2 + self._desk.chance.random(), partial(self._connect, node))
            return
        session = self._sessions[node.node_id] = self._desk.connect(node, partial(self._broken, node))
        if self._epochs.get(node.node_id, node.log.epoch) != node.log.epoch:
            self._give_up(node)
        self._epochs[node.node_id] = node.log.epoch
        for each in self._pending[node.node_id]:
            self._send(session, each)

    def _give_up(self, node: SimNode) -> None:
        """The log that may have them is gone."""
        self.in_doubt += len(self._pending[node.node_id])
        self._pending[node.node_id].clear()

    def _broken(self, node: SimNode) -> None:
        self._sessions.pop(node.node_id, None)
        self._connect(node)

    def disconnect(self) -> None:
        for session in list(self._sessions.values()):
            self._desk.break_session(session)

    def _send(self, session: SimSession, pending: Pending) -> None:
        what = f"publishes {len(pending.payloads)} events to {pending.topic}/{pending.partition}"
        self._desk.schedule.tell(self.name, f"{what} at {session.node.node_id}, {pending.copies} copies asked for")
        request = Request(pending.payloads, partial(self._answered, session.node.node_id, pending))
        session.publish(pending.topic, pending.partition, pending.batch, pending.copies, request)

    def _answered(self, node: NodeId, pending: Pending, answer: Answer) -> None:
        if isinstance(answer, StorageError) and not isinstance(answer, DiskFull):
            return  # the node has failed, and nobody knows: it is sent again when the node is back
        self._pending[node].remove(pending)
        self._desk.schedule.tell(self.name, f"hears of {len(pending.payloads)} events from {node}: {answer}")
        match answer:
            case Receipt():
                if answer.copies < pending.copies:
                    raise Violation(f"{self.name} asked for {pending.copies} copies and got {answer}")
            case CopiesMissing():
                pass  # it is there, and may have been copied by now
            case DiskFull() | OutOfSequence():
                self._desk.truth.refused.update(pending.payloads)
            case _:
                raise Violation(f"{self.name} got an unexpected answer for {pending.payloads[0]!r}: {answer}")
