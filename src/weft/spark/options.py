"""What can be asked of the source: every option, its value checked, and what holds when it is not given. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from weft.limits import OFFSET_MAX
from weft.model import BadPattern, Pattern, matches, parse_pattern
from weft.spark.connection import CONNECTION_OPTIONS, Connection
from weft.spark.offsets import Place, parse_offsets
from weft.spark.option_values import BadOption, by_name, parse_count, parse_flag, parse_list

SPARK_PARTITIONS_MAX: Final = 100_000  # tasks of one job; Spark's scheduler gets slow before that


Edge = Literal["earliest", "latest"]
Where = Edge | datetime | Mapping[Place, int]
EDGES: Final[tuple[Edge, ...]] = ("earliest", "latest")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECONDS_MAX: Final = 253_402_300_799_999  # the year 9999, where Python's dates end

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers", "origin", "epoch")
BATCH_OPTIONS: Final = ("endingOffsets", "endingTimestamp")
STREAM_OPTIONS: Final = ("maxEventsPerTrigger", "maxBytesPerTrigger", "group")
SOURCE_OPTIONS: Final = (
    *CONNECTION_OPTIONS,
    *BATCH_OPTIONS,
    *STREAM_OPTIONS,
    "subscribe",
    "startingOffsets",
    "startingTimestamp",
    "minPartitions",
    "failOnDataLoss",
    "columns",
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    connection: Connection
    subscribe: Pattern
    starting: Where | None  # None: the earliest for a batch, the latest for a stream
    ending: Where
    events_max: int | None  # of one micro-batch
    bytes_max: int | None
    partitions_min: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    group: str | None  # where progress is reported
    given: frozenset[str]

    def check_batch(self) -> None:
        self._refuse(STREAM_OPTIONS, "for readStream: a batch reads all there is, once")

    def check_stream(self) -> None:
        self._refuse(BATCH_OPTIONS, "for read: a stream has no end")

    def _refuse(self, names: tuple[str, ...], why: str) -> None:
        for name in names:
            if name in self.given:
                raise BadOption(f"option {name} is only {why}")


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """All options of the source, or BadOption for the first one that is wrong."""
    options = by_name(given, SOURCE_OPTIONS)
    pattern = _pattern(options)
    return SourceOptions(
        connection=Connection.from_options(options),
        subscribe=pattern,
        starting=_where(options, "starting", pattern),
        ending=_where(options, "ending", pattern) or "latest",
        events_max=_count(options, "maxEventsPerTrigger", OFFSET_MAX),
        bytes_max=_count(options, "maxBytesPerTrigger", OFFSET_MAX),
        partitions_min=_count(options, "minPartitions", SPARK_PARTITIONS_MAX),
        fail_on_data_loss=parse_flag("failOnDataLoss", options.get("failOnDataLoss", "true")),
        columns=_columns(options),
        group=options.get("group") or None,
        given=frozenset(options),
    )


def _pattern(options: Mapping[str, str]) -> Pattern:
    if not options.get("subscribe"):
        raise BadOption("option subscribe is missing: the topic or pattern to read, such as plant.>")
    try:
        return parse_pattern(options["subscribe"])
    except BadPattern as error:
        raise BadOption(f"option subscribe: {error}") from None


def _count(options: Mapping[str, str], name: str, most: int) -> int | None:
    return parse_count(name, options[name], 1, most) if name in options else None


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    columns = parse_list(options.get("columns", ",".join(COLUMNS)))
    unknown = next((name for name in columns if name not in COLUMNS), None)
    if unknown is not None or not columns:
        raise BadOption(f"option columns: there is no column {unknown!r}", known=", ".join(COLUMNS))
    return columns


def _where(options: Mapping[str, str], side: Literal["starting", "ending"], pattern: Pattern) -> Where | None:
    by_offset, by_time = f"{side}Offsets", f"{side}Timestamp"
    if by_offset in options and by_time in options:
        raise BadOption(f"options {by_offset} and {by_time} contradict each other: give one of them")
    if by_time in options:
        return parse_time(by_time, options[by_time])
    if by_offset not in options:
        return None
    text = options[by_offset]
    for edge in EDGES:
        if text.lower() == edge:
            return edge
    offsets = parse_offsets(by_offset, text)
    for place in offsets:
        if not matches(pattern, place.stream.topic):
            raise BadOption(f"option {by_offset} names {place.stream.topic}, which option subscribe does not select")
    return offsets


def parse_time(option: str, text: str) -> datetime:
    """ISO 8601 with a zone, or milliseconds since 1970 as the Kafka source takes them."""
    if text.isascii() and text.isdigit():
        return EPOCH + timedelta(milliseconds=parse_count(option, text, 0, MILLISECONDS_MAX))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise BadOption(
            f"option {option} is a time with its zone, such as 2026-05-04T08:00:00+02:00, "
            f"or milliseconds since 1970, not {text!r}"
        )
    return time
