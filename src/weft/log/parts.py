"""Copies that begin in the middle, and grow backwards (ADR 39).

A log is appended to at its end only. So the past of a copy is a part of its own: it has the same name, a number of its
own and lower offsets, and counts once it reaches the part behind it. There may be several, each before the next:

    2: [0, 40)   1: [40, 100)   0: [100, 170)      the copy has the offsets from 0 to 170
    1: [40, 70)  0: [100, 170)                     part 1 is being fetched: the copy begins at 100

The part that is appended to as events come is the last one; the others are found from there by ``StreamState.past``.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.log.records import StreamState


def whole_parts(state: StreamState) -> list[StreamState]:
    """From the beginning of the copy to its end; without the part that is being fetched."""
    parts = [state]
    while (past := parts[-1].past) is not None and past.durable >= parts[-1].start:
        parts.append(past)
    parts.reverse()
    return parts


def part_fetched(state: StreamState) -> StreamState | None:
    """The part that does not reach the one behind it, or is not durable yet."""
    return whole_parts(state)[0].past


def joined(states: Iterable[StreamState]) -> StreamState:
    """The last of the parts of one stream, joined to the others. A part has a higher number than those behind it."""
    last, *before = sorted(states, key=lambda state: (-state.start, state.id))
    behind = last
    for part in before:
        behind.past = part
        behind = part
    return last
