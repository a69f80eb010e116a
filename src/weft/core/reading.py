"""How links read a log: so much at once, and on behind what is gone for good."""

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
    """Read on behind what a repair has given up, or else nobody elsewhere would ever get what follows. Return the
    batches, and what was given up before them. Raise what else goes wrong."""
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
