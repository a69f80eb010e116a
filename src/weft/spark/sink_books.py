"""What a job has decided and done, kept as events at a node. ``staging`` says why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from weft.client import BadNode, OutOfSequence, PositionExpired, SequenceReused
from weft.client.blocking import Client
from weft.errors import UsageError
from weft.model import BadName, Batch, Receipt, Stream, parse_event_id
from weft.spark.sink_calls import StagingLost, now_us, payloads, receipt_of
from weft.spark.staging import (
    Applied,
    Decided,
    OthersDecision,
    Record,
    Writing,
    applied_sequence,
    decided_sequence,
    decode_untrusted,
    encode,
    outstanding,
    seal,
    unseal_untrusted,
)

LOOK_BACK: Final = 8  # records read before a decision: a node that forgot the job's producer accepts a second one


@dataclass(frozen=True, slots=True)
class Books:
    """The books of one job. ``secret`` is the same for all of its runs, and nobody else has it."""

    client: Client
    writing: Writing
    secret: bytes = field(repr=False)

    def decided(self, mine: Decided) -> Decided | None:
        """Record this decision, and return the one that counts: this one, or an earlier one for the same write. None if
        the write is already applied."""
        receipt = self._say(encode(mine), decided_sequence(mine.number))
        if receipt is None:
            return None  # there are records of later writes
        decided = outstanding(self._around(receipt), mine.number)
        if decided is not None and decided.staged and decided.origin != receipt.stream.origin:
            raise UsageError(
                "rows were staged at one node and the decision is kept at another: the first of the nodes has to be "
                "one node's own address",
                staged_at=decided.origin,
                decided_at=receipt.stream.origin,
            )
        return decided

    def applied(self, number: int) -> None:
        self._say(encode(Applied(number)), applied_sequence(number))

    def progress(self) -> int | None:
        """The number of the last write that is complete; None before the first."""
        done: int | None = None
        for place in self.client.positions(self.writing.decisions):
            first = max(place.latest_offset - LOOK_BACK, place.earliest_offset)
            for record in self._records(place.stream, place.epoch, first):
                if isinstance(record, Applied):
                    done = record.number if done is None else max(done, record.number)
        return done

    def agree(self, said: bytes) -> bytes:
        """Of all that runs record under this job's name, return the first record, which counts. The name is used for
        nothing else."""
        receipt = self._say(said, 0)
        assert receipt is not None, "there is no sequence before the first"
        first = receipt.first_offset
        try:
            [found] = payloads(self.client, receipt.stream, receipt.epoch, first, first + 1)
        except PositionExpired as error:
            raise StagingLost(
                f"the decisions of this job are gone ({error}): use a new name", said=receipt.first
            ) from None
        return unseal_untrusted(found, self.secret)

    def _say(self, data: bytes, sequence: int) -> Receipt | None:
        """Record this under a sequence, or find what was recorded under it before; None if there are later ones."""
        batch = Batch.from_columns(
            [seal(data, self.secret)], now_us(), producer=self.writing.decider, sequence=sequence
        )
        try:
            return receipt_of(self.client.publish_batch_nowait(self.writing.decisions, batch))
        except SequenceReused as error:
            return _said_before(error)
        except OutOfSequence:
            return None

    def _around(self, receipt: Receipt) -> list[Record]:
        """The record that a receipt is for, with those around it."""
        offset = receipt.first_offset
        for first in (max(offset - LOOK_BACK, 0), offset):
            with suppress(PositionExpired):
                return list(self._records(receipt.stream, receipt.epoch, first))
        raise StagingLost(
            "this write was decided so long ago that the decision is gone: whether it was written is "
            "not known. Look into its topics, and start over: a query with a new checkpoint, an application with a new "
            "name",
            decision=receipt.first,
        )

    def _records(self, stream: Stream, epoch: int, first: int) -> Iterator[Record]:
        """Our own records from an offset on. Other records are skipped: they are from an old key, or from somebody who
        guessed the name."""
        for payload in payloads(self.client, stream, epoch, first, None):
            with suppress(OthersDecision):
                yield decode_untrusted(unseal_untrusted(payload, self.secret))


def _said_before(error: SequenceReused) -> Receipt:
    """The place of the first decision, from the node's answer."""
    try:
        place = parse_event_id(str(error.facts.get("kept_at")))
    except BadName:
        raise BadNode(f"the node does not say where the first decision is: {error}") from None
    return Receipt(place.stream, place.epoch, place.offset, 1, 1)
