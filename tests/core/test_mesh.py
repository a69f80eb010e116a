"""Stories of several nodes: events reach whoever wants them, by one way, in order, and nobody else."""

from __future__ import annotations

import pytest

from tests.core.stage import Stage
from weft.core import BrokerSettings, resuming
from weft.core.messages import (
    Copy,
    Edge,
    FramesDropped,
    FromPositions,
    LinkUp,
    ReceivedCopies,
    ReceivedResume,
    SendAcks,
    SendCopies,
    Synced,
)
from weft.core.settings import InterestSettings
from weft.core.views import explain, link_lag
from weft.limits import KIB, LINK_ACK_TIMEOUT_S
from weft.log.errors import EventsLost, Loss
from weft.log.retention import RetentionRule, retain
from weft.model import Batch, Epoch, NodeId, Stream, parse_pattern, parse_position, parse_topic
from weft.routing import finished


def copies_sent(stage: Stage, name: str, topic: str) -> int:
    """How many batches of a topic a node sent to its peers."""
    sent = [effect for effect in stage[name].sent if isinstance(effect, SendCopies)]
    return sum(copy.stream.topic == topic for effect in sent for copy in effect.copies)


@pytest.mark.req("MSH-02", "MSH-03")
def test_events_cross_a_chain_to_whoever_wants_them_and_go_nowhere_else() -> None:
    stage = Stage("a", "b", "c", "d")
    stage.link("a-b", "b-c", "b-d")
    reader = stage["c"].subscribe("plant.*")
    stage.run()
    stage["a"].publish("plant.t", "1")
    stage["a"].publish("other.t", "2")
    stage.run()
    assert reader.events == [("plant.t@a/0:e7:0", "1")]
    topics = {name: {info.stream.topic for info in stage[name].log.streams()} for name in "bcd"}
    assert topics == {"b": {"plant.t"}, "c": {"plant.t"}, "d": set()}


@pytest.mark.req("MSH-02")
def test_a_ring_delivers_each_event_once() -> None:
    stage = Stage("a", "b", "c", "d")
    stage.link("a-b", "b-c", "c-d", "d-a")
    readers = [stage[name].subscribe(">") for name in "abcd"]
    stage.run()
    for name in "abcd":
        stage[name].publish("t", name)
    stage.run()
    assert all(sorted(reader.texts) == list("abcd") for reader in readers)
    assert sum(copies_sent(stage, name, "t") for name in "abcd") == 12, "three copies of each of four events"


@pytest.mark.req("MSH-05")
def test_a_late_subscriber_elsewhere_gets_the_history() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    stage["a"].publish("t", "1", "2")
    stage["a"].publish("t", "3")
    stage.run()
    reader = stage["c"].subscribe("t", Edge.EARLIEST)
    stage.run()
    assert reader.texts == ["1", "2", "3"]


def test_who_wants_only_what_is_new_gets_no_history_from_elsewhere() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    stage["a"].publish("t", "old")
    stage.run()
    reader = stage["c"].subscribe("t", Edge.LATEST)
    stage.run()
    stage["a"].publish("t", "new", at_us=1)
    stage.run()
    assert reader.texts == ["new"]


@pytest.mark.req("MSH-03")
def test_who_wants_only_what_is_new_has_no_history_copied() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    stage["a"].publish("t", "old")
    stage.run()
    stage["c"].subscribe("t", Edge.LATEST)
    stage.run()
    stage["a"].publish("t", "new")
    stage.run()
    (copy,) = [info for info in stage["c"].log.streams() if info.stream.topic == "t"]
    assert (copy.start, copy.end) == (1, 2)


def test_what_was_published_while_the_wish_was_on_its_way_is_new() -> None:
    stage = Stage("a", "b")
    stage["a"].publish("t", "old")
    stage.run()
    reader = stage["b"].subscribe("t", Edge.LATEST)
    stage.run(1.0)
    stage["a"].publish("t", "meanwhile")
    stage.run(1.0)
    stage.link("a-b")
    stage.run()
    assert reader.texts == ["meanwhile"]


