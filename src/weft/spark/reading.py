"""What an executor does: fetch ranges of streams from the nodes that have them, and hand them to Spark as Arrow."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa

from weft.client import LogCorrupt, NotAllowed, PositionExpired, PositionUnknown, ReceivedBatch, Unauthenticated
from weft.errors import PeerError, WeftError
from weft.limits import OFFSET_MAX
from weft.spark.connection import Connection
from weft.spark.planning import DataLoss, Loss, Range
from weft.spark.rows import RowMaker, coalesced, stored_columns

LOG: Final = logging.getLogger("weft.spark")
GONE: Final = (PositionExpired, PositionUnknown, LogCorrupt)
REFUSED: Final = (Unauthenticated, NotAllowed)
RETRY_S: Final = 1.0  # between two rounds of asking while nobody answers
SPARK_UNAVAILABLE_S: Final = 60.0  # for a node that died in mid-fetch to come back
# Which of a node's facts says where its events go on.
GOES_ON: Final = {PositionExpired: "earliest", LogCorrupt: "end"}


@dataclass(frozen=True, slots=True)
class Reading:
    """How ranges are read. Spark pickles it to executors."""

    connection: Connection
    columns: tuple[str, ...]
    fail_on_data_loss: bool

    def rows(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """The events of these ranges in Arrow batches of a size that suits Spark."""
        return coalesced(chain.from_iterable(map(self._rows_of, ranges)))

    def _rows_of(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        return RowMaker(wanted.place, self.columns).rows(chain.from_iterable(self._fetched(wanted)))

    def _fetched(self, wanted: Range) -> Iterator[list[ReceivedBatch]]:
        """All of the range, from one node after the other. Nodes that do not answer are waited for, as a restart takes:
        Spark itself tries a task again on a cluster only."""
        first = wanted.first
        give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
        while first < wanted.end:
            failures: list[WeftError] = []
            for address in wanted.addresses:
                access = self.connection.access()
                try:
                    for found in self._from_node(address, wanted, first):
                        first = found[-1].end_offset
                        give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
                        yield found
                except (*GONE, *REFUSED, PeerError) as error:
                    if isinstance(error, REFUSED) and self.connection.access() == access:
                        raise  # with the key of now; one that was replaced meanwhile is tried
                    LOG.warning("%s from offset %d: %s: %s", wanted.place, first, address, error)
                    failures.append(error)
                else:
                    return
            if all(isinstance(failure, GONE) for failure in failures):
                first = self._passed_over(wanted, first, failures)
            elif time.monotonic() > give_up_s:
                raise next(failure for failure in failures if not isinstance(failure, GONE))
            else:
                time.sleep(RETRY_S)

    def _from_node(self, address: str, wanted: Range, first: int) -> Iterator[list[ReceivedBatch]]:
        stream, epoch = wanted.place
        client = self.connection.client(address)
        return client.fetch_many(stream, epoch, first, wanted.end, stored_columns(self.columns))

    def _passed_over(self, wanted: Range, first: int, failures: Sequence[WeftError]) -> int:
        """Where to go on after what no node has; raise if that is not to be."""
        following = min(max(first + 1, min(map(goes_on, failures), default=wanted.end)), wanted.end)
        loss = Loss(wanted.place, first, following)
        if self.fail_on_data_loss:
            raise DataLoss(f"events are gone that were to be read: {loss}; {'; '.join(map(str, failures))}")
        LOG.warning("events are gone, going on without them: %s", loss)
        return following


def goes_on(failure: WeftError) -> int:
    """Where the events of a node go on that lacks some, as it says itself; OFFSET_MAX if they do not."""
    fact = str(failure.facts.get(GOES_ON.get(type(failure), ""), ""))
    return min(int(fact), OFFSET_MAX) if fact.isascii() and fact.isdigit() else OFFSET_MAX
