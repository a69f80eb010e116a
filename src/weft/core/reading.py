"""How links read a log: a bounded amount at once, and without stopping at events that are gone for good."""

from __future__ import annotations

from typing import Final

from weft.core.messages import StreamKey
from weft.limits import MIB
from weft.log import Log
from weft.log.errors import EventsLost

LINK_READ_BYTES_MAX: Final = 1 * MIB  # of one stream for one peer or subscriber at a time, so that streams take turns


def read_behind_losses(
    log: Log, key: StreamKey, first: int, end: int, bytes_max: int
) -> tuple[list[bytes], list[EventsLost]]:
    """Read, and skip events that a repair has given up: otherwise no other node would ever get what follows them.
    Return the batches, and the losses that were skipped before them. Raise all other errors."""
    losses: list[EventsLost] = []
    while first < end:
        try:
            return log.read(*key, first, end, bytes_max), losses
        except EventsLost as error:
            if not error.is_given_up:
                raise
            losses.append(error)
            first = error.loss.end
    return [], losses