def test_a_copy_that_is_behind_is_not_taken_for_new() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    first = stage["b"].subscribe("t")
    stage["a"].publish("t", "1")
    stage.run()
    stage["b"].unsubscribe(first)
    stage.run()
    stage["a"].publish("t", "2")
    stage.run()
    assert len(stage["b"].log.streams()) == 1
    reader = stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    stage["a"].publish("t", "3")
    stage.run()
    assert reader.texts == ["3"]


@pytest.mark.req("MSH-02")
@pytest.mark.parametrize(("filter_bytes_max", "in_vain_max"), [(32 * KIB, 5), (0, 500)])
def test_very_many_subscriptions_at_a_node_do_not_bring_it_what_it_does_not_want(
    filter_bytes_max: int, in_vain_max: int
) -> None:
    """Without a filter everything comes that looks alike: what the filter is for."""
    settings = BrokerSettings(interest=InterestSettings(filter_bytes_max=filter_bytes_max))
    stage = Stage("a", "b", "c", settings=settings)
    stage.link("a-b", "b-c")
    readers = [stage["c"].subscribe(f"plant.device{number}.command") for number in range(2000)]
    odd = [stage["c"].subscribe(pattern) for pattern in ("office.*.temp", "home.>", "garage")]
    stage.run()
    for number in range(1500, 2500):
        stage["a"].publish(f"plant.device{number}.command", str(number))
    for topic in ("office.1.temp", "home.x.y", "garage", "office.1.noise", "home", "attic"):
        stage["a"].publish(topic, topic)
    stage.run()
    assert [text for reader in readers for text in reader.texts] == [str(number) for number in range(1500, 2000)]
    assert [reader.texts for reader in odd] == [["office.1.temp"], ["home.x.y"], ["garage"]]
    in_vain = stage["c"].broker.replication.events_in_vain
    unwanted = [
        info for info in stage["c"].log.streams() if not stage["c"].broker.subscriptions.wants(info.stream.topic)
    ]
    assert in_vain == len(unwanted) <= in_vain_max
    assert filter_bytes_max or in_vain == 500, "these are all that the wider patterns bring"
    assert stage["b"].broker.replication.events_in_vain == 0, "somebody behind it wants it, as far as it knows"


@pytest.mark.req("MSH-02")
def test_many_inboxes_of_the_mesh_itself_get_only_their_own() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    readers = [stage["b"].subscribe(f"weft.inbox.{number}") for number in range(100)]
    stage.run()
    for number in (7, 99, 100, 101):
        stage["a"].publish(f"weft.inbox.{number}", str(number))
    stage.run()
    assert [(number, reader.texts) for number, reader in enumerate(readers) if reader.texts] == [
        (7, ["7"]),
        (99, ["99"]),
    ]
    assert stage["b"].broker.replication.events_in_vain == 0


@pytest.mark.req("PL-04")
def test_a_link_that_comes_back_goes_on_after_the_last_ack() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage["a"].publish("t", "1")
    stage.run()
    stage.cut("a-b")
    stage["a"].publish("t", "2")
    stage.run()
    stage["a"].sent.clear()
    stage.link("a-b")
    stage.run()
    assert reader.texts == ["1", "2"]
    assert copies_sent(stage, "a", "t") == 1, "what was acknowledged is not sent again"


def test_a_cut_in_a_ring_is_bypassed_without_gap_or_repetition() -> None:
    stage = Stage("a", "b", "c", "d")
    stage.link("a-b", "b-c", "c-d", "d-a")
    reader = stage["c"].subscribe("t")
    stage.run()
    for number in range(10):
        stage["a"].publish("t", str(number))
        if number == 5:
            stage.cut("b-c")
        if number == 8:
            stage.link("b-c")
            stage.cut("c-d")
    stage.run()
    assert reader.texts == [str(number) for number in range(10)]


def test_what_a_dead_origin_left_behind_still_goes_on() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    reader = stage["c"].subscribe("t")
    stage.run()
    stage.cut("b-c")
    stage["a"].publish("t", "last words")
    stage.link("b-c")
    while not any(info.stream.topic == "t" and info.end for info in stage["b"].log.streams()):
        assert stage._turn(), "the event never reached the node in the middle"
    stage.kill("a")
    stage.run()
    assert reader.texts == ["last words"]


