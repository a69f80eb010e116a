"""What a group remembers of one stream after its position: what is done out of order, and what has failed how often.

A ledger is part of the group's records (key ``l:``, see ``events``), so it goes where the stream goes. Two nodes may
write to it while the mesh is split. Their ledgers are joined: what one of them has marked as done is done, and the
greater of two counts stands. The order of joining does not matter, so all nodes reach the same ledger (a join
semilattice, see the tests).

>>> ledger = Ledger()
>>> ledger.finish(3, 5)
>>> ledger.fail(2, Try(1, due_us=7, alone=False, reason="no such customer"))
>>> ledger.trim(1), ledger.tries_of(2)
(1, 1)
>>> ledger.finish(1, 3)
>>> ledger.trim(1), bool(ledger)
(5, False)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from weft.errors import UsageError
from weft.limits import KIB, OFFSET_MAX
from weft.model.offsets import OffsetRanges

WINDOW_MAX: Final = 4096  # events that one member may have in hand: when it dies, all of them may come again
SET_ASIDE_MAX: Final = 1000  # events of one stream that failed and wait; with more, the stream waits for them
LEDGER_TRIES_MAX: Final = WINDOW_MAX + SET_ASIDE_MAX  # when a member dies, everything in its hand has failed
LEDGER_RANGES_MAX: Final = 2 * LEDGER_TRIES_MAX  # ranges that are done lie between events that are not
LEDGER_BYTES_MAX: Final = 1024 * KIB  # holds 10,192 ranges and 5,096 tries, and the reasons if there is room
REASON_CHARS_MAX: Final = 500  # of the reason why an event failed, for people


class Try(NamedTuple):
    """An event that failed: how often, and when it may come again (wall clock). ``alone``: a member died with several
    events in hand, this one among them, so each of them comes again by itself, to find out which one killed it. It is a
    tuple because of two tries, the greater one counts."""

    tries: int
    due_us: int
    alone: bool
    reason: str


class Ledger:
    """Offsets at or after the group's position. ``done``: acknowledged, or put away as dead letters."""

    __slots__ = ("_may_be_lonely", "_tries", "done")

    def __init__(self, done: Iterable[tuple[int, int]] = (), tries: Iterable[tuple[int, Try]] = ()) -> None:
        self.done = OffsetRanges(done)
        self._tries: dict[int, Try] = dict(tries)
        self._may_be_lonely = True  # False: certainly no event has to come alone, which is the usual case

    def __bool__(self) -> bool:
        return bool(self.done or self._tries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.done == other.done and self._tries == other._tries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ledger({list(self.done)}, {sorted(self._tries.items())})"

    @property
    def tries(self) -> dict[int, Try]:
        """The tries of events that failed and are not done, by offset."""
        return self._tries

    def lonely(self) -> list[tuple[int, Try]]:
        """The tries of events that have to come alone."""
        found = [(offset, each) for offset, each in self._tries.items() if each.alone] if self._may_be_lonely else []
        self._may_be_lonely = bool(found)
        return found

    def tries_of(self, offset: int) -> int:
        found = self._tries.get(offset)
        return found.tries if found else 0

    def finish(self, first: int, end: int) -> None:
        """Mark events as done, so that they never come again. A member may also settle events that it does not have in
        hand. If what is done falls into too many ranges, the ranges with the highest offsets are dropped, and their
        events come again."""
        self.done.add(first, end)
        if end - first <= len(self._tries):
            for offset in range(first, end):
                self._tries.pop(offset, None)
        else:
            for offset in [each for each in self._tries if first <= each < end]:
                del self._tries[offset]
        self.done.keep_first(LEDGER_RANGES_MAX)

    def fail(self, offset: int, again: Try) -> None:
        """Note that an event failed. If there is no room for the note, the event just comes again."""
        if offset not in self.done and (offset in self._tries or len(self._tries) < LEDGER_TRIES_MAX):
            self._tries[offset] = again
            self._may_be_lonely = self._may_be_lonely or again.alone

    def trim(self, position: int) -> int:
        """Move the position past everything that is done, forget what lies before it, and return it."""
        position = self.done.next_outside(position)
        self.done.remove(0, position)
        if self._tries:
            for offset in [each for each in self._tries if each < position]:
                del self._tries[offset]
        return position

    def join(self, other: Ledger) -> None:
        """Take in what another node noted."""
        self._may_be_lonely = True
        for offset, again in other._tries.items():
            if offset not in self.done:
                self._tries[offset] = max(self._tries.get(offset, again), again)
        for first, end in other.done:
            self.done.add(first, end)
        for offset in [each for each in self._tries if each in self.done]:
            del self._tries[offset]
        self._cut()

    def _cut(self) -> None:
        """Drop the entries with the highest offsets if two nodes together noted more than a ledger may hold. Those
        events come again."""
        self.done.keep_first(LEDGER_RANGES_MAX)
        for offset in sorted(self._tries)[LEDGER_TRIES_MAX:]:
            del self._tries[offset]


class _WireTry(msgspec.Struct, frozen=True, array_like=True):
    """A try that is the same for several events in a row."""

    first: int
    end: int
    tries: int
    due_us: int
    alone: bool
    reason: str


class _WireLedger(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int
    done: list[tuple[int, int]]
    tries: list[_WireTry]
    era: int = 0


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_WireLedger)


def write_ledger(version: int, ledger: Ledger, era: int = 0) -> bytes:
    """Write a ledger. ``version``: the version of the position that it belongs to. ``era``: the group's era. Reasons
    are only for people, so they are left out if there is no room for them."""
    wire = _WireLedger(version, list(ledger.done), _runs(ledger.tries), era)
    payload = _ENCODER.encode(wire)
    if len(payload) <= LEDGER_BYTES_MAX:
        return payload
    bare = {offset: again._replace(reason="") for offset, again in ledger.tries.items()}
    return _ENCODER.encode(msgspec.structs.replace(wire, tries=_runs(bare)))


def _runs(tries: dict[int, Try]) -> list[_WireTry]:
    found: list[_WireTry] = []
    for offset, each in sorted(tries.items()):
        last = found[-1] if found else None
        if last is not None and last.end == offset and (last.tries, last.due_us, last.alone, last.reason) == each:
            found[-1] = msgspec.structs.replace(last, end=offset + 1)
        else:
            found.append(_WireTry(offset, offset + 1, *each))
    return found


def read_ledger_untrusted(payload: bytes) -> tuple[int, Ledger, int]:
    """Return version, ledger and era. Raise only UsageError, whatever the bytes."""
    if len(payload) > LEDGER_BYTES_MAX:
        raise UsageError("a group's ledger is too large", bytes=len(payload), limit=LEDGER_BYTES_MAX)
    try:
        wire = _DECODER.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"a group's ledger is not what it should be: {error}") from None
    if not 0 <= wire.version <= OFFSET_MAX:
        raise UsageError("version of a ledger out of range", version=wire.version, limit=OFFSET_MAX)
    if not 0 <= wire.era <= OFFSET_MAX:
        raise UsageError("era of a ledger out of range", era=wire.era, limit=OFFSET_MAX)
    if len(wire.done) > LEDGER_RANGES_MAX:
        raise UsageError("too many ranges in a ledger", ranges=len(wire.done), limit=LEDGER_RANGES_MAX)
    for first, end in [*wire.done, *((each.first, each.end) for each in wire.tries)]:
        if not 0 <= first < end <= OFFSET_MAX:
            raise UsageError("not a range of offsets", first=first, end=end, limit=OFFSET_MAX)
    failed = sum(each.end - each.first for each in wire.tries)
    if failed > LEDGER_TRIES_MAX:
        raise UsageError("too many events in a ledger that failed", events=failed, limit=LEDGER_TRIES_MAX)
    return wire.version, Ledger(wire.done, _tries_untrusted(wire.tries)), wire.era


def _tries_untrusted(wire: list[_WireTry]) -> list[tuple[int, Try]]:
    tries = []
    for each in wire:
        if not (1 <= each.tries <= OFFSET_MAX and 0 <= each.due_us <= OFFSET_MAX):
            raise UsageError("a count or a time in a ledger is out of range", tries=each.tries, due_us=each.due_us)
        if len(each.reason) > REASON_CHARS_MAX:
            raise UsageError("too long a reason in a ledger", characters=len(each.reason), limit=REASON_CHARS_MAX)
        again = Try(each.tries, each.due_us, each.alone, each.reason)
        tries += [(offset, again) for offset in range(each.first, each.end)]
    return tries
