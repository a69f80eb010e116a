"""The detector in numpy against a dictionary, and against the receivers' own cache."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.pipelines.packet.replays import ENTRY_BYTES, SLOT_US, Marks, Window, find_replays
from weft.wire.recent import Recent

S = 1_000_000


@dataclass
class Detector:
    """A bucket with its state, as Spark keeps it."""

    window: Window = field(default_factory=Window)
    slots: dict[int, bytes] = field(default_factory=dict)

    def feed(self, *packets: tuple[int, float, float]) -> tuple[list[bool], list[bool]]:
        """(mark, arrived, seen at), in seconds; which are replays, which are late."""
        found = find_replays(marks(packets), self.slots, self.window)
        for slot in found.gone:
            del self.slots[slot]
        self.slots |= found.written
        return found.replays.tolist(), found.late.tolist()


def marks(packets: tuple[tuple[int, float, float], ...]) -> Marks:
    """A mark of a number: its upper half is shared by four, so that collisions of halves are met."""
    numbers = np.array([number for number, _, _ in packets], np.uint64)
    times = np.array([(arrived, seen) for _, arrived, seen in packets]).reshape(len(packets), 2)
    arrived_us, seen_at_us = (times.T * S).round().astype(np.int64)
    return Marks(numbers // np.uint64(4) << np.uint64(60), numbers, arrived_us, seen_at_us)


def at(mark: int, time_s: float, own_s: float | None = None) -> tuple[int, float, float]:
    return mark, time_s, max(time_s, time_s if own_s is None else own_s)


@pytest.mark.req("SPK-03", "EMM-19")
@pytest.mark.parametrize(
    ("gap_s", "is_replay"), [(0, True), (1, True), (299.999999, True), (300, True), (300.000001, False), (590, False)]
)
def test_the_window_is_300_seconds(gap_s: float, is_replay: bool) -> None:
    apart = Detector()
    assert apart.feed(at(1, 1000)) == ([False], [False])
    assert apart.feed(at(1, 1000 + gap_s)) == ([is_replay], [False])
    assert Detector().feed(at(1, 1000), at(1, 1000 + gap_s)) == ([False, is_replay], [False, False])


def test_a_packet_from_ahead_is_remembered_for_as_long_as_it_is_fresh() -> None:
    ahead = Detector()
    ahead.feed(at(1, 1000, own_s=1120))
    assert ahead.feed(at(1, 1420, own_s=1120)) == ([True], [False])
    assert ahead.feed(at(1, 1420.5, own_s=1120)) == ([False], [False])


def test_the_first_to_arrive_is_the_one_that_counts() -> None:
    assert Detector().feed(at(1, 1005), at(1, 1001), at(1, 1003))[0] == [True, False, True]


def test_of_two_copies_one_is_flagged_whichever_is_read_first() -> None:
    late_first = Detector()
    assert late_first.feed(at(1, 1200))[0] == [False]
    assert late_first.feed(at(1, 1000))[0] == [True]
    far = Detector()
    far.feed(at(1, 1500))
    assert far.feed(at(1, 1100))[0] == [False], "400 seconds earlier is no copy"


def test_different_marks_with_one_upper_half() -> None:
    detector = Detector()
    assert detector.feed(at(4, 1000), at(5, 1000), at(6, 1000), at(4, 1001))[0] == [False, False, False, True]
    assert detector.feed(at(7, 1002), at(6, 1002), at(5, 1002))[0] == [False, True, True]


def test_a_whole_batch_that_comes_again() -> None:
    packets = [at(number, 1000 + number / 100) for number in range(1000)]
    detector = Detector()
    assert not any(detector.feed(*packets)[0])
    assert all(detector.feed(*packets)[0])


def test_a_mark_again_and_again_over_an_hour() -> None:
    """As a backlog brings it: the first, then each that comes more than 300 s after the last one taken."""
    times = range(0, 3600, 100)
    replays, late = Detector().feed(*(at(1, 10_000 + time_s) for time_s in times))
    assert [time_s for time_s, again in zip(times, replays, strict=True) if not again] == list(range(0, 3600, 400))
    assert not any(late)


def test_state_is_kept_for_the_window_behind_the_watermark_and_then_let_go() -> None:
    detector = Detector()
    detector.feed(at(1, 990))
    (first,) = detector.slots
    detector.feed(at(2, 1590))
    assert first in detector.slots
    assert detector.feed(at(1, 1290)) == ([True], [False]), "just behind the newest one, not too late"
    assert detector.feed(at(1, 1289)) == ([False], [True]), "nobody can tell any more"
    assert detector.feed(at(1, 990)) == ([False], [True])
    detector.feed(at(4, 1650))
    assert first not in detector.slots
    assert len(detector.slots) == 2, "what is late is not kept"


def test_what_one_batch_brings_from_long_ago_is_not_kept() -> None:
    detector = Detector()
    assert detector.feed(at(1, 1000), at(2, 5000)) == ([False, False], [False, False])
    assert list(detector.slots) == [5000 * S // SLOT_US]


def test_state_is_twenty_bytes_a_packet() -> None:
    detector = Detector()
    detector.feed(*(at(number, 1000 + number / 10) for number in range(1000)))
    assert sum(map(len, detector.slots.values())) == 1000 * ENTRY_BYTES
    assert len(detector.slots) in (4, 5)


def test_nothing_comes_of_nothing() -> None:
    assert Detector().feed() == ([], [])


# --- against simple definitions ----------------------------------------------------------------------------------

packets = st.tuples(st.integers(0, 11), st.integers(0, 2000), st.sampled_from([0, 0, 0, 60, 120])).map(
    lambda drawn: (drawn[0], float(drawn[1]), float(drawn[1] + drawn[2]))
)


@pytest.mark.req("SPK-03", "EMM-19")
@settings(max_examples=200)
@given(st.lists(packets, max_size=60), st.lists(st.integers(1, 20), min_size=1, max_size=60))
def test_agrees_with_the_memory_of_a_judge(drawn: list[tuple[int, float, float]], sizes: list[int]) -> None:
    """Packets in the order of their arrival, in batches of any size."""
    memory, detector = Recent[int](1000), Detector()
    queue = sorted(drawn, key=lambda packet: packet[1])
    for size in sizes:
        batch, queue = queue[:size], queue[size:]
        expected = []
        for number, arrived_s, seen_s in batch:
            expected.append(memory.holds(number, arrived_s))
            if not expected[-1]:  # as ``wire.emm.Judge`` marks it
                memory.add(number, max(arrived_s, seen_s) + 300, arrived_s)
        replays, late = detector.feed(*batch)
        assert replays == expected
        assert not any(late)


@pytest.mark.req("SPK-03")
@settings(max_examples=200)
@given(st.lists(st.lists(packets, max_size=12), max_size=8))
def test_agrees_with_a_list_of_all_that_was_seen(batches: list[list[tuple[int, float, float]]]) -> None:
    """In any order, against everything that was ever admitted; only what is late may differ."""
    window_s = 300
    admitted: list[tuple[int, float]] = []
    detector = Detector()
    for batch in batches:
        replays, late = detector.feed(*batch)
        for row in sorted(range(len(batch)), key=lambda row: batch[row][1]):
            number, arrived_s, seen_s = batch[row]
            if late[row]:
                assert not replays[row]
                continue
            again = any(
                number == other and arrived_s <= seen + window_s and seen <= seen_s + window_s
                for other, seen in admitted
            )
            assert replays[row] == again
            if not again:
                admitted.append((number, seen_s))
