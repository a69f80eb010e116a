"""What a group remembers beyond its position: joined in any order, bounded, and read with care."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.groups.ledger import (
    LEDGER_BYTES_MAX,
    LEDGER_RANGES_MAX,
    LEDGER_TRIES_MAX,
    REASON_CHARS_MAX,
    Ledger,
    Try,
    read_ledger_untrusted,
    write_ledger,
)
from weft.errors import UsageError
from weft.limits import OFFSET_MAX
from weft.model.offsets import OffsetRanges

TRY = st.builds(Try, st.integers(1, 9), st.integers(0, 100), st.booleans(), st.sampled_from(["", "a", "b"]))
RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)).map(lambda at: (at[0], at[0] + at[1])), max_size=6)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    ledger = Ledger()
    for offset, again in draw(st.dictionaries(st.integers(0, 35), TRY, max_size=6)).items():
        ledger.fail(offset, again)
    for first, end in draw(RANGES):
        ledger.finish(first, end)
    return ledger


def joined(*parts: Ledger) -> Ledger:
    whole = Ledger()
    for each in parts:
        whole.join(deepcopy(each))
    return whole


@pytest.mark.req("CON-01")
@given(ledgers(), ledgers(), ledgers())
def test_joining_has_no_order_and_twice_is_once(one: Ledger, two: Ledger, three: Ledger) -> None:
    assert joined(one, two) == joined(two, one)
    assert joined(joined(one, two), three) == joined(one, joined(two, three))
    assert joined(one, one) == one


@pytest.mark.req("CON-01")
@given(ledgers(), ledgers())
def test_what_one_of_two_has_done_is_done(one: Ledger, two: Ledger) -> None:
    both = joined(one, two)
    assert all((offset in both.done) == (offset in one.done or offset in two.done) for offset in range(40))
    assert not any(offset in both.done for offset in both.tries)
    for offset, again in both.tries.items():
        assert again.tries == max(one.tries_of(offset), two.tries_of(offset))


@given(ledgers(), st.integers(0, 40))
def test_trimming_forgets_what_lies_before_and_nothing_else(ledger: Ledger, position: int) -> None:
    before = deepcopy(ledger)
    after = ledger.trim(position)
    assert after == before.done.next_outside(position)
    assert all((offset in ledger.done) == (offset in before.done) for offset in range(after, 45))
    assert ledger.tries == {offset: again for offset, again in before.tries.items() if offset >= after}


@given(ledgers(), st.integers(0, OFFSET_MAX), st.integers(0, OFFSET_MAX))
def test_it_is_read_as_it_was_written(ledger: Ledger, version: int, era: int) -> None:
    assert read_ledger_untrusted(write_ledger(version, ledger, era)) == (version, ledger, era)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    with contextlib.suppress(UsageError):
        read_ledger_untrusted(payload)


def test_the_largest_ledger_fits_its_bound() -> None:
    far = OFFSET_MAX - 10 * LEDGER_TRIES_MAX
    tries = ((far + 2 * number, Try(999, OFFSET_MAX, True, "")) for number in range(LEDGER_TRIES_MAX))
    done = ((far + 2 * number + 1, far + 2 * number + 2) for number in range(LEDGER_RANGES_MAX))
    ledger = Ledger(done, tries)
    assert len(write_ledger(OFFSET_MAX, ledger)) < LEDGER_BYTES_MAX


def test_reasons_are_left_out_of_a_ledger_that_has_no_room_for_them() -> None:
    """Other nodes refused it, and handed out again what was done."""
    ledger = Ledger([(1, 2)], ((2 * number, Try(3, 4, False, "\x01" * REASON_CHARS_MAX)) for number in range(1, 1000)))
    _, read, _ = read_ledger_untrusted(write_ledger(7, ledger))
    assert read == Ledger([(1, 2)], ((2 * number, Try(3, 4, False, "")) for number in range(1, 1000)))


def test_a_ledger_has_no_more_than_others_read_whatever_a_member_settles() -> None:
    ledger = Ledger()
    for number in range(LEDGER_RANGES_MAX + 5):
        ledger.finish(2 * number, 2 * number + 1)
    for number in range(LEDGER_TRIES_MAX + 5):
        ledger.fail(2 * number + 1, Try(1, 0, False, ""))
    assert read_ledger_untrusted(write_ledger(0, ledger)) == (0, ledger, 0)
    assert 0 in ledger.done and ledger.tries_of(1) == 1, "what comes first is kept"


@pytest.mark.req("SEC-05")
def test_full_ledgers_are_not_looked_through_for_each_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that lies can say one after the other. That held up the loop for 51 s."""
    one, two = (Ledger((4 * number + at, 4 * number + at + 1) for number in range(LEDGER_RANGES_MAX)) for at in (0, 2))
    looks: list[OffsetRanges] = []
    iterate = OffsetRanges.__iter__

    def looked(offsets: OffsetRanges) -> Iterator[tuple[int, int]]:
        looks.append(offsets)
        return iterate(offsets)

    monkeypatch.setattr(OffsetRanges, "__iter__", looked)
    one.join(two)
    for number in range(100):
        one.finish(8 * LEDGER_RANGES_MAX + 2 * number, 8 * LEDGER_RANGES_MAX + 2 * number + 1)
    assert one.done.ranges == LEDGER_RANGES_MAX
    assert len(looks) <= 1


@pytest.mark.parametrize(
    ("payload", "word"),
    [
        (b"{}", "not what it should be"),
        (b'{"version":0,"done":[[5,5]],"tries":[]}', "not a range"),
        (b'{"version":0,"done":[[-1,5]],"tries":[]}', "not a range"),
        (b'{"version":-1,"done":[],"tries":[]}', "version"),
        (b'{"version":0,"done":[],"tries":[[0,99999999,1,0,false,""]]}', "too many events"),
        (b'{"version":0,"done":[],"tries":[[0,1,0,0,false,""]]}', "out of range"),
        (b'{"version":0,"done":[],"tries":[[0,1,1,0,false,"%s"]]}' % (b"x" * (REASON_CHARS_MAX + 1)), "reason"),
        (b'{"version":0,"done":[%s[0,1]],"tries":[]}' % (b"[0,1]," * LEDGER_RANGES_MAX), "too many ranges"),
        (b" " * (LEDGER_BYTES_MAX + 1), "too large"),
    ],
)
def test_hostile_ledgers_are_refused(payload: bytes, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        read_ledger_untrusted(payload)
