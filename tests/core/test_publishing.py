"""Receipts: after the sync, never before; once for a batch that is sent twice; with copies, when they are safe."""

from __future__ import annotations

import pytest

from tests.core.stage import Stage
from weft.core import CopiesMissing
from weft.core.messages import Publish, PublishAll, Synced
from weft.limits import COPIES_MAX
from weft.log.errors import DiskFull, OutOfSequence, SequenceReused
from weft.model import Batch, parse_topic

PRODUCER = bytes(range(16))


def sent(stage: Stage, sequence: int, *texts: str) -> int:
    """Publish as a producer that numbers its batches."""
    actor = stage["a"]
    actor.requests += 1
    batch = Batch.from_columns([text.encode() for text in texts], 0, producer=PRODUCER, sequence=sequence)
    actor.step(PublishAll([Publish(actor.requests, parse_topic("t"), 0, batch)]))
    return actor.requests


@pytest.mark.req("LOG-01")
def test_a_receipt_follows_the_sync_that_made_the_batch_durable() -> None:
    stage = Stage("a")
    request = stage["a"].publish("t", "x", "y")
    assert not stage["a"].receipts
    stage["a"].sync()
    receipted = stage["a"].receipts[request]
    assert (str(receipted.receipt), receipted.repeated) == ("t@a/0:e7:0+2 synced", False)


@pytest.mark.req("LOG-01")
@pytest.mark.parametrize("copies", [0, 2])
def test_a_sync_that_began_before_the_batch_came_makes_no_receipt(copies: int) -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    actor = stage["a"]
    early = actor.publish("t", "x")
    ticket = actor.log.sync()
    advanced = dict(actor.advanced)
    actor.advanced.clear()
    late = actor.publish("t", "y", copies=copies)
    actor.step(Synced(ticket, advanced))
    assert set(actor.receipts) == {early}
    stage.run()
    assert set(actor.receipts) == {early, late}


@pytest.mark.req("SDK-01")
def test_a_batch_that_is_sent_again_gets_its_first_receipt() -> None:
    stage = Stage("a")
    first, again = sent(stage, 1, "x"), sent(stage, 1, "x")
    stage.run()
    receipts = stage["a"].receipts
    assert receipts[first].receipt == receipts[again].receipt
    assert (receipts[first].repeated, receipts[again].repeated) == (False, True)


@pytest.mark.req("SDK-01")
def test_other_events_under_a_used_sequence_are_refused_when_those_they_are_told_of_are_durable() -> None:
    """The refusal says where the first ones are: before the sync they could still be lost."""
    stage = Stage("a")
    actor = stage["a"]
    first, other = sent(stage, 1, "x"), sent(stage, 1, "y")
    assert not actor.receipts and not actor.refused
    actor.sync()
    assert str(actor.receipts[first].receipt) == "t@a/0:e7:0+1 synced"
    error = actor.refused[other]
    assert isinstance(error, SequenceReused)
    assert str(error.facts["kept_at"]) == "t@a/0:e7:0"
    later = sent(stage, 1, "z")
    assert isinstance(actor.refused[later], SequenceReused), "there is nothing left to sync"


def test_a_batch_that_is_too_old_to_tell_is_refused() -> None:
    stage = Stage("a")
    sent(stage, 5, "x")
    old = sent(stage, 4, "y")
    stage.run()
    assert isinstance(stage["a"].refused[old], OutOfSequence)


def test_a_full_disk_refuses_and_goes_on_when_there_is_room() -> None:
    stage = Stage("a")
    actor = stage["a"]
    actor.store.disk_bytes_max = 0
    refused = actor.publish("t", "x")
    assert isinstance(actor.refused[refused], DiskFull)
    actor.store.disk_bytes_max = 1 << 60
    taken = actor.publish("t", "x")
    stage.run()
    assert taken in actor.receipts


def test_copies_hold_the_receipt_until_so_many_nodes_have_synced() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "a-c")
    stage.run()
    request = stage["a"].publish("t", "x", copies=2)
    stage["a"].sync()
    assert request not in stage["a"].receipts
    stage.run()
    assert stage["a"].receipts[request].receipt.copies == 2
    kept = [name for name in ("b", "c") if stage[name].log.streams()]
    assert len(kept) == 1, "nobody else is interested, and two copies were asked for"


def test_copies_that_nobody_can_keep_are_refused_after_a_while() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    stage.run()
    request = stage["a"].publish("t", "x", copies=3)
    stage.run(30.0)
    error = stage["a"].refused[request]
    assert isinstance(error, CopiesMissing)
    assert error.facts == {"asked": 3, "have": 2}


def test_a_receipt_that_has_its_copies_does_not_wait_for_an_earlier_one_that_asks_for_more() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    stage.run()
    greedy = stage["a"].publish("t", "x", copies=3)
    modest = stage["a"].publish("t", "y", copies=2)
    stage.run()
    assert greedy not in stage["a"].receipts
    assert stage["a"].receipts[modest].receipt.copies == 2
    stage.run(30.0)
    assert isinstance(stage["a"].refused[greedy], CopiesMissing)
    assert modest not in stage["a"].refused


def test_copies_are_made_when_the_peer_comes_back() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    stage.run()
    stage.cut("a-b")
    request = stage["a"].publish("t", "x", copies=2)
    stage.run(1.0)
    assert request not in stage["a"].receipts
    stage.link("a-b")
    stage.run()
    assert stage["a"].receipts[request].receipt.copies == 2


@pytest.mark.req("SDK-01")
def test_a_batch_that_is_sent_again_when_nothing_is_left_to_sync_gets_its_receipt_at_once() -> None:
    stage = Stage("a")
    first = sent(stage, 1, "x")
    stage.run()
    again = sent(stage, 1, "x")
    receipts = stage["a"].receipts
    assert receipts[again].receipt == receipts[first].receipt


def test_more_copies_than_any_receipt_waits_for_are_refused_not_forgotten() -> None:
    stage = Stage("a")
    request = stage["a"].publish("t", "x", copies=COPIES_MAX + 1)
    stage.run()
    assert stage["a"].refused[request].facts == {"copies": COPIES_MAX + 1, "limit": COPIES_MAX}
    assert stage["a"].log.streams() == [], "nothing was kept of it"
