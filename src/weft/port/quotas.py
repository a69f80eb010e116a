"""How much a caller may make and send: topics, groups, subscriptions, events and bytes per second (SEC-05).

A key may have a quota of its own (``weft keys create --quota``); what that leaves open is the node's default. What is
counted is counted by this node, since it started.
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
SEEN_MAX: Final = 16_384  # topics of one caller that need no second look


class Quotas:
    """What each caller has used. ``otherwise`` holds for what its own quota does not say."""

    def __init__(self, otherwise: Quota) -> None:
        self._otherwise = otherwise
        self._usages: OrderedDict[str, Usage] = OrderedDict()

    def usage(self, caller: Caller) -> Usage:
        """As the key says now: a quota that was changed counts from the next call on."""
        quota = self.quota_of(caller.quota)
        usage = self._usages.pop(caller.who, None) or Usage(caller.who)
        usage.quota = quota
        self._usages[caller.who] = usage
        if len(self._usages) > USAGES_MAX:
            self._usages.popitem(last=False)
        return usage

    def quota_of(self, own: Quota | None) -> Quota:
        """What holds for somebody with this quota of their own."""
        return self._otherwise if own is None else own.or_else(self._otherwise)

    def used(self, who: str) -> dict[str, int]:
        """What a caller has used of what is counted."""
        usage = self._usages.get(who)
        return {} if usage is None else usage.used()


class Usage:
    """Of one caller. Every check raises QuotaUsedUp, or Busy where waiting helps."""

    def __init__(self, who: str) -> None:
        self.quota = Quota()
        self.subscriptions = 0
        self._who = who
        self._topics = 0  # that it made
        self._seen: set[Topic] = set()  # that it published to
        self._groups: set[str] = set()  # that it made
        self._debts = {"events": Debt(), "bytes": Debt()}

    def used(self) -> dict[str, int]:
        return {"topics": self._topics, "groups": len(self._groups), "subscriptions": self.subscriptions}

    def publish(self, log: Log, me: NodeId, topic: Topic, events: int, size: int, now_s: float) -> None:
        """Before a batch is taken."""
        if topic not in self._seen:
            self._see(log, me, topic)
        quota = self.quota
        if quota.events_per_s is not None or quota.bytes_per_s is not None:
            self._count(topic, events, size, now_s)

    def ask(self, topic: Topic, size: int, now_s: float) -> None:
        """Before a request is taken: it counts as an event, and makes no topic."""
        self._count(topic, 1, size, now_s)

    def _count(self, topic: Topic, events: int, size: int, now_s: float) -> None:
        quota = self.quota
        if quota.events_per_s is not None:
            self._spend("events", events, quota.events_per_s, topic, now_s)
        if quota.bytes_per_s is not None:
            self._spend("bytes", size, quota.bytes_per_s, topic, now_s)

    def _see(self, log: Log, me: NodeId, topic: Topic) -> None:
        if self.quota.topics is not None and log.find(Stream(topic, me, 0), Epoch(log.epoch)) is None:
            self._check("topics", self._topics, self.quota.topics, topic)
            self._topics += 1
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen.add(topic)

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
        """One more; ``unsubscribed`` gives it back."""
        self._check("subscriptions", self.subscriptions, self.quota.subscriptions, None)
        self.subscriptions += 1

    def unsubscribed(self) -> None:
        self.subscriptions -= 1

    def use_group(self, groups: Groups, group: str) -> None:
        """Before it joins or moves a group, which it may be the first to name.

        One that was dropped counts until the mesh need not remember that; then, as when it has expired, there is room
        for another.
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
    """What was spent and has not been earned back. One thing may always be begun when there is no debt, however large
    it is."""

    def __init__(self) -> None:
        self._debt = 0.0
        self._at_s = 0.0

    def spend(self, amount: int, per_s: int, now_s: float) -> float:
        """0, or how long to wait first: then nothing was spent. A second's worth may be spent at once."""
        debt = max(self._debt - (now_s - self._at_s) * per_s, 0.0)
        if debt >= per_s:
            return (debt - per_s) / per_s + 1 / per_s
        self._debt, self._at_s = debt + amount, now_s
        return 0.0
