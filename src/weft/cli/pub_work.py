"""What ``weft pub`` does: one event, or lines, which are gathered into batches while earlier batches are under way."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import out
from weft.cli.options import Where, misused
from weft.cli.progress import Working, working
from weft.cli.tables import counted, human_bytes, print_json
from weft.client import Client, Published
from weft.client.errors import Backpressure
from weft.errors import UsageError
from weft.limits import EVENT_PAYLOAD_BYTES_MAX, KIB
from weft.model import Epoch, Receipt, Stream, Topic, parse_topic

CHUNK_BYTES: Final = 256 * KIB  # read at once, if there is so much
CHUNKS_WAITING_MAX: Final = 4  # read ahead of publishing
STDIN: Final = Path("-")


class Source(Protocol):
    """Reads the bytes that are there, at most ``size``; none at the end."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Template:
    """What all events of one command have in common."""

    topic: Topic
    key: bytes | None
    headers: Mapping[str, str] | None
    copies: int
    deliver_at: datetime | None = None
    delay: float | None = None

    @classmethod
    def parse(
        cls,
        topic: str,
        key: str | None,
        headers: Sequence[str],
        copies: int,
        deliver_at: str | None = None,
        delay: float | None = None,
    ) -> Template:
        pairs = [text.partition("=") for text in headers]
        if wrong := [text for text, (name, sign, _) in zip(headers, pairs, strict=True) if not (name and sign)]:
            misused(f"--header {wrong[0]} is not NAME=VALUE")
        return cls(
            parse_topic(topic),
            None if key is None else key.encode(),
            {name: value for name, _, value in pairs} or None,
            copies,
            None if deliver_at is None else _time_of(deliver_at),
            delay,
        )

    @property
    def options(self) -> dict[str, Any]:
        later = {"deliver_at": self.deliver_at, "delay": self.delay}
        given = {name: value for name, value in later.items() if value is not None}
        return {"key": self.key, "headers": self.headers, "copies": self.copies, **given}


