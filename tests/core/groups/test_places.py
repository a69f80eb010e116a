from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.groups.talk import ONE, B, C, T, at, stream
from weft.core.groups.events import Place
from weft.core.groups.places import Places
from weft.limits import OFFSET_MAX
from weft.model import Epoch, NodeId

U = stream("plant.u")
PLACES = st.builds(Place, st.integers(0, 3), st.integers(0, 5))


def test_what_is_handled_goes_forward_only_and_is_said_once() -> None:
    places = Places([])
    assert places.get(T) is None
    assert places.advance(T, 5)
    assert not places.advance(T, 5)
    assert not places.advance(T, 3)
    assert list(places.take_unsaid(100)) == [(T, Place(0, 5), None)]
    assert not places.unsaid
    assert list(places.take_unsaid(100)) == []


def test_a_move_goes_anywhere_and_wins_over_what_was_handled() -> None:
    places = Places([])
    places.advance(T, 5)
    places.move(T, 2)
    assert places.get(T) == Place(1, 2)
    assert not places.hear(T, Place(0, 99), B, ONE)
    assert places.advance(T, 3)
    assert places.get(T) == Place(1, 3)


@given(st.lists(PLACES, max_size=5))
def test_the_order_in_which_places_are_heard_does_not_matter(said: list[Place]) -> None:
    found = set()
    for order in permutations(said):
        places = Places([])
        for each in order:
            places.hear(T, each, B, ONE)
        found.add(places.get(T))
    assert found == {max(said, default=None)}


def test_what_others_said_is_not_said_again() -> None:
    places = Places([])
    places.advance(T, 5)
    places.advance(U, 5)
    places.hear(T, Place(0, 5), B, ONE)
    places.hear(U, Place(0, 4), B, ONE)
    assert list(places.take_unsaid(100)) == [(U, Place(0, 5), None)]


@pytest.mark.parametrize(
    ("logged", "recalled", "expected", "unsaid"),
    [
        (150, [], Place(0, 150), True),  # died before it said anything
        (150, [Place(0, 100)], Place(0, 150), True),  # handled more than it said
        (150, [Place(0, 150)], Place(0, 150), False),
        (10, [Place(0, 150), Place(1, 10)], Place(1, 10), False),  # moved back
        (20, [Place(0, 150), Place(1, 10)], Place(1, 20), True),  # and went on
        (10, [Place(0, 150)], Place(0, 150), False),  # died in a move that nobody was told is done
        (None, [Place(1, 10)], Place(1, 10), False),
    ],
)
def test_what_a_node_knows_after_a_restart(
    logged: int | None, recalled: list[Place], expected: Place, unsaid: bool
) -> None:
    places = Places([] if logged is None else [at(T, logged)])
    for each in recalled:
        places.recall(T, each)
    assert places.get(T) == expected
    assert places.unsaid is unsaid


@pytest.mark.parametrize("first", ["recalled", "heard"])
def test_a_log_from_before_a_move_elsewhere_does_not_undo_it(first: str) -> None:
    """This node wrote 150 and said so; then another one moved the group back to 10."""
    places = Places([at(T, 150)])
    if first == "recalled":
        places.recall(T, Place(0, 150))
    places.hear(T, Place(1, 10), B, ONE)
    if first == "heard":
        places.recall(T, Place(0, 150))
    assert places.get(T) == Place(1, 10)
    assert not places.unsaid


def test_what_it_said_in_this_life_is_no_memory() -> None:
    """Should a node be told its own words again, what its log had at the start has no say in it any more."""
    places = Places([at(T, 150)])
    places.move(T, 10)
    list(places.take_unsaid(100))
    places.recall(T, Place(1, 10))
    assert places.get(T) == Place(1, 10)


@pytest.mark.parametrize("lives", [{C: ONE}, {B: Epoch(2), C: ONE}])
def test_somebody_speaks_for_a_node_that_is_gone_or_for_its_log(lives: dict[NodeId, Epoch]) -> None:
    places = Places([])
    places.hear(T, Place(0, 5), B, ONE)
    places.hear(U, Place(0, 7), C, ONE)
    assert places.adopt({B: ONE, C: ONE}) == []
    assert not places.unsaid
    assert places.adopt(lives) == [at(T, 5)]
    assert list(places.take_unsaid(100)) == [(T, Place(0, 5), None)]
    assert places.adopt(lives) == []
    assert not places.unsaid, "now it is this node that said it"


def test_nobody_speaks_for_what_a_living_node_has_said() -> None:
    places = Places([])
    places.hear(T, Place(0, 5), B, ONE)
    places.hear(U, Place(0, 5), B, ONE)
    places.hear(T, Place(0, 5), C, ONE)
    places.hear(U, Place(0, 4), C, ONE)  # it does not know the latest
    places.adopt({C: ONE})
    assert list(places.take_unsaid(100)) == [(U, Place(0, 5), None)]


def test_numbers_end_somewhere() -> None:
    places = Places([])
    places.hear(T, Place(OFFSET_MAX, 1), B, ONE)
    places.move(T, 5)
    assert places.get(T) == Place(OFFSET_MAX, 5)
