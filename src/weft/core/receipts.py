"""Receipts that this node owes to publishers. A receipt waits for a sync; if the publisher asks for copies, it also
waits until enough peers have synced. A refusal that says where an event is stored waits for a sync, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from weft.core.errors import CopiesMissing
from weft.core.messages import Effect, Receipted, Receipts, Refused, StreamKey
from weft.log import Appended


class Owed(Struct, frozen=True):
    """A receipt that waits for copies on other nodes."""

    request: int
    appended: Appended
    copies: int
    deadline_s: float

    @property
    def key(self) -> StreamKey:
        return (self.appended.stream, self.appended.epoch)

    @property
    def range(self) -> tuple[int, int]:
        """The first offset, and the one after the last."""
        return self.appended.first_offset, self.appended.first_offset + self.appended.count

    def receipted(self, copies: int) -> Receipted:
        return Receipted(self.request, self.appended, copies)


class OwedReceipts:
    """``copies_at`` tells on how many nodes, including this one, events of a stream are safe, from one offset up to but
    not including another."""

    def __init__(self, copies_at: Callable[[StreamKey, int, int], int]) -> None:
        self._copies_at = copies_at
        self._alone: deque[tuple[int, list[Receipted]]] = deque()  # by ticket: they wait only for our own sync
        self._unsynced: deque[Owed] = deque()  # by ticket: they also wait for copies
        # Durable here, but not on enough nodes yet: in the order of offsets, with a queue for each number of copies. So
        # a receipt that asks for more copies than there are nodes does not hold up the others.
        self._uncopied: dict[StreamKey, dict[int, deque[Owed]]] = {}
        self._refusals: deque[tuple[int, Refused]] = deque()  # by ticket

    def add(self, owed: Owed) -> None:
        self._unsynced.append(owed)

    def add_alone(self, receipts: list[Receipted], ticket: int) -> None:
        """Add receipts that need no copies. They are due once all tickets up to this one are durable. Most receipts are
        of this kind, so they get no ``Owed`` each."""
        self._alone.append((ticket, receipts))

    def refuse(self, refused: Refused, ticket: int) -> None:
        """Refuse once all tickets up to this one are durable."""
        self._refusals.append((ticket, refused))

    def synced(self, ticket: int) -> list[Effect]:
        """Return what is due now that all tickets up to this one are durable here."""
        effects: list[Effect] = []
        while self._alone and self._alone[0][0] <= ticket:
            effects.append(Receipts(tuple(self._alone.popleft()[1])))
        if self._refusals or self._unsynced:
            effects += self._synced_others(ticket)
        return effects

    def _synced_others(self, ticket: int) -> list[Effect]:
        effects: list[Effect] = []
        waiting: dict[StreamKey, None] = {}
        while self._unsynced and self._unsynced[0].appended.ticket <= ticket:
            owed = self._unsynced.popleft()
            self._uncopied.setdefault(owed.key, {}).setdefault(owed.copies, deque()).append(owed)
            waiting[owed.key] = None
        while self._refusals and self._refusals[0][0] <= ticket:
            effects.append(self._refusals.popleft()[1])
        return [*effects, *(effect for key in waiting for effect in self.copied(key))]

    def copied(self, key: StreamKey) -> list[Effect]:
        """Return the receipts that are due because a peer has synced more of this stream."""
        receipts: list[Receipted] = []
        for waiting in self._uncopied.get(key, {}).values():
            while waiting and (copies := self._copies_at(key, *waiting[0].range)) >= waiting[0].copies:
                receipts.append(waiting.popleft().receipted(copies))
        left = {copies: waiting for copies, waiting in self._uncopied.pop(key, {}).items() if waiting}
        if left:
            self._uncopied[key] = left
        return [Receipts(tuple(receipts))] if receipts else []

    def wanted_copies(self) -> dict[StreamKey, int]:
        """The streams with receipts that wait for copies, and how many copies they need at most."""
        wanted = {key: max(by_copies) for key, by_copies in self._uncopied.items()}
        for owed in self._unsynced:
            wanted[owed.key] = max(owed.copies, wanted.get(owed.key, 0))
        return wanted

    def get_timer(self) -> float | None:
        firsts = (waiting[0] for by_copies in self._uncopied.values() for waiting in by_copies.values())
        return min((each.deadline_s for each in firsts), default=None)

    def expire(self, now_s: float) -> list[Effect]:
        """Refuse receipts that have waited too long for copies. The events stay, and may still be copied later."""
        effects: list[Effect] = []
        for key, by_copies in list(self._uncopied.items()):
            over: list[Effect] = []
            for waiting in by_copies.values():
                while waiting and waiting[0].deadline_s <= now_s:  # deadlines are in order
                    over.append(self._missing(waiting.popleft()))
            if over:
                effects += [*over, *self.copied(key)]
        return effects

    def _missing(self, owed: Owed) -> Refused:
        place = owed.appended
        error = CopiesMissing(
            f"kept at {place.stream} from offset {place.first_offset} on, but not on enough nodes",
            asked=owed.copies,
            have=self._copies_at(owed.key, *owed.range),
        )
        return Refused(owed.request, error)
