"""Staging, deciding and applying, done at a node. ``staging`` says what is done, and why it is exactly once.

The client that these functions take talks to one node and to no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

import pyarrow as pa

from weft.client import NotAllowed, OutOfSequence, PositionExpired, PositionUnknown
from weft.client.blocking import Client
from weft.limits import STAGING_AGE_S
from weft.model import BadBatch, Batch, Receipt, Topic
from weft.spark.sink_books import Books
from weft.spark.sink_calls import StagingLost, check_publish, now_us, payloads, put, receipt_of
from weft.spark.sink_rows import batches, gathered
from weft.spark.staging import (
    BadDecision,
    Decided,
    Entry,
    Staged,
    StagedBatch,
    Target,
    Writing,
    as_staged,
    decide,
    entries,
    runs,
)

SINK_IN_FLIGHT_MAX: Final = 32  # batches of one job without a receipt: 32 MiB unless single rows are huge


def stage(client: Client, writing: Writing, task: int, rows: Iterable[pa.RecordBatch], topic: Topic | None) -> Staged:
    """Publish a task's rows where its driver finds them. The events carry the current time: with their own times,
    retention might remove them."""
    found: list[StagedBatch] = []
    waiting: deque[tuple[Target, Future[Receipt]]] = deque()

    def settle_oldest() -> None:
        target, future = waiting.popleft()
        receipt = receipt_of(future)
        found.append(StagedBatch(target, receipt.stream.origin, receipt.epoch, receipt.first_offset))

    for table in gathered(rows):
        for target, batch in batches(table, topic, now_us()):
            if len(waiting) >= SINK_IN_FLIGHT_MAX:
                settle_oldest()
            waiting.append((target, put(client, writing.staging, batch.data)))
    while waiting:
        settle_oldest()
    return Staged(task, tuple(found))


def commit(books: Books, number: int, tasks: Iterable[Staged], copies: int) -> None:
    """Publish a write to its topics, once. If an earlier attempt has decided, its decision counts, and what it has
    published is not repeated."""
    mine = decide(number, tasks)
    _check_rights(books.client, mine)
    decided = books.decided(mine)
    if decided is not None:
        _apply(books.client, books.writing, decided, copies, books.secret)
        books.applied(number)


def commit_unnamed(client: Client, writing: Writing, tasks: Iterable[Staged], copies: int) -> None:
    """The same for a write that nobody can repeat, because it has no known id: no decision is needed."""
    mine = decide(0, tasks)
    _check_rights(client, mine)
    _apply(client, writing, mine, copies, secret=b"")


def _check_rights(client: Client, decided: Decided) -> None:
    """Raise NotAllowed unless the caller may publish to all topics of a write: nothing is decided or published then."""
    try:
        check_publish(client, sorted({topic for topic, _ in decided.targets}))
    except NotAllowed as error:
        raise NotAllowed(f"nothing of this write was published: {error.what}", **error.facts) from None


def _apply(client: Client, writing: Writing, decided: Decided, copies: int, secret: bytes) -> None:
    """Publish what was decided; batches that are already there are not published again.

    Within a topic and partition, a batch is sent only when the one before it has its receipt. So if the node refuses a
    sequence as too old, that batch was written before.
    """
    producer = writing.applier(secret)
    last: dict[Target, Future[Receipt]] = {}
    waiting: deque[Future[Receipt]] = deque()
    for entry, payload in _staged(client, writing, decided):
        target = entry.target
        if target in last:
            _settle(last[target])
        if len(waiting) >= SINK_IN_FLIGHT_MAX:
            _settle(waiting.popleft())
        batch = _read_staged_untrusted(payload, entry).with_producer(producer, entry.sequence)
        last[target] = client.publish_batch_nowait(target.topic, batch, partition=target.partition, copies=copies)
        waiting.append(last[target])
    for future in waiting:
        _settle(future)


def _settle(future: Future[Receipt]) -> None:
    with suppress(OutOfSequence):  # an earlier attempt got further
        receipt_of(future)


def _staged(client: Client, writing: Writing, decided: Decided) -> Iterator[tuple[Entry, bytes]]:
    """The staged batches, for each target in the order of the decision."""
    stream = writing.staging_stream(decided)
    for run in runs(as_staged(list(entries(decided)))):
        found = payloads(client, stream, decided.epoch, run[0].offset, run[-1].offset + 1)
        for entry in run:
            try:
                yield entry, next(found)
            except (PositionExpired, PositionUnknown) as error:
                raise _lost(decided, error) from None
            except StopIteration:
                raise _lost(decided, f"{stream} ends before offset {entry.offset}") from None


def _read_staged_untrusted(payload: bytes, entry: Entry) -> Batch:
    try:
        return Batch.read_untrusted(payload)
    except BadBatch as error:
        raise BadDecision(f"staged data is not a batch: {error}", offset=entry.offset) from None


def _lost(decided: Decided, reason: object) -> StagingLost:
    return StagingLost(
        "a write was decided, but its rows are no longer staged: some may be in their topics, others not. "
        f"They are kept for {STAGING_AGE_S // 3600} hours at the node where they were staged, as long as it has its "
        "disk. Look into the topics, and start over: a query with a new checkpoint, an application with a new name",
        write=decided.number,
        node=decided.origin,
        reason=reason,
    )