@pytest.mark.req("NFR-02")
def test_a_killed_node_comes_back_with_all_that_had_a_receipt() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage.run()
    stage.cut("a-b")
    kept = stage["a"].publish("t", "kept")
    stage.run()
    lost = stage["a"].publish("t", "lost")
    receipts = stage["a"].receipts
    assert kept in receipts
    assert lost not in receipts
    stage.kill("a")
    stage.restart()
    stage.link("a-b")
    stage.run()
    assert reader.texts == ["kept"]


def test_a_node_that_lost_its_disk_is_not_mixed_up_with_its_earlier_life() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage["a"].publish("t", "1", "2")
    stage.run()
    stage.kill("a")
    stage.restart(epoch=8)
    stage.link("a-b")
    stage["a"].publish("t", "3")
    stage.run()
    assert reader.events == [("t@a/0:e7:0", "1"), ("t@a/0:e7:1", "2"), ("t@a/0:e8:0", "3")]


def damaged_and_repaired() -> Stage:
    """b has a copy of the first event. Of what a had alone, a repair has given up the second and the third one."""
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    stage["c"].subscribe("t")
    stage["a"].publish("t", "0")
    stage.run()
    stage.cut("a-b")
    for text in "12345":
        stage["a"].publish("t", text)
        stage.run(0.1)
    stage.kill("a")
    for offset in (1, 2, 4):
        stage.damage(Stream(parse_topic("t"), NodeId("a"), 0), offset)
    stage.run()
    return stage


@pytest.mark.req("MSH-05", "LOG-02")
def test_what_follows_events_that_a_repair_gave_up_reaches_readers_elsewhere() -> None:
    """The copies there end before the gap, and their reader has a position behind it, from the origin itself."""
    stage = damaged_and_repaired()
    reader = stage["c"].subscribe("t", FromPositions((parse_position("t@a/0:e7:5"),)))
    stage.run()
    stage.restart(epoch=8, repaired=True)
    stage.link("a-b")
    stage["a"].publish("t", "new")
    stage.run()
    assert reader.error is None
    assert sorted(reader.events) == [("t@a/0:e7:5", "5"), ("t@a/0:e8:0", "new")]
    stage.run(120.0)
    assert copies_sent(stage, "a", "t") == len(["0", "3", "5", "new"]), "and each comes once"


@pytest.mark.req("MSH-05", "LOG-02")
def test_who_comes_to_events_that_a_repair_gave_up_is_told_at_every_node() -> None:
    stage = damaged_and_repaired()
    stage.restart(epoch=8, repaired=True)
    stage.link("a-b")
    stage.run()
    for name in "abc":
        offset, texts, gaps = 0, [], []
        while offset < 6:
            reader = stage[name].subscribe("t", FromPositions((parse_position(f"t@a/0:e7:{offset}"),)))
            stage.run()
            texts += reader.texts
            if reader.error is None:
                break
            assert isinstance(reader.error, EventsLost)
            gaps.append((reader.error.loss.first, reader.error.loss.end))
            offset = reader.error.loss.end
        assert (name, texts, gaps) == (name, ["0", "3", "5"], [(1, 3), (4, 5)])


@pytest.mark.req("CON-02", "LOG-02")
@pytest.mark.parametrize("window", [0, 10])
def test_a_member_is_told_once_what_a_repair_gave_up_and_then_goes_on(window: int) -> None:
    """Each member that came back ended at the same gap, until somebody moved the group."""
    stage = damaged_and_repaired()
    stage.restart(epoch=8, repaired=True)
    stage.link("a-b")
    stage.run()
    found = []
    for _ in range(3):
        reader = stage["a"].subscribe("t", group="g", member="m", window=window)
        stage.run()
        gap = reader.error.loss if isinstance(reader.error, EventsLost) else None
        found.append((reader.texts, gap and (gap.first, gap.end)))
    assert found == [(["0"], (1, 3)), (["0", "3"], (4, 5)), (["0", "3", "5"], None)]
    new = stage["a"].subscribe("t", group="other", member="m", window=window)
    stage.run()
    assert isinstance(new.error, EventsLost), "another group was not told"


