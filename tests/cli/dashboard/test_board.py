"""What nodes answered, as rows with rates."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.cli.dashboard.answers import answers, group, peer, status, topic
from weft.cli.dashboard.board import BLOCKS, Board, Flow, TopicRow, arranged


def test_rates_are_of_what_was_added_since_the_last_answers() -> None:
    board = Board()
    board.take(answers(at_s=10, topics={"a": [topic("t", 100)]}, statuses=[status("a", 100)]))
    assert board.topics[0].events_per_s == 0, "there is nothing to compare with yet"
    board.take(answers(at_s=12, topics={"a": [topic("t", 150)]}, statuses=[status("a", 150)]))
    assert (board.topics[0].events_per_s, board.nodes[0].events_per_s, board.events_per_s) == (25, 25, 25)


def test_a_topic_is_shown_as_the_node_has_it_that_has_most() -> None:
    board = Board()
    board.take(answers(topics={"a": [topic("t", 5)], "b": [topic("t", 90), topic("u", 1)]}))
    assert [(row.topic, row.events, row.nodes) for row in board.topics] == [("t", 90, 2), ("u", 1, 1)]


def test_a_count_that_shrinks_begins_again() -> None:
    flow = Flow()
    for at_s, total in enumerate((100, 200, 3, 8), start=1):
        flow.count(total, at_s)
    assert list(flow.rates) == [100, 0, 5]


def test_nodes_that_do_not_answer_are_shown_with_what_is_said_of_them() -> None:
    board = Board()
    peers = [peer("b", "alive"), peer("c", "dead"), peer("d", "alive", rtt_us=1500)]
    board.take(answers(statuses=[status("a", 1), status("d", 2, draining=True)], peers=peers))
    assert [(row.node, row.state) for row in board.nodes] == [
        ("a", "up"),
        ("b", "no answer"),
        ("c", "dead"),
        ("d", "draining"),
    ]
    assert (board.nodes[3].rtt_ms, board.nodes[1].rtt_ms, board.nodes[1].events) == (1.5, None, None)


def test_a_group_is_behind_by_all_of_its_streams() -> None:
    board = Board()
    board.take(answers(at_s=1, groups=[group("g", (5, 10), (0, 7))]))
    board.take(answers(at_s=2, groups=[group("g", (9, 10), (2, 7))]))
    row = board.groups[0]
    assert (row.lag_events, row.handled_per_s, row.members, row.streams) == (6, 6, 1, 2)


def test_what_is_gone_is_forgotten() -> None:
    board = Board()
    board.take(answers(at_s=1, topics={"a": [topic("t", 100)]}))
    board.take(answers(at_s=2, topics={}))
    board.take(answers(at_s=3, topics={"a": [topic("t", 500)]}))
    assert board.topics[0].events_per_s == 0, "it is new again"


def row(name: str, events: int) -> TopicRow:
    return TopicRow(name, 0.0, "", events, 0, 1, 1, 0)


def test_rows_are_sorted_and_filtered() -> None:
    rows = [row("plant.b", 1), row("plant.A", 5), row("office.c", 5)]
    assert [each.topic for each in arranged(rows, "", "events", True)] == ["office.c", "plant.A", "plant.b"]
    assert [each.topic for each in arranged(rows, "PLANT b", "events", False)] == ["plant.b"]


def test_rows_without_a_figure_come_last() -> None:
    board = Board()
    board.take(answers(statuses=[status("a", 1)], peers=[peer("b", "dead")]))
    for is_descending in (False, True):
        assert arranged(board.nodes, "", "events", is_descending)[-1].node == "b"


@given(st.lists(st.floats(min_value=0, max_value=1e12), max_size=20))
def test_a_sparkline_has_a_block_for_each_rate(rates: list[float]) -> None:
    flow = Flow()
    flow.rates.extend(rates)
    assert len(flow.sparkline) == len(rates) and set(flow.sparkline) <= set(BLOCKS)
    if rates and max(rates) > 0 and not math.isclose(max(rates), 0):
        assert flow.sparkline[rates.index(max(rates))] == BLOCKS[-1]
