"""Subscriptions that go on in an archive table: it first, then the log, without a gap or a repetition at the seam."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.stage import Actor, Reader, Stage
from weft.core.messages import (
    Edge,
    FromPositions,
    FromTime,
    HistoryFound,
    HistoryPlace,
    HistoryRead,
    LookHistory,
    Start,
    StreamKey,
)
from weft.core.settings import BrokerSettings
from weft.errors import WeftError
from weft.limits import OFFSET_MAX
from weft.log.errors import PositionExpired
from weft.log.retention import RetentionRule, retain
from weft.model import Batch, Epoch, Event, NodeId, Pattern, Stream, Topic, matches, parse_pattern, parse_position
from weft.node.history import follow, lacking
from weft.port.history import HistoryAway

pytestmark = pytest.mark.req("LAK-04")

ARCHIVED = BrokerSettings(archived=lambda topic: True)
T = (Stream(Topic("t"), NodeId("a"), 0), Epoch(7))
NOW_US = 2_000_000_000


class Table:
    """An archive table in memory: of each stream, events by offset."""

    def __init__(self, events: dict[StreamKey, dict[int, Event]], piece_events: int = 1000) -> None:
        self.events = events
        self.piece_events = piece_events
        self.away: WeftError | None = None
        self.reads = 0

    def answer(self, actor: Actor) -> bool:
        """What the actor has asked first; whether it had."""
        if not actor.asked_tables:
            return False
        asked = actor.asked_tables.pop(0)
        if isinstance(asked, LookHistory):
            actor.step(self._found(asked))
        else:
            self.reads += 1
            key = (asked.stream, asked.epoch)
            try:
                batches, goes_on = self._read(key, asked.first, asked.end)
            except WeftError as error:
                actor.step(HistoryRead(asked.subscription, *key, asked.first, error=error))
            else:
                actor.step(HistoryRead(asked.subscription, *key, asked.first, batches, goes_on))
        return True

    def _found(self, asked: LookHistory) -> HistoryFound:
        if self.away is not None:
            return HistoryFound(asked.subscription, error=self.away)
        places = []
        for key, known in self.events.items():
            late = [offset for offset, event in known.items() if event.timestamp_us >= (asked.since_us or 0)]
            if matches(Pattern(asked.pattern), key[0].topic):
                places.append(HistoryPlace(*key, min(late, default=None)))
        return HistoryFound(asked.subscription, tuple(places))

    def _read(self, key: StreamKey, first: int, end: int) -> tuple[tuple[bytes, ...], int | None]:
        if self.away is not None:
            raise self.away
        known = self.events.get(key, {})
        offsets: list[int] = []
        while first + len(offsets) in known and first + len(offsets) < end and len(offsets) < self.piece_events:
            offsets.append(first + len(offsets))
        if offsets:
            batch = Batch.from_events([known[each] for each in offsets]).with_base_offset(first)
            follow([batch.data], first, end, with_gaps=False)
            return (batch.data,), None
        following = min((offset for offset in known if offset > first), default=None)
        found = lacking(key, first, end, following, "", with_gaps=False)
        return tuple(found.batches), found.goes_on


def play(stage: Stage, table: Table) -> None:
    """Until nobody has anything to do."""
    stage.run()
    while any(table.answer(actor) for actor in stage.actors.values()):
        stage.run()


def text_of(offset: int) -> Event:
    return Event(b"%d" % offset, offset)


def archived(offsets: Iterable[int], key: StreamKey = T) -> dict[StreamKey, dict[int, Event]]:
    return {key: {offset: text_of(offset) for offset in offsets}}


def cut_stage(cut: int, end: int, topic: str = "t") -> Stage:
    """A node whose log has the offsets from ``cut`` up to ``end`` of a stream."""
    stage = Stage("a", settings=ARCHIVED)
    actor = stage["a"]
    for number in range(cut):
        actor.publish(topic, str(number), at_us=number)
    stage.run()
    actor.log.begin_segment()
    for number in range(cut, end):
        actor.publish(topic, str(number), at_us=NOW_US + number)
    stage.run()
    retain(actor.log, [RetentionRule(parse_pattern(topic), age_us_max=1_000_000)], now_us=NOW_US)
    assert [info.start for info in actor.log.streams(Pattern(topic))] == [cut]
    return stage


def numbers(reader: Reader) -> list[int]:
    return [int(text) for text in reader.texts]


def read(stage: Stage, table: Table, start: Start = Edge.EARLIEST, pattern: str = ">", **options: int) -> Reader:
    reader = stage["a"].subscribe(pattern, start, with_history=True, **options)  # type: ignore[arg-type]
    play(stage, table)
    return reader


@settings(max_examples=60, deadline=None)
@given(
    cut=st.integers(1, 12),
    more=st.integers(1, 6),
    offsets=st.sets(st.integers(0, 16), max_size=17),
    first=st.integers(0, 14),
    piece=st.integers(1, 5),
)
def test_a_reader_sees_each_event_once_up_to_the_first_that_nobody_has(
    cut: int, more: int, offsets: set[int], first: int, piece: int
) -> None:
    end = cut + more
    first = min(first, end)
    stage = cut_stage(cut, end)
    table = Table(archived(offset for offset in offsets if offset < end), piece)
    reader = read(stage, table, FromPositions((parse_position(f"t@a/0:e7:{first}"),)))
    there = {offset for offset in offsets if offset < cut} | set(range(cut, end))
    wanted: list[int] = []
    while first + len(wanted) in there:
        wanted.append(first + len(wanted))
    assert numbers(reader) == wanted
    stopped = first + len(wanted)
    if stopped == end:
        assert reader.error is None
    else:
        assert isinstance(reader.error, PositionExpired)
        assert reader.error.facts["earliest"] == min(offset for offset in there if offset > stopped)


def test_who_wants_everything_begins_in_the_table() -> None:
    stage = cut_stage(5, 8)
    reader = read(stage, Table(archived(range(2, 7)), 2))
    assert numbers(reader) == [2, 3, 4, 5, 6, 7]
    assert [str(each) for each in reader.opened or ()] == ["t@a/0:e7:2"]
    stage["a"].publish("t", "8")
    stage.run()
    assert numbers(reader)[-1] == 8


@pytest.mark.parametrize(("since_us", "first"), [(3, 3), (5, 5), (NOW_US + 6, 6), (0, 0)])
def test_a_time_lies_in_the_table_or_in_the_log(since_us: int, first: int) -> None:
    reader = read(cut_stage(5, 8), Table(archived(range(5))), FromTime(since_us))
    assert numbers(reader) == list(range(first, 8))


def test_who_wants_what_is_new_asks_no_table() -> None:
    stage, table = cut_stage(5, 8), Table(archived(range(5)))
    reader = read(stage, table, Edge.LATEST)
    assert (numbers(reader), stage["a"].asked_tables, table.reads) == ([], [], 0)


def test_streams_that_only_the_table_has_are_read_and_go_on_when_they_come_back() -> None:
    gone = (Stream(Topic("t"), NodeId("gone"), 0), Epoch(3))
    stage = cut_stage(2, 4)
    table = Table(archived(range(2)) | archived(range(10, 13), gone), 2)
    reader = read(stage, table)
    assert sorted(text for text in reader.texts) == sorted(map(str, [*range(4), *range(10, 13)]))
    assert [str(each) for each in reader.opened or ()] == ["t@a/0:e7:0", "t@gone/0:e3:10"]
    assert reader.error is None
    log = stage["a"].log
    log.append_copy(*gone, Batch.from_events([text_of(13)]).with_base_offset(13))
    stage["a"].sync()
    play(stage, table)
    assert reader.texts[-1] == "13"


def test_a_table_that_is_away_is_told_to_those_who_need_it_and_to_nobody_else() -> None:
    stage, table = cut_stage(5, 8), Table(archived(range(5)))
    table.away = HistoryAway("it is away")
    assert read(stage, table).error is table.away
    assert read(stage, table, FromTime(NOW_US + 6)).error is table.away
    behind = read(stage, table, FromPositions((parse_position("t@a/0:e7:3"),)))
    assert behind.error is table.away
    others = read(stage, table, FromPositions((parse_position("t@a/0:e7:6"),)))
    assert (numbers(others), others.error) == ([6, 7], None)
    unnamed = read(stage, table, FromPositions(()))
    assert unnamed.error is table.away


def test_the_log_goes_on_while_the_table_is_slow() -> None:
    stage = cut_stage(5, 8)
    slow = Table(archived(range(5)))
    named = tuple(map(parse_position, ("t@a/0:e7:0", "u@a/0:e7:0")))
    reader = stage["a"].subscribe(">", FromPositions(named), with_history=True)
    while stage["a"].asked_tables and isinstance(stage["a"].asked_tables[0], LookHistory):
        slow.answer(stage["a"])
    stage["a"].publish("u", "100")
    stage.run()
    assert numbers(reader) == [100], "its own stream waits, others do not"
    play(stage, slow)
    assert numbers(reader) == [100, *range(8)]


def test_many_streams_take_turns_with_one_piece_under_way() -> None:
    stage = cut_stage(6, 8)
    other = (Stream(Topic("u"), NodeId("gone"), 0), Epoch(1))
    table = Table(archived(range(6)) | archived(range(6), other), 1)
    reader = stage["a"].subscribe(">", Edge.EARLIEST, with_history=True)
    stage.run()
    while stage["a"].asked_tables:
        assert len(stage["a"].asked_tables) == 1
        table.answer(stage["a"])
        stage.run()
    assert len(reader.texts) == 14
    topics = [where.partition("@")[0] for where, _ in reader.events]
    assert topics[:4] in (["t", "u", "t", "u"], ["u", "t", "u", "t"], ["t", "t", "u", "t"]), topics


def test_credit_and_holders_bound_what_is_read() -> None:
    stage, table = cut_stage(5, 8), Table(archived(range(5)), 1)
    reader = stage["a"].subscribe(">", Edge.EARLIEST, with_history=True, credit=1)
    del stage["a"].readers[reader.number]
    stage["a"].readers[reader.number] = reader
    for _ in range(20):
        stage["a"].inbox.clear()  # no credit comes back
        stage.run(0.1)
        stage["a"].inbox.clear()
        if not table.answer(stage["a"]):
            break
    assert len(reader.batches) <= 2
    assert table.reads <= 2


def test_who_leaves_while_a_piece_is_under_way_is_forgotten() -> None:
    stage, table = cut_stage(5, 8), Table(archived(range(5)))
    reader = stage["a"].subscribe(">", Edge.EARLIEST, with_history=True)
    stage.run()
    table.answer(stage["a"])
    stage.run()
    assert stage["a"].asked_tables
    stage["a"].unsubscribe(reader)
    play(stage, table)
    assert reader.texts == []


def test_retention_that_overtakes_a_reader_sends_it_to_the_table() -> None:
    stage = Stage("a", settings=ARCHIVED)
    actor = stage["a"]
    for number in range(5):
        actor.publish("t", str(number), at_us=number)
    stage.run()
    table = Table(archived(range(5)))
    reader = actor.subscribe("t", Edge.EARLIEST, with_history=True, credit=1)
    play(stage, table)
    reader.batches.clear()
    slow = actor.subscribe("t", FromPositions((parse_position("t@a/0:e7:2"),)), with_history=True, credit=0)
    stage.run()
    actor.log.begin_segment()
    actor.publish("t", "5", at_us=NOW_US)
    stage.run()
    retain(actor.log, [RetentionRule(parse_pattern("t"), age_us_max=1_000_000)], now_us=NOW_US)
    assert actor.log.info(*T).start == 5
    from weft.core.messages import AddCredit

    actor.step(AddCredit(slow.number, 1 << 20))
    play(stage, table)
    assert numbers(slow) == [2, 3, 4, 5]


@pytest.mark.parametrize("window", [0, 2])
def test_a_group_that_has_fallen_behind_goes_on_in_the_table(window: int) -> None:
    """By position, and event by event."""
    stage = cut_stage(5, 8)
    stage["a"].log.commit("g", [parse_position("t@a/0:e7:2")])
    actor = stage["a"]
    actor.sync()
    table = Table(archived(range(5)), 2)
    actor.broker = type(actor.broker)(actor.id, actor.log, actor.settings, wall_offset_s=0.0)
    actor.perform(actor.broker.start(stage.now_s))
    reader = actor.subscribe("t", Edge.OWN, group="g", member="m", window=window, with_history=True)
    seen: list[int] = []
    for _ in range(20):
        play(stage, table)
        actor.handled(reader) if not window else settle(actor, reader)
        if (now := numbers(reader)) == seen:
            break
        seen = now
    assert seen == [2, 3, 4, 5, 6, 7]
    assert reader.error is None


def settle(actor: Actor, reader: Reader) -> None:
    """It acknowledges what it has got."""
    from weft.core.messages import Acked, Settled

    acks = tuple(
        Acked(*key, max(first, Batch.read_stored(data).base_offset), Batch.read_stored(data).end_offset)
        for key, first, data in reader.batches
    )
    actor.step(Settled(reader.number, acks, generation=reader.assigned[-1].generation))


def test_a_group_that_begins_begins_in_the_log() -> None:
    stage, table = cut_stage(5, 8), Table(archived(range(5)))
    reader = stage["a"].subscribe("t", Edge.EARLIEST, group="g", member="m", with_history=True)
    play(stage, table)
    assert numbers(reader) == [5, 6, 7]


def test_a_late_copy_takes_from_the_mesh_what_it_has_and_the_rest_from_the_table() -> None:
    stage = Stage("a", "b", settings=ARCHIVED)
    origin = stage["a"]
    stage.link("a-b")
    for number in range(4):
        origin.publish("t", str(number), at_us=number)
    stage.run()
    origin.log.begin_segment()
    for number in range(4, 6):
        origin.publish("t", str(number), at_us=NOW_US + number)
    stage.run()
    retain(origin.log, [RetentionRule(parse_pattern("t"), age_us_max=1_000_000)], now_us=NOW_US)
    stage.now_s = NOW_US / 1e6 + 100
    new = stage["b"].subscribe("t", Edge.LATEST)
    stage.run()
    origin.publish("t", "6")
    stage.run()
    assert (numbers(new), stage["b"].log.info(*T).late_us is not None) == ([6], True)
    table = Table(archived(range(4)))
    everything = stage["b"].subscribe("t", Edge.EARLIEST, with_history=True)
    for _ in range(5):
        play(stage, table)
    assert numbers(everything) == list(range(7))
    assert stage["b"].log.info(*T).start == 4, "what the mesh has was copied"


@pytest.mark.parametrize(
    ("following", "end", "with_gaps", "expected"),
    [(None, 9, False, 9), (7, 9, False, 7), (12, 9, False, 9), (7, OFFSET_MAX, False, 7)],
)
def test_what_neither_has_is_told_with_where_events_go_on(
    following: int | None, end: int, with_gaps: bool, expected: int
) -> None:
    with pytest.raises(PositionExpired) as failure:
        lacking(T, 5, end, following, "", with_gaps=with_gaps)
    assert failure.value.facts["earliest"] == expected


def test_what_compaction_took_is_passed_over_but_not_what_is_damaged() -> None:
    assert lacking(T, 5, 9, 7, "", with_gaps=True).goes_on == 7
    assert lacking(T, 5, 9, None, "", with_gaps=True).goes_on == 9
    assert lacking(T, 5, OFFSET_MAX, None, "", with_gaps=False).goes_on is None
    with pytest.raises(PositionExpired, match="1 file of the table"):
        lacking(T, 5, 9, 7, "1 file of the table cannot be read", with_gaps=True)


@pytest.mark.parametrize(
    ("bases", "with_gaps", "is_good"),
    [
        ([3, 5], False, True),
        ([3, 6], False, False),
        ([3, 6], True, True),
        ([2], True, False),
        ([3, 4], True, False),
        ([4], False, False),
        ([3, 9], True, False),
    ],
)
def test_events_of_a_table_have_to_follow(bases: list[int], with_gaps: bool, is_good: bool) -> None:
    from weft.port.history import HistoryDamaged

    batches = [Batch.from_events([text_of(base), text_of(base + 1)]).with_base_offset(base).data for base in bases]
    if is_good:
        follow(batches, 3, 10, with_gaps=with_gaps)
    else:
        with pytest.raises(HistoryDamaged):
            follow(batches, 3, 10, with_gaps=with_gaps)