@pytest.mark.req("MSH-05", "LOG-02")
def test_a_plain_peer_gets_what_follows_events_that_a_repair_gave_up() -> None:
    stage = damaged_and_repaired()
    stage.restart(epoch=8, repaired=True)
    stage["a"].step(LinkUp(NodeId("old"), plain=True))
    stage.run()
    assert [each.payload for each in stage["a"].plain] == [b"0", b"3", b"5"]
    told = [each.loss.first for each in stage["a"].damage if isinstance(each, EventsLost) and each.is_given_up]
    assert told == [1, 4], "people are told"


def test_a_subscriber_moves_to_another_node_and_goes_on_where_it_was() -> None:
    stage = Stage("a", "b", "c")
    stage.link("a-b", "b-c")
    first = stage["b"].subscribe("t")
    stage["a"].publish("t", "1")
    stage["a"].publish("t", "2")
    stage.run()
    stage["b"].unsubscribe(first)
    again = stage["c"].subscribe("t", FromPositions((parse_position("t@a/0:e7:1"),)))
    stage.run()
    assert again.texts == ["2"]


def test_frames_that_were_dropped_are_sent_again() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage.run()
    stage["a"].publish("t", "1")
    stage["a"].sync()
    stage._flying.clear()
    stage.run()
    assert reader.texts == []
    stage["a"].step(FramesDropped(NodeId("b")))
    stage.run()
    assert reader.texts == ["1"]


@pytest.mark.parametrize("first", [True, False])
def test_what_does_not_follow_is_not_taken_and_the_sender_is_told(first: bool) -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    if not first:
        stage["a"].publish("t", "0")
    stage.run()
    stage["a"].publish("t", "1")
    stage["a"].sync()
    stage._flying.clear()
    stage["a"].publish("t", "2")
    stage.run()
    assert reader.texts == (["1", "2"] if first else ["0", "1", "2"])


def test_a_peer_that_acknowledges_nothing_gets_it_again_after_a_while() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage.run()
    stage["b"].store.disk_bytes_max = 0
    stage["a"].publish("t", "1")
    stage.run(10.0)
    assert reader.texts == []
    stage["b"].store.disk_bytes_max = 1 << 60
    stage.run(60.0)
    assert reader.texts == ["1"]


def test_a_stream_that_found_no_room_is_not_forgotten_because_others_go_on() -> None:
    """Nothing more comes of it that would show the gap, and the link as a whole makes progress all the time."""
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe(">")
    stage.run()
    stage["b"].store.disk_bytes_max = 0
    stage["a"].publish("idle", "one")
    stage.run(1.0)
    stage["b"].store.disk_bytes_max = 1 << 60
    for second in range(3 * int(LINK_ACK_TIMEOUT_S)):
        stage["a"].publish("busy", str(second))
        stage.run(1.0)
    assert "one" in reader.texts


def test_what_is_missing_is_told_again_if_there_was_no_room_for_the_answer() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage.run()
    stage["a"].publish("t", "1")
    stage["a"].sync()
    stage._flying.clear()
    stage["a"].publish("t", "2")
    stage["b"].store.disk_bytes_max = 0  # it hears of the gap, and can not keep what it is sent then
    stage.run(1.0)
    stage["b"].store.disk_bytes_max = 1 << 60
    stage["a"].publish("t", "3")
    stage.run(1.0)
    assert reader.texts == ["1", "2", "3"]


def test_no_more_is_under_way_than_the_window() -> None:
    window_bytes = 100_000
    stage = Stage("a", "b", settings=BrokerSettings(window_bytes=window_bytes))
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage.run()
    texts = [str(number) * 20_000 for number in range(10)]
    for text in texts:
        stage["a"].publish("t", text)
    stage["a"].sync()
    a = stage["a"].broker
    assert finished(link_lag(a, NodeId("b"))) == 10
    assert 0 < a.replication.links[NodeId("b")].outgoing.flying_bytes < window_bytes + 21_000
    stage.run()
    assert reader.texts == texts
    assert finished(link_lag(a, NodeId("b"))) == 0
    assert a.replication.links[NodeId("b")].outgoing.flying_bytes == 0


