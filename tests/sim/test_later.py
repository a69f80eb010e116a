"""Events for later in the simulation: what is checked of them is found when it is broken (CON-03). That it holds is
shown by all seeds (``test_seeds``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from tests.sim.lies import Lie, assert_found
from weft.core.later import DueIndex
from weft.model import Batch, Epoch, Event, EventId, NodeId, Stream, Topic
from weft.model.later import ID, LATER_PREFIX
from weft.node.clients import Clients
from weft.node.later import Delivering, Later
from weft.port.node import Part, PublishClient
from weft.testing.sim import Violation
from weft.testing.sim.later import LaterBook, Promise
from weft.testing.sim.truth import Truth

pytestmark = pytest.mark.req("CON-03")

A = NodeId("a")
KEY = (Stream(Topic("plant.x"), A, 0), Epoch(1))
WAITING = EventId(Stream(Topic(f"{LATER_PREFIX}{'0' * 16}"), A, 0), Epoch(1), 0)


# --- lies that a node could tell, planted in it ----------------------------------------------------------------------


def a_second_early() -> AbstractContextManager[Any]:
    pop = DueIndex.pop
    return mock.patch.object(DueIndex, "pop", lambda self, now_us: pop(self, now_us + 1_000_000))


def forgotten_by_a_restart() -> AbstractContextManager[Any]:
    """What the log has is not looked at."""
    return mock.patch.object(Later, "start", lambda self: None)


def without_a_mark() -> AbstractContextManager[Any]:
    """After a restart it is delivered again."""
    publish_as_one = Clients.publish_as_one

    def published(self: Clients, publisher: PublishClient, parts: Sequence[Part]) -> None:
        if isinstance(publisher, Later):
            for part in parts:
                is_mark = part.topic.startswith(LATER_PREFIX)
                batch = Batch.from_columns([b"x"], 0) if is_mark else part.batch
                publish_as_one(self, publisher, [part._replace(batch=batch)])
        else:
            publish_as_one(self, publisher, parts)

    return mock.patch.object(Clients, "publish_as_one", published)


def lost_when_the_disk_is_full() -> AbstractContextManager[Any]:
    def given_up(self: Later, delivering: Delivering) -> None:
        if delivering.left:
            delivering.left = 0
            self._deliveries -= 1

    return mock.patch.object(Later, "_give_back", given_up)


def cancelled_in_words_only() -> AbstractContextManager[Any]:
    async def pretended(self: Later, event: EventId, owner: str | None) -> None:
        self._checked(event, owner)

    return mock.patch.object(Later, "cancel", pretended)


def late_for_no_reason() -> AbstractContextManager[Any]:
    """Everything is put into the index for twenty seconds later."""
    add = DueIndex.add
    return mock.patch.object(DueIndex, "add", lambda self, due: add(self, due._replace(due_us=due.due_us + 20_000_000)))


LIES: list[tuple[Lie, tuple[int, ...]]] = [
    (a_second_early, (1,)),
    (forgotten_by_a_restart, (9,)),
    (without_a_mark, (11,)),
    (lost_when_the_disk_is_full, (28,)),
    (cancelled_in_words_only, (5,)),
    (late_for_no_reason, (5,)),
]


@pytest.mark.parametrize(("lie", "last_seen"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_a_planted_lie_is_found(lie: Lie, last_seen: tuple[int, ...]) -> None:
    assert_found(lie, last_seen)


# --- lies told to the book -------------------------------------------------------------------------------------------


def book(*, due_us: int = 100_000_000) -> LaterBook:
    node = mock.Mock(node_id=A, hindered_us=0, running=True)
    node.log.epoch = Epoch(1)
    found = LaterBook(Truth(), lambda: [node])
    found.sent[b"x"] = due_us
    found.taken(Promise(b"x", due_us, A, Epoch(1)), WAITING)
    return found


def delivered(at_us: int, payload: bytes = b"x") -> Batch:
    return Batch.from_events([Event(payload, at_us, None, {ID: str(WAITING)})])


def test_what_is_in_time_is_good() -> None:
    kept = book()
    assert "still waits" in kept.lacks(lambda key: None)
    kept.durable(KEY, delivered(100_000_000))
    assert kept.lacks(lambda key: None) == ""


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        (delivered(99_999_999), "early"),
        (delivered(116_000_000), "late, and no fault explains it"),
        (delivered(100_000_000, b"y"), "nobody sent it"),
    ],
)
def test_what_is_early_late_or_made_up_is_found(batch: Batch, what: str) -> None:
    with pytest.raises(Violation, match=what):
        book().durable(KEY, batch)


def test_what_comes_twice_or_was_cancelled_is_found() -> None:
    kept = book()
    kept.durable(KEY, delivered(100_000_000))
    with pytest.raises(Violation, match="twice"):
        kept.durable(KEY, delivered(100_000_001))
    kept = book()
    kept.cancelled.add(b"x")
    with pytest.raises(Violation, match="was cancelled"):
        kept.durable(KEY, delivered(100_000_000))


def test_a_node_that_denies_what_waits_is_found() -> None:
    with pytest.raises(Violation, match="not due yet"):
        book().not_waiting(WAITING, 99_000_000)
    book().not_waiting(WAITING, 100_000_000)
