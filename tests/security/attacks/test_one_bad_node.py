"""One bad node, with a certificate of the mesh, harms itself and nobody else (SEC-06).

``evil`` is linked to ``b`` and says whatever it likes; ``a`` is linked to ``b``, too, and honest.
"""

from __future__ import annotations

import pytest

from tests.core.stage import Actor, Reader, Stage
from weft.core.incoming import ASKED_LATELY_S, COPY_GAP_MAX, COPY_OFFSET_MAX
from weft.core.messages import Copy, LinkUp, PeerFault, PlainEvent, ReceivedAcks, ReceivedCopies, ReceivedPlain
from weft.model import Batch, Epoch, NodeId, Position, Stream, parse_topic

EVIL = NodeId("evil")
EPOCH = Epoch(7)  # of all logs on the stage


def stage_with_evil() -> tuple[Stage, Reader]:
    """And a reader of everything at b, which has the first event of a."""
    stage = Stage("a", "b", "evil")
    stage.link("a-b", "b-evil")
    reader = stage["b"].subscribe(">")
    stage.run()
    stage["a"].publish("t", "0")
    stage.run()
    assert reader.texts == ["0"]
    return stage, reader


def stream_of(origin: str) -> Stream:
    return Stream(parse_topic("t"), NodeId(origin), 0)


def forged(origin: str, base: int, *, follows: int | None = None, expired: bool = False) -> Copy:
    batch = Batch.from_columns([b"forged"], 0).with_base_offset(base)
    return Copy(stream_of(origin), EPOCH, batch, base if follows is None else follows, expired)


def bring(stage: Stage, *copies: Copy) -> None:
    stage["b"].step(ReceivedCopies(EVIL, copies))
    stage.run()


def faults(actor: Actor) -> list[tuple[NodeId, PeerFault]]:
    return [(each.peer, each.fault) for each in actor.peer_refused]


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize(
    "copies",
    [
        [forged("a", 1)],
        [forged("a", 1), forged("a", 1 << 62, follows=2)],
        [forged("a", 9, follows=0, expired=True)],
    ],
    ids=["the next offset", "and then one far away", "as if retention had passed"],
)
def test_it_cannot_bring_events_of_a_node_that_it_was_not_asked_for(copies: list[Copy]) -> None:
    stage, reader = stage_with_evil()
    bring(stage, *copies)
    assert reader.texts == ["0"]
    assert faults(stage["b"]) == [(EVIL, PeerFault.UNASKED)]
    assert stage["b"].peer_refused[0].times == len(copies)
    assert "t@a/0" in stage["b"].peer_refused[0].what
    # The genuine ones arrive, and are worth their receipts.
    request = stage["a"].publish("t", "1", copies=2)
    stage.run()
    assert reader.texts == ["0", "1"]
    assert stage["a"].receipts[request].copies == 2


@pytest.mark.req("SEC-06")
def test_its_own_stream_cannot_jump_out_of_bounds() -> None:
    stage, reader = stage_with_evil()
    bring(stage, forged("evil", 0))
    bring(stage, forged("evil", COPY_GAP_MAX + 2, follows=1))
    bring(stage, forged("evil", COPY_GAP_MAX + 2, follows=1, expired=True))
    bring(stage, forged("evil", 1 << 62, follows=1))
    assert faults(stage["b"]) == [(EVIL, PeerFault.GAP)] * 2 + [(EVIL, PeerFault.OFFSET)]
    bring(stage, forged("evil", 1))
    assert stage["b"].log.info(stream_of("evil"), EPOCH).end == 2, "what follows is taken as ever"
    assert reader.texts == ["0", "forged", "forged"]


@pytest.mark.req("SEC-06")
def test_a_new_stream_cannot_begin_out_of_bounds() -> None:
    stage, _ = stage_with_evil()
    bring(stage, forged("evil", COPY_OFFSET_MAX, follows=0))
    assert faults(stage["b"]) == [(EVIL, PeerFault.OFFSET)]
    assert stage["b"].log.find(stream_of("evil"), EPOCH) is None


