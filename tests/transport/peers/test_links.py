"""Links between nodes over real gRPC: made, used, doubled, broken and made again."""

from __future__ import annotations

import asyncio

import pytest

from tests.transport.peers.nodes import BATCH, SETTINGS, STREAM, TestNode, copy, running, settled
from weft.core.messages import ReceivedAcks, ReceivedCopies, ReceivedResume, SendAcks, SendCopies, SendResume
from weft.membership import Gossip, Heartbeat, Message, NodeState, Ping, PingFor, Pong
from weft.model import Epoch, NodeId, Position, parse_pattern
from weft.transport.peers import LinkSettings, links
from weft.wire.mesh.features import Feature

POSITION = Position(STREAM, Epoch(1), 7)


async def test_everything_that_nodes_say_arrives_as_it_was_said() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        await b.linked(a)
        state = NodeState(
            a.id, 3, 4, Epoch(5), addresses=("x:1",), neighbours=(b.id,), interest=(parse_pattern("p.>"),)
        )
        gossip = Gossip((state.digest,), (state,), reply=True)
        said: list[Message] = [gossip, Ping(1), Pong(2, b.id, 9), PingFor(3, b.id)]
        for message in said:
            a.links.send_member(b.id, message)
        a.links.send_member(b.id, Heartbeat(8, 9))
        a.links.send(SendCopies(b.id, (copy(0), copy(1))))
        b.links.send(SendAcks(a.id, (POSITION,)))
        b.links.send(SendResume(a.id, (a.id,), (POSITION,), (b.id,), more=True))
        await b.record.until(lambda: len(b.record.members) == 5 and len(b.record.offsets()) == 2)
        await a.record.until(lambda: len(a.record.inputs) == 2)
        assert [m for _, m in b.record.members if not isinstance(m, Heartbeat)] == said
        assert (a.id, Heartbeat(8, 9)) in b.record.members
        (received,) = b.record.inputs
        assert received.peer == a.id
        assert isinstance(received, ReceivedCopies)
        assert [(c.stream, c.epoch, c.batch.data, c.follows) for c in received.copies] == [
            (STREAM, 1, BATCH.data, 0),
            (STREAM, 1, BATCH.with_base_offset(1).data, 1),
        ]
        assert a.record.inputs == [
            ReceivedAcks(b.id, (POSITION,)),
            ReceivedResume(b.id, (a.id,), (POSITION,), (b.id,), more=True),
        ]


@pytest.mark.req("PL-06")
async def test_people_see_who_is_linked_and_how_much_went_over_it() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        a.links.dial("127.0.0.1:1")
        await a.linked(b)
        a.links.send(SendCopies(b.id, (copy(0),)))
        await b.record.until(lambda: b.record.inputs)
        await settled(lambda: a.view(b.id).messages_sent == 1)
        view = a.view(b.id)
        assert (view.address, view.connected, view.dialled_by_us, view.plain) == (b.address, True, True, False)
        assert view.features == frozenset(Feature)
        assert view.bytes_sent == b.view(a.id).bytes_received > len(BATCH.data)
        assert 0 < view.send_latency_s_p50 <= view.send_latency_s_p95
        assert (view.queue_frames, view.queue_bytes, view.drops) == (0, 0, 0)
        assert not b.view(a.id).dialled_by_us
        await a.record.until(lambda: a.record.failed)
        (other,) = [each for each in a.links.links() if not each.connected]
        assert (other.address, other.peer) == ("127.0.0.1:1", None)
        assert "refused" in other.trouble


@pytest.mark.req("PL-07")
async def test_links_that_others_dial_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "LINK_ACCEPTED_MAX", 1)

    hub, first, second = TestNode("node-a"), TestNode("node-b"), TestNode("node-c")
    async with running(hub, first, second):
        first.links.dial(hub.address)
        await first.linked(hub)
        second.links.dial(hub.address)
        await second.record.until(lambda: second.record.failed)
        assert "too many links" in second.record.failed[0]
        assert "too many links" in hub.record.refused[0]


@pytest.mark.req("PL-01")
@pytest.mark.parametrize("order", ["at once", "low first", "high first"])
async def test_both_dial_and_one_link_stays_that_the_higher_id_dialled(order: str) -> None:
    low, high = TestNode("node-a"), TestNode("node-b")
    async with running(low, high):
        if order == "low first":
            low.links.dial(high.address)
            await high.linked(low)
        high.links.dial(low.address)
        if order == "high first":
            await low.linked(high)
        low.links.dial(high.address)
        await settled(
            lambda: (
                [(v.peer, v.dialled_by_us) for v in high.links.links() if v.connected] == [(low.id, True)]
                and [(v.peer, v.dialled_by_us) for v in low.links.links() if v.connected] == [(high.id, False)]
            )
        )
        high.links.send(SendCopies(low.id, (copy(0),)))
        low.links.send(SendCopies(high.id, (copy(1),)))
        await low.record.until(lambda: low.record.offsets() == [0])
        await high.record.until(lambda: high.record.offsets() == [1])
        for node in (low, high):
            kinds = [each.split()[0] for each in node.record.told]
            assert kinds in (["up"], ["up", "down", "up"]), "told alternately, and no more than one change"


@pytest.mark.req("PL-01")
async def test_three_nodes_that_all_dial_each_other_have_three_links() -> None:
    nodes = [TestNode(f"node-{name}") for name in "abc"]
    async with running(*nodes):
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.links.dial(other.address)
                    node.links.dial(other.address)  # nothing more happens
        for node in nodes:
            await node.linked(*(other for other in nodes if other is not node))
        await settled(
            lambda: all(
                sorted((str(view.peer), view.dialled_by_us) for view in node.links.links())
                == sorted((other.id, node.id > other.id) for other in nodes if other is not node)
                for node in nodes
            )
        )


