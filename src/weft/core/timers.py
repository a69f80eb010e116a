"""When something is due, in seconds of the clock that the steps use; None: never."""

from __future__ import annotations


def soonest(*due_s: float | None) -> float | None:
    return min([each_s for each_s in due_s if each_s is not None], default=None)
