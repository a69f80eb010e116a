"""Buckets in the simulation: what is checked of them is found when it is broken (CON-05). That it holds is shown by all
seeds (``test_seeds``)."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from tests.sim.lies import Lie, assert_found
from weft.core.kv import Bucket, Entry, Place
from weft.log.kv_compaction import Surplus, Written
from weft.model import Epoch, NodeId, Stream
from weft.model.key_value import Record, Revision, topic_of
from weft.node.kv import KeyValues
from weft.port.kv import Item, State
from weft.testing.sim import Violation
from weft.testing.sim.kv import Acknowledged, KvBook, Seen, difference
from weft.testing.sim.truth import Truth

pytestmark = pytest.mark.req("CON-05")

A, B = NodeId("a"), NodeId("b")
NAME = ("settings", "x")
FIRST, SECOND = Revision(1 << 16, A), Revision(2 << 16, B)


# --- lies that a node could tell, planted in it ----------------------------------------------------------------------


def first_one_stays() -> AbstractContextManager[Any]:
    """What comes later is not taken, whatever its revision is."""
    merge = Bucket.merge

    def kept(self: Bucket, entry: Entry) -> list[Entry] | None:
        return None if entry.key in self else merge(self, entry)

    return mock.patch.object(Bucket, "merge", kept)


def last_to_arrive_wins() -> AbstractContextManager[Any]:
    """Every node has the order in which writings reached it."""

    def arrived(self: Bucket, entry: Entry) -> list[Entry] | None:
        known = self._entries.setdefault(entry.key, [])
        if any(each.revision == entry.revision for each in known):
            return None
        known.insert(0, entry)
        self._names = None
        return []

    return mock.patch.object(Bucket, "merge", arrived)


def told_before_it_is_written() -> AbstractContextManager[Any]:
    """The answer comes, and the log has nothing."""

    def pretended(self: KeyValues, bucket: str, record: Record, copies: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = Place(Stream(topic_of(bucket), self._me, 0), Epoch(1), 0)
        self.state.take(bucket, record, place, self.now_ms())
        done.set_result(None)
        return done

    return mock.patch.object(KeyValues, "_publish", pretended)


def gone_before_its_time() -> AbstractContextManager[Any]:
    return mock.patch.object(Entry, "has_expired", lambda self, now_ms: 0 < self.expires_ms <= now_ms + 21_000)


def left_behind_by_a_lost_disk() -> AbstractContextManager[Any]:
    """What only some nodes have of a log that is lost stays with them."""
    return mock.patch.object(KeyValues, "_adopt", lambda self: None)


def compacted_the_wrong_way() -> AbstractContextManager[Any]:
    """Of each key, the oldest writing stays."""

    def oldest(writings: dict[str, list[Written]], history: int, now_ms: int, grace_ms: int) -> Surplus:
        found = Surplus()
        for each in writings.values():
            found.drop(sorted(each)[1:])
        return found

    return mock.patch("weft.log.kv_compaction.surplus", oldest)


LIES: list[tuple[Lie, tuple[int, ...]]] = [
    (first_one_stays, (1,)),
    (last_to_arrive_wins, (4,)),
    (told_before_it_is_written, (1,)),
    (gone_before_its_time, (1,)),
    (left_behind_by_a_lost_disk, (4, 20)),
    (compacted_the_wrong_way, (6, 17)),
]


@pytest.mark.parametrize(("lie", "last_seen"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_a_planted_lie_is_found(lie: Lie, last_seen: tuple[int, ...]) -> None:
    assert_found(lie, last_seen)


# --- lies told to the book -------------------------------------------------------------------------------------------


def item(value: bytes) -> Item:
    return Item("x", State.PUT, FIRST, 0, "", value)


def book() -> KvBook:
    found = KvBook(Truth(), lambda: ())
    found.sends(NAME, b"one", mortal=False)
    return found


def test_a_value_that_nobody_wrote_is_found() -> None:
    book().check_read("k", NAME, None)
    book().check_read("k", NAME, item(b"one"))
    with pytest.raises(Violation, match="nobody wrote that"):
        book().check_read("k", NAME, item(b"two"))


def test_a_node_that_forgets_what_it_has_just_taken_is_found() -> None:
    book().check_own("k", NAME, FIRST, Seen(SECOND, mortal=True), gone_early=True)
    for latest in (None, Seen(FIRST, mortal=False)):
        with pytest.raises(Violation, match="and then there is"):
            book().check_own("k", NAME, SECOND, latest, gone_early=False)
    with pytest.raises(Violation, match="before its time"):
        book().check_own("k", NAME, FIRST, Seen(FIRST, mortal=True), gone_early=True)


@pytest.mark.parametrize(
    ("found", "differs"),
    [
        ({A: Seen(FIRST, False), B: Seen(FIRST, False)}, False),
        ({A: Seen(FIRST, False), B: Seen(SECOND, False)}, True),
        ({A: Seen(FIRST, False), B: None}, True),
        ({A: Seen(FIRST, True), B: None}, False),
        ({A: None, B: None}, False),
    ],
)
def test_nodes_that_differ_are_found(found: dict[NodeId, Seen | None], differs: bool) -> None:
    assert bool(difference(found)) == differs


def test_a_promise_that_is_lost_is_found() -> None:
    kept = book()
    node = mock.Mock(node_id=A)
    kept.running = lambda: [node]
    promise = Acknowledged(NAME, SECOND, False, A, Epoch(1))
    kept.answered(promise)
    assert kept._missing(promise, Seen(SECOND, False)) == ""
    assert "lost" in kept._missing(promise, Seen(FIRST, False))
    assert "lost" in kept._missing(promise, None)
    kept.truth.lost.add((A, Epoch(1)))
    assert kept._missing(promise, None) == ""
