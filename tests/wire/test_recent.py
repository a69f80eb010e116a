"""What was seen lately, against a plain dictionary that forgets nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.wire.recent import Recent


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(0, 10), st.floats(0, 3)), max_size=50))
def test_nothing_is_forgotten_early_while_there_is_room(steps: list[tuple[int, float, float]]) -> None:
    recent, model, now_s = Recent[int](100), dict[int, float](), 0.0
    for key, lifetime_s, wait_s in steps:
        now_s += wait_s
        assert recent.holds(key, now_s) == (key in model and now_s <= model[key])
        recent.add(key, now_s + lifetime_s, now_s)
        model[key] = now_s + lifetime_s
    assert recent.evicted == 0


def test_the_oldest_go_first() -> None:
    recent = Recent[str](3)
    for key in "abcd":
        recent.add(key, 100, now_s=0)
    assert [key for key in "abcd" if recent.holds(key, 0)] == ["b", "c", "d"]
    recent.add("b", 200, now_s=0)  # again, so it is young
    recent.add("e", 100, now_s=0)
    assert [key for key in "abcde" if recent.holds(key, 0)] == ["b", "d", "e"]
    assert (len(recent), recent.evicted) == (3, 2)


def test_what_has_expired_goes_away_as_others_come() -> None:
    recent = Recent[int](1000)
    for key in range(100):
        recent.add(key, 10, now_s=0)
    for key in range(1000, 1050):
        recent.add(key, 100, now_s=50)
    assert (len(recent), recent.evicted) == (50, 0)