@pytest.mark.req("SEC-06")
def test_what_was_under_way_from_the_old_parent_is_taken_and_later_things_are_not() -> None:
    stage = Stage("a", "b", "evil")
    stage.link("a-evil", "b-evil")
    stage["b"].subscribe(">")
    stage["a"].publish("t", "0")
    stage.run()
    stage.link("a-b")  # from now on a is asked itself
    stage.run(1.0)
    bring(stage, forged("a", 0))
    assert faults(stage["b"]) == [(EVIL, PeerFault.DIFFERS)], "but it cannot change what is here"
    stage.now_s += ASKED_LATELY_S
    bring(stage, forged("a", 1))
    assert faults(stage["b"])[1:] == [(EVIL, PeerFault.UNASKED)]


@pytest.mark.req("SEC-06")
def test_a_copy_with_other_events_is_no_copy_and_both_sides_say_so() -> None:
    """Evil brought something under the name of a while nobody could ask a itself."""
    stage, reader = stage_with_evil()
    stage.cut("a-b")
    stage.run(10.0)
    bring(stage, forged("a", 1))
    assert reader.texts == ["0", "forged"], "an origin out of reach: anybody may have what it left behind"
    stage["b"].peer_refused.clear()
    stage.link("a-b")
    stage.run()
    assert faults(stage["a"]) == [(NodeId("b"), PeerFault.AHEAD)], "it has what a never wrote"
    request = stage["a"].publish("t", "genuine", copies=2)
    stage.run(120.0)
    assert request not in stage["a"].receipts
    assert "not on enough nodes" in str(stage["a"].refused[request])


@pytest.mark.req("SEC-06")
def test_events_that_differ_are_told_to_their_sender_and_not_acknowledged() -> None:
    stage, _ = stage_with_evil()
    b = stage["b"]
    stream = stream_of("a")
    b.sent.clear()
    b.step(ReceivedCopies(NodeId("a"), (forged("a", 0),)))
    stage.run()
    assert faults(b) == [(NodeId("a"), PeerFault.DIFFERS)]
    assert faults(stage["a"]) == [(NodeId("b"), PeerFault.DIFFERS)]
    request = stage["a"].publish("t", "1", copies=2)
    stage.run(120.0)
    assert "not on enough nodes" in str(stage["a"].refused[request])
    assert stage["a"].broker.replication.copies_at((stream, EPOCH), 0, 1) == 1


@pytest.mark.req("SEC-06")
def test_it_is_no_copy_by_claiming_more_than_there_is() -> None:
    stage, _ = stage_with_evil()
    stage["b"].publish("t", "x", copies=3)
    stage.run()
    stage["b"].step(ReceivedAcks(EVIL, (Position(stream_of("b"), EPOCH, 1 << 40),)))
    assert faults(stage["b"]) == [(EVIL, PeerFault.AHEAD)]
    request = stage["b"].publish("t", "y", copies=3)
    stage.run(120.0)
    assert request not in stage["b"].receipts
    assert stage["b"].broker.replication.copies_at((stream_of("b"), EPOCH), 1, 2) == 2, "a and b itself"


@pytest.mark.req("SEC-06")
def test_a_plain_peer_speaks_for_itself_and_within_bounds() -> None:
    stage = Stage("b")
    stage["b"].step(LinkUp(EVIL, plain=True))
    stage["b"].step(ReceivedPlain(EVIL, PlainEvent(parse_topic("t"), 0, b"x", {})))
    stage.run()
    assert {info.stream.origin for info in stage["b"].log.streams()} == {EVIL}
    stage["b"].step(ReceivedPlain(EVIL, PlainEvent(parse_topic("t"), COPY_OFFSET_MAX, b"x", {})))
    assert faults(stage["b"]) == [(EVIL, PeerFault.OFFSET)]
    assert [peer for _, peer, _ in stage.dropped] == [EVIL]
