"""What an executor does: fetch ranges of streams from the nodes that have them, and hand them to Spark as Arrow."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Final

import pyarrow as pa

from weft.client import (
    FetchRange,
    LogCorrupt,
    NotAllowed,
    PositionExpired,
    PositionUnknown,
    ReceivedBatch,
    Unauthenticated,
)
from weft.errors import PeerError, WeftError
from weft.limits import OFFSET_MAX
from weft.spark.connection import Connection
from weft.spark.planning import DataLoss, Loss, Range
from weft.spark.rows import RowMaker, stored_columns

LOG: Final = logging.getLogger("weft.spark")
GONE: Final = (PositionExpired, PositionUnknown, LogCorrupt)
REFUSED: Final = (Unauthenticated, NotAllowed)
RETRY_S: Final = 1.0  # between two rounds of asking while nobody answers
SPARK_UNAVAILABLE_S: Final = 60.0  # for a node that died in mid-fetch to come back
# Which fact of a node's error says where its events go on.
GOES_ON: Final = {PositionExpired: "earliest", LogCorrupt: "end"}


@dataclass(frozen=True, slots=True)
class Reading:
    """How ranges are read. Spark pickles it to executors."""

    connection: Connection
    columns: tuple[str, ...]
    fail_on_data_loss: bool

    def rows(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """The events of these ranges in Arrow batches of a size that suits Spark."""
        fetched = chain.from_iterable(
            self._fetched(Unread(group)) for _, group in groupby(ranges, key=lambda each: each.addresses)
        )
        return RowMaker(self.columns).rows(chain.from_iterable(fetched))

    def _fetched(self, unread: Unread) -> Iterator[list[ReceivedBatch]]:
        """Read all of these ranges from the nodes that have them, trying one node after the other. If none answers,
        wait for as long as a restart takes: Spark itself retries a task only on a cluster."""
        give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
        while unread:
            failures: list[WeftError] = []
            begun = unread.place
            for address in unread.range.addresses:
                access = self.connection.access()
                try:
                    for found in self._from_node(address, unread):
                        unread.took(found)
                        give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
                        yield found
                except (*GONE, *REFUSED, PeerError) as error:
                    unread.failed(error)
                    if isinstance(error, REFUSED) and self.connection.access() == access:
                        raise  # refused with the current key; if the key was replaced meanwhile, the new one is tried
                    LOG.warning("%s from offset %d: %s: %s", unread.range.place, unread.first, address, error)
                    failures.append(error)
                    if unread.place != begun:
                        break  # there was progress, so ask all nodes again about the rest
                else:
                    return
            if unread.place != begun:
                continue
            if all(isinstance(failure, GONE) for failure in failures):
                self._pass_over(unread, failures)
            elif time.monotonic() > give_up_s:
                raise next(failure for failure in failures if not isinstance(failure, GONE))
            else:
                time.sleep(RETRY_S)

    def _from_node(self, address: str, unread: Unread) -> Iterator[list[ReceivedBatch]]:
        client = self.connection.client(address)
        return client.fetch_ranges(unread.ask(), stored_columns(self.columns))

    def _pass_over(self, unread: Unread, failures: Sequence[WeftError]) -> None:
        """Skip what no node has; raise if option failOnDataLoss forbids it."""
        wanted = unread.range
        following = min(max(unread.first + 1, min(map(goes_on, failures), default=wanted.end)), wanted.end)
        loss = Loss(wanted.place, unread.first, following)
        if self.fail_on_data_loss:
            raise DataLoss(f"events are gone that were to be read: {loss}; {'; '.join(map(str, failures))}")
        LOG.warning("events are gone, going on without them: %s", loss)
        unread.go_on(following)


class Unread:
    """The part of a task's ranges that is not read yet. The same nodes have all of these ranges. The first one may be
    partly read."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = [each for each in ranges if len(each)]
        self._at = 0
        self._asked_at = 0
        self.first = self._ranges[0].first if self._ranges else 0  # the offset that is read next, in the first range

    def __bool__(self) -> bool:
        return self._at < len(self._ranges)

    @property
    def range(self) -> Range:
        """The first range that is not fully read."""
        return self._ranges[self._at]

    @property
    def place(self) -> tuple[int, int]:
        """How far reading has come, as a value that grows."""
        return self._at, self.first

    def ask(self) -> list[FetchRange]:
        """All of the rest, as a request to a node."""
        self._asked_at = self._at
        rest = [FetchRange(*each.place, each.first, each.end) for each in self._ranges[self._at :]]
        return [rest[0]._replace(first_offset=self.first), *rest[1:]]

    def took(self, found: Iterable[ReceivedBatch]) -> None:
        """Take note of batches that came, in the order of the ranges. What lies before them in the ranges is passed
        over: the node does not have it."""
        for batch in found:
            while (
                batch.stream,
                batch.epoch,
            ) != self.range.place or not self.first <= batch.first_offset < self.range.end:
                self._go_to(self._at + 1)
            self.go_on(batch.end_offset)

    def failed(self, error: WeftError) -> None:
        """A node's error about one of the ranges means that the ranges before it are done."""
        number = error.facts.get("range")
        if isinstance(number, int):
            self._go_to(max(self._at, self._asked_at + number))

    def go_on(self, first: int) -> None:
        """Continue at this offset of the first range."""
        self.first = first
        if first >= self.range.end:
            self._go_to(self._at + 1)

    def _go_to(self, number: int) -> None:
        if number > self._at:
            self._at = number
            self.first = self.range.first if self else 0


def goes_on(failure: WeftError) -> int:
    """The offset at which a node that lacks events has events again, as its error says; OFFSET_MAX if there is none."""
    fact = str(failure.facts.get(GOES_ON.get(type(failure), ""), ""))
    return min(int(fact), OFFSET_MAX) if fact.isascii() and fact.isdigit() else OFFSET_MAX
