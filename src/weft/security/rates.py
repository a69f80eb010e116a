"""How often somebody may fail: a bucket of attempts per source, for wrong API keys and wrong tokens (SEC-02)."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Final, NamedTuple

from weft.security.certificates import parse_address

FAILURES_BURST: Final = 10  # wrong keys or tokens of one source before it has to wait
FAILURES_PER_S: Final = 0.1  # after that
FAILURE_SOURCES_MAX: Final = 10_000  # remembered; those that failed longest ago go first


class _Bucket(NamedTuple):
    left: float
    at_s: float


class FailureLimiter:
    """Counts failures only: who succeeds is never slowed down. Time is of a monotonic clock."""

    def __init__(
        self,
        burst: int = FAILURES_BURST,
        per_s: float = FAILURES_PER_S,
        sources_max: int = FAILURE_SOURCES_MAX,
    ) -> None:
        self._burst = burst
        self._per_s = per_s
        self._sources_max = sources_max
        self._buckets: dict[str, _Bucket] = {}  # in the order of their last failure

    def wait_s(self, source: str, now_s: float) -> float:
        """How long the source has to wait before it may try again; 0 if it may now."""
        return max(0.0, (1.0 - self._left(source, now_s)) / self._per_s)

    def failed(self, source: str, now_s: float) -> None:
        left = self._left(source, now_s) - 1.0
        self._buckets.pop(source, None)
        if len(self._buckets) >= self._sources_max:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[source] = _Bucket(max(0.0, left), now_s)

    def _left(self, source: str, now_s: float) -> float:
        bucket = self._buckets.get(source)
        if bucket is None:
            return float(self._burst)
        return min(float(self._burst), bucket.left + max(0.0, now_s - bucket.at_s) * self._per_s)


def source_of(host: str) -> str:
    """Whom to count failures of an address against: an IPv6 host has 2**64 addresses to try from, so its network."""
    address = parse_address(host)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Address(int(address) >> 64 << 64))
    return host
