"""Who is calling: an API key becomes a principal with rights, quickly for keys seen before (SEC-02).

Verifying a key costs 50 to 200 ms of a core, so results are cached under a hash with a key of this process, which makes
what is in memory useless to anybody else. A cached result counts only as long as its record is there.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from weft.security.acl import Acl
from weft.security.api_keys import KeyRecord, fits, parse_key_untrusted
from weft.security.errors import Cause, Unauthenticated
from weft.security.key_store import KeyStore
from weft.security.rates import GuessedKey, KeyGuessLimiter, source_of
from weft.security.secret import Secret

API_KEYS_CACHED_MAX: Final = 10_000  # results of verification; those that were not used for longest go first
API_KEYS_AT_ONCE: Final = 2  # verified at a time, each with 16 MiB and 50 to 200 ms of a core


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller that has proved a key, and the record that says what it may do."""

    record: KeyRecord
    acl: Acl

    @property
    def key_id(self) -> str:
        return self.record.id


class Authenticator:
    """One per node, used from its event loop. ``clock`` is monotonic; ``wall_clock`` returns Unix time."""

    def __init__(
        self,
        keys: KeyStore,
        cache_key: bytes,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        cached_max: int = API_KEYS_CACHED_MAX,
    ) -> None:
        """``cache_key`` is random, and new at every start."""
        self._keys = keys
        self._cache_key = cache_key
        self._clock = clock
        self._wall_clock = wall_clock
        self._cached_max = cached_max
        self._limiter = KeyGuessLimiter()
        self._known: OrderedDict[bytes, Principal] = OrderedDict()  # the least recently used first
        self._verifying = asyncio.Semaphore(API_KEYS_AT_ONCE)

    async def authenticate_untrusted(self, presented: Secret[str] | None, host: str) -> Principal:
        """Find out who presents this key from this address; raise only Unauthenticated.

        Wrong secrets slow down attempts for that key from that address. A key that is known to be valid is never slowed
        down, nor are other keys from the same address, because many people may be behind it.
        """
        if presented is None:
            raise Unauthenticated(Cause.NO_KEY, "no API key: this node needs one with every call")
        mark = hmac.digest(self._cache_key, presented.reveal().encode("utf-8", "surrogatepass"), "sha256")
        known = self._known.get(mark)
        if known is not None:
            self._remember(mark, self.refresh(known))
            return self._known[mark]
        key_id, secret = parse_key_untrusted(presented.reveal())
        # Ids are public, so nothing is lost if the answer comes at once; and it costs nothing worth a limit.
        await self._check_known(key_id)
        guessing = GuessedKey(source_of(host), key_id)
        self._check_rate(guessing)
        try:
            async with self._verifying:
                # Others from the same source may have failed meanwhile, or shown that the key is valid.
                if mark not in self._known:
                    self._check_rate(guessing)
                    self._remember(mark, await self._verify(key_id, secret))
                return self._known[mark]
        except Unauthenticated as error:
            if error.cause is not Cause.TOO_MANY_FAILURES:
                self._limiter.failed(guessing, self._clock())
            raise

    def refresh(self, principal: Principal) -> Principal:
        """The same caller with its current rights, for open streams, every second or so. Raise Unauthenticated."""
        self._check_heard()
        record = self._keys.find(principal.record.key_name)
        if record is principal.record:
            self._check_expiry(record)
            return principal
        if record is None:
            raise Unauthenticated(Cause.REVOKED_KEY, f"key {principal.key_id} was revoked")
        self._check_expiry(record)
        return Principal(record, record.acl)

    async def _check_known(self, key_id: str) -> None:
        """An unknown key may have been made a moment ago."""
        self._check_heard()
        if not self._keys.candidates(key_id):
            await self._keys.look()
        if not self._keys.candidates(key_id):
            raise _not_valid(key_id)

    async def _verify(self, key_id: str, secret: Secret[bytes]) -> Principal:
        for record in self._keys.candidates(key_id):
            if await asyncio.to_thread(fits, secret, record.hash):
                return self.refresh(Principal(record, record.acl))  # it may have been revoked meanwhile
        raise _not_valid(key_id)

    def _check_heard(self) -> None:
        if self._keys.distrusted is not None:
            raise Unauthenticated(Cause.UNHEARD, self._keys.distrusted)

    def _remember(self, mark: bytes, principal: Principal) -> None:
        self._known[mark] = principal
        self._known.move_to_end(mark)
        if len(self._known) > self._cached_max:
            self._known.popitem(last=False)

    def _check_expiry(self, record: KeyRecord) -> None:
        if record.expires_s is not None and self._wall_clock() >= record.expires_s:
            raise Unauthenticated(Cause.EXPIRED_KEY, f"key {record.id} has expired")

    def _check_rate(self, guessing: GuessedKey) -> None:
        wait_s = self._limiter.wait_s(guessing, self._clock())
        if wait_s:
            raise Unauthenticated(
                Cause.TOO_MANY_FAILURES,
                f"key {guessing.key_id} was wrong too often from {guessing.source[:64]}: wait",
                seconds=round(wait_s + 0.5),
            )


def _not_valid(key_id: str) -> Unauthenticated:
    return Unauthenticated(Cause.BAD_KEY, f"key {key_id} is not valid: unknown, revoked or mistyped")
