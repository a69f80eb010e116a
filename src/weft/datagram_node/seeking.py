"""Addresses that are asked for a relationship: again and again, less and less often, until they answer (EMC-11)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError
from weft.limits import DATAGRAM_SOUGHT_MAX
from weft.wire.udp import Address

DATAGRAM_SEEK_S_MIN: Final = 1.0  # a join was lost, or the other node is not up yet
DATAGRAM_SEEK_S_MAX: Final = 60.0  # a node that comes back after days is found within a minute


@dataclass(slots=True)
class _Sought:
    next_s: float
    delay_s: float  # after the next time
    until_s: float


class Seeking:
    """Whom to ask, and when. Asking is somebody else's work."""

    def __init__(self, addresses_max: int = DATAGRAM_SOUGHT_MAX) -> None:
        self._addresses_max = addresses_max
        self._sought: dict[Address, _Sought] = {}

    def __contains__(self, address: Address) -> bool:
        return address in self._sought

    def seek(self, address: Address, now_s: float, until_s: float = math.inf) -> None:
        """Ask at once, and then with growing delays; UsageError if too many are asked already. One to be asked for ever
        takes the place of one that is asked for a while."""
        if address not in self._sought and not self.has_room():
            self._make_room(until_s)
        self._sought[address] = _Sought(now_s, DATAGRAM_SEEK_S_MIN, until_s)

    def has_room(self) -> bool:
        return len(self._sought) < self._addresses_max

    def _make_room(self, until_s: float) -> None:
        soonest = min(self._sought, key=lambda address: self._sought[address].until_s)
        if until_s < math.inf or self._sought[soonest].until_s == math.inf:
            raise UsageError("too many addresses are being sought", limit=self._addresses_max)
        del self._sought[soonest]

    def stop(self, address: Address) -> None:
        """It has answered, or nobody wants it any longer."""
        self._sought.pop(address, None)

    def due(self, now_s: float) -> list[Address]:
        """Those to ask now; each is due again after a delay. Those whose time is over are forgotten."""
        for address in [address for address, sought in self._sought.items() if sought.until_s < now_s]:
            del self._sought[address]
        found = [address for address, sought in self._sought.items() if sought.next_s <= now_s]
        for address in found:
            sought = self._sought[address]
            sought.next_s = now_s + sought.delay_s
            sought.delay_s = min(2 * sought.delay_s, DATAGRAM_SEEK_S_MAX)
        return found

    def next_s(self) -> float | None:
        """When somebody is due; None if nobody is sought."""
        return min((sought.next_s for sought in self._sought.values()), default=None)
