"""``weft log``: look into the log of a node, check it, repair it, shrink it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from weft.cli.console import err, fail, out
from weft.cli.events import event_document, event_line
from weft.cli.log.input import (
    EARLIEST,
    changing,
    check_place,
    close_place,
    first_offsets,
    looking_at,
    parse_age_us,
    parse_size_bytes,
    select,
)
from weft.cli.log.output import (
    compacted_document,
    expired_document,
    health_document,
    print_compacted,
    print_expired,
    print_health,
    print_streams,
    stream_document,
)
from weft.cli.log.stats import log_stats, print_stats
from weft.cli.progress import working
from weft.cli.tables import counted, print_json
from weft.errors import UsageError
from weft.log import Log, StreamInfo, keys
from weft.log import repair as repairing
from weft.log.claim import Claim
from weft.log.compaction import Compacted
from weft.log.compaction import compact as compact_stream
from weft.log.errors import DiskFull, EventsLost, Loss
from weft.log.repair import Health
from weft.log.retention import RetentionRule
from weft.log.retention import retain as retain_streams
from weft.log.survey import SEGMENT_END
from weft.model import Batch, Epoch, Event, Pattern, parse_pattern

app = typer.Typer(help="Show a log, check it, repair it, shrink it.", no_args_is_help=True)

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The directory of the log.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
PatternText = Annotated[str, typer.Argument(metavar="PATTERN", help="Topics: plant.*.temp, or '>' for all.")]

FLUSH_POLL_S = 0.01


# --- looking -----------------------------------------------------------------------------------------------------


@app.command()
def ls(data: Data, pattern: PatternText = ">", json: Json = False) -> None:
    """List the streams: epoch, offsets, bytes, time of the last event."""
    wanted = parse_pattern(pattern)
    with working(f"reading {data}"), looking_at(data) as log:
        streams = log.streams(wanted)
    if json:
        print_json([stream_document(info) for info in streams])
    elif streams:
        print_streams(streams)
    else:
        err.print(f"no stream matches {escape(pattern)}")


@app.command()
def cat(
    data: Data,
    source: Annotated[str, typer.Argument(metavar="STREAM|PATTERN", help="One stream, topic@node/0, or topics.")],
    begin: Annotated[
        str, typer.Option("--from", metavar="earliest|OFFSET|RFC3339", help="The place to begin in each stream.")
    ] = EARLIEST,
    count: Annotated[int | None, typer.Option(min=0, help="The most events to print.", show_default="all")] = None,
    epoch: Annotated[int | None, typer.Option(help="Only streams of this epoch.", show_default="all")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per event.")] = False,
) -> None:
    """Print events, one per line, stream after stream. Exit status 1 if some are damaged; the others are printed."""
    losses: list[EventsLost] = []
    with looking_at(data) as log:
        streams = select(log, source, epoch)
        begins = first_offsets(log, streams, begin)
        events = chain.from_iterable(
            _events(log, info, first, losses) for info, first in zip(streams, begins, strict=True)
        )
        for info, offset, event in islice(events, count):
            if json:
                print_json(event_document(info.stream, info.epoch, offset, event))
            else:
                sys.stdout.write(event_line(info.stream, info.epoch, offset, event) + "\n")
    if losses:
        fail("\n".join(map(str, losses)))


def _events(
    log: Log, info: StreamInfo, first: int, losses: list[EventsLost]
) -> Iterator[tuple[StreamInfo, int, Event]]:
    """The events of a stream with their offsets. Events that cannot be read are noted in ``losses`` and skipped."""
    at = first
    while True:
        try:
            stored = log.read(info.stream, info.epoch, at)
        except EventsLost as error:
            losses.append(error)
            at = error.loss.end
            continue
        if not stored:
            return
        for batch in map(Batch.read_stored, stored):
            if batch.intact:
                for offset, event in enumerate(batch.events_from(at), max(at, batch.base_offset)):
                    yield info, offset, event
            else:
                lost = Loss(info.stream, info.epoch, batch.base_offset, batch.end_offset)
                losses.append(EventsLost(lost, "a batch is not what was stored"))
            at = batch.end_offset


@app.command()
def stats(data: Data, json: Json = False) -> None:
    """Totals, topics, and where the bytes on disk are."""
    with working(f"reading {data}"), looking_at(data) as log:
        found = log_stats(log, data)
    if json:
        print_json(found)
    else:
        print_stats(found)


# --- damage ------------------------------------------------------------------------------------------------------


@app.command()
def check(data: Data, json: Json = False) -> None:
    """Read everything and compare it with what was promised. Exit status 1 if something is lost or damaged."""
    health = _health(data)
    if json:
        print_json(health_document(health))
    else:
        print_health(health)
    if not health.is_sound:
        raise typer.Exit(1)


@app.command()
def repair(
    data: Data,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Repair a damaged log by giving up what cannot be read. First shows what that is, and asks."""
    check_place(data)
    Claim(data).release()  # who cannot repair need not be asked
    close_place(data)
    health = _health(data)
    print_health(health)
    if health.is_sound:
        return
    if not yes:
        _ask("Give up the lost events for good, and continue with the rest?")
    with working(f"repairing {data}") as progress:
        repaired = repairing.repair(data, lambda: _next_epoch(health), progress)
    for loss in repaired.losses:
        out.print(f"given up: {escape(str(loss))}")
    kept = f"{counted(repaired.events, 'event')} in {counted(repaired.streams, 'stream')} left"
    if repaired.epoch == repaired.epoch_before:
        out.print(f"repaired: {kept}; the epoch is still {repaired.epoch}")
    else:
        out.print(f"repaired: {kept}; this node's streams go on in the new epoch {repaired.epoch}")


