"""Copies that begin in the middle, and grow backwards (ADR 39).

A log is appended to at its end only. So the past of a copy is stored as another part: it has the same name, its own
number and lower offsets, and counts once it reaches the part behind it. There may be several parts, in order:

    2: [0, 40)   1: [40, 100)   0: [100, 170)      the copy has the offsets from 0 to 170
    1: [40, 70)  0: [100, 170)                     part 1 is being fetched: the copy begins at 100

New events are appended to the last part; ``StreamState.past`` leads from there to the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.log.records import StreamState


def whole_parts(state: StreamState) -> list[StreamState]:
    """The parts from the beginning of the copy to its end, without the part that is being fetched."""
    parts = [state]
    while (past := parts[-1].past) is not None and past.durable >= parts[-1].start:
        parts.append(past)
    parts.reverse()
    return parts


def part_fetched(state: StreamState) -> StreamState | None:
    """The part that does not reach the one behind it yet, or is not durable yet."""
    return whole_parts(state)[0].past


def joined(states: Iterable[StreamState]) -> StreamState:
    """Join the parts of one stream, and return the last one. A part has a higher number than those behind it."""
    last, *before = sorted(states, key=lambda state: (-state.start, state.id))
    behind = last
    for part in before:
        behind.past = part
        behind = part
    return last
