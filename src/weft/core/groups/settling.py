"""Acknowledging by hand: what follows when members of a group acknowledge or refuse single events.

A group's ledgers (``ledger``) are changed here and nowhere else. Every change returns what has to be done, in this
order: dead letters first, then positions, so that a crash in between repeats an event and never loses one.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

from weft.core.groups.effects import CommitPositions, GroupEffect, PutAside, Refusal
from weft.core.groups.hand import Given, Hand
from weft.core.groups.ledger import REASON_CHARS_MAX, Ledger, Try
from weft.core.groups.members import Member
from weft.core.groups.places import Places
from weft.core.messages import Acked, Nacked, StreamKey
from weft.core.policy import DEFAULT_POLICY, RETRY_S_MAX, GroupPolicy
from weft.limits import OFFSET_MAX
from weft.model import EventId, Position

DIED: Final = "its reader died with this event in hand"
DIED_AMONG: Final = "its reader died with this event and others in hand"
EXPIRED: Final = "retention took it before it could be tried again"
WAKE_LATE_S: Final = 0.001  # times are kept in microseconds, and the clock's seconds are rounded


class Settling:
    """What members of one group at one node have settled. ``wall_offset_s``: how far the wall clock is ahead of
    ``now_s``."""

    def __init__(self, group: str, places: Places, wall_offset_s: float) -> None:
        self.policy: GroupPolicy = DEFAULT_POLICY
        self.redelivered = 0  # events that were given out again, since this node started
        self.dead = 0  # dead letters made
        self.wake_at_s = inf  # when the next waiting event is due
        self._group = group
        self._places = places
        self._wall_offset_s = wall_offset_s

    def begin_again(self, places: Places) -> None:
        """Begin another era of the group: nothing has failed yet, and there is no policy."""
        self._places, self.policy, self.wake_at_s = places, DEFAULT_POLICY, inf

    # --- what members say ----------------------------------------------------------------------------------------

    def acked(self, member: Member, acks: Iterable[Acked]) -> set[StreamKey]:
        """Take acknowledgements; return the streams with something new."""
        touched = set()
        for each in acks:
            key = each.stream, each.epoch
            self._finish(member, key, each.first, each.end)
            touched.add(key)
        return touched

    def nacked(self, member: Member, nacks: Iterable[Nacked], now_s: float) -> list[GroupEffect]:
        """Take refusals. If an event is done already, its refusal has no effect, but the member gets its answer."""
        effects: list[GroupEffect] = []
        answers: list[GroupEffect] = []
        for each in nacks:
            key, offset = (each.stream, each.epoch), each.offset
            rest = False
            if self._is_open(key, offset):
                dead = self._failed(member, key, offset, each.delay_s, each.reason, now_s)
                effects += dead
                rest = self.policy.in_order and not dead
            elif member.hand is not None:  # others have handled it, but this member had it in hand
                member.hand.drop(key, offset, offset + 1)
            if rest and member.hand is not None:
                member.hand.drop(key, offset + 1, OFFSET_MAX)
            answers.append(Refusal(member.subscription, EventId(each.stream, each.epoch, offset), rest))
        return [*effects, *answers]

    def died(self, member: Member, now_s: float) -> list[GroupEffect]:
        """Note that a member has died: an event in its hand may have killed it. If it had only one in hand, that event
        counts as failed. If it had several, each of them comes again alone, and this death makes none of them a dead
        letter."""
        hand = member.hand
        if hand is None:
            return []
        in_hand = [(key, offset) for key, held in hand for first, end in held for offset in range(first, end)]
        effects: list[GroupEffect] = []
        for key, offset in in_hand:
            if not self._is_open(key, offset):
                continue
            if len(in_hand) == 1:
                effects += self._failed(member, key, offset, None, DIED, now_s, alone=True)
            else:
                count = self._ledger(key).tries_of(offset) + 1
                self._again(key, offset, Try(count, self.now_us(now_s), True, DIED_AMONG))
        for key in {key for key, _ in in_hand}:
            effects += self.advanced(key)
        return effects

    def advanced(self, key: StreamKey) -> list[GroupEffect]:
        """Move the group's position past what is done. Even if it does not move, the ledger has something new to
        announce."""
        place, ledger = self._places.get(key), self._places.ledgers.get(key)
        if place is None or ledger is None:
            return []
        offset = ledger.done.next_outside(place.offset)
        if self._places.advance(key, offset):
            return [CommitPositions(self._group, (Position(*key, offset),))]
        self._places.note(key)
        return []

    # --- what members get ----------------------------------------------------------------------------------------

    def next_run(self, member: Member, key: StreamKey, cursor: int, end: int, now_s: float) -> Given:
        hand = member.hand
        assert hand is not None, "only members that acknowledge by hand are asked what they may have"
        place = self._places.get(key)
        return hand.next_run(
            key,
            self._places.ledgers.get(key) or Ledger(),
            cursor if place is None else place.offset,
            end,
            in_order=self.policy.in_order,
            now_us=self.now_us(now_s),
            lonely=self._is_lonely(member, hand, self.now_us(now_s)),
        )

    def take(self, member: Member, key: StreamKey, first: int, end: int) -> None:
        """Note that these events are on their way to the member."""
        assert member.hand is not None, "only members that acknowledge by hand have something in it"
        if self._places.get(key) is None:
            self._places.advance(key, first)
        ledger = self._places.ledgers.get(key)
        again = ledger.tries.get(first) if ledger else None
        self.redelivered += end - first if again else 0
        member.hand.take(key, first, end, alone=again is not None and again.alone)

    def postpone(self, member: Member, key: StreamKey, first: int, events: int) -> bool:
        return member.hand is not None and member.hand.postpone(key, first, events)

    def gone(self, member: Member, key: StreamKey, first: int, end: int) -> list[GroupEffect]:
        """Mark events that compaction has deleted from the log as done, because nobody misses them."""
        self._finish(member, key, first, end)
        return self.advanced(key)

    def expired(self, member: Member, key: StreamKey, start: int) -> list[GroupEffect]:
        """Make dead letters of the events that waited for a retry until retention deleted them."""
        ledger = self._places.ledgers.get(key)
        late = sorted(each for each in ledger.tries if each < start) if ledger else []
        effects: list[GroupEffect] = []
        for offset in late:
            effects.append(self._put_aside(key, offset, self._ledger(key).tries_of(offset), EXPIRED))
            self._finish(member, key, offset, offset + 1)
        return [*effects, *self.advanced(key)] if late else []

    def due_again_s(self, held: Iterable[tuple[StreamKey, Hand]], now_s: float) -> float:
        """When the next waiting event is due."""
        now_us = self.now_us(now_s)
        due_us = (
            again.due_us
            for key, hand in held
            if key in self._places.ledgers
            for offset, again in self._places.ledgers[key].tries.items()
            if again.due_us > now_us and offset not in hand.of(key)
        )
        first_us = min(due_us, default=None)
        return inf if first_us is None else self._due_s(first_us)

    def now_us(self, now_s: float) -> int:
        return int((now_s + self._wall_offset_s) * 1_000_000)

    # -------------------------------------------------------------------------------------------------------------

    def _is_lonely(self, member: Member, hand: Hand, now_us: int) -> bool:
        """Whether an event has to come alone now, in any stream that the member is served."""
        return any(
            again.due_us <= now_us and offset not in hand.of(key)
            for key, ledger in self._places.ledgers.items()
            if key in member.assigned
            for offset, again in ledger.lonely()
        )

    def _is_open(self, key: StreamKey, offset: int) -> bool:
        place = self._places.get(key)
        ledger = self._places.ledgers.get(key)
        return place is not None and offset >= place.offset and not (ledger and offset in ledger.done)

    def _ledger(self, key: StreamKey) -> Ledger:
        return self._places.ledgers.setdefault(key, Ledger())

    def _finish(self, member: Member, key: StreamKey, first: int, end: int) -> None:
        place = self._places.get(key)
        if place is not None:
            self._ledger(key).finish(max(first, place.offset), end)
        if member.hand is not None:
            member.hand.drop(key, first, end)

    def _failed(
        self,
        member: Member,
        key: StreamKey,
        offset: int,
        delay_s: float | None,
        reason: str,
        now_s: float,
        *,
        alone: bool = False,
    ) -> list[GroupEffect]:
        """Note that an event failed: it comes again, or becomes a dead letter if it was given out as often as the
        policy allows."""
        count = self._ledger(key).tries_of(offset) + 1
        reason = reason[:REASON_CHARS_MAX]
        if member.hand is not None:
            member.hand.drop(key, offset, offset + 1)
        if count >= self.policy.max_deliveries:
            letter = self._put_aside(key, offset, count, reason)
            self._finish(member, key, offset, offset + 1)
            return [letter]
        wait_s = self.policy.delay_s(count) if delay_s is None else min(max(delay_s, 0.0), RETRY_S_MAX)
        self._again(key, offset, Try(count, self.now_us(now_s + wait_s), alone, reason))
        return []

    def _put_aside(self, key: StreamKey, offset: int, count: int, reason: str) -> GroupEffect:
        self.dead += 1
        return PutAside(self._group, self.policy.topic_of(self._group), EventId(*key, offset), count, reason)

    def _again(self, key: StreamKey, offset: int, again: Try) -> None:
        self._ledger(key).fail(offset, again)
        self.wake_at_s = min(self.wake_at_s, self._due_s(again.due_us))

    def _due_s(self, due_us: int) -> float:
        return due_us / 1_000_000 - self._wall_offset_s + WAKE_LATE_S