def _health(data: Path) -> Health:
    check_place(data)
    with working(f"checking {data}") as progress:
        return repairing.check(data, progress)


def _ask(question: str) -> None:
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        fail("nothing was changed (--yes answers yes)")


def _next_epoch(health: Health) -> Epoch:
    """Milliseconds since 1970: higher than every earlier epoch, even if the record of those is lost."""
    known = [loss.epoch for loss in health.losses]
    return Epoch(max(time.time_ns() // 1_000_000, *(epoch + 1 for epoch in (*known, health.epoch or 0))))


# --- shrinking ---------------------------------------------------------------------------------------------------


@app.command()
def compact(data: Data, pattern: PatternText, json: Json = False) -> None:
    """Keep only the latest event of each key. Offsets stay, and so do events without a key.

    Exit status 1 if a stream is damaged; the others are compacted.
    """
    wanted = parse_pattern(pattern)
    now_us = time.time_ns() // 1000
    with working(f"compacting {data}"), changing(data) as log:
        rounds, losses = _compact_all(log, wanted, now_us)
    if json:
        print_json([compacted_document(done) for done in rounds])
    elif rounds:
        print_compacted(rounds)
    elif not losses:
        err.print("nothing was appended since the last round")
    if losses:
        fail("\n".join(map(str, losses)))


def _compact_all(log: Log, pattern: Pattern, now_us: int) -> tuple[list[Compacted], list[EventsLost]]:
    """Compact every stream once. A damaged one does not stop the others."""
    _settle(log)
    rounds: list[Compacted] = []
    losses: list[EventsLost] = []
    for info in log.streams(pattern):
        try:
            done = compact_stream(log, log.state(info.stream, info.epoch), now_us)
        except EventsLost as error:
            losses.append(error)
        else:
            rounds += [] if done is None else [done]
    if any(done.events_removed for done in rounds):
        _reclaim(log)
    return rounds, losses


@app.command()
def retain(
    data: Data,
    pattern: PatternText,
    age: Annotated[str | None, typer.Option(help="Keep younger events: 7d, 12h, 30m.", show_default=False)] = None,
    size: Annotated[
        str | None, typer.Option("--bytes", help="Keep this much of each stream: 10GiB, 500MB.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Remove the oldest events of each stream: those beyond an age, those beyond a size, or both."""
    if age is None and size is None:
        raise UsageError("there is no limit: give --age, --bytes, or both")
    rule = RetentionRule(
        parse_pattern(pattern),
        age_us_max=None if age is None else parse_age_us(age),
        stream_bytes_max=None if size is None else parse_size_bytes(size),
    )
    with working(f"shrinking {data}"), changing(data) as log:
        _settle(log)
        expired = retain_streams(log, [rule], time.time_ns() // 1000)
        if expired:
            _reclaim(log)
    expired.sort(key=lambda each: (each.stream, each.epoch))
    if json:
        print_json([expired_document(each) for each in expired])
    elif expired:
        print_expired(expired)
    else:
        err.print("nothing is older or larger than that")


def _settle(log: Log) -> None:
    """Move everything to table files: retention and compaction touch nothing else."""
    failures = log.store.background_failures()
    log.begin_segment()
    while log.store.is_flushing():
        if log.store.background_failures() > failures:
            raise DiskFull("what is to be deleted cannot be moved to table files: make some room on the disk first")
        time.sleep(FLUSH_POLL_S)
    log.sync()


def _reclaim(log: Log) -> None:
    """Give the space back now; a running log does so by and by."""
    log.store.reclaim(*keys.segment_range(0, SEGMENT_END))
