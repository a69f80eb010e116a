"""Nodes without sockets in a simulated network: datagrams that are lost, doubled and late, all from one seed."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from random import Random
from uuid import UUID

from weft.datagram_node import Instant
from weft.emm.event import Event, Refusal
from weft.emm.session import EmmSession
from weft.emm.settings import Settings
from weft.wire.emm import Credentials, TrustStore
from weft.wire.udp import Address, Datagram, Outgoing

KEY_ID = b"key1"
UNIX_S = 1_700_000_000.0


def node_id(number: int) -> UUID:
    return UUID(int=number + 1)


def secret(number: int) -> bytes:
    return bytes([number + 1]) * 32


def trust_of(nodes: int) -> TrustStore:
    store = TrustStore()
    for number in range(nodes):
        store.add_hmac_key(node_id(number), KEY_ID, secret(number))
    return store


@dataclass
class World:
    """``nodes[n]`` is at address ("n", n). Time moves with ``run``."""

    count: int
    settings: Settings = field(default_factory=Settings)
    loss: float = 0.0
    doubling: float = 0.0
    seed: int = 0
    delay_s: float = 0.01
    now_s: float = 100.0

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)  # noqa: S311 (the same seed, the same story)
        self.cut: set[int] = set()  # nodes that nobody reaches
        self.wire: list[Outgoing] = []  # everything that was ever sent
        self.refused: list[Refusal] = []
        self.events: dict[int, list[Event]] = {number: [] for number in range(self.count)}
        self._under_way: list[tuple[float, int, int, Datagram]] = []
        self._numbers = count()
        trust = trust_of(self.count)
        self.nodes = [self._node(number, trust) for number in range(self.count)]

    def _node(self, number: int, trust: TrustStore) -> EmmSession:
        credentials = Credentials(KEY_ID, hmac_key=secret(number))
        return EmmSession(
            node_id(number), credentials, trust, self.settings, self.at, self.chance.getrandbits, self.refused.append
        )

    @property
    def at(self) -> Instant:
        return Instant(self.now_s, UNIX_S + self.now_s)

    def address(self, number: int) -> Address:
        return f"n{number}", number

    def join(self, one: int, other: int) -> None:
        self.nodes[one].seek(self.address(other), self.at)

    def publish(self, number: int, name: str, *values: object, urgent: bool = False) -> int:
        return self.nodes[number].publish(name, values, urgent, self.at)  # type: ignore[arg-type]

    def send(self, number: int, data: bytes, source: Address = ("stranger", 99), ttl: int = 64) -> None:
        """A datagram from nowhere."""
        self.nodes[number].receive_datagrams([Datagram(data, source, ttl, 0)], self.at)

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while True:
            for number in range(self.count):
                self._collect(number)
            timers = [(session.get_timer(), number) for number, session in enumerate(self.nodes)]
            due_s, number = min(timers)
            arrival_s = self._under_way[0][0] if self._under_way else float("inf")
            if min(due_s, arrival_s) > end_s:
                break
            if arrival_s <= due_s:
                self.now_s = max(self.now_s, arrival_s)
                _, _, target, datagram = heapq.heappop(self._under_way)
                if target not in self.cut:
                    self.nodes[target].receive_datagrams([datagram], self.at)
            else:
                self.now_s = max(self.now_s, due_s)
                self.nodes[number].handle_timer(self.at)
        self.now_s = end_s

    def _collect(self, number: int) -> None:
        session = self.nodes[number]
        for outgoing in session.datagrams_to_send(self.at):
            self.wire.append(outgoing)
            if number in self.cut:
                continue
            for _ in range(2 if self.chance.random() < self.doubling else 1):
                if self.chance.random() >= self.loss:
                    self._carry(number, outgoing)
        while (event := session.next_event()) is not None:
            self.events[number].append(event)

    def _carry(self, number: int, outgoing: Outgoing) -> None:
        late_s = self.now_s + self.delay_s * (1 + self.chance.random())
        datagram = Datagram(outgoing.data, self.address(number), outgoing.ttl, outgoing.tos)
        heapq.heappush(self._under_way, (late_s, next(self._numbers), outgoing.target[1], datagram))

    def names(self, number: int) -> list[str]:
        return [event.name for event in self.events[number]]
