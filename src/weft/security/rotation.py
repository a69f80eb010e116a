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
from weft.security.renewal import Renewer

CLOCK_READ_S: Final = 60.0  # then the clock is read again: timers stand still while a machine sleeps


class Source(Protocol):
    """Where new certificates come from; raises a WeftError when none can be had. Called in a thread."""

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
    """``run`` renews until it is cancelled. Every new certificate is stored before anybody is told."""

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
