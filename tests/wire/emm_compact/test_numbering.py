"""Epochs, offsets and event ids (EMC-04)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.wire.emm_compact import Numbering, Triple
from weft.wire.emm_compact.numbering import OFFSETS


@pytest.mark.req("EMC-04")
def test_offsets_count_inside_an_epoch() -> None:
    numbering = Numbering.starting(now_s=100.0)
    triples = []
    for now_s, event_id in [(100.0, 7), (100.2, 8), (100.999, 9), (101.0, 10), (103.5, 11)]:
        triple, numbering = numbering.take(now_s, event_id)
        triples.append(triple)
    assert triples == [Triple(7, 100, 0), Triple(8, 100, 1), Triple(9, 100, 2), Triple(10, 101, 0), Triple(11, 103, 0)]


@pytest.mark.parametrize(
    ("now_s", "tick_s", "epoch"),
    [
        (0.0, 1.0, 0),
        (65535.9, 1.0, 65535),
        (65536.0, 1.0, 0),  # the counter wraps
        (1_700_000_000.0, 1.0, 1_700_000_000 % 65536),
        (119.0, 60.0, 1),  # the document's other proposal, a tick a minute
        (1.0, 0.25, 4),
    ],
)
@pytest.mark.req("EMC-04")
def test_the_epoch_counts_ticks_modulo_65536(now_s: float, tick_s: float, epoch: int) -> None:
    triple, _ = Numbering.starting(now_s, tick_s).take(now_s, event_id=1)
    assert triple == Triple(1, epoch, 0)


@pytest.mark.req("EMC-04")
def test_used_up_offsets_move_on_to_the_next_epoch_until_the_clock_follows() -> None:
    numbering = Numbering(tick_s=1.0, tick=50, offset=OFFSETS - 1)
    last, numbering = numbering.take(50.0, event_id=1)
    assert last == Triple(1, 50, 65535)
    early, numbering = numbering.take(50.1, event_id=1)
    assert early == Triple(1, 51, 0)
    caught_up, numbering = numbering.take(51.0, event_id=1)
    assert caught_up == Triple(1, 51, 1)
    fresh, _ = numbering.take(52.0, event_id=1)
    assert fresh == Triple(1, 52, 0)


@pytest.mark.req("EMC-04")
def test_a_clock_set_back_repeats_nothing() -> None:
    numbering = Numbering.starting(100.0)
    first, numbering = numbering.take(100.0, event_id=1)
    second, _ = numbering.take(40.0, event_id=1)
    assert (first, second) == (Triple(1, 100, 0), Triple(1, 100, 1))


@given(st.lists(st.floats(0, 5000), max_size=60), st.integers(OFFSETS - 5, OFFSETS))
@pytest.mark.req("EMC-04")
def test_triples_of_a_node_are_unique_whatever_the_clock_does(times_s: list[float], used: int) -> None:
    numbering = Numbering(tick_s=1.0, tick=0, offset=used)
    triples = []
    for now_s in times_s:
        triple, numbering = numbering.take(now_s, event_id=0)  # the worst case of chance: always the same
        triples.append(triple)
    assert len(set(triples)) == len(triples)


@pytest.mark.parametrize("tick_s", [0.0, -1.0, float("nan")])
def test_a_tick_takes_time(tick_s: float) -> None:
    with pytest.raises(UsageError):
        Numbering.starting(0.0, tick_s)
