"""What a caller may make and send, counted: what is refused, with which words, and what waiting changes."""

from __future__ import annotations

import pytest

from weft.core.groups import Groups, GroupSettings
from weft.limits import PARTITIONS_MAX
from weft.log import Log, MemoryStore, open_store
from weft.model import Batch, Epoch, NodeId, Stream, parse_topic
from weft.port.access import Caller
from weft.port.errors import Busy, QuotaUsedUp
from weft.port.quotas import PARTITIONS_OF_TOPIC, Quotas, Usage
from weft.security import Acl
from weft.security.quota import Quota

ME = NodeId("me")


class QuotaCaller(Caller):
    def __init__(self, who: str, quota: Quota | None = None) -> None:
        super().__init__(Acl(who, (), ()), lambda error, who: None)
        self._quota = quota

    @property
    def quota(self) -> Quota | None:
        return self._quota


@pytest.fixture
def log() -> Log:
    return open_store(MemoryStore(), lambda: Epoch(7), disk_reserve_bytes=0)


def usage(**quota: int) -> Usage:
    return Quotas(Quota(**quota)).usage(QuotaCaller("key k1"))


@pytest.mark.req("SEC-05")
def test_topics_that_it_made_count_and_those_of_others_do_not(log: Log) -> None:
    log.append(Stream(parse_topic("there.already"), ME, 0), Batch.from_columns([b"x"], 0))
    log.sync()
    mine = usage(topics=2)
    for name in ("a", "b", "a", "there.already"):
        mine.publish(log, ME, parse_topic(name), 1, 10, 0.0)
    with pytest.raises(QuotaUsedUp, match="key k1 has as many topics as it may") as caught:
        mine.publish(log, ME, parse_topic("c"), 1, 10, 0.0)
    assert caught.value.facts == {"name": "c", "used": 2, "limit": 2}


@pytest.mark.req("SEC-05")
def test_partitions_of_a_topic_count_once_they_are_many(log: Log) -> None:
    """Each is a stream: with a quota of one topic, a key could make 65,536 of them."""
    mine, topic = usage(topics=2), parse_topic("t")
    for partition in (5, 0, PARTITIONS_OF_TOPIC - 1, PARTITIONS_OF_TOPIC + 7, 2 * PARTITIONS_OF_TOPIC - 1):
        mine.publish(log, ME, topic, 1, 10, 0.0, partition)
    assert mine.used()["topics"] == 2
    with pytest.raises(QuotaUsedUp):
        mine.publish(log, ME, topic, 1, 10, 0.0, PARTITIONS_MAX - 1)


@pytest.mark.req("SEC-05")
def test_a_partition_that_is_there_already_is_not_created_again(log: Log) -> None:
    topic, partition = parse_topic("t"), 2 * PARTITIONS_OF_TOPIC + 3
    log.append(Stream(topic, ME, partition), Batch.from_columns([b"x"], 0))
    log.sync()
    mine = usage(topics=1)
    mine.publish(log, ME, topic, 1, 10, 0.0, partition)
    assert mine.used()["topics"] == 0


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize(("what", "events", "size"), [("events", 60, 1), ("bytes", 1, 60)])
def test_rates_are_refused_with_the_wait_that_helps(log: Log, what: str, events: int, size: int) -> None:
    mine = usage(**{f"{what}_per_s": 100})
    topic = parse_topic("t")
    mine.publish(log, ME, topic, events, size, 10.0)
    mine.publish(log, ME, topic, events, size, 10.0)
    with pytest.raises(Busy, match=f"too many {what} per second") as caught:
        mine.publish(log, ME, topic, events, size, 10.0)
    assert caught.value.facts["limit"] == f"100 {what}/s"
    assert caught.value.facts["who"] == "key k1" and caught.value.facts["topic"] == "t"
    mine.publish(log, ME, topic, events, size, 10.0 + float(str(caught.value.facts["wait_s"])))


def test_one_batch_may_be_more_than_a_second_is_worth(log: Log) -> None:
    mine = usage(bytes_per_s=100)
    mine.publish(log, ME, parse_topic("t"), 1, 1000, 0.0)
    with pytest.raises(Busy):
        mine.publish(log, ME, parse_topic("t"), 1, 1, 8.0)
    mine.publish(log, ME, parse_topic("t"), 1, 1, 9.1)


@pytest.mark.req("SEC-05")
def test_subscriptions_come_back_and_groups_that_exist_are_not_made() -> None:
    mine = usage(subscriptions=1, groups=1)
    mine.subscribe()
    with pytest.raises(QuotaUsedUp, match="as many subscriptions"):
        mine.subscribe()
    mine.unsubscribed()
    mine.subscribe()
    groups = Groups(ME, GroupSettings(), lambda group: [])
    groups.move("others", [], 0.0)
    for group in ("mine", "others", "mine"):
        mine.use_group(groups, group)
        groups.move(group, [], 0.0)
    with pytest.raises(QuotaUsedUp, match="as many groups") as caught:
        mine.use_group(groups, "another")
    assert caught.value.facts == {"name": "another", "used": 1, "limit": 1}


@pytest.mark.req("SEC-05")
def test_a_group_that_is_forgotten_makes_room_for_another() -> None:
    """One that was dropped is not, for a while: otherwise a key could have the mesh remember any number of them."""
    mine, settings = usage(groups=1), GroupSettings()
    groups = Groups(ME, settings, lambda group: [])
    mine.use_group(groups, "one")
    groups.move("one", [], 0.0)
    groups.drop("one", 1.0)
    with pytest.raises(QuotaUsedUp, match="as many groups"):
        mine.use_group(groups, "two")
    mine.use_group(groups, "one")
    groups.tick(1.0 + settings.expire_after_s)
    mine.use_group(groups, "two")


@pytest.mark.req("SEC-05")
def test_a_key_has_its_own_quota_and_the_nodes_for_the_rest() -> None:
    quotas = Quotas(Quota(topics=5, groups=5))
    assert quotas.usage(QuotaCaller("key k1", Quota(topics=9))).quota == Quota(topics=9, groups=5)
    assert quotas.usage(QuotaCaller("key k2")).quota == Quota(topics=5, groups=5)
    one = quotas.usage(QuotaCaller("key k1", Quota(topics=9)))
    assert quotas.usage(QuotaCaller("key k1", Quota(topics=10))) is one and one.quota.topics == 10
