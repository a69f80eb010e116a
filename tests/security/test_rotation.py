"""When certificates are renewed: the decision, and the loop around it with a clock that is turned by hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security import pki
from tests.security.pki import NOW_S
from weft.errors import WeftError
from weft.security import (
    Authority,
    CertificateStore,
    Credentials,
    EnrolmentFailed,
    LocalSource,
    Renewer,
    Rotation,
)
from weft.security.rotation import RENEWAL_BACKOFF_S_MAX

chances = st.floats(0, 1)


@pytest.mark.req("SEC-01")
def test_at_two_thirds_a_little_spread() -> None:
    assert [Renewer(0.0, 90.0, chance).due_s for chance in (0.0, 0.5, 1.0)] == pytest.approx([57.0, 60.0, 63.0])


def test_the_metric_goes_below_zero() -> None:
    assert [Renewer(0.0, 90.0, 0.5).expires_in_s(now_s) for now_s in (30.0, 90.0, 100.0)] == [60.0, 0.0, -10.0]


def test_attempts_get_rarer() -> None:
    renewer = Renewer(0.0, 86_400.0, chance=0.5)
    waits = []
    for _ in range(11):
        now_s = renewer.due_s
        renewer.failed(now_s, chance=0.5)
        waits.append(renewer.due_s - now_s)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@given(life_s=st.floats(1, 1e7), draws=st.lists(chances, min_size=1, max_size=60), first=chances)
def test_failures_leave_many_more_attempts_before_the_end(life_s: float, draws: list[float], first: float) -> None:
    renewer = Renewer(0.0, life_s, first)
    assert 0 < renewer.due_s < life_s
    attempts = 0
    for chance in draws:
        now_s = renewer.due_s
        renewer.failed(now_s, chance)
        assert 0 < renewer.due_s - now_s <= 1.5 * RENEWAL_BACKOFF_S_MAX
        attempts += renewer.due_s < life_s
    assert attempts >= min(len(draws), 11), "at least eleven, even if chance makes every delay the longest"


class World:
    """A clock that moves only when somebody sleeps, and a source that fails on command."""

    def __init__(self, ca: Authority, directory: Path) -> None:
        self.now_s = NOW_S
        self.store = CertificateStore(directory)
        self.failing = 0
        self.seen: list[Credentials] = []
        self.failures: list[WeftError] = []
        self._local = LocalSource(ca)
        self.rotation = Rotation(
            self.store,
            self,
            self._local.enrol(pki.NODE_A, NOW_S),
            clock=lambda: self.now_s,
            chance=lambda: 0.5,
            on_renewed=self._on_renewed,
            on_failed=self.failures.append,
            sleep=self._sleep,
        )

    def renew(self, current: Credentials, now_s: float) -> Credentials:
        if self.failing:
            self.failing -= 1
            raise EnrolmentFailed("cannot reach the CA")
        return self._local.renew(current, now_s)

    async def _on_renewed(self, fresh: Credentials) -> None:
        assert self.store.load() == fresh, "kept before it is told of"
        self.seen.append(fresh)

    async def _sleep(self, delay_s: float) -> None:
        self.now_s += delay_s
        await asyncio.sleep(0)

    def run_until(self, done: Callable[[], bool]) -> None:
        async def story() -> None:
            running = asyncio.create_task(self.rotation.run())
            try:
                async with asyncio.timeout(60):
                    while not done() and not running.done():
                        await asyncio.sleep(0)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()

        asyncio.run(story())


@pytest.mark.req("SEC-01")
def test_a_node_renews_for_ever_with_the_same_key(ca: Authority, tmp_path: Path) -> None:
    world = World(ca, tmp_path / "tls")
    first = world.rotation.current
    world.run_until(lambda: len(world.seen) >= 3)
    assert all(each.key_pem == first.key_pem and each.hosts == first.hosts for each in world.seen)
    times = [each.begin_s for each in (first, *world.seen)]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(15 * 3600 < gap < 17 * 3600 for gap in gaps), "two thirds of a day"
    assert world.rotation.expires_in_s() > 0


@pytest.mark.req("SEC-01")
def test_a_ca_that_is_away_is_asked_again(ca: Authority, tmp_path: Path) -> None:
    world = World(ca, tmp_path / "tls")
    world.failing = 5
    world.run_until(lambda: len(world.seen) >= 1)
    assert len(world.failures) == 5
    assert world.now_s < world.seen[0].end_s
    assert world.seen[0].begin_s > NOW_S


def test_a_disk_that_is_full_is_a_failure_like_any_other(ca: Authority, tmp_path: Path) -> None:
    (tmp_path / "tls").touch()
    world = World(ca, tmp_path / "tls")
    world.run_until(lambda: len(world.failures) >= 2)
    assert world.seen == []
    assert "cannot make" in str(world.failures[0])


@pytest.mark.req("SEC-01")
def test_a_machine_that_slept_renews_as_soon_as_it_is_awake(ca: Authority, tmp_path: Path) -> None:
    world = World(ca, tmp_path / "tls")
    expires_s = world.rotation.current.end_s
    slept: list[float] = []

    async def sleep_through_the_night(delay_s: float) -> None:
        slept.append(delay_s)
        is_evening = len(slept) == 3
        await world._sleep(22 * 3600 if is_evening else delay_s)  # a timer stands still while the machine sleeps

    world.rotation._sleep = sleep_through_the_night
    world.run_until(lambda: len(world.seen) >= 1)
    assert world.seen[0].begin_s < expires_s, "renewed with the old one, before that had expired"
    assert max(slept) <= 60