@pytest.mark.req("PL-01")
async def test_a_peer_that_comes_back_is_linked_again() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        await b.stop("restart")
        await a.record.until(lambda: a.record.told == ["up node-b", "down node-b"])
        assert a.record.reasons == ["the peer is closing: restart"]
        await a.record.until(lambda: len(a.record.failed) > 2)
        again = TestNode("node-b", incarnation=2)
        await again.start(b.address)
        try:
            await a.linked(again)
            await again.linked(a)
        finally:
            await again.stop()


@pytest.mark.req("PL-01")
async def test_a_connection_that_is_cut_is_down_on_both_sides_and_comes_back() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await b.linked(a)
        address = b.address
        for _ in range(20):
            a.links.send(SendCopies(b.id, (copy(0, size=1 << 20),)))
        await b.kill()  # in the middle of it
        await a.record.until(lambda: a.record.told == ["up node-b", "down node-b"])
        await b.record.until(lambda: b.record.told == ["up node-a", "down node-a"])
        await b.start(address)
        await a.linked(b)
        await b.linked(a)


@pytest.mark.req("PL-01")
async def test_a_node_returns_under_its_id_and_takes_the_place_of_its_old_self() -> None:
    """Its old connection is half-open: nobody told us that it is gone."""

    hub, old, new = TestNode("node-b"), TestNode("node-c"), TestNode("node-c", incarnation=2)
    async with running(hub, old, new):
        old.links.dial(hub.address)
        await hub.linked(old)
        new.links.dial(hub.address)
        await new.linked(hub)
        await old.record.until(lambda: "down node-b" in old.record.told)
        old.links.undial(hub.address)
        assert hub.record.told[:3] == ["up node-c", "down node-c", "up node-c"]
        assert "replaced" in hub.record.reasons[0]


@pytest.mark.req("PL-01")
async def test_undial_closes_the_link_and_dials_no_more() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        await b.linked(a)
        a.links.undial(b.address)
        a.links.undial("127.0.0.1:1")  # never dialled
        await b.record.until(lambda: b.record.told == ["up node-a", "down node-a"])
        assert "no longer to be dialled" in b.record.reasons[0]
        await a.record.until(lambda: a.record.told == ["up node-b", "down node-b"])
        assert a.links.links() == []


@pytest.mark.req("PL-01")
async def test_an_address_without_anybody_is_dialled_until_told_otherwise() -> None:
    a = TestNode("node-a")
    a.links.dial("127.0.0.1:1")  # before the start: dialled when it comes
    async with running(a):
        await a.record.until(lambda: len(a.record.failed) > 3)
        a.links.undial("127.0.0.1:1")
        assert a.links.links() == []


@pytest.mark.req("PL-03")
@pytest.mark.parametrize("disconnecting", ["node-a", "node-b"])
async def test_a_link_can_be_closed_by_either_side_and_is_dialled_again(disconnecting: str) -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        await b.linked(a)
        one, other = (a, b) if disconnecting == "node-a" else (b, a)
        one.links.disconnect(other.id, "three heartbeats missed")
        one.links.disconnect(NodeId("nobody"), "is not there")
        await a.record.until(lambda: a.record.told == ["up node-b", "down node-b", "up node-b"])
        await b.record.until(lambda: b.record.told == ["up node-a", "down node-a", "up node-a"])
        assert "three heartbeats missed" in a.record.reasons[0]
        assert "three heartbeats missed" in b.record.reasons[0]


async def test_compressed_frames_arrive_as_they_were_and_take_less() -> None:
    settings = LinkSettings(backoff_s_min=0.01, backoff_s_max=0.1, compression=True)
    a, b = TestNode("node-a", settings), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        batch = copy(3, size=1 << 20)
        a.links.send(SendCopies(b.id, (batch,)))
        await b.record.until(lambda: b.record.offsets() == [3])
        (received,) = b.record.inputs
        assert isinstance(received, ReceivedCopies)
        assert received.copies[0].batch.data == batch.batch.data
        assert b.view(a.id).bytes_received < 100_000


@pytest.mark.req("PL-05")
async def test_a_peer_that_lacks_a_feature_is_treated_as_plain() -> None:
    a, b = TestNode("node-a"), TestNode("node-b", features=frozenset({Feature.BATCHES, Feature.CLOSING}))
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        assert a.record.plain == {b.id}
        await b.linked(a)
        assert b.record.plain == {a.id}
        a.links.send_member(b.id, Ping(1))  # nothing for such a peer
        a.links.send_member(b.id, Heartbeat(5))
        await b.record.until(lambda: b.record.members)
        assert b.record.members == [(a.id, Heartbeat(5))]


async def test_a_defect_while_dialling_does_not_pass_unseen() -> None:
    defects: list[str] = []

    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(str(context["exception"])))
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        del a.hello  # whoever asks for it gets an AttributeError
        a.links.dial(b.address)
        await settled(lambda: bool(defects))
    assert "hello" in defects[0]


async def test_what_is_for_nobody_is_dropped() -> None:
    a = TestNode("node-a", SETTINGS)
    async with running(a):
        a.links.send(SendCopies(NodeId("nobody"), (copy(0),)))
        a.links.send_member(NodeId("nobody"), Heartbeat(1))
        assert a.links.links() == []
