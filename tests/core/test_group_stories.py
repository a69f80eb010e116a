"""Groups from a subscriber's side: members share streams, and nothing handled is handed out again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.stage import Actor, Reader, Stage, ToPeer
from weft.core import BrokerSettings
from weft.core.errors import GroupDropped
from weft.core.groups import GroupSettings
from weft.core.messages import AddCredit, DropGroup, Edge, Handled, MemberKnown, MoveGroup, SendCopies, Tick
from weft.core.topics import EVERYWHERE, GROUPS_PREFIX
from weft.log.compaction import TOMBSTONE_AGE_US, compact
from weft.log.errors import PositionAhead, PositionExpired
from weft.log.retention import RetentionRule, retain
from weft.membership import Liveness
from weft.model import Batch, NodeId, parse_pattern, parse_position


def topics_of(reader: Reader) -> set[str]:
    return {each.stream.topic for each in reader.assigned[-1].positions} if reader.assigned else set()


def publish_all(stage: Stage, text: str, name: str = "a") -> None:
    for number in range(8):
        stage[name].publish(f"t.{number}", f"{number}{text}")


def test_members_share_the_streams_and_every_event_goes_to_one() -> None:
    stage = Stage("a")
    publish_all(stage, "-")
    stage.run()
    one = stage["a"].subscribe("t.*", Edge.LATEST, group="g", member="m1")
    stage.run()
    two = stage["a"].subscribe("t.*", Edge.LATEST, group="g", member="m2")
    stage.run()
    assert not topics_of(two), "it waits until the first one has let go"
    stage["a"].handled(one)
    stage.run()
    assert topics_of(one) | topics_of(two) == {f"t.{number}" for number in range(8)}
    assert topics_of(one) and topics_of(two)
    assert not topics_of(one) & topics_of(two)
    publish_all(stage, "x")
    stage.run()
    assert sorted(one.texts + two.texts) == [f"{number}x" for number in range(8)]


def test_who_leaves_is_followed_by_another_who_goes_on_behind_what_was_handled() -> None:
    stage = Stage("a")
    one = stage["a"].subscribe("t.*", group="g", member="m1")
    stage.run()
    publish_all(stage, "1")
    stage.run()
    stage["a"].handled(one)
    publish_all(stage, "2")
    stage.run()
    stage["a"].unsubscribe(one)
    two = stage["a"].subscribe("t.*", group="g", member="m2")
    stage.run()
    assert sorted(two.texts) == [f"{number}2" for number in range(8)]


def test_a_group_remembers_where_it_stands_and_misses_no_topic_that_came_meanwhile() -> None:
    stage = Stage("a")
    one = stage["a"].subscribe("t.*", group="g")
    stage["a"].publish("t.0", "seen")
    stage.run()
    stage["a"].handled(one)
    stage["a"].unsubscribe(one)
    stage.run()
    stage["a"].publish("t.0", "later")
    stage["a"].publish("t.new", "new")
    stage.run()
    stage.kill("a")
    stage.restart()
    two = stage["a"].subscribe("t.*", group="g")
    stage.run()
    assert sorted(two.texts) == ["later", "new"]


def test_a_new_group_begins_with_what_is_new_or_where_it_asks_to() -> None:
    stage = Stage("a")
    stage["a"].publish("t.0", "old")
    stage.run()
    new = stage["a"].subscribe("t.*", Edge.OWN, group="g1")
    whole = stage["a"].subscribe("t.*", Edge.EARLIEST, group="g2")
    stage.run()
    assert (new.texts, whole.texts) == ([], ["old"])


def test_a_group_that_was_moved_reads_again() -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe("t", group="g")
    stage["a"].publish("t", "1", "2", "3")
    stage.run()
    stage["a"].handled(reader)
    stage.run()
    stage["a"].step(MoveGroup(99, "g", (parse_position("t@a/0:e7:1"),)))
    assert not stage["a"].moved
    stage.run()
    stage["a"].handled(reader)
    stage.run(20.0)
    assert stage["a"].moved == [99]
    assert reader.texts == ["1", "2", "3", "2", "3"]


def test_what_was_never_given_cannot_be_handled_nor_moved_to() -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe("t", group="g")
    stage["a"].publish("t", "1")
    stage.run()
    stage["a"].step(Handled(reader.number, (parse_position("t@a/0:e7:5"),), 1))
    stage["a"].step(MoveGroup(99, "g", (parse_position("t@a/0:e7:5"),)))
    stage.run()
    assert stage["a"].log.positions("g") == [parse_position("t@a/0:e7:0")]
    assert isinstance(stage["a"].refused[99], PositionAhead)


def test_a_move_is_told_when_it_is_durable_however_full_the_disk_was() -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe("t", group="g")
    stage["a"].publish("t", "1")
    stage.run()
    stage["a"].unsubscribe(reader)
    stage.run()
    stage["a"].store.disk_bytes_max = 0
    stage["a"].step(MoveGroup(99, "g", (parse_position("t@a/0:e7:1"),)))
    stage.run()
    assert not stage["a"].moved
    stage["a"].store.disk_bytes_max = 1 << 60
    stage.run()
    assert stage["a"].moved == [99]
    assert stage["a"].log.positions("g") == [parse_position("t@a/0:e7:1")]


def test_a_group_that_retention_overtook_is_told() -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe("t", group="g")
    stage["a"].publish("t", "1", at_us=1)
    stage.run()
    stage["a"].unsubscribe(reader)
    stage["a"].log.begin_segment()
    stage["a"].publish("t", "2")
    stage.run()
    rule = RetentionRule(parse_pattern("t"), age_us_max=100_000_000)
    retain(stage["a"].log, [rule], now_us=int(stage.now_s * 1e6))
    again = stage["a"].subscribe("t", group="g")
    stage.run()
    assert isinstance(again.error, PositionExpired)
    assert again.error.facts == {"epoch": 7, "earliest": 1, "latest": 2}


def test_members_at_different_nodes_share_and_take_over() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    one = stage["b"].subscribe("t.*", Edge.EARLIEST, group="g", member="m1")
    two = stage["c"].subscribe("t.*", Edge.EARLIEST, group="g", member="m2")
    stage.run()
    publish_all(stage, "1")
    stage.run(20.0)
    assert sorted(one.texts + two.texts) == [f"{number}1" for number in range(8)]
    assert one.texts and two.texts
    for name, reader in (("b", one), ("c", two)):
        stage[name].handled(reader)
    stage.run(20.0)
    stage.kill("c")
    publish_all(stage, "2")
    stage.run(20.0)
    assert sorted(text for text in one.texts if text[1] == "2") == [f"{number}2" for number in range(8)]
    assert len(one.texts) == len(set(one.texts)), "what the other one had handled is not handed out again"


def test_a_group_does_not_get_what_is_said_about_groups() -> None:
    stage = Stage("a")
    reader = stage["a"].subscribe(">", Edge.EARLIEST, group="g")
    stage["a"].publish("t", "x")
    stage.run(20.0)
    assert reader.texts == ["x"]


def test_a_member_that_retention_overtakes_in_mid_stream_is_no_member_any_more() -> None:
    stage = Stage("a")
    actor = stage["a"]
    for number in range(3):
        actor.publish("t", str(number), at_us=number)
    stage.run()
    actor.log.begin_segment()
    actor.sync()
    actor.publish("t", "3", at_us=2_000_000_000)
    stage.run()
    slow = actor.subscribe("t", group="g", member="m1", credit=1)
    for _ in range(10):
        actor.step(Tick())
        stage.now_s += 1.0
    assert slow.texts == ["0"], "its credit ends with the first batch"
    actor.inbox.clear()
    retain(actor.log, [RetentionRule(parse_pattern("t"), age_us_max=1_000_000)], now_us=2_000_000_000)
    actor.step(AddCredit(slow.number, 10_000))
    assert isinstance(slow.error, PositionExpired)
    stage.run()
    assert actor.state.interest == tuple(sorted(EVERYWHERE)), "nobody here wants it any more"
    assert not actor.broker.group_work.groups.members("g")


# --- the ends of groups ----------------------------------------------------------------------------------------------


def kept_of(actor: Actor, group: str) -> dict[str, list[bytes]]:
    """What the log of a node still has about a group, by who said it, once it is compacted."""
    actor.log.begin_segment()
    actor.sync()
    found: dict[str, list[bytes]] = {}
    for info in actor.log.streams(parse_pattern(f"weft.groups.{group}")):
        state = actor.log.state(info.stream, info.epoch)
        compact(actor.log, state, now_us=int(actor.stage.now_s * 1e6) + 2 * TOMBSTONE_AGE_US)
        batches = map(Batch.read_stored, actor.log.read(info.stream, info.epoch, info.start))
        found[info.stream.origin] = [event.key or b"" for batch in batches for event in batch]
    return found


@pytest.mark.req("SEC-03")
def test_a_dropped_group_is_gone_from_every_log_and_its_members_are_told_why() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    one = stage["a"].subscribe("t", Edge.EARLIEST, group="g", member="m1")
    stage["a"].publish("t", "1")
    stage.run()
    stage["a"].handled(one)
    stage.run(20.0)
    stage["b"].step(DropGroup(99, "g"))
    stage["b"].step(DropGroup(98, "unknown"))
    stage.run(20.0)
    assert stage["b"].moved == [99]
    assert str(stage["b"].refused[98]) == "there is no group unknown"
    assert isinstance(one.error, GroupDropped)
    for name in "ab":
        assert stage[name].log.groups() == []
        assert kept_of(stage[name], "g") == {"a": [], "b": [b"d:"]}
    again = stage["a"].subscribe("t", Edge.EARLIEST, group="g", member="m1")
    stage.run()
    assert again.texts == ["1"], "it begins anew"


@pytest.mark.req("SEC-03")
def test_a_node_that_was_cut_off_does_not_bring_a_dropped_group_back() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    one = stage["a"].subscribe("t", Edge.EARLIEST, group="g", member="m1")
    stage["a"].publish("t", "1")
    stage.run()
    stage["a"].handled(one)
    stage.run(20.0)
    stage.cut("a-b")
    stage["b"].step(DropGroup(99, "g"))
    stage["a"].publish("t", "2")
    stage.run()
    stage["a"].handled(one)
    stage.run(20.0)
    assert one.error is None, "where nobody knows of it, it goes on"
    stage.link("a-b")
    stage.run(20.0)
    assert isinstance(one.error, GroupDropped)
    assert [stage[name].broker.group_work.groups.positions("g") for name in "ab"] == [[], []]


@pytest.mark.req("SEC-05")
def test_a_group_that_nobody_uses_leaves_nothing_in_any_log() -> None:
    stage = Stage("a", "b", settings=BrokerSettings(groups=GroupSettings(expire_after_s=1000.0)))
    stage.link("a-b")
    reader = stage["a"].subscribe("t", Edge.EARLIEST, group="g", member="m1")
    stage["a"].publish("t", "1")
    stage.run()
    stage["a"].handled(reader)
    stage.run(900.0)
    stage["a"].unsubscribe(reader)
    stage.run(900.0)
    assert all(stage[name].broker.group_work.groups.knows("g") for name in "ab")
    stage.run(200.0)
    for name in "ab":
        assert stage[name].log.groups() == [] and stage[name].broker.group_work.groups.names() == []
        assert not any(kept_of(stage[name], "g").values())
    stage.kill("b")
    stage.restart()
    stage.run()
    assert stage["b"].broker.group_work.groups.names() == []
    anew = stage["b"].subscribe("t", group="g", member="m1")
    stage.run()
    assert anew.texts == [], "it begins with what is new, as any group"


def test_a_group_that_was_forgotten_is_known_again_when_somebody_elsewhere_uses_it() -> None:
    """One side of a split has not seen it used for so long; on the other it was."""
    stage = Stage("a", "b", settings=BrokerSettings(groups=GroupSettings(expire_after_s=1000.0)))
    stage.link("a-b")
    reader = stage["a"].subscribe("t.*", Edge.EARLIEST, group="g", member="m1")
    for number in range(3):
        stage["a"].publish(f"t.{number}", "1")
    stage.run()
    stage["a"].handled(reader)
    stage.run(20.0)
    stage.cut("a-b")
    stage["b"].step(MemberKnown(replace(stage["a"].state, liveness=Liveness.DEAD)))
    stage.run(1500.0)
    assert not stage["b"].broker.group_work.groups.knows("g")
    stage.link("a-b")
    stage.gossip(stage["a"].state)
    stage["a"].publish("t.0", "2")
    stage.run()
    stage["a"].handled(reader)
    stage.run(300.0)
    stands = [stage[name].broker.group_work.groups.positions("g") for name in "ab"]
    assert stands[0] == stands[1] and len(stands[0]) == 3


class SlowTalk(Stage):
    """What one node says about groups does not reach the others until it is let through; events do."""

    def __init__(self, *names: str, speaker: str) -> None:
        self.speaker = speaker
        self.held: list[tuple[NodeId, NodeId, SendCopies]] = []
        super().__init__(*names)

    def send(self, source: NodeId, target: NodeId, effect: ToPeer) -> None:
        if isinstance(effect, SendCopies) and source == self.speaker:
            talk = tuple(each for each in effect.copies if each.stream.topic.startswith(GROUPS_PREFIX))
            if talk:
                self.held.append((source, target, SendCopies(target, talk)))
            effect = SendCopies(target, tuple(each for each in effect.copies if each not in talk))
        super().send(source, target, effect)

    def let_through(self) -> None:
        held, self.held, self.speaker = self.held, [], ""
        for each in held:
            super().send(*each)


@pytest.mark.req("CON-01")
def test_who_joins_elsewhere_begins_behind_what_was_handled_even_if_it_hears_of_that_late() -> None:
    """The first member gives streams away in order, and its node says where the group stands. The other node has the
    events, and not yet that: it knows from gossip that there is more to hear, and waits for it."""
    stage = SlowTalk("a", "b", speaker="a")
    stage.link("a-b")
    stage["b"].subscribe("t.*")  # so that the events are there
    one = stage["a"].subscribe("t.*", group="g", member="m1")
    publish_all(stage, "-")
    stage.run(1.0)
    stage["a"].handled(one)
    stage.run(1.0)
    stage["a"].say(addresses=("somewhere",))  # whatever it says of itself tells how much it has talked
    two = stage["b"].subscribe("t.*", group="g", member="m2")
    stage.run(1.0)
    stage["a"].handled(one)  # it lets go
    stage.run(2.0)
    assert not topics_of(two), "it would begin with what was handled"
    stage.let_through()
    stage.run(2.0)
    assert topics_of(two), "it has heard all there is"
    assert two.texts == []
    publish_all(stage, "+")
    stage.run(2.0)
    assert sorted(one.texts[8:] + two.texts) == [f"{number}+" for number in range(8)]
