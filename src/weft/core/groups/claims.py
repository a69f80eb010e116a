"""Streams that members here want and do not get yet, and what they wait for.

Streams that are wanted at the same time form a **round**: they are announced together, become durable together, and
wait together (``hearing``). So waiting for ten thousand streams costs as much as waiting for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from weft.core.groups.hearing import Hearing
from weft.core.groups.settings import GroupSettings
from weft.core.messages import StreamKey


@dataclass(slots=True)
class ClaimRound:
    """``by_s``: when its streams are served at the latest, if nobody else holds them. ``until_s``: how long to listen
    for others; None while our announcement is not durable. ``mark``: taken when the listening is over; everything that
    had arrived by then has to be read before the streams are served. ``streams``: how many streams of the round still
    wait."""

    by_s: float
    is_closed: bool = False  # the announcement includes it, so streams wanted from now on join the next round
    is_said: bool = False
    until_s: float | None = None
    mark: int | None = None
    streams: int = 0


class Claims:
    def __init__(self, settings: GroupSettings, hearing: Hearing) -> None:
        self._settings = settings
        self._hearing = hearing
        self._round_of: dict[StreamKey, ClaimRound] = {}
        self._rounds: list[ClaimRound] = []  # rounds that have streams, in the order in which they began

    def __bool__(self) -> bool:
        return bool(self._round_of)

    def __iter__(self) -> Iterator[StreamKey]:
        return iter(self._round_of)

    def add(self, key: StreamKey, now_s: float) -> None:
        """Note a stream that is wanted and has not been announced yet."""
        last = self._rounds[-1] if self._rounds else None
        if last is None or last.is_closed:
            last = ClaimRound(now_s + self._settings.release_timeout_s)
            self._rounds.append(last)
        last.streams += 1
        self._round_of[key] = last

    def drop(self, key: StreamKey) -> None:
        """Remove a stream that is served now, or no longer wanted."""
        found = self._round_of.pop(key, None)
        if found is not None:
            found.streams -= 1
            if not found.streams:
                self._rounds.remove(found)

    def clear(self) -> None:
        self._round_of.clear()
        self._rounds.clear()

    @property
    def unsaid(self) -> bool:
        return bool(self._rounds) and not self._rounds[-1].is_closed

    def close(self) -> None:
        """Close all rounds: this node is about to announce all its members and what they want now."""
        for each in self._rounds:
            each.is_closed = True

    def said(self) -> None:
        """Note that this node has announced what was wanted at the last ``close``."""
        for each in self._rounds:
            each.is_said = each.is_closed

    def durable(self, now_s: float) -> float:
        """Note that everything that was said is durable. Other nodes hear it from now on, and may have claimed the same
        streams meanwhile. Return when to look at the claims again."""
        until_s = now_s + self._settings.settle_s
        fresh = [each for each in self._rounds if each.is_said and each.until_s is None]
        for each in fresh:
            each.until_s = until_s
        return until_s if fresh else inf

    def may_be_served(self, key: StreamKey, now_s: float) -> bool:
        """Whether this node may serve the stream as soon as no other member holds it."""
        found = self._round_of[key]
        if now_s >= found.by_s:
            return True
        if found.until_s is None or now_s < found.until_s:
            return False
        if found.mark is None:
            found.mark = self._hearing.mark()
        return self._hearing.has_read(found.mark) and self._hearing.caught_up_s(now_s) <= now_s

    def were_heard(self, now_s: float) -> bool:
        """Whether everything that some claims waited for has been read."""
        marks = [each.mark for each in self._rounds if each.mark is not None]
        return bool(marks) and self._hearing.caught_up_s(now_s) <= now_s and self._hearing.has_read(min(marks))

    def deadline_s(self, now_s: float) -> float:
        """The next time at which a claim may change without any news."""
        times_s = [each.by_s for each in self._rounds]
        times_s += (each.until_s for each in self._rounds if each.until_s is not None)
        if self._rounds:
            times_s.append(self._hearing.caught_up_s(now_s))
        return min((each for each in times_s if each > now_s), default=inf)
