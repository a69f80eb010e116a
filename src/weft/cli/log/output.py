"""How ``weft log`` shows streams, damage and what it removed: tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from weft.cli.console import out
from weft.cli.tables import counted, human_bytes, human_time, print_table
from weft.log import StreamInfo
from weft.log.compaction import Compacted
from weft.log.errors import Loss
from weft.log.keys import NO_TIME_US
from weft.log.repair import Health
from weft.log.retention import Expired
from weft.model import Epoch, Stream


def last_time(latest_us: int) -> str:
    return "" if latest_us == NO_TIME_US else human_time(latest_us)


# --- streams -----------------------------------------------------------------------------------------------------


def stream_fields(stream: Stream, epoch: Epoch) -> dict[str, Any]:
    """Names and order as an event's identity has them."""
    return {"topic": stream.topic, "origin": stream.origin, "epoch": epoch, "partition": stream.partition}


def stream_document(info: StreamInfo) -> dict[str, Any]:
    return {
        **stream_fields(info.stream, info.epoch),
        "start": info.start,
        "end": info.end,
        "offsets": info.end - info.start,  # compaction may have taken the events of some
        "bytes": info.bytes,
        "last_time": last_time(info.latest_us) or None,
    }


def print_streams(streams: Sequence[StreamInfo]) -> None:
    rows = [
        (
            str(info.stream),
            str(info.epoch),
            str(info.start),
            str(info.end),
            f"{info.end - info.start:,}",
            human_bytes(info.bytes),
            last_time(info.latest_us),
        )
        for info in streams
    ]
    print_table(("stream", "epoch", "start", "end", "offsets", "bytes", "last event"), rows)


# --- damage ------------------------------------------------------------------------------------------------------


def health_document(health: Health) -> dict[str, Any]:
    return {
        "sound": health.is_sound,
        "epoch": health.epoch,
        "streams": health.streams,
        "events": health.events,
        "bytes": health.bytes,
        "trouble": health.trouble or None,
        "lost": [_loss_document(loss) for loss in health.losses],
        "damaged": [_loss_document(loss) for loss in health.damaged],
    }


def print_health(health: Health) -> None:
    epoch = "unknown" if health.epoch is None else health.epoch
    held = f"{counted(health.streams, 'stream')}, {counted(health.events, 'event')}, {human_bytes(health.bytes)}"
    there = f"epoch {epoch}, {held}"
    if health.is_sound:
        out.print(f"sound: {there}")
        return
    out.print(f"[red]damaged[/]: {there} can be read")
    if health.trouble:
        out.print(f"trouble: {escape(health.trouble)}", soft_wrap=True)
    _print_losses(health)
    if not health.losses:
        out.print("no promised events are lost")


def _print_losses(health: Health) -> None:
    """Every range of offsets that is not as it was promised, and in which way."""
    rows = [
        (str(loss.stream), "lost", str(loss.epoch), str(loss.first), str(loss.end - 1), f"{loss.end - loss.first:,}")
        for loss in health.losses
    ]
    # How many events there were in a batch that is not what was stored, it no longer says.
    rows += [(str(loss.stream), "damaged", str(loss.epoch), str(loss.first), "", "") for loss in health.damaged]
    if rows:
        print_table(("stream", "what", "epoch", "first", "last", "events"), rows, names=2)


def _loss_document(loss: Loss) -> dict[str, Any]:
    return {**stream_fields(loss.stream, loss.epoch), "first": loss.first, "end": loss.end}


# --- what was taken away -----------------------------------------------------------------------------------------


def compacted_document(done: Compacted) -> dict[str, Any]:
    return {
        **stream_fields(done.stream, done.epoch),
        "end": done.end,
        "events_removed": done.events_removed,
        "events_kept": done.events_kept,
        "bytes_removed": done.bytes_removed,
    }


def print_compacted(rounds: Sequence[Compacted]) -> None:
    rows = [
        (
            str(done.stream),
            str(done.epoch),
            str(done.end),
            f"{done.events_removed:,}",
            f"{done.events_kept:,}",
            human_bytes(done.bytes_removed),
        )
        for done in rounds
    ]
    print_table(("stream", "epoch", "up to", "removed", "kept", "bytes removed"), rows)


def expired_document(expired: Expired) -> dict[str, Any]:
    return {
        **stream_fields(expired.stream, expired.epoch),
        "first": expired.first,
        "end": expired.end,
        "bytes": expired.bytes,
    }


def print_expired(all_expired: Sequence[Expired]) -> None:
    rows = [
        (
            str(expired.stream),
            str(expired.epoch),
            str(expired.first),
            str(expired.end - 1),
            f"{expired.end - expired.first:,}",
            human_bytes(expired.bytes),
        )
        for expired in all_expired
    ]
    print_table(("stream", "epoch", "first", "last", "offsets", "bytes removed"), rows)
