"""One subscription: what goes out, what an answer moves, and streams that go to another member of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from tests.gateway.exmp.fakes import FakeMesh, delivered, position
from weft.core.messages import AddCredit, Delivered, Edge, Handled
from weft.errors import WeftError
from weft.gateway.exmp.feed import EXMP_EVENTS_AT_ONCE, Feed
from weft.model import Pattern
from weft.port.held import Use
from weft.port.node import MeshNode
from weft.transport.tcp import BadAnswer, LinkLost
from weft.wire.exmp import Failure, Success


class Scene:
    def __init__(self, window: int = 4, group: str = "") -> None:
        self.mesh = FakeMesh()
        self.over: list[WeftError] = []
        self.feed = Feed(
            cast(MeshNode, self.mesh),
            self.mesh.held.holding("a client", Use.SUBSCRIBE),
            1,
            window,
            lambda: None,
            lambda _, error: self.over.append(error),
        )
        self.feed.open(Pattern(">"), Edge.EARLIEST, group, "m" if group else "", owner="")

    def sent(self) -> list[tuple[str, int]]:
        """All events that may go out now."""
        events = []
        while (event := self.feed.next()) is not None:
            assert event["subscription"] == 1
            events.append((event["topic"], event["offset"]))
        return events

    def deliver(self, batches: Sequence[Delivered]) -> None:
        self.mesh.holding.take(sum(len(each.data) for each in batches))  # as the core does
        self.feed.deliver(batches)

    def answer(self, times: int = 1) -> None:
        for _ in range(times):
            self.feed.answered(Success())

    async def told(self) -> list[AddCredit | Handled]:
        """What the node has been told since the last look."""
        await asyncio.sleep(0)
        told, self.mesh.told = self.mesh.told, []
        return told


async def test_events_go_out_as_far_as_the_window_and_credit_comes_back_with_the_last_of_a_batch() -> None:
    scene = Scene(window=2)
    batch = delivered("a", 0, [b"0", b"1", b"2"])
    scene.deliver([batch])
    assert scene.sent() == [("a", 0), ("a", 1)]
    scene.answer()
    assert scene.sent() == [("a", 2)]
    scene.answer()
    assert await scene.told() == []
    scene.answer()
    assert await scene.told() == [AddCredit(42, len(batch.data))]
    assert scene.sent() == []


async def test_a_delivery_may_begin_inside_its_batch() -> None:
    scene = Scene()
    scene.deliver([delivered("a", 5, [b"5", b"6", b"7"], skip=2)])
    assert scene.sent() == [("a", 7)]


async def test_a_large_batch_is_taken_apart_piece_by_piece() -> None:
    count = 3 * EXMP_EVENTS_AT_ONCE + 1
    scene = Scene(window=count)
    scene.deliver([delivered("a", 0, [b"x"] * count)])
    assert scene.feed.next() is not None
    assert len(scene.feed._events) == EXMP_EVENTS_AT_ONCE - 1
    assert len(scene.sent()) == count - 1


async def test_answers_move_the_position_of_a_group_once_a_turn() -> None:
    scene = Scene(group="g")
    scene.feed.assigned(3, [position("a", 0), position("b", 0)])
    assert await scene.told() == [Handled(42, (), 3)]
    scene.deliver([delivered("a", 0, [b"0", b"1"]), delivered("b", 0, [b"0"])])
    assert scene.sent() == [("a", 0), ("a", 1), ("b", 0)]
    scene.answer(3)
    handled, credit = await scene.told()
    assert handled == Handled(42, (position("a", 2), position("b", 1)), 3)
    assert isinstance(credit, AddCredit)


async def test_a_stream_that_goes_to_another_member_is_let_go_of_when_nothing_of_it_is_under_way() -> None:
    scene = Scene(window=2, group="g")
    scene.feed.assigned(1, [position("a", 0), position("b", 0)])
    lost, kept = delivered("a", 0, [b"0", b"1", b"2", b"3"]), delivered("b", 0, [b"0"])
    scene.deliver([lost, delivered("a", 4, [b"4"]), kept])
    await scene.told()
    assert scene.sent() == [("a", 0), ("a", 1)]
    scene.feed.assigned(2, [position("b", 0)])
    assert [type(each) for each in await scene.told()] == [AddCredit]  # of what is not sent any more
    scene.answer()
    assert (await scene.told())[0] == Handled(42, (position("a", 1),), 1)  # not yet taken over
    scene.answer()
    assert (await scene.told())[0] == Handled(42, (position("a", 2),), 2)
    assert scene.sent() == [("b", 0)]


async def test_a_stream_that_is_not_in_the_assignment_and_comes_behind_it_is_held_as_well() -> None:
    """Where to begin is still looked for when streams are assigned."""

    scene = Scene(group="g")
    scene.feed.assigned(1, [])
    scene.deliver([delivered("a", 9, [b"9"])])
    assert scene.sent() == [("a", 9)]
    await scene.told()
    scene.feed.assigned(2, [])
    assert await scene.told() == []  # it is lost now, and under way
    scene.answer()
    assert (await scene.told())[0] == Handled(42, (position("a", 10),), 2)


async def test_a_failure_ends_the_subscription_before_that_event() -> None:
    scene = Scene(group="g")
    scene.feed.opened([], more=False)
    scene.feed.assigned(1, [position("a", 0)])
    scene.deliver([delivered("a", 0, [b"0", b"1", b"2"])])
    assert len(scene.sent()) == 3
    scene.answer()
    scene.feed.answered(Failure("no room", "full"))
    scene.answer()  # of events that were under way: too late
    assert await scene.told() == [Handled(42, (position("a", 1),), 1)]
    assert scene.mesh.unsubscribed == [42]
    assert [str(error) for error in scene.over] == ["the client answered an event with a failure: no room"]
    scene.deliver([delivered("a", 3, [b"3"])])
    assert scene.sent() == []


async def test_an_answer_that_is_none_is_a_failure() -> None:
    scene = Scene()
    scene.feed.opened([], more=False)
    scene.deliver([delivered("a", 0, [b"0"])])
    assert len(scene.sent()) == 1
    scene.feed.answered(BadAnswer("the answer cannot be read"))
    assert [str(error) for error in scene.over] == ["the answer cannot be read"]


async def test_what_ends_before_it_has_begun_is_told_to_whoever_waits() -> None:
    scene = Scene()
    scene.feed.ended(WeftError("no such position"))
    assert str(scene.feed.ready.exception()) == "no such position"
    assert scene.over == []


async def test_a_lost_link_moves_nothing() -> None:
    scene = Scene(group="g")
    scene.deliver([delivered("a", 0, [b"0"])])
    assert len(scene.sent()) == 1
    scene.feed.answered(LinkLost("gone"))
    scene.feed.close()
    scene.feed.close()
    assert await scene.told() == []
    assert scene.mesh.unsubscribed == [42]
