"""What a step looks at does not grow with what has nothing to do with it: counted, not timed (SEC-05).

``bench.growth`` shows the time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.core.stage import Reader, Stage
from weft.core import broker, errands, outgoing, resuming, routes
from weft.core.groups.group import Group
from weft.core.messages import Edge, LinkUp, MemberKnown, ReceivedPlainAck, Subscribe, TellInterest, Tick
from weft.core.plain import PlainLink
from weft.core.replication import Replication
from weft.core.routes import MERGED_PATTERNS_MAX, told_interest
from weft.core.settings import InterestSettings
from weft.limits import INTEREST_PATTERNS_MAX
from weft.membership import NodeState
from weft.model import Epoch, NodeId, covers, parse_pattern, parse_topic
from weft.routing import finished


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[Any]]:
    """Calls of a function from now on, by their first argument."""

    def counting(owner: Any, name: str) -> list[Any]:
        calls: list[Any] = []
        real = getattr(owner, name)

        def counted(first: Any, *rest: Any) -> Any:
            calls.append(first)
            return real(first, *rest)

        monkeypatch.setattr(owner, name, counted)
        return calls

    return counting


@pytest.mark.req("SEC-05")
def test_a_new_topic_is_told_to_groups_that_want_it(count: Callable[[Any, str], list[Any]]) -> None:
    stage = Stage("a")
    for number in range(50):
        stage["a"].subscribe(f"idle.{number}.>", group=f"g{number}", member="m")
    wanting = stage["a"].subscribe("busy.>", group="busy", member="m")
    stage.run()
    calls = count(Group, "stream_known")
    stage["a"].publish("busy.new", "x")
    stage.run()
    assert {each.name for each in calls} == {"busy"}
    assert wanting.texts == ["x"]


@pytest.mark.req("SEC-05")
def test_groups_that_have_nothing_to_do_are_not_looked_at(count: Callable[[Any, str], list[Any]]) -> None:
    stage = Stage("a")
    for number in range(50):
        stage["a"].subscribe(f"idle.{number}.>", group=f"g{number}", member="m")
    stage.run()
    calls = count(Group, "tick")
    stage["a"].publish("busy.t", "x")
    stage.run()
    assert calls == []


@pytest.mark.req("SEC-05")
def test_subscriptions_that_go_together_are_looked_at_once(count: Callable[[Any, str], list[Any]]) -> None:
    """3,000 that were dropped took minutes: all that were left were looked at for each."""
    stage = Stage("a")
    readers = [stage["a"].subscribe(f"idle.{number}.t") for number in range(2 * MERGED_PATTERNS_MAX)]
    stage.run()
    calls = count(routes, "aggregate")
    for reader in readers[:-1]:
        stage["a"].unsubscribe(reader)
    stage["a"].publish("busy.t", "x")
    assert len(calls) <= 2


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize("shape", ["{}.t", "plant.{}.t", "plant.line.{}.t", "plant.line.cell.{}", "{}"])
def test_very_many_patterns_are_cut_and_still_covered(count: Callable[[Any, str], list[Any]], shape: str) -> None:
    patterns = [parse_pattern(shape.format(f"x{number}")) for number in range(5000)]
    calls = count(routes, "aggregate")
    told = finished(told_interest(dict.fromkeys(patterns, 0), InterestSettings()))
    assert all(len(each) <= MERGED_PATTERNS_MAX for each in calls)
    assert len(told.patterns) <= INTEREST_PATTERNS_MAX and told.capped
    assert all(any(covers(wide, each) for wide in told.patterns) for each in patterns[::50])


@pytest.mark.req("SEC-05")
def test_what_comes_in_one_turn_is_told_and_followed_once(count: Callable[[Any, str], list[Any]]) -> None:
    """A turn may have hundreds of steps, and on a busy machine each takes so long that it is due again by the next."""
    stage = Stage("a")
    core = stage["a"].broker
    core.step(Tick(), stage.now_s)
    told, followed = count(broker, "told_interest"), count(Replication, "follow_routes")
    for number in range(20):
        now_s = stage.now_s + number
        core.step(Subscribe(number, parse_pattern(f"s.{number}.>"), Edge.LATEST, 1 << 20), now_s)
        core.step(MemberKnown(NodeState(NodeId(f"b{number}"), 1, 1, Epoch(1), neighbours=(NodeId("a"),))), now_s)
    assert (len(told), len(followed)) == (1, 1)
    due_s = core.get_timer()
    assert due_s is not None and due_s <= stage.now_s + 20, "the rest is for the next turn"
    effects = core.step(Tick(), stage.now_s + 20)
    assert (len(told), len(followed)) == (2, 2)
    assert [len(each.patterns) for each in effects if isinstance(each, TellInterest)] == [23], "with three of the mesh"


@pytest.mark.req("SEC-05")
def test_an_ack_of_a_plain_peer_is_for_one_topic(count: Callable[[Any, str], list[Any]]) -> None:
    """With 10,000 topics, each ack and each sync held up the loop for ten milliseconds."""
    stage = Stage("a")
    for number in range(50):
        stage["a"].publish(f"plant.t{number}", "x")
    stage["a"].step(LinkUp(NodeId("old"), plain=True))
    stage.run()
    assert len(stage["a"].plain) == 50
    calls = count(PlainLink, "_events")
    stage["a"].step(ReceivedPlainAck(NodeId("old"), parse_topic("plant.t7"), 0))
    assert len(calls) == 1
    calls.clear()
    stage["a"].publish("plant.t8", "y")
    stage.run()
    assert 1 <= len(calls) <= 2
    assert stage["a"].plain[-1].payload == b"y"


@pytest.mark.req("SEC-05")
def test_a_peer_that_has_everything_is_looked_at_some_streams_at_a_time(
    count: Callable[[Any, str], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that came back with a hundred thousand streams held up the loop for seconds."""
    monkeypatch.setattr(outgoing, "LOOKS_MAX", 8)
    stage = Stage("a", "b")
    reader = stage["b"].subscribe("plant.>")
    for number in range(50):
        stage["a"].publish(f"plant.t{number}", "x")
    stage.link("a-b")
    stage.run()
    calls = count(outgoing.Outgoing, "_read")
    looks = []
    pump = outgoing.Outgoing.pump

    def pumped(self: outgoing.Outgoing, *rest: Any) -> Any:
        before = len(calls)
        copies = pump(self, *rest)
        looks.append(len(calls) - before)
        return copies

    monkeypatch.setattr(outgoing.Outgoing, "pump", pumped)
    stage.cut("a-b")
    stage.link("a-b")
    stage["a"].publish("plant.t49", "y")
    stage.run()
    assert sum(looks) >= 50 and max(looks) <= 8
    assert reader.texts[-1] == "y"


