"""The calls that staging, deciding and applying make to their one node. Every wait has a limit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Final

from weft.client import Backpressure, Unavailable
from weft.client.blocking import Client
from weft.errors import StorageError
from weft.model import Receipt, Stream, Topic

SINK_NODE_TIMEOUT_S: Final = 60.0  # for the node that keeps a job's decisions to be reached: a restart takes seconds
PAYLOAD: Final = ("payload",)


class StagingLost(StorageError):
    """A write was decided, but its decision or its staged rows are gone."""


def put(client: Client, topic: Topic, payload: bytes) -> Future[Receipt]:
    """Publish an event with the current time."""
    while True:
        try:
            return client.publish_nowait(topic, payload)
        except Backpressure:
            try:
                client.wait_for_room(SINK_NODE_TIMEOUT_S)
            except TimeoutError:
                raise _silent() from None


def check_publish(client: Client, topics: Sequence[str]) -> None:
    """Raise NotAllowed unless the caller may publish to all of these topics; Unavailable if the node is silent."""
    give_up_s = time.monotonic() + SINK_NODE_TIMEOUT_S
    while True:
        try:
            return client.check_publish(topics)
        except Unavailable:
            if time.monotonic() > give_up_s:
                raise _silent() from None


def receipt_of(future: Future[Receipt]) -> Receipt:
    """Wait for the receipt; raise the error that the node answered with, or Unavailable."""
    try:
        return future.result(SINK_NODE_TIMEOUT_S)
    except TimeoutError:
        raise _silent() from None


def payloads(client: Client, stream: Stream, epoch: int, first: int, end: int | None) -> Iterator[bytes]:
    """The payloads of the events between two offsets, as far as there are any."""
    for fetched in client.fetch_many(stream, epoch, first, end, PAYLOAD):
        for batch in fetched:
            yield from batch.record_batch.column(0).to_pylist()


def now_us() -> int:
    return time.time_ns() // 1000


def _silent() -> Unavailable:
    return Unavailable(
        "the node that this job writes to does not answer. Nothing is lost: run it again when the node is back",
        waited_s=SINK_NODE_TIMEOUT_S,
    )
