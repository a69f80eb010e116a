"""How long to wait before the next try, and where to try. Pure: chance is an argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from weft.client.options import check_address
from weft.errors import UsageError
from weft.limits import PEER_NAME_CHARS_MAX

CLIENT_NODES_MAX: Final = 64  # addresses learned from nodes; the oldest are forgotten first


Draw = Callable[[], float]  # a number from 0 up to but not including 1
DOUBLINGS_MAX: Final = 32  # with more, the float would only overflow


class Backoff:
    """Exponential with full jitter: after n failures, anything up to ``min * 2**(n-1)``, at most ``max``.

    Full jitter, because many clients lose one node at the same moment and must not all come back at the same moment.
    """

    def __init__(self, s_min: float, s_max: float, chance: Draw) -> None:
        self._s_min = s_min
        self._s_max = s_max
        self._chance = chance
        self.failures = 0

    def failed(self) -> None:
        self.failures = min(self.failures + 1, DOUBLINGS_MAX)

    def succeeded(self) -> None:
        self.failures = 0

    def delay_s(self) -> float:
        """How long to wait now; 0 before the first failure."""
        if not self.failures:
            return 0.0
        return self._chance() * min(self._s_max, self._s_min * 2.0 ** (self.failures - 1))


class AddressBook:
    """Addresses of nodes: first those that the user gave, then those that nodes mentioned."""

    def __init__(self, given: Iterable[str], *, learns: bool = True) -> None:
        self.given: Final = tuple(given)
        self._learns = learns
        self._learned: dict[str, None] = {}

    def learn_untrusted(self, addresses: Iterable[str]) -> None:
        """Remember the addresses that a node mentioned. Anything that is not an address is ignored; new addresses
        replace the oldest."""
        if not self._learns:
            return
        for address in list(addresses)[:CLIENT_NODES_MAX]:
            try:
                check_address(address)
            except UsageError:
                continue
            if len(address) <= PEER_NAME_CHARS_MAX and address not in self.given:
                self._learned.pop(address, None)
                self._learned[address] = None
        while len(self._learned) > CLIENT_NODES_MAX:
            del self._learned[next(iter(self._learned))]

    def all(self) -> tuple[str, ...]:
        return (*self.given, *self._learned)

    def round(self, preferred: str | None, avoided: str | None = None) -> list[str]:
        """Every address once, the preferred one first and the avoided one last."""
        return sorted(self.all(), key=lambda address: (address == avoided, address != preferred))
