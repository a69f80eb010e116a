"""How much a caller may make and send: topics, groups, subscriptions, events and bytes per second (SEC-05).

A key may have its own quota (``weft keys create --quota``); the node's default holds for other keys, and for what the
key's quota leaves open. Each node counts for itself, from its start on.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from weft.core.groups import Groups, parse_group
from weft.log import Log
from weft.model import Epoch, NodeId, Stream, Topic
from weft.port.access import Caller
from weft.port.errors import Busy, QuotaUsedUp
from weft.security.quota import Quota

USAGES_MAX: Final = 10_000  # callers that are remembered: as many as there can be keys
SEEN_MAX: Final = 16_384  # topics of one caller that are already checked
PARTITIONS_OF_TOPIC: Final = 64  # that count as one topic: each partition is a stream, which takes some KiB of memory


class Quotas:
    """What each caller has used. ``otherwise`` is the quota for everything that the caller's own quota does not set."""

    def __init__(self, otherwise: Quota) -> None:
        self._otherwise = otherwise
        self._usages: OrderedDict[str, Usage] = OrderedDict()

    def usage(self, caller: Caller) -> Usage:
        """What a caller has used, and its current quota. A new quota counts from the next call of this on."""
        quota = self.quota_of(caller.quota)
        usage = self._usages.pop(caller.who, None) or Usage(caller.who)
        usage.quota = quota
        self._usages[caller.who] = usage
        if len(self._usages) > USAGES_MAX:
            self._usages.popitem(last=False)
        return usage

    def quota_of(self, own: Quota | None) -> Quota:
        """The quota that holds for a caller with this quota of its own (None: without one)."""
        return self._otherwise if own is None else own.or_else(self._otherwise)

    def used(self, who: str) -> dict[str, int]:
        """How much a caller has used of everything that is counted."""
        usage = self._usages.get(who)
        return {} if usage is None else usage.used()


class Usage:
    """What one caller has used. A check that fails raises QuotaUsedUp, or Busy if waiting helps."""

    def __init__(self, who: str) -> None:
        self.quota = Quota()
        self.subscriptions = 0
        self._who = who
        self._topics = 0  # topics that it created
        self._seen: set[tuple[Topic, int]] = set()  # topics to which it published, with the block of partitions
        self._groups: set[str] = set()  # groups that it created
        self._debts = {"events": Debt(), "bytes": Debt()}

    def used(self) -> dict[str, int]:
        return {"topics": self._topics, "groups": len(self._groups), "subscriptions": self.subscriptions}

    def publish(
        self, log: Log, me: NodeId, topic: Topic, events: int, size: int, now_s: float, partition: int = 0
    ) -> None:
        """Check before a batch is accepted."""
        if (topic, partition // PARTITIONS_OF_TOPIC) not in self._seen:
            self._see(log, me, topic, partition)
        quota = self.quota
        if quota.events_per_s is not None or quota.bytes_per_s is not None:
            self._count(topic, events, size, now_s)

    def ask(self, topic: Topic, size: int, now_s: float) -> None:
        """Check before a request is accepted: it counts as an event, and creates no topic."""
        self._count(topic, 1, size, now_s)

    def _count(self, topic: Topic, events: int, size: int, now_s: float) -> None:
        quota = self.quota
        if quota.events_per_s is not None:
            self._spend("events", events, quota.events_per_s, topic, now_s)
        if quota.bytes_per_s is not None:
            self._spend("bytes", size, quota.bytes_per_s, topic, now_s)

    def _see(self, log: Log, me: NodeId, topic: Topic, partition: int) -> None:
        block = partition // PARTITIONS_OF_TOPIC
        streams = (Stream(topic, me, each) for each in (block * PARTITIONS_OF_TOPIC, partition))
        if self.quota.topics is not None and all(log.find(each, Epoch(log.epoch)) is None for each in streams):
            self._check("topics", self._topics, self.quota.topics, topic)
            self._topics += 1
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen.add((topic, block))

    def _spend(self, what: str, amount: int, per_s: int, topic: Topic, now_s: float) -> None:
        wait_s = self._debts[what].spend(amount, per_s, now_s)
        if wait_s > 0:
            raise Busy(
                f"too many {what} per second",
                who=self._who,
                topic=topic,
                limit=f"{per_s} {what}/s",
                wait_s=round(wait_s, 3),
            )

    def subscribe(self) -> None:
        """Count one more subscription; ``unsubscribed`` gives it back."""
        self._check("subscriptions", self.subscriptions, self.quota.subscriptions, None)
        self.subscriptions += 1

    def unsubscribed(self) -> None:
        self.subscriptions -= 1

    def use_group(self, groups: Groups, group: str) -> None:
        """Check before the caller joins or moves a group, which may create the group.

        A group that was dropped or has expired counts until the mesh need not remember it. Then the caller may create
        another one.
        """
        if group in self._groups or self.quota.groups is None or groups.knows(parse_group(group)):
            return
        if len(self._groups) >= self.quota.groups:
            self._groups = {each for each in self._groups if groups.remembers(each)}
        self._check("groups", len(self._groups), self.quota.groups, group)
        self._groups.add(group)

    def _check(self, what: str, used: int, limit: int | None, where: str | None) -> None:
        if limit is not None and used >= limit:
            facts = {} if where is None else {"name": where}
            raise QuotaUsedUp(f"{self._who} has as many {what} as it may", **facts, used=used, limit=limit)


class Debt:
    """What a caller has spent and not earned back yet. Without debt, it may always spend once, however much that is."""

    def __init__(self) -> None:
        self._debt = 0.0
        self._at_s = 0.0

    def spend(self, amount: int, per_s: int, now_s: float) -> float:
        """Spend this amount and return 0; or spend nothing and return how long to wait first. One may spend what a
        second earns at once."""
        debt = max(self._debt - (now_s - self._at_s) * per_s, 0.0)
        if debt >= per_s:
            return (debt - per_s) / per_s + 1 / per_s
        self._debt, self._at_s = debt + amount, now_s
        return 0.0
