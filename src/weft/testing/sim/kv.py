"""Clients that write and read keys, and what must be true of buckets: every answer at once, and in the end all nodes
have the same (CON-05)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

from weft.errors import WeftError
from weft.model import Epoch, NodeId
from weft.model.key_value import SETTINGS_KEY, Op, Revision
from weft.node.kv import KeyValues
from weft.port.kv import Item, Write
from weft.testing.sim.node import SimNode
from weft.testing.sim.random_client import RandomClient
from weft.testing.sim.schedule import Schedule, Violation
from weft.testing.sim.truth import EndOf, Truth

BUCKETS: Final = ("settings", "cache")
KEYS: Final = ("a", "b.c", "d")
WRITES: Final = (5, 25)
PAUSE_S_MAX: Final = 3.0
TTLS_S: Final = (None, None, None, 2.0, 20.0)

Name: TypeAlias = tuple[str, str]  # bucket and key


@dataclass(frozen=True, slots=True)
class Seen:
    """The writing of a key that counts at a node. ``mortal``: it deletes, or expires; in time it is forgotten."""

    revision: Revision
    mortal: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A writing that a node said is durable, in this life of its log."""

    name: Name
    revision: Revision
    mortal: bool
    node: NodeId
    epoch: Epoch


@dataclass(slots=True)
class KvBook:
    """What was written, and what was promised of it. ``running``: nodes that are up."""

    truth: Truth
    running: Callable[[], Sequence[SimNode]]
    values: dict[Name, set[bytes]] = field(default_factory=dict)  # that somebody tried to write
    in_doubt: dict[Name, int] = field(default_factory=dict)  # writings without an answer that delete or expire
    acknowledged: list[Acknowledged] = field(default_factory=list)
    reads: int = 0

    # --- every answer ---

    def sends(self, name: Name, value: bytes, *, mortal: bool) -> None:
        """Nobody knows whether a node that dies has written it."""
        self.values.setdefault(name, set()).add(value)
        self.in_doubt[name] = self.in_doubt.get(name, 0) + mortal

    def answered(self, acknowledged: Acknowledged) -> None:
        self.acknowledged.append(acknowledged)
        self.in_doubt[acknowledged.name] -= acknowledged.mortal

    def check_read(self, who: str, name: Name, item: Item | None) -> None:
        self.reads += 1
        if item is not None and item.value not in self.values.get(name, ()):
            raise Violation(f"{who} reads {item.value!r} from {name}, and nobody wrote that")

    def check_own(self, who: str, name: Name, own: Revision, latest: Seen | None, *, gone_early: bool) -> None:
        """What was written through a node can be read there, until its time comes or another write wins."""
        if latest is None or latest.revision < own:
            raise Violation(f"{who} wrote {name} at {own}, and then there is {latest}")
        if latest.revision == own and gone_early:
            raise Violation(f"{who} wrote {name} at {own}, and it is gone before its time")

    # --- the end ---

    def lacks(self, end_of: EndOf) -> str:
        """Where two nodes still differ, or what was promised and is not there."""
        if not self.values:
            return ""
        views = {node.node_id: view_of(node.machinery.kv) for node in self.running()}
        for name in sorted(self.values):
            found = {node: view.get(name) for node, view in views.items()}
            if trouble := difference(found):
                return f"nodes differ about {name}: {trouble}"
        for node, view in views.items():
            for each in self.acknowledged:
                if trouble := self._missing(each, view.get(each.name)):
                    return f"{node} {trouble}"
        return ""

    def _missing(self, each: Acknowledged, latest: Seen | None) -> str:
        is_lost = (each.node, each.epoch) in self.truth.lost  # with its disk; a writer that asks for copies has them
        if is_lost or not any(node.node_id == each.node for node in self.running()):
            return ""
        if latest is not None:
            return "" if latest.revision >= each.revision else f"has {latest} of {each.name}, and lost {each}"
        later = max((other for other in self.acknowledged if other.name == each.name), key=lambda one: one.revision)
        return "" if later.mortal or self.in_doubt[each.name] else f"has nothing of {each.name}, and lost {each}"


def difference(found: dict[NodeId, Seen | None]) -> str:
    """What nodes do not agree on; some may have forgotten already that there was something."""
    writings = {each for each in found.values() if each is not None}
    if len(writings) > 1:
        return str({node: None if each is None else str(each.revision) for node, each in found.items()})
    if None in found.values() and any(not each.mortal for each in writings):
        return f"{sorted(node for node, each in found.items() if each is None)} have nothing of {writings}"
    return ""


def view_of(store: KeyValues) -> dict[Name, Seen]:
    return {
        (bucket.name, entry.key): Seen(entry.revision, entry.op is Op.DELETE or entry.expires_ms > 0)
        for bucket in store.state
        for entry in bucket.entries()
        if entry.key != SETTINGS_KEY
    }


class SimKvClient(RandomClient):
    """Writes and reads."""

    def __init__(self, name: str, schedule: Schedule, chance: Random, nodes: Sequence[SimNode], book: KvBook) -> None:
        writes, pause_s_max = chance.randint(*WRITES), chance.choice([0.05, 0.5, PAUSE_S_MAX])
        super().__init__(name, schedule, chance, nodes, writes, pause_s_max)
        self._book = book

    def act(self, node: SimNode) -> None:
        node.loop.run_on(lambda: node.loop.create_task(self._work(node)))

    async def _work(self, node: SimNode) -> None:
        bucket, key = self._chance.choice(BUCKETS), self._chance.choice(KEYS)
        try:
            if self._chance.random() < 0.2:
                self._book.check_read(self.name, (bucket, key), await node.machinery.kv.get(bucket, key, None))
            else:
                await self._write(node, bucket, key)
        except WeftError as error:
            self._schedule.note(self.name, f"is refused by {node.node_id}: {error}")

    async def _write(self, node: SimNode, bucket: str, key: str) -> None:
        deletes, ttl_s = self._chance.random() < 0.2, self._chance.choice(TTLS_S)
        value = f"{self.name} {next(self._numbers)}".encode()
        name, mortal = (bucket, key), deletes or ttl_s is not None
        self._book.sends(name, value, mortal=mortal)
        store, epoch = node.machinery.kv, node.log.epoch
        begin_ms = store.now_ms()  # its own clock, which drifts apart from that of the machine
        ttl_s = None if deletes else ttl_s
        revision = await store.write(Write(bucket, key, None if deletes else value, self.name, ttl_s))
        self._book.answered(Acknowledged(name, revision, mortal, node.node_id, epoch))
        item = await store.get(bucket, key, None)
        self._book.check_read(self.name, name, item)
        is_over = deletes or (ttl_s is not None and store.now_ms() + 1 >= begin_ms + ttl_s * 1000)
        latest = view_of(store).get(name)
        self._book.check_own(self.name, name, revision, latest, gone_early=item is None and not is_over)