def _time_of(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        misused(f"--deliver-at {text} is not a time with a zone: 2026-12-24T18:00:00Z, or 2026-12-24T19:00:00+01:00")
    return found


# --- one event ---------------------------------------------------------------------------------------------------


def read_payload(file: Path | None) -> bytes:
    """A whole file as one event."""
    data = bytearray()
    with _opened(file) as source:
        for piece in _pieces(source):
            data += piece
            if len(data) > EVENT_PAYLOAD_BYTES_MAX:
                name = "standard input" if file is None or file == STDIN else file
                raise UsageError(f"{name} is too large for an event", limit=EVENT_PAYLOAD_BYTES_MAX)
    return bytes(data)


def publish_one(where: Where, template: Template, payload: bytes, json: bool) -> None:
    async def work(client: Client) -> Receipt:
        return await client.publish(template.topic, payload, **template.options)

    with working(f"waiting for {template.copies} copies") if template.copies > 1 else nullcontext():
        receipt = with_client(where, work)
    if json:
        print_json(receipt_document(receipt))
    else:
        out.print(escape(str(receipt)), soft_wrap=True)


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Names and order are those of an event's identity; ``offset`` is that of the first event."""
    return {
        "topic": receipt.stream.topic,
        "origin": receipt.stream.origin,
        "epoch": receipt.epoch,
        "partition": receipt.stream.partition,
        "offset": receipt.first_offset,
        "count": receipt.count,
        "copies": receipt.copies,
    }


# --- lines -------------------------------------------------------------------------------------------------------


class Tally:
    """Counts the events that have receipts, and where they are."""

    def __init__(self) -> None:
        self.events = 0
        self.bytes = 0
        self.ranges: dict[tuple[Stream, Epoch], tuple[int, int]] = {}  # first offset, last offset
        self._waiting: deque[tuple[Published, int]] = deque()  # bounded by how much a client may leave unacknowledged

    def add(self, published: Published, size: int) -> None:
        self._waiting.append((published, size))

    def settle(self) -> None:
        """Take the receipts that have come; raise the error of an event that got none."""
        while self._waiting and self._waiting[0][0].done():
            published, size = self._waiting.popleft()
            receipt = published.result()
            place = (receipt.stream, receipt.epoch)
            first, last = self.ranges.get(place, (receipt.first_offset, receipt.first_offset))
            self.ranges[place] = (min(first, receipt.first_offset), max(last, receipt.last.offset))
            self.events += 1
            self.bytes += size


def publish_lines(where: Where, template: Template, file: Path | None, json: bool) -> None:
    """Every line is an event, even an empty one. Events that have receipts are reported even after an error."""
    began_s = time.monotonic()
    tally = Tally()
    try:
        with working("publishing") as progress:
            with_client(where, lambda client: _publish_all(client, template, file, tally, progress))
    except BaseException:
        if tally.events:
            _print_summary(tally, time.monotonic() - began_s, json)
        raise
    _print_summary(tally, time.monotonic() - began_s, json)


async def _publish_all(client: Client, template: Template, file: Path | None, tally: Tally, progress: Working) -> None:
    try:
        with _opened(file) as source:
            async for lines in read_lines(source):
                for line in lines:
                    tally.add(await _published(client, template, line), len(line))
                tally.settle()
                progress(tally.bytes)
    except UsageError:
        await _finish(client, tally)  # what was sent before the mistake
        raise
    except asyncio.CancelledError:
        tally.settle()  # Ctrl-C: what is known by now
        raise
    await _finish(client, tally)


async def _finish(client: Client, tally: Tally) -> None:
    await client.flush()
    tally.settle()


async def _published(client: Client, template: Template, line: bytes) -> Published:
    while True:
        try:
            return client.publish_nowait(template.topic, line, **template.options)
        except Backpressure:
            await client.wait_for_room()


async def read_lines(source: Source) -> AsyncIterator[list[bytes]]:
    """Yields the lines that are there, as they come. The last line needs no newline.

    A thread does the reading: asyncio cannot wait for files, and a pipe may be silent for hours. It is a daemon thread
    and not one of asyncio's, because nobody waits for it at the end: Ctrl-C must work while it is blocked in a read.
    """
    loop = asyncio.get_running_loop()
    room = threading.Semaphore(CHUNKS_WAITING_MAX)
    queue: asyncio.Queue[list[bytes] | UsageError | None] = asyncio.Queue()  # bounded by ``room``

    def hand_over(item: list[bytes] | UsageError | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(queue.put_nowait, item)

    def read() -> None:
        with suppress(RuntimeError, ValueError):  # the loop, or the file, is closed: nobody waits for more
            try:
                for lines in _chunks(source):
                    hand_over(lines)
                hand_over(None)
            except UsageError as error:
                hand_over(error)

    threading.Thread(target=read, name="weft-lines", daemon=True).start()
    while (item := await queue.get()) is not None:
        if isinstance(item, UsageError):
            raise item
        room.release()
        yield item


def _chunks(source: Source) -> Iterator[list[bytes]]:
    """The lines that each read completes. Pieces of a long line are joined once, at its end."""
    pieces: list[bytes] = []
    held_bytes = 0
    for data in _pieces(source):
        head, *lines = data.split(b"\n")
        pieces.append(head)
        held_bytes += len(head)
        if held_bytes > EVENT_PAYLOAD_BYTES_MAX:
            raise UsageError("a line is too long for an event", limit=EVENT_PAYLOAD_BYTES_MAX)
        if lines:
            *whole, rest = lines
            yield [b"".join(pieces), *whole]
            pieces = [rest]
            held_bytes = len(rest)
    if held_bytes:
        yield [b"".join(pieces)]


def _pieces(source: Source) -> Iterator[bytes]:
    try:
        while data := source.read(CHUNK_BYTES):
            yield data
    except OSError as error:
        raise UsageError(f"cannot read on: {error.strerror}") from None


@contextmanager
def _opened(file: Path | None) -> Iterator[Source]:
    """A file, or standard input, which is left open. Unbuffered: a read returns what there is, and a thread that is
    blocked in a read when the process ends holds no lock on a buffer, which would crash Python.
    """
    if file is None or file == STDIN:
        yield os.fdopen(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
        return
    try:
        source = file.open("rb", buffering=0)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    with source:
        yield source


def _summary(tally: Tally, took_s: float) -> dict[str, Any]:
    return {
        "events": tally.events,
        "bytes": tally.bytes,
        "seconds": round(took_s, 3),
        "streams": [
            {
                "topic": stream.topic,
                "origin": stream.origin,
                "epoch": epoch,
                "partition": stream.partition,
                "first": first,
                "last": last,
            }
            for (stream, epoch), (first, last) in sorted(tally.ranges.items())
        ],
    }


def _print_summary(tally: Tally, took_s: float, json: bool) -> None:
    if json:
        print_json(_summary(tally, took_s))
        return
    rate = tally.events / took_s if took_s else 0.0
    out.print(f"{counted(tally.events, 'event')}, {human_bytes(tally.bytes)}, {took_s:.1f} s, {rate:,.0f} events/s")
    for (stream, epoch), (first, last) in sorted(tally.ranges.items()):
        out.print(f"{escape(str(stream))}:e{epoch}:{first} to {last}", soft_wrap=True)
