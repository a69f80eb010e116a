"""The neighbours of an EMM node: found with Hello, kept with Heartbeat, given up after silence (EMM-27). Pure.

A Hello is answered with a Hello if its sender is new, so both sides know each other after one round trip. Who is heard
of only by heartbeats (it knew us before we were restarted) is greeted. Nothing here is believed before it was verified:
callers hand over what authentic packets said.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple
from uuid import UUID

from weft.datagram_node import Admission, Change, Relationship, Relationships, Seeking
from weft.emm.settings import EMM_CAPABILITIES_BYTES_MAX, EMM_PEERS_MAX
from weft.errors import UsageError
from weft.limits import DATAGRAM_HEARTBEAT_INTERVAL_S, DATAGRAM_KNOWN_MAX, DATAGRAM_RECONNECT_S, DATAGRAM_SOUGHT_MAX
from weft.wire.recent import Recent
from weft.wire.udp import Address

EMM_GREET_PAUSE_S: Final = 1.0  # between two Hellos to one address: two nodes cannot greet each other endlessly


Neighbour = Relationship[bytes]  # ``about`` holds the capabilities of its Hello


class Call(Enum):
    """What a node says to another one."""

    HELLO = auto()
    HEARTBEAT = auto()


class Due(NamedTuple):
    call: Call
    address: Address


class Neighbours:
    """Takes what was heard; ``due`` says where to send a Hello. All times are of the steady clock."""

    def __init__(
        self,
        own_id: UUID,
        now_s: float,
        *,
        limit: int = EMM_PEERS_MAX,
        heartbeat_interval_s: float = DATAGRAM_HEARTBEAT_INTERVAL_S,
    ) -> None:
        self._own_id = own_id.bytes
        self._interval_s = heartbeat_interval_s
        self._relationships: Relationships[bytes] = Relationships(limit)
        self._seeking = Seeking()
        self._wanted: set[Address] = set()  # sought for ever
        self._greeted: Recent[Address] = Recent(DATAGRAM_KNOWN_MAX)  # sent a Hello a moment ago
        self._hellos: dict[Address, None] = {}  # owed
        self._heartbeat_s = now_s + heartbeat_interval_s  # when the next round is due

    def __len__(self) -> int:
        return len(self._relationships)

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._relationships)

    def others(self, source: Address | None) -> list[Address]:
        """Everybody but the one at that address."""
        return self._relationships.others(source)

    def address_of(self, node_id: UUID) -> Address | None:
        found = self._relationships.get(node_id.bytes)
        return None if found is None else found.address

    # --- what happens --------------------------------------------------------------------------------------------

    def seek(self, address: Address, now_s: float) -> None:
        """Say Hello there until somebody answers, and again whenever that neighbour is lost. UsageError if there are
        too many such addresses.
        """
        if address not in self._wanted and len(self._wanted) >= DATAGRAM_SOUGHT_MAX:
            raise UsageError("too many addresses to say Hello to", limit=DATAGRAM_SOUGHT_MAX)
        self._seeking.seek(address, now_s)
        self._wanted.add(address)

    def hello(self, node_id: bytes, address: Address, capabilities: bytes, now_s: float) -> None:
        if node_id == self._own_id:
            return
        told = capabilities[:EMM_CAPABILITIES_BYTES_MAX]
        if self._relationships.admit(node_id, address, told, self._interval_s, now_s) in (
            Admission.NEW,
            Admission.KNOWN,
        ):
            self._seeking.stop(address)
            self._greet(address, now_s)

    def heartbeat(self, node_id: bytes, address: Address, now_s: float) -> None:
        if node_id == self._own_id:
            return
        known = self._relationships.get(node_id)
        about = b"" if known is None else known.about
        if not self._relationships.hear(node_id, address, about, now_s) and self._relationships.at(address) is None:
            self._greet(address, now_s)  # its answer makes it a neighbour, at the address it has now

    def gone(self, address: Address) -> None:
        """The QUIC connection with that address ended: send nothing there until there is another one."""
        self._relationships.gone(address)
        self._seeking.stop(address)
        self._wanted.discard(address)
        self._hellos.pop(address, None)

    def changes(self) -> Iterator[Change[bytes]]:
        """Who came and went since the last call."""
        while self._relationships.changes:
            yield self._relationships.changes.popleft()

    # --- what is to be done --------------------------------------------------------------------------------------

    def due(self, now_s: float) -> list[Due]:
        """Whom to call now. Those that are silent are parted with, and sought again for a while."""
        for lost in self._relationships.expire(now_s):
            if lost.address in self._wanted:
                self._seeking.seek(lost.address, now_s)
            elif self._seeking.has_room():
                self._seeking.seek(lost.address, now_s, now_s + DATAGRAM_RECONNECT_S)
        for address in self._seeking.due(now_s):
            self._greet(address, now_s)
        calls = [Due(Call.HELLO, address) for address in self._hellos]
        self._hellos.clear()
        if self._heartbeat_s <= now_s:
            calls += [Due(Call.HEARTBEAT, address) for address in self._relationships.others(None)]
            self._heartbeat_s = now_s + self._interval_s  # from now: nobody makes up for a pause in a burst
        return calls

    def get_timer(self) -> float:
        """When ``due`` has something to say."""
        if self._hellos:
            return 0.0
        others = (self._seeking.next_s(), self._relationships.next_expiry_s())
        return min((self._heartbeat_s, *(each for each in others if each is not None)))

    def _greet(self, address: Address, now_s: float) -> None:
        """Unless that was done a moment ago: then what came is the answer to it."""
        if not self._greeted.holds(address, now_s):
            self._greeted.add(address, now_s + EMM_GREET_PAUSE_S, now_s)
            self._hellos[address] = None
