"""Stories of one node and its neighbours A, B and C; and which messages it remembers."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import identity
from weft.errors import UsageError
from weft.wire.libp2p import floodsub, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.floodsub import (
    Deliver,
    Distrust,
    Dropped,
    Effect,
    Message,
    Router,
    Rpc,
    Seen,
    Send,
    Subscribed,
    Subscription,
)
from weft.wire.libp2p.floodsub.router import FLOODSUB_TOPICS_PER_PEER_MAX
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.private_keys import PrivateKey

ME = identity("Ed25519")
A, B, C, STRANGER = (PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in range(4))


def wants(*topics: str, wanted: bool = True) -> bytes:
    return Rpc(subscriptions=tuple(Subscription(topic, wanted) for topic in topics)).encode()


def carries(*messages: Message) -> bytes:
    return Rpc(messages=messages).encode()


def published(publisher: PrivateKey, topic: str = "t", number: int = 1, data: bytes = b"data") -> Message:
    return floodsub.sign(publisher, topic, data, number.to_bytes(8, "big"))


def node(*, subscribed: bool = True, neighbours: tuple[PrivateKey, ...] = (A, B, C)) -> Router:
    """A node whose neighbours all want topic "t"."""
    router = Router(ME)
    if subscribed:
        router.subscribe("t")
    for neighbour in neighbours:
        router.peer_joined(neighbour.peer)
        router.receive_rpc(neighbour.peer, wants("t"), now_s=0.0)
    return router


def targets(effects: list[Effect]) -> set[PeerId]:
    return {peer for effect in effects if isinstance(effect, Send) for peer in effect.peers}


# --- subscriptions ----------------------------------------------------------------------------------------------------


def test_a_new_neighbour_hears_what_we_want() -> None:
    router = Router(ME)
    assert router.peer_joined(A.peer) == []
    router.subscribe("one")
    router.subscribe("two")
    assert router.peer_joined(B.peer) == [Send((B.peer,), wants("one", "two"))]
    assert router.topics == ("one", "two")


@pytest.mark.req("COA-01", "COA-09")
def test_neighbours_hear_of_changes_once() -> None:
    router = node(subscribed=False, neighbours=(A, B))
    assert router.subscribe("t") == [Send((A.peer, B.peer), wants("t"))]
    assert router.subscribe("t") == []
    assert router.unsubscribe("t") == [Send((A.peer, B.peer), wants("t", wanted=False))]
    assert router.unsubscribe("t") == []


def test_nobody_is_told_when_nobody_is_there() -> None:
    assert Router(ME).subscribe("t") == []


def test_many_subscriptions_go_out_in_pieces_a_neighbour_will_take() -> None:
    router, other = Router(ME), Router(A)
    for number in range(1000):
        router.subscribe(f"{number}")
    effects = router.peer_joined(A.peer)
    assert len(effects) == 2
    for effect in effects:
        assert isinstance(effect, Send)
        other.receive_rpc(ME.peer, effect.body, now_s=0.0)
    assert other.peers_of("0") == other.peers_of("999") == {ME.peer}


def test_neighbours_wishes_are_reported_and_kept() -> None:
    router = node(subscribed=False, neighbours=(A,))
    changes = (Subscription("t", wanted=False), Subscription("u", wanted=True))
    effects = router.receive_rpc(A.peer, Rpc(subscriptions=changes).encode(), now_s=0.0)
    assert effects == [Subscribed(A.peer, changes)]
    assert router.peers_of("t") == frozenset()
    assert router.peers_of("u") == {A.peer}


def test_a_neighbour_that_left_wants_nothing() -> None:
    router = node()
    router.peer_left(A.peer)
    assert router.peers_of("t") == {B.peer, C.peer}
    assert targets(router.publish("t", b"data", b"1", now_s=0.0)) == {B.peer, C.peer}
    router.peer_joined(A.peer)
    assert A.peer not in targets(router.publish("t", b"data", b"2", now_s=0.0))


def test_a_neighbour_may_speak_before_our_stream_to_it_is_open() -> None:
    router = Router(ME)
    router.receive_rpc(A.peer, wants("t"), now_s=0.0)
    assert router.publish("t", b"early", b"1", now_s=0.0) == []
    router.peer_joined(A.peer)
    assert targets(router.publish("t", b"data", b"2", now_s=0.0)) == {A.peer}


# --- publishing -------------------------------------------------------------------------------------------------------


@pytest.mark.req("COA-01")
def test_publishing_reaches_who_wants_it_and_oneself() -> None:
    router = node()
    router.receive_rpc(C.peer, wants("t", wanted=False), now_s=0.0)
    deliver, send = router.publish("t", b"data", b"1", now_s=0.0)
    assert isinstance(deliver, Deliver)
    assert isinstance(send, Send)
    assert send.peers == (A.peer, B.peer)
    (message,) = floodsub.decode_untrusted(send.body).messages
    assert message == deliver.message
    assert (message.origin, message.data, message.seqno, message.topics) == (ME.peer, b"data", b"1", ("t",))
    assert floodsub.distrust(message) is None


@pytest.mark.req("COA-01")
def test_an_isolated_node_talks_to_itself() -> None:
    router = Router(ME)
    router.subscribe("t")
    (effect,) = router.publish("t", b"data", b"1", now_s=0.0)
    assert isinstance(effect, Deliver)


def test_without_a_subscription_nothing_comes_back() -> None:
    (effect,) = node(subscribed=False).publish("t", b"", b"1", now_s=0.0)
    assert targets([effect]) == {A.peer, B.peer, C.peer}


@pytest.mark.req("COA-01")
def test_the_echo_of_an_own_message_is_not_delivered_again() -> None:
    """The reference floods a message back to its origin."""
    router = node()
    _, send = router.publish("t", b"data", b"1", now_s=0.0)
    assert isinstance(send, Send)
    assert router.receive_rpc(A.peer, send.body, now_s=1.0) == []


@pytest.mark.req("COA-01")
def test_an_own_message_from_outside_is_never_taken() -> None:
    """Not even when it was forgotten long ago, or was sent before a restart with the same key."""
    router = node()
    effects = router.receive_rpc(A.peer, carries(published(ME)), now_s=1e9)
    assert effects == [Dropped(A.peer, ME.peer, Distrust.OWN)]


# --- receiving --------------------------------------------------------------------------------------------------------


@pytest.mark.req("COA-01")
def test_a_message_goes_to_all_but_sender_and_origin() -> None:
    router = node()
    message = published(A)
    assert router.receive_rpc(B.peer, carries(message), now_s=0.0) == [
        Deliver(message),
        Send((C.peer,), carries(message)),
    ]


@pytest.mark.req("COA-01")
def test_a_message_is_taken_once_from_whomever_it_comes() -> None:
    router = node()
    message = published(STRANGER)
    assert Deliver(message) in router.receive_rpc(A.peer, carries(message), now_s=0.0)
    for sender in (A, B, C):
        assert router.receive_rpc(sender.peer, carries(message), now_s=1.0) == []


def test_a_message_is_taken_again_after_it_was_forgotten() -> None:
    router = Router(ME, Seen(seconds_max=30.0))
    router.subscribe("t")
    message = published(A)
    assert router.receive_rpc(A.peer, carries(message), now_s=0.0) == [Deliver(message)]
    assert router.receive_rpc(A.peer, carries(message), now_s=29.0) == []
    assert router.receive_rpc(A.peer, carries(message), now_s=30.0) == [Deliver(message)]


def test_several_messages_of_one_rpc_keep_their_order() -> None:
    router = node(neighbours=())
    messages = [published(A, number=number) for number in range(5)]
    assert router.receive_rpc(A.peer, carries(*messages), now_s=0.0) == [Deliver(message) for message in messages]


def test_a_message_nobody_wants_is_not_even_checked() -> None:
    router = node(subscribed=False, neighbours=(A,))
    forged = replace(published(STRANGER), signature=b"rubbish")
    assert router.receive_rpc(A.peer, carries(forged), now_s=0.0) == []


def test_a_message_is_passed_on_by_a_node_that_does_not_want_it_itself() -> None:
    message = published(STRANGER)
    router = node(subscribed=False)
    assert router.receive_rpc(A.peer, carries(message), now_s=0.0) == [Send((B.peer, C.peer), carries(message))]


def test_a_message_on_two_topics_goes_to_each_neighbour_once() -> None:
    router = node()
    router.receive_rpc(B.peer, wants("u"), now_s=0.0)
    unsigned = replace(published(STRANGER), topics=("t", "u"), signature=None)
    message = replace(unsigned, signature=STRANGER.sign(b"libp2p-pubsub:" + unsigned.signed_part()))
    assert router.receive_rpc(A.peer, carries(message), now_s=0.0) == [
        Deliver(message),
        Send((B.peer, C.peer), carries(message)),
    ]


@pytest.mark.req("COA-01")
def test_a_forgery_does_not_keep_the_real_message_out() -> None:
    router = node()
    message = published(STRANGER)
    forged = replace(message, data=b"forged")
    assert router.receive_rpc(A.peer, carries(forged), now_s=0.0) == [
        Dropped(A.peer, STRANGER.peer, Distrust.BAD_SIGNATURE)
    ]
    assert Deliver(message) in router.receive_rpc(B.peer, carries(message), now_s=0.0)


@pytest.mark.req("COA-01")
def test_a_bad_message_does_not_spoil_its_neighbours_in_the_rpc() -> None:
    router = node(neighbours=())
    good = published(A, number=2)
    unsigned = replace(published(A, number=1), signature=None)
    assert router.receive_rpc(A.peer, carries(unsigned, good), now_s=0.0) == [
        Dropped(A.peer, A.peer, Distrust.UNSIGNED),
        Deliver(good),
    ]


def test_unknown_fields_are_not_passed_on() -> None:
    message = published(STRANGER)
    padded = protobuf.encode([(2, message.encode() + b"\x7a\x03pad")])
    assert Send((B.peer, C.peer), carries(message)) in node().receive_rpc(A.peer, padded, now_s=0.0)


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("COA-01")
def test_a_neighbour_subscribes_without_end() -> None:
    router = Router(ME)
    router.receive_rpc(A.peer, wants(*(f"{number}" for number in range(FLOODSUB_TOPICS_PER_PEER_MAX))), now_s=0.0)
    with pytest.raises(BadFrame, match="too many topics"):
        router.receive_rpc(A.peer, wants("one more"), now_s=0.0)


def test_we_cannot_subscribe_without_end_either() -> None:
    router = Router(ME)
    for number in range(FLOODSUB_TOPICS_PER_PEER_MAX):
        router.subscribe(f"{number}")
    with pytest.raises(UsageError, match="too many"):
        router.subscribe("one more")


@pytest.mark.parametrize("topic", ["", "t" * 4097, "\ud800"])
def test_impossible_topics_are_the_callers_mistake(topic: str) -> None:
    with pytest.raises(UsageError, match="topic"):
        Router(ME).subscribe(topic)
    with pytest.raises(UsageError, match="topic"):
        Router(ME).publish(topic, b"", b"1", now_s=0.0)


@given(st.lists(st.tuples(st.sampled_from((A, B, C)), st.binary(max_size=60)), max_size=5))
def test_any_bytes_are_handled_or_refused(rpcs: list[tuple[PrivateKey, bytes]]) -> None:
    router = node()
    for sender, body in rpcs:
        with contextlib.suppress(BadFrame):
            router.receive_rpc(sender.peer, body, now_s=0.0)


# --- a whole network --------------------------------------------------------------------------------------------------


@given(
    links=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=4, max_size=12),
    publishers=st.lists(st.integers(0, 4), min_size=1, max_size=4),
)
def test_every_message_reaches_everybody_connected_exactly_once(
    links: list[tuple[int, int]], publishers: list[int]
) -> None:
    people = [ME, A, B, C, STRANGER]
    routers = {person.peer: Router(person) for person in people}
    delivered: dict[PeerId, list[bytes]] = {person.peer: [] for person in people}
    wire: list[tuple[PeerId, PeerId, bytes]] = []

    def perform(peer: PeerId, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                wire.extend((peer, target, effect.body) for target in effect.peers)
            elif isinstance(effect, Deliver):
                delivered[peer].append(effect.message.id)

    def drain() -> None:
        while wire:
            source, target, body = wire.pop(0)
            perform(target, routers[target].receive_rpc(source, body, now_s=0.0))

    for peer, router in routers.items():
        perform(peer, router.subscribe("t"))
    reach = {person.peer: {person.peer} for person in people}
    for one, other in links:
        left, right = people[one].peer, people[other].peer
        if left != right:
            perform(left, routers[left].peer_joined(right))
            perform(right, routers[right].peer_joined(left))
            joined = reach[left] | reach[right]
            for peer in joined:
                reach[peer] = joined
    drain()
    for number, publisher in enumerate(publishers):
        peer = people[publisher].peer
        before = {person: len(ids) for person, ids in delivered.items()}
        perform(peer, routers[peer].publish("t", b"data", number.to_bytes(8, "big"), now_s=0.0))
        drain()
        for person, ids in delivered.items():
            assert len(ids) - before[person] == (1 if person in reach[peer] else 0)


def test_what_was_seen_is_remembered_for_a_while() -> None:
    seen = Seen(seconds_max=10.0)
    seen.add(b"a", now_s=0.0)
    assert seen.has(b"a", now_s=9.9)
    assert not seen.has(b"a", now_s=10.0)
    assert not seen.has(b"b", now_s=0.0)


def test_what_was_seen_too_long_ago_is_forgotten_when_something_comes() -> None:
    seen = Seen(seconds_max=10.0)
    seen.add(b"a", now_s=0.0)
    seen.add(b"b", now_s=5.0)
    seen.add(b"c", now_s=10.0)
    assert len(seen) == 2


def test_the_oldest_seen_are_forgotten_when_there_are_too_many() -> None:
    seen = Seen(count_max=2)
    for number, message_id in enumerate((b"a", b"b", b"c")):
        seen.add(message_id, now_s=float(number))
    assert [seen.has(message_id, now_s=3.0) for message_id in (b"a", b"b", b"c")] == [False, True, True]


@given(st.lists(st.tuples(st.binary(max_size=1), st.floats(0, 5)), max_size=60))
def test_what_was_seen_equals_its_definition(steps: list[tuple[bytes, float]]) -> None:
    """A message is known if it was added within the last 10 s and fewer than 4 others were added since."""
    seen = Seen(seconds_max=10.0, count_max=4)
    added: list[tuple[bytes, float]] = []
    now_s = 0.0
    for message_id, passed_s in steps:
        now_s += passed_s
        latest: dict[bytes, float] = {}
        for known, since_s in added:
            latest.pop(known, None)
            latest[known] = since_s
        expected = message_id in list(latest)[-4:] and now_s - latest[message_id] < 10.0
        assert seen.has(message_id, now_s) == expected
        seen.add(message_id, now_s)
        added.append((message_id, now_s))
        assert len(seen) <= 4
