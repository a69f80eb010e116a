"""A failing seed is made smaller: by pure rules, and for planted bugs."""

from __future__ import annotations

import pytest

from tests.sim.mutants import PromisesBeforeSync, planted
from tests.sim.test_mutants import LAST_SEEN
from weft.testing.sim import Violation, draw, run
from weft.testing.sim.chaos import Record
from weft.testing.sim.shrinking import SIMPLER, BadCourse, Course, Shrinking, kind_of, read_course

WHOLE = Course(tuple(range(12)))


def _never() -> bool:
    return False


def test_only_what_the_failure_needs_is_left() -> None:
    def fails(course: Course) -> str:
        kept = set(course.troubles or ())
        return "broken 7" if {3, 8} <= kept and "2-nodes" not in course.simpler else ""

    shrinking = Shrinking(fails, _never, kind_of("broken 1"))
    course = shrinking.run(WHOLE)
    assert course.troubles == (3, 8)
    assert set(course.simpler) == set(SIMPLER) - {"2-nodes"}


def test_another_failure_does_not_count() -> None:
    shrinking = Shrinking(
        lambda course: "n01 lost it" if len(course.troubles or ()) < 6 else "n01 has it twice", _never, "has it twice"
    )
    assert len(shrinking.run(WHOLE).troubles or ()) == 6


def test_it_ends_when_its_time_is_over() -> None:
    shrinking: Shrinking
    shrinking = Shrinking(lambda course: "broken", lambda: shrinking.tries >= 3, "broken")
    shrinking.run(WHOLE)
    assert shrinking.tries == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Violation: s0 at n00 has a.b@n05/0:e17 up to 22 of 25", "Violation: s1 at n03 has c@n1/1:e9 up to 2 of 5", 1),
        ("Violation: s0 at n00 has a.b@n05/0:e17 up to 22 of 25", "Violation: n01 drops its link", 0),
    ],
)  # fmt: skip
def test_failures_are_of_one_kind_by_their_words(one: str, other: str, same: int) -> None:
    assert (kind_of(one) == kind_of(other)) is bool(same)


def test_a_course_is_read_as_it_is_written() -> None:
    for course in (Course(), Course(()), Course((2, 5), ("no-groups", "3-nodes"))):
        assert read_course(str(course)) == course
    for wrong in ("2,x:", "all:no-moon"):
        with pytest.raises(BadCourse):
            read_course(wrong)


def test_nothing_is_larger_when_it_is_simpler() -> None:
    for seed in range(30):
        mix = draw(seed, large=False)
        for simplify in SIMPLER.values():
            simpler = simplify(mix)
            assert simpler.nodes <= mix.nodes and simpler.batches <= mix.batches


def test_the_troubles_of_a_seed_replayed_are_the_seed() -> None:
    whole = Record()
    first = run(7, traces=True, record=whole)
    again = run(7, traces=True, replayed=whole.troubles)
    assert whole.troubles and first.schedule.trace.checksum == again.schedule.trace.checksum


def test_a_planted_bug_is_shrunk_to_a_short_story() -> None:
    """Promising before the sync needs one node, one publisher, and a moment."""
    with planted(PromisesBeforeSync):
        seed, whole, kind = _found()

        def fails(course: Course, record: Record | None = None) -> str:
            kept = [each for each in whole.troubles if each.number in (course.troubles or ())]
            try:
                run(seed, simplify=course.mix_of, replayed=kept, record=record)
            except Violation as error:
                return str(error)
            return ""

        course = Shrinking(fails, _never, kind).run(Course(tuple(each.number for each in whole.troubles)))
        story = Record()
        assert kind_of(fails(course, story)) == kind
    assert not course.troubles and {"2-nodes", "1-publisher", "no-subscribers"} <= set(course.simpler)
    assert len(story.story) < 40
    assert any("publishes" in line for line in story.story)


def _found() -> tuple[int, Record, str]:
    for seed in LAST_SEEN:
        whole = Record()
        try:
            run(seed, record=whole)
        except Violation as error:
            return seed, whole, kind_of(str(error))
    raise AssertionError("the planted bug went unnoticed")
