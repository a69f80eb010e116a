"""What waits for its turn in a gateway: datagrams to be sorted out, and packets whose signatures have to be checked.

Both are bounded; when there is no room, the newest are dropped.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from weft.gateway.emm.rows import GATEWAY_EMM_SOURCES_MAX, Arrived
from weft.limits import EMM_PACKET_BYTES_MAX
from weft.wire.datagram import is_urgent_untrusted

EMM_INTAKE_MAX: Final = 65_536  # datagrams waiting to be judged, at most 36 MB: under a second of work
GATEWAY_EMM_SIGNATURES_MAX: Final = 16_384  # packets waiting, for known senders and for others each: a second of work
STRANGERS_SHARE: Final = 4  # one signature check in so many is for unknown senders


def intake_max(packet_bytes_max: int, datagrams_max: int = EMM_INTAKE_MAX) -> int:
    """How many datagrams of that size may wait, so that the size in bytes stays the same."""
    return max(min(datagrams_max, datagrams_max * EMM_PACKET_BYTES_MAX // packet_bytes_max), 1)


class Line:
    """Datagrams in the order in which they came, urgent ones first (EMM-29)."""

    def __init__(self, datagrams_max: int = EMM_INTAKE_MAX) -> None:
        self.dropped = 0
        self._datagrams_max = datagrams_max
        self._urgent: deque[Arrived] = deque()
        self._normal: deque[Arrived] = deque()

    def __len__(self) -> int:
        return len(self._urgent) + len(self._normal)

    @property
    def has_urgent(self) -> bool:
        return bool(self._urgent)

    def has_room(self) -> bool:
        """Whether there is plenty of room. What the line cannot take stays in the system's buffer, which drops it at no
        cost to the node."""
        return len(self) <= self._datagrams_max // 2

    def put(self, arrived: Sequence[Arrived]) -> None:
        room = max(self._datagrams_max - len(self), 0)
        self.dropped += max(len(arrived) - room, 0)
        urgent = [is_urgent_untrusted(each[0]) for each in arrived]
        if any(urgent) or room < len(arrived):
            for each, first in islice(zip(arrived, urgent, strict=True), room):
                (self._urgent if first else self._normal).append(each)
        else:
            self._normal.extend(arrived)

    def take(self, count: int) -> list[Arrived]:
        first = _taken(self._urgent, count)
        return first + _taken(self._normal, count - len(first))


class Signatures:
    """Packets that wait for their signature checks, of senders that have recently passed one and of others.

    A forgery costs as much as a valid packet, and there may be a hundred times as many of them. Packets from sources
    with valid signatures come first, so forgeries from elsewhere get only the time that is left. They get a share in
    any case, or no new sender would ever be heard. A source whose signature fails is one of the others again.
    """

    def __init__(
        self, packets_max: int = GATEWAY_EMM_SIGNATURES_MAX, sources_max: int = GATEWAY_EMM_SOURCES_MAX
    ) -> None:
        self._known = Line(packets_max)
        self._others = Line(packets_max)
        self._sources_max = sources_max
        self._good: OrderedDict[str, None] = OrderedDict()  # sources; the one that passed last is at the end

    def __len__(self) -> int:
        return len(self._known) + len(self._others)

    @property
    def dropped(self) -> int:
        return self._known.dropped + self._others.dropped

    def put(self, arrived: Sequence[Arrived]) -> None:
        self._known.put([each for each in arrived if each.source in self._good])
        self._others.put([each for each in arrived if each.source not in self._good])

    def take(self, count: int) -> list[Arrived]:
        reserved = min(len(self._others), count // STRANGERS_SHARE)
        taken = self._known.take(count - reserved)
        return taken + self._others.take(count - len(taken))

    def passed(self, source: str) -> None:
        self._good[source] = None
        self._good.move_to_end(source)
        if len(self._good) > self._sources_max:
            self._good.popitem(last=False)

    def failed(self, source: str) -> None:
        self._good.pop(source, None)


def _taken(line: deque[Arrived], count: int) -> list[Arrived]:
    if count >= len(line):
        taken = list(line)
        line.clear()
        return taken
    return [line.popleft() for _ in range(count)]
