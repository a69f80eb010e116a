"""Keeping a certificate fresh while its owner runs (SEC-01).

The owner says where new ones come from (a CA's service, or the CA on this machine) and what to do with each: open new
channels before old ones are closed. Nothing here touches a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from weft.errors import WeftError
from weft.security.authority import Authority
from weft.security.certificates import Names, PrivateKey, key_pem, load_key, new_key
from weft.security.credentials import CertificateStore, Credentials, credentials
from weft.security.enrolment import renew

RENEWAL_BACKOFF_S_MIN: Final = 1.0  # a CA that restarts is back in a few seconds
RENEWAL_BACKOFF_S_MAX: Final = 300.0  # a third of a day is left when renewal begins: a hundred attempts
RENEW_AT: Final = 2 / 3  # of the life
SPREAD: Final = 1 / 30  # of the life, to both sides: nodes that were started together do not renew together
ATTEMPTS_AT_LEAST: Final = 20  # in the last third, however short the life is
CLOCK_READ_S: Final = 60.0  # then the clock is read again: timers stand still while a machine sleeps


class Renewer:
    """When to renew a certificate: at two thirds of its life, with patience when that fails (SEC-01). Decides only.

    Times are Unix seconds; ``chance`` is a random number from 0 to 1, which spreads what would come at once.

    >>> renewer = Renewer(begin_s=0.0, end_s=90.0, chance=0.5)
    >>> renewer.due_s
    60.0
    >>> renewer.failed(now_s=60.0, chance=0.5)
    >>> renewer.due_s
    61.0
    """

    def __init__(self, begin_s: float, end_s: float, chance: float) -> None:
        assert begin_s < end_s, "a certificate begins before it ends"
        self.end_s = end_s
        self._life_s = end_s - begin_s
        self._failures = 0
        self.due_s = begin_s + self._life_s * (RENEW_AT + SPREAD * (2 * chance - 1))

    def failed(self, now_s: float, chance: float) -> None:
        """Try again, after longer every time. Never give up: an expired certificate may still be replaced by hand."""
        most_s = min(RENEWAL_BACKOFF_S_MAX, self._life_s / 3 / ATTEMPTS_AT_LEAST)
        least_s = min(RENEWAL_BACKOFF_S_MIN, most_s)
        delay_s = min(most_s, least_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        self.due_s = now_s + delay_s * (0.5 + chance)

    def expires_in_s(self, now_s: float) -> float:
        """For a metric; negative once it has expired."""
        return self.end_s - now_s


class Source(Protocol):
    """Where new certificates come from; raises a WeftError if there is none. Called in a thread."""

    def renew(self, current: Credentials, now_s: float) -> Credentials: ...


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A CA's service, ours or step-ca."""

    store: CertificateStore
    url: str

    def renew(self, current: Credentials, now_s: float) -> Credentials:
        return renew(self.store, self.url, now_s)


@dataclass(frozen=True, slots=True)
class LocalSource:
    """The embedded CA of this machine, without the detour over HTTPS."""

    authority: Authority

    def enrol(self, names: Names, now_s: float) -> Credentials:
        """A first certificate, with a new key."""
        return self._issue(names, new_key(), now_s)

    def renew(self, current: Credentials, now_s: float) -> Credentials:
        return self._issue(Names(current.identity, current.hosts), load_key(current.key_pem), now_s)

    def _issue(self, names: Names, key: PrivateKey, now_s: float) -> Credentials:
        chain = self.authority.issue(key.public_key(), names, now_s)
        return credentials(self.authority.root_pem, chain, key_pem(key))


class Rotation:
    """``run`` renews until it is cancelled. Every new certificate is stored before it is announced."""

    def __init__(
        self,
        store: CertificateStore,
        source: Source,
        current: Credentials,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
        on_renewed: Callable[[Credentials], Awaitable[None]],
        on_failed: Callable[[WeftError], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._source = source
        self._clock = clock
        self._chance = chance
        self._on_renewed = on_renewed
        self._on_failed = on_failed
        self._sleep = sleep
        self._renewer = Renewer(current.begin_s, current.end_s, chance())
        self.current = current

    def expires_in_s(self) -> float:
        """For a metric; negative once the certificate has expired."""
        return self._renewer.expires_in_s(self._clock())

    async def run(self) -> None:
        while True:
            await sleep_until(self._renewer.due_s, self._clock, self._sleep)
            try:
                fresh = await asyncio.to_thread(self._renew)
            except WeftError as error:
                self._renewer.failed(self._clock(), self._chance())
                self._on_failed(error)
                continue
            self.current = fresh
            self._renewer = Renewer(fresh.begin_s, fresh.end_s, self._chance())
            await self._on_renewed(fresh)

    def _renew(self) -> Credentials:
        """Waits for a network and a disk, so it has a thread."""
        fresh = self._source.renew(self.current, self._clock())
        self._store.save(fresh)
        return fresh


async def sleep_until(
    due_s: float, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Sleep until the clock shows this time, also if it is set or the machine sleeps meanwhile."""
    while (left_s := due_s - clock()) > 0:
        await sleep(min(left_s, CLOCK_READ_S))
