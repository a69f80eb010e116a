from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.wire.libp2p.floodsub import Seen


def test_remembers_for_a_while() -> None:
    seen = Seen(seconds_max=10.0)
    seen.add(b"a", now_s=0.0)
    assert seen.has(b"a", now_s=9.9)
    assert not seen.has(b"a", now_s=10.0)
    assert not seen.has(b"b", now_s=0.0)


def test_forgets_what_is_too_old_when_something_comes() -> None:
    seen = Seen(seconds_max=10.0)
    seen.add(b"a", now_s=0.0)
    seen.add(b"b", now_s=5.0)
    seen.add(b"c", now_s=10.0)
    assert len(seen) == 2


def test_forgets_the_oldest_when_there_are_too_many() -> None:
    seen = Seen(count_max=2)
    for number, message_id in enumerate((b"a", b"b", b"c")):
        seen.add(message_id, now_s=float(number))
    assert [seen.has(message_id, now_s=3.0) for message_id in (b"a", b"b", b"c")] == [False, True, True]


@given(st.lists(st.tuples(st.binary(max_size=1), st.floats(0, 5)), max_size=60))
def test_equals_its_definition(steps: list[tuple[bytes, float]]) -> None:
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
