"""When something is due, in seconds of the clock that steps are given; None: never."""

from __future__ import annotations


def soonest(*due_s: float | None) -> float | None:
    first_s = None
    for each_s in due_s:
        if each_s is not None and (first_s is None or each_s < first_s):
            first_s = each_s
    return first_s