def _largest(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[int]:
    """How many streams each step of a core looked at, in these functions of Outgoing."""
    looks = [0]
    for name in names:
        real = getattr(outgoing.Outgoing, name)

        def counted(*arguments: Any, real: Any = real) -> Any:
            looks[-1] += 1
            return real(*arguments)

        monkeypatch.setattr(outgoing.Outgoing, name, counted)
    step = broker.Broker.step

    def stepped(*arguments: Any) -> Any:
        looks.append(0)
        return step(*arguments)

    monkeypatch.setattr(broker.Broker, "step", stepped)
    return looks


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "STEPS_AT_ONCE", 8)
    monkeypatch.setattr(errands, "BEGINNING_STEPS", 1)
    monkeypatch.setattr(resuming, "WALKED_AT_ONCE", 4)
    monkeypatch.setattr(resuming, "RESUME_POSITIONS_MAX", 7)


def _with_streams(count: int) -> tuple[Stage, Reader]:
    """Of two nodes with these streams each, that know each other's."""
    stage = Stage("a", "b")
    readers = [stage[name].subscribe("plant.>") for name in "ab"]
    for number in range(count):
        stage["a"].publish(f"plant.t{number}", f"x{number}")
        stage["b"].publish(f"plant.t{number}", f"y{number}")
    stage.link("a-b")
    stage.run()
    assert len(readers[0].texts) == len(readers[1].texts) == 2 * count
    return stage, readers[1]


@pytest.mark.req("SEC-05", "PL-04")
def test_a_link_that_comes_back_is_resumed_some_streams_at_a_time(
    few_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40,000 streams held up the loop for one to four seconds."""
    stage, reader = _with_streams(50)
    stage.cut("a-b")
    for number in (3, 49, 50):
        stage["a"].publish(f"plant.t{number}", f"z{number}")
    reader.batches.clear()
    looks = _largest(monkeypatch, "resume")
    stage.link("a-b")
    stage["a"].publish("plant.t51", "meanwhile")
    stage.run()
    assert sum(looks) >= 100 and max(looks) <= 8
    assert sorted(reader.texts) == ["meanwhile", "z3", "z49", "z50"], "each of them once"


@pytest.mark.req("SEC-05")
def test_streams_are_looked_at_again_some_at_a_time_when_the_mesh_changes(
    few_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40,000 streams held up the loop for half a second with each new pattern anywhere, and for each link."""
    stage, reader = _with_streams(50)
    looks = _largest(monkeypatch, "look_again")
    stage["b"].unsubscribe(reader)
    stage.run()
    other = stage["b"].subscribe("plant.t7", Edge.LATEST)
    stage.run()
    stage["a"].publish("plant.t7", "new")
    stage["a"].publish("plant.t8", "unwanted")
    stage.run()
    assert sum(looks) >= 100 and max(looks) <= 8
    assert other.texts == ["new"]
    assert [each.wanted for each in stage["a"].broker.replication.links[NodeId("b")].outgoing.cursors.values()].count(
        True
    ) == 1


@pytest.mark.req("SEC-05")
def test_a_link_that_ends_is_forgotten_some_streams_at_a_time(
    few_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, _ = _with_streams(50)
    ended = stage["a"].broker.replication.links[NodeId("b")].outgoing
    left = [len(ended.cursors)]
    step = broker.Broker.step

    def stepped(*arguments: Any) -> Any:
        effects = step(*arguments)
        left.append(len(ended.cursors))
        return effects

    monkeypatch.setattr(broker.Broker, "step", stepped)
    stage.cut("a-b")
    stage["a"].publish("plant.t7", "nobody is told")
    stage.run()
    assert max(before - after for before, after in pairwise(left)) <= 8 and left[-1] == 0
    followers = stage["a"].broker.replication._followers
    assert not followers._of and not followers.ready


@pytest.mark.req("PL-04")
def test_a_link_that_ends_while_it_is_resumed_is_resumed_when_it_comes_back(
    few_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, reader = _with_streams(50)
    stage.cut("a-b")
    for number in range(50):
        stage["a"].publish(f"plant.t{number}", f"z{number}")
    reader.batches.clear()
    looks = _largest(monkeypatch, "resume")
    stage.link("a-b")
    stage.run(until=lambda: sum(looks) >= 20)
    assert sum(looks) < 50 and stage["a"].broker.replication.has_errands, "it is not done yet"
    stage.cut("a-b")
    stage.link("a-b")
    stage.run()
    assert sorted(reader.texts) == sorted(f"z{number}" for number in range(50))
