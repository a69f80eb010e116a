"""Queues of a link: order, bounds, what goes when a peer is too slow, and what never goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.messages import (
    Begin,
    Copy,
    Past,
    PastRequest,
    PlainEvent,
    SendAcks,
    SendBegins,
    SendCopies,
    SendPast,
    SendPastRequest,
    SendPlain,
    SendPlainAck,
    SendResume,
)
from weft.membership import Gossip, Heartbeat, NodeState, Ping, size_of
from weft.model import Batch, Epoch, NodeId, Position, Stream, parse_pattern, parse_topic
from weft.transport.peers.outbox import (
    LINK_CONTROL_BYTES_MAX,
    LINK_CONTROL_FRAMES_MAX,
    LINK_FRAME_ACKS_MAX,
    LINK_FRAME_BYTES,
    LINK_FRAME_ITEMS_MAX,
    LINK_HEARTBEATS_MAX,
    ControlQueue,
    DataQueue,
    Item,
    PeerOutbox,
    UrgentOverflow,
)
from weft.transport.peers.settings import DropPolicy, LinkSettings

PEER = NodeId("node-b")
BATCH = Batch.from_columns([b"x"], 1)


def stream(name: str = "plant.temp") -> Stream:
    return Stream(parse_topic(name), NodeId("node-a"), 0)


def copy(number: int, name: str = "plant.temp") -> Copy:
    return Copy(stream(name), Epoch(1), BATCH.with_base_offset(number), number)


def item(number: int, key: str = "s", *, size: int = 1, since_s: float = 0.0) -> Item:
    return Item(copy(number), key, size, since_s)


def offsets(items: list[Item]) -> list[int]:
    return [each.what.batch.base_offset for each in items if isinstance(each.what, Copy)]


def queue(frames_max: int, policy: DropPolicy = DropPolicy.NEWEST, timeout_s: float = 5.0) -> DataQueue:
    return DataQueue(LinkSettings(queue_frames_max=frames_max, drop_policy=policy, send_timeout_s=timeout_s))


def drain(data: DataQueue) -> list[int]:
    taken = []
    while portion := data.take(1 << 30):
        taken += offsets(portion)
    return taken


@pytest.mark.req("PL-02")
def test_what_goes_in_comes_out_in_order_and_frames_are_filled_up_to_their_size() -> None:
    data = queue(100)
    for number, size in enumerate([400, 400, 400, 2000, 100]):
        data.put(item(number, size=size))
    assert [offsets(data.take(1000)) for _ in range(5)] == [[0, 1], [2], [3], [4], []]
    assert data.bytes == len(data) == 0


@pytest.mark.req("PL-02")
def test_a_full_queue_waits_for_room_and_loses_nothing_if_there_is_some_in_time() -> None:
    data = queue(2)
    for number in range(4):
        data.put(item(number, since_s=float(number)))
    assert data.get_timer() == 7.0, "the first that waits came at 2"
    data.expire(6.9)
    assert offsets(data.take(1)) == [0]
    assert data.get_timer() == 8.0
    assert drain(data) == [1, 2, 3]
    assert data.get_timer() is None
    assert not data.dropped
    assert data.drops == 0


@pytest.mark.req("PL-02")
@pytest.mark.parametrize(
    ("policy", "left", "drops"),
    [
        (DropPolicy.NEWEST, [0, 1], 2),  # those that waited
        (DropPolicy.OLDEST, [1, 3], 2),  # the stream of the oldest
    ],
)
def test_after_the_timeout_something_goes_by_policy(policy: DropPolicy, left: list[int], drops: int) -> None:
    data = queue(2, policy)
    data.put(item(0, "s"))
    data.put(item(1, "t"))
    data.put(item(2, "s"))
    data.put(item(3, "s" if policy is DropPolicy.NEWEST else "t"))
    data.expire(5.0)
    assert data.dropped
    assert data.drops == drops
    assert drain(data) == left


@pytest.mark.req("PL-02", "PL-04")
@pytest.mark.parametrize("policy", list(DropPolicy))
def test_nothing_of_a_stream_follows_what_was_thrown_away_until_the_core_knows(policy: DropPolicy) -> None:
    """Else a peer would acknowledge a later event and seem to have the lost one."""
    data = queue(1, policy)
    data.put(item(0))
    data.put(item(1))
    data.expire(5.0)
    data.put(item(2))
    assert drain(data) == [0]
    data.tell()
    data.put(item(1))
    assert drain(data) == [1]


@pytest.mark.req("PL-02")
@pytest.mark.parametrize("policy", list(DropPolicy))
def test_who_never_stops_sending_does_not_wait_for_the_timeout(policy: DropPolicy) -> None:
    data = queue(2, policy)
    for number in range(100):
        data.put(item(number, f"stream {number}"))
        assert len(data) <= 4
    assert data.drops == 96
    assert drain(data) == ([0, 1, 2, 3] if policy is DropPolicy.NEWEST else [96, 97, 98, 99])


@pytest.mark.req("PL-02")
@pytest.mark.parametrize("policy", list(DropPolicy))
def test_a_peer_that_is_far_behind_in_one_stream_gets_on(policy: DropPolicy) -> None:
    """The core sends a whole window at once, more than the queue takes, and again after every report."""
    data = queue(2, policy)
    got: list[int] = []
    for _ in range(20):
        for number in range(len(got), 20):
            data.put(item(number))
        data.expire(5.0)
        got += drain(data)
        data.tell()
    assert got == list(range(20))


def test_a_batch_of_any_size_fits_an_empty_queue() -> None:
    data = queue(10)
    data.put(item(0, size=1 << 40))
    assert drain(data) == [0]


@pytest.mark.req("PL-02")
@given(
    st.sampled_from(DropPolicy),
    st.lists(st.one_of(st.just("take"), st.just("tell"), st.floats(0, 3), st.integers(0, 2)), max_size=60),
)
def test_what_arrives_of_a_stream_has_no_gap_whatever_happens(
    policy: DropPolicy, steps: list[str | float | int]
) -> None:
    """The core sends on from where it was, and begins anew after the first that is missing when it is told."""
    data = queue(3, policy, timeout_s=1.0)
    now_s = 0.0
    sent = [0, 0, 0]
    arrived = [0, 0, 0]
    for step in steps:
        match step:
            case "take":
                for each in data.take(2):
                    number = each.what.batch.base_offset if isinstance(each.what, Copy) else -1
                    key = int(str(each.key))
                    assert number <= arrived[key], "something is missing before it"
                    arrived[key] = max(arrived[key], number + 1)
            case "tell" if data.dropped:
                data.tell()
                sent = list(arrived)
            case float():
                now_s += step
                data.expire(now_s)
            case int():
                data.put(item(sent[step], str(step), since_s=now_s))
                sent[step] += 1
            case _:
                pass
        assert len(data) <= 6


# --- the event stream ------------------------------------------------------------------------------------------------


def outbox() -> PeerOutbox:
    return PeerOutbox(PEER, LinkSettings())


def position(offset: int, name: str = "plant.temp") -> Position:
    return Position(stream(name), Epoch(1), offset)


def test_heartbeats_go_first_then_acks_then_data() -> None:
    box = outbox()
    resume = SendResume(PEER, (NodeId("node-a"),), (position(3),))
    box.put(SendCopies(PEER, (copy(0), copy(1))), 1.0)
    box.put(resume, 2.0)
    box.put(SendAcks(PEER, (position(5),)), 3.0)
    box.put_heartbeat(Heartbeat(7), 4.0)
    taken = [box.take() for _ in range(5)]
    assert taken == [
        (Heartbeat(7), 4.0),
        (resume, 2.0),
        (SendAcks(PEER, (position(5),)), 3.0),
        (SendCopies(PEER, (copy(0), copy(1))), 1.0),
        None,
    ]
    assert len(box) == 0


@pytest.mark.req("MSH-03")
def test_a_past_waits_with_the_data_and_is_a_frame_of_its_own() -> None:
    box = outbox()
    past = SendPast(PEER, Past(stream(), Epoch(1), 0, 1, (copy(0).batch,)))
    asked = SendPastRequest(PEER, PastRequest(stream(), Epoch(1), 9))
    begins = SendBegins(PEER, (Begin(position(3), 5, 3),))
    for effect in (SendCopies(PEER, (copy(0),)), past, SendCopies(PEER, (copy(1), copy(2))), asked, begins):
        box.put(effect, 1.0)
    taken = [box.take() for _ in range(6)]
    assert [None if each is None else each.what for each in taken] == [
        asked,
        begins,
        SendCopies(PEER, (copy(0),)),
        past,
        SendCopies(PEER, (copy(1), copy(2))),
        None,
    ]


@pytest.mark.req("PL-04")
def test_a_later_ack_takes_the_place_of_an_earlier_one_but_stays_behind_a_resume() -> None:
    box = outbox()
    box.put(SendAcks(PEER, (position(1), position(1, "x"))), 1.0)
    box.put(SendAcks(PEER, (position(2),)), 2.0)
    box.put(SendResume(PEER, (), ()), 3.0)
    box.put(SendAcks(PEER, (position(3),)), 4.0)
    assert box.take() == (SendAcks(PEER, (position(2), position(1, "x"))), 1.0)
    assert box.take() == (SendResume(PEER, (), ()), 3.0)
    assert box.take() == (SendAcks(PEER, (position(3),)), 4.0)


@pytest.mark.req("SEC-06")
def test_a_peer_hears_that_its_events_differ() -> None:
    box = outbox()
    box.put(SendAcks(PEER, (position(1),)), 1.0)
    box.put(SendAcks(PEER, (), (position(9, "x"), position(4, "y"))), 2.0)
    box.put(SendAcks(PEER, (), (position(9, "x"),)), 3.0)
    assert box.take() == (SendAcks(PEER, (position(1),), (position(9, "x"), position(4, "y"))), 1.0)
    many = tuple(position(1, f"t{n}") for n in range(LINK_FRAME_ACKS_MAX))
    box.put(SendAcks(PEER, many, (position(9, "x"),)), 4.0)
    assert box.take() == (SendAcks(PEER, many), 4.0)
    assert box.take() == (SendAcks(PEER, (), (position(9, "x"),)), 4.0)
    assert box.take() is None and len(box) == 0


def test_very_many_acks_go_in_several_frames() -> None:
    box = outbox()
    box.put(SendAcks(PEER, tuple(position(1, f"t{n}") for n in range(LINK_FRAME_ACKS_MAX + 1))), 1.0)
    sizes = []
    while portion := box.take():
        assert isinstance(portion.what, SendAcks)
        sizes.append(len(portion.what.positions))
    assert sizes == [LINK_FRAME_ACKS_MAX, 1]


@pytest.mark.req("SEC-05")
def test_very_many_small_batches_go_in_several_frames() -> None:
    """A mebibyte of them, 2,600, took the loop 15 ms to write."""
    box = PeerOutbox(PEER, LinkSettings(queue_frames_max=LINK_FRAME_ITEMS_MAX + 1))
    box.put(SendCopies(PEER, tuple(copy(offset) for offset in range(LINK_FRAME_ITEMS_MAX + 1))), 1.0)
    sizes = []
    while portion := box.take():
        assert isinstance(portion.what, SendCopies)
        sizes.append(len(portion.what.copies))
    assert sizes == [LINK_FRAME_ITEMS_MAX, 1]


def test_a_peer_that_does_not_even_take_acks_is_given_up() -> None:
    box = outbox()
    resume = SendResume(PEER, (), (position(1),) * 10_000)
    with pytest.raises(UrgentOverflow, match="does not take acks"):
        for _ in range(1000):
            box.put(resume, 0.0)


def test_old_heartbeats_make_room_for_new_ones() -> None:
    box = outbox()
    for number in range(1, 10):
        box.put_heartbeat(Heartbeat(number), 0.0)
    assert len(box) == LINK_HEARTBEATS_MAX
    newest = 9 - LINK_HEARTBEATS_MAX + 1
    assert box.take() == (Heartbeat(newest), 0.0)


def test_plain_events_are_frames_of_their_own_and_only_the_last_plain_ack_of_a_topic_counts() -> None:
    box = outbox()
    topic = parse_topic("plant.temp")
    events = tuple(PlainEvent(topic, offset, b"x", {}) for offset in range(2))
    box.put(SendPlain(PEER, events), 1.0)
    box.put(SendPlainAck(PEER, topic, 1), 1.0)
    box.put(SendPlainAck(PEER, topic, 2), 2.0)
    assert [box.take() for _ in range(4)] == [
        (SendPlainAck(PEER, topic, 2), 2.0),
        (SendPlain(PEER, (events[0],)), 1.0),
        (SendPlain(PEER, (events[1],)), 1.0),
        None,
    ]


def test_copies_of_several_sends_share_a_frame_up_to_its_size() -> None:
    box = outbox()
    big = Copy(stream(), Epoch(1), Batch.from_columns([bytes(LINK_FRAME_BYTES // 3)], 1), 0)
    for _ in range(5):
        box.put(SendCopies(PEER, (big,)), 1.0)
    sizes = []
    while portion := box.take():
        assert isinstance(portion.what, SendCopies)
        sizes.append(len(portion.what.copies))
    assert sizes == [2, 2, 1]


def test_clear_leaves_nothing() -> None:
    box = outbox()
    box.put(SendCopies(PEER, (copy(0),)), 1.0)
    box.put(SendAcks(PEER, (position(1),)), 1.0)
    box.put_heartbeat(Heartbeat(1), 1.0)
    box.clear()
    assert box.take() is None
    assert len(box) == 0


# --- the control stream ----------------------------------------------------------------------------------------------


@pytest.mark.req("PL-02")
def test_the_oldest_gossip_goes_when_there_is_no_room() -> None:
    control = ControlQueue()
    for number in range(LINK_CONTROL_FRAMES_MAX + 3):
        control.put(Ping(number))
    assert len(control) == LINK_CONTROL_FRAMES_MAX
    assert control.drops == 3
    assert control.take() == Ping(3)


@pytest.mark.req("PL-02")
def test_large_gossip_is_bounded_in_bytes() -> None:
    interest = tuple(parse_pattern(f"{'x' * 200}.{number}") for number in range(256))
    gossip = Gossip(states=(NodeState(PEER, 1, 1, Epoch(1), interest=interest),))
    control = ControlQueue()
    for _ in range(LINK_CONTROL_FRAMES_MAX):
        control.put(gossip)
    assert len(control) == LINK_CONTROL_BYTES_MAX // size_of(gossip)
    while control.take():
        pass
    control.put(Ping(1))
    assert control.take() == Ping(1)
