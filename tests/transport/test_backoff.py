"""Delays before the next dial."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.transport.backoff import Backoff


class Fixed(Random):
    """Chance that always says the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


@pytest.mark.req("PL-01")
@pytest.mark.parametrize(
    ("jitter", "chance", "delays_s"),
    [
        (0.0, 0.9, [1, 2, 4, 8, 10, 10]),
        (0.5, 0.0, [1, 2, 4, 8, 10, 10]),
        (0.5, 0.5, [0.75, 1.5, 3, 6, 7.5, 7.5]),
        (1.0, 0.5, [0.5, 1, 2, 4, 5, 5]),
    ],
)
def test_delays_double_up_to_a_limit_and_chance_shortens_them(
    jitter: float, chance: float, delays_s: list[float]
) -> None:
    backoff = Backoff(1.0, 10.0, jitter, Fixed(chance))
    assert [backoff.next_s() for _ in delays_s] == delays_s


@pytest.mark.req("PL-01")
def test_a_link_that_lived_longer_than_the_wait_starts_anew_and_a_shorter_one_does_not() -> None:
    backoff = Backoff(1.0, 10.0, 0.0, Fixed(0.0))
    assert [backoff.next_s(), backoff.next_s()] == [1.0, 2.0]
    backoff.on_lived(3.9)
    assert backoff.next_s() == 4.0
    backoff.on_lived(8.0)
    assert backoff.next_s() == 1.0


@given(st.integers(0, 100), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_however_often_it_fails_the_delay_stays_within_bounds(failures: int, jitter: float, chance: float) -> None:
    backoff = Backoff(0.1, 30.0, jitter, Fixed(chance))
    for _ in range(failures):
        backoff.next_s()
    assert 0.0 <= backoff.next_s() <= 30.0
