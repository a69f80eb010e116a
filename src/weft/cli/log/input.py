"""The arguments of ``weft log``: where the log is, which streams, where to begin, how old, how large."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from rich.markup import escape

from weft.cli.console import err, fail
from weft.errors import UsageError
from weft.log import Log, StreamInfo, open_log, open_read_only
from weft.log.errors import LogDamaged
from weft.log.marks_file import MarksFile
from weft.log.repair import REPAIRED_DIR
from weft.log.rocks_store import holds_data
from weft.model import BadName, BadPattern, Epoch, Stream, parse_pattern, parse_stream
from weft.security.exposure import close_to_others

EARLIEST: Final = "earliest"
DAMAGE_LINES_MAX: Final = 20  # of a log that cannot be opened; a log can have lost a bit of every stream
EPOCH_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

AGE_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SIZE_UNITS: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
OFFSET: Final = re.compile(r"[0-9]{1,19}")
NUMBER_AND_UNIT: Final = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)")


# --- the log itself ----------------------------------------------------------------------------------------------


def check_place(path: Path) -> None:
    """Refuse a directory that never held a log: commands that look or repair must not create one."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory")
    with explaining(path):
        promised = MarksFile(path).read() is not None
    if not (promised or holds_data(path) or (path / REPAIRED_DIR).exists()):
        raise UsageError(f"{path} holds no log")


def close_place(path: Path) -> None:
    """After a command has changed a log, only its owner may read it, as with ``weft up``."""
    closed = close_to_others(path).closed
    if closed.count:
        err.print(
            f"{escape(str(path))} was open to {closed.to} and is closed now: {escape(closed.first)}", soft_wrap=True
        )


@contextmanager
def looking_at(path: Path) -> Iterator[Log]:
    """The log as it is now, also while a node has it open."""
    check_place(path)
    with explaining(path):
        log = open_read_only(path)
    try:
        yield log
    finally:
        log.close()


@contextmanager
def changing(path: Path) -> Iterator[Log]:
    """The log, alone: raise LogInUse while a node has it open."""
    check_place(path)
    close_place(path)
    with explaining(path):
        log = open_log(path, partial(_no_log, path))
    for cut in log.cuts:
        err.print(f"cut off, because it was never promised and is incomplete: {escape(str(cut))}")
    try:
        yield log
    finally:
        log.close()


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Why a log is not opened, and what can be done."""
    try:
        yield
    except LogDamaged as error:
        lines = str(error).splitlines()
        if len(lines) > DAMAGE_LINES_MAX:
            lines[DAMAGE_LINES_MAX:] = [f"  and {len(lines) - DAMAGE_LINES_MAX:,} more"]
        advice = (
            f"`weft log check --data {path}` shows everything, `weft log repair --data {path}` continues with the rest"
        )
        fail("\n".join((*lines, advice)))
    except OSError as error:
        raise UsageError(f"cannot open the log in {path}: {error.strerror}") from None


def _no_log(path: Path) -> Epoch:
    """In the place of an epoch for a new log."""
    raise UsageError(f"{path} holds no log")


# --- which events ------------------------------------------------------------------------------------------------


def select(log: Log, text: str, epoch: int | None) -> list[StreamInfo]:
    """The streams that ``STREAM|PATTERN`` means: one by its name, or all whose topics match."""
    named = _stream_or_none(text)
    found = [info for info in log.streams() if info.stream == named] if named is not None else []
    if not found:
        found = _matching(log, text, named)
    if epoch is not None:
        found = [info for info in found if info.epoch == epoch]
    if not found:
        raise UsageError(f"no stream is or matches '{text}'" + ("" if epoch is None else f" in epoch {epoch}"))
    return found


def _stream_or_none(text: str) -> Stream | None:
    try:
        return parse_stream(text)
    except BadName:
        return None


def _matching(log: Log, text: str, named: Stream | None) -> list[StreamInfo]:
    try:
        return log.streams(parse_pattern(text))
    except BadPattern:
        if named is None:
            raise
        return []


def first_offsets(log: Log, streams: list[StreamInfo], text: str) -> list[int]:
    """Where to begin in each stream: ``earliest|OFFSET|RFC3339``."""
    if text == EARLIEST:
        return [info.start for info in streams]
    if OFFSET.fullmatch(text):
        if len(streams) > 1:
            names = ", ".join(f"{info.stream}:e{info.epoch}" for info in streams[:3])
            raise UsageError(f"an offset belongs to one stream, and {len(streams)} are meant: {names}, ...")
        return [int(text)]
    timestamp_us = parse_time_us(text)
    return [log.seek(info.stream, info.epoch, timestamp_us) for info in streams]


def parse_time_us(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{text}' is not '{EARLIEST}', an offset or a time like 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise UsageError(f"'{text}' needs a time zone: add Z for UTC, or +02:00")
    return (moment - EPOCH_START) // MICROSECOND


# --- how much ----------------------------------------------------------------------------------------------------


def parse_age_us(text: str) -> int:
    return _quantity(text, AGE_UNITS_S, "an age like 7d, 12h, 30m or 45s") * 1_000_000


def parse_size_bytes(text: str) -> int:
    return _quantity(text, SIZE_UNITS, "a size like 10GiB, 500MB or 65536")


def _quantity(text: str, units: Mapping[str, int], kind: str) -> int:
    found = NUMBER_AND_UNIT.fullmatch(text)
    factor = units.get(found[2].lower()) if found else None
    if found is None or factor is None:
        raise UsageError(f"'{text}' is not {kind}")
    return int(found[1]) * factor