def test_a_copy_that_retention_overtook_says_so_to_its_reader() -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe("t")
    stage["a"].publish("t", "1", at_us=1)
    stage.run()
    stage.cut("a-b")
    stage["a"].publish("t", "2", at_us=2)
    stage.run()
    stage["a"].log.begin_segment()
    stage["a"].publish("t", "3")
    stage.run()
    retain(stage["a"].log, [RetentionRule(parse_pattern("t"), age_us_max=100_000_000)], now_us=int(stage.now_s * 1e6))
    stage.link("a-b")
    stage.run()
    assert reader.texts == ["1"]
    assert reader.error is not None
    assert reader.error.facts["earliest"] == 2
    late = stage["b"].subscribe("t")
    stage.run()
    assert late.texts == ["3"]


def test_explain_says_who_gets_a_topic_by_which_way() -> None:
    stage = Stage("a", "b", "c", "d")
    stage.link("a-b", "b-c")
    stage["c"].subscribe("plant.*")
    stage["d"].subscribe(">")
    stage["a"].subscribe("plant.t")
    stage.run()
    found = {each.node_id: (each.pattern, each.path) for each in explain(stage["a"].broker, parse_topic("plant.t"))}
    assert found == {"a": ("plant.t", ("a",)), "c": ("plant.*", ("a", "b", "c")), "d": (">", ())}


@pytest.mark.req("PL-04")
def test_a_copy_that_comes_while_a_sync_is_under_way_is_acknowledged_by_the_next_one() -> None:
    """And not only when its sender has run out of patience."""
    stage = Stage("a", "b")
    stage.link("a-b")
    stage["b"].subscribe("t")
    stage.run()
    b = stage["b"]
    stream, epoch = Stream(parse_topic("t"), NodeId("a"), 0), Epoch(7)
    copies = [
        Copy(stream, epoch, Batch.from_columns([b"x"], 0).with_base_offset(offset), follows=offset) for offset in (0, 1)
    ]
    b.sent.clear()
    b.step(ReceivedCopies(NodeId("a"), (copies[0],)))
    ticket, advanced = b.log.sync(), dict(b.advanced)
    b.advanced.clear()
    b.step(ReceivedCopies(NodeId("a"), (copies[1],)))
    b.step(Synced(ticket, advanced))
    b.sync()
    acked = [each.offset for effect in b.sent if isinstance(effect, SendAcks) for each in effect.positions]
    assert acked == [1, 2]


def test_a_peer_that_never_ends_its_resume_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "RESUME_STREAMS_MAX", 10)
    stage = Stage("a", "b")
    stage.link("a-b")
    stage.run()
    for _ in range(11):
        stage["a"].step(ReceivedResume(NodeId("b"), (NodeId("a"),), (), more=True))
    assert [(node, peer) for node, peer, _ in stage.dropped] == [("a", "b")]


@pytest.mark.parametrize("plain", [False, True])
def test_damage_met_on_the_way_to_a_peer_is_told_and_stops_nothing_else(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage("a", "b")
    stage.link("a-b")
    reader = stage["b"].subscribe(">")
    stage.run()
    if plain:
        stage["a"].step(LinkUp(NodeId("old"), plain=True))
    log = stage["a"].log
    read = log.read

    def damaged(stream: Stream, epoch: Epoch, first: int, *rest: int) -> list[bytes]:
        if stream.topic == "bad":
            raise EventsLost(Loss(stream, epoch, 0, 1), "flipped bits")
        return read(stream, epoch, first, *rest)

    monkeypatch.setattr(log, "read", damaged)
    stage["a"].publish("bad", "x")
    stage["a"].publish("good", "y")
    stage.run()
    assert reader.texts == ["y"]
    assert len(stage["a"].damage) == (2 if plain else 1), "once for each who was to have it"
    assert [each.payload for each in stage["a"].plain] == ([b"y"] if plain else [])
