"""The options of the source: their names, the checks of their values, and their defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from weft.limits import OFFSET_MAX
from weft.spark.connection import CONNECTION_OPTIONS, Connection
from weft.spark.offsets import (
    MILLISECONDS_MAX,
    Named,
    NamedOffsets,
    NamedTimes,
    Place,
    parse_offsets,
    parse_times,
    time_of,
)
from weft.spark.option_values import BadOption, by_name, parse_count, parse_duration, parse_flag, parse_list
from weft.spark.selection import Selection, parse_assigned, parse_selection

SPARK_PARTITIONS_MAX: Final = 100_000  # tasks of one job; Spark's scheduler gets slow before that
SCHEMA_VERSION_MAX: Final = 1_000_000  # of one schema: a new one every minute for two years
SPARK_TRIGGER_DELAY_S: Final = 900.0  # as the Kafka source waits for minOffsetsPerTrigger
SPARK_TRIGGER_DELAY_S_MAX: Final = 86_400.0 * 365  # a year: a longer delay means that it has stopped


Edge = Literal["earliest", "latest"]
Where = Edge | datetime | NamedOffsets | NamedTimes
EDGES: Final[tuple[Edge, ...]] = ("earliest", "latest")

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers", "origin", "epoch")
BATCH_OPTIONS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM_OPTIONS: Final = (
    "maxEventsPerTrigger",
    "minEventsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "group",
)
TYPED_OPTIONS: Final = ("typed", "schemaFile", "schemaVersion")
SOURCE_OPTIONS: Final = (
    *CONNECTION_OPTIONS,
    *BATCH_OPTIONS,
    *STREAM_OPTIONS,
    "subscribe",
    "exclude",
    "assign",
    "members",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "onlyNamed",
    "minPartitions",
    "failOnDataLoss",
    "history",
    "includeHeaders",
    "columns",
    *TYPED_OPTIONS,
)
# The Kafka source's names for the same options, and the name under which load() puts its argument.
ALIASES: Final = {
    "subscribePattern": "subscribe",
    "path": "subscribe",
    "maxOffsetsPerTrigger": "maxEventsPerTrigger",
    "minOffsetsPerTrigger": "minEventsPerTrigger",
}
KAFKA: Final = "kafka."
PROVIDER: Final = "provider"  # Spark puts it among the options of CREATE TABLE, with others of its own
CATALOG_TABLES: Final = (
    "Spark does not hand the options of CREATE TABLE to a Python source when the table is read: use "
    "CREATE TEMPORARY VIEW name USING weft OPTIONS (...)"
)
# Options that the Kafka source has and this one does not have.
REFUSED: Final = {
    "kafka.bootstrap.servers": "the nodes of a mesh are named by option nodes, or by context",
    "kafka.group.id": "a job reports its progress under option group; offsets are Spark's, in the checkpoint",
    "groupIdPrefix": "a job reports its progress under option group; offsets are Spark's, in the checkpoint",
    "kafka.security.protocol": "use context, or tlsRoot with tlsCertificate and tlsKey, and token",
    "kafka.isolation.level": "an event is seen when it is durable; there are no transactions to wait for",
    "startingOffsetsByTimestampStrategy": "a time after the last event is the end of the stream; leave it out",
    "maxRecordsPerPartition": "tasks are cut by bytes: use minPartitions to have more of them",
    "kafkaConsumer.pollTimeoutMs": "a task waits a minute for a node that does not answer; leave it out",
    "fetchOffset.numRetries": "a task tries again for a minute by itself; leave it out",
    "fetchOffset.retryIntervalMs": "a task tries again every second by itself; leave it out",
}


class Members(StrEnum):
    """Whose events are read."""

    ALL = "all"  # of every member of the mesh; one that cannot be asked is an error
    REACHABLE = "reachable"  # of every member that answers; there is a warning for each of the others
    NAMED = "named"  # of the nodes in option nodes, or in the context, and no others


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """Option typed, and what goes with it: payloads as columns."""

    file: str | None = None  # a file with the schema of all topics, used instead of the mesh's schemas
    version: int | None = None  # of the mesh's schema; None: the latest
    columns: tuple[str, ...] | None = None  # None: all there are
    has_headers: bool = True


@dataclass(frozen=True, slots=True)
class SourceOptions:
    connection: Connection
    selection: Selection
    members: Members | None  # None: ALL for a batch, REACHABLE for a stream
    starting: Where | None  # None: the earliest for a batch, the latest for a stream
    ending: Where
    only_named: bool  # leave out streams that offsets in JSON do not name
    events_max: int | None  # of one micro-batch
    events_min: int | None
    trigger_delay_s: float  # how long to wait for events_min
    bytes_max: int | None
    partitions_min: int | None
    fail_on_data_loss: bool
    history: bool  # also read the archive tables of nodes, before their logs begin
    columns: tuple[str, ...]  # of raw events
    typed: TypedOptions | None
    group: str | None  # where progress is reported
    given: frozenset[str]

    def check_batch(self) -> None:
        self._refuse(STREAM_OPTIONS, "for readStream: a batch reads all there is, once")

    def check_stream(self) -> None:
        self._refuse(BATCH_OPTIONS, "for read: a stream has no end")

    def is_read(self, place: Place) -> bool:
        """Whether this job reads this stream at all."""
        if not self.selection.selects(place):
            return False
        named = [where for where in (self.starting, self.ending) if isinstance(where, Named)]
        return not self.only_named or any(where.of(place) is not None for where in named)

    def _refuse(self, names: tuple[str, ...], why: str) -> None:
        for name in names:
            if name in self.given:
                raise BadOption(f"option {name} is only {why}")


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """All options of the source, or BadOption for the first one that is wrong."""
    if PROVIDER in map(str.lower, given):
        raise BadOption(CATALOG_TABLES)
    for name in given:
        if name.lower().startswith(KAFKA) and name.lower() not in REFUSED:
            raise BadOption(f"option {name} is for Kafka's consumer, which is not there: leave it out (docs/spark.md)")
    options = by_name(given, SOURCE_OPTIONS, aliases=ALIASES, refused=REFUSED)
    selection = _selection(options)
    starting, ending = _where(options, "starting", selection), _where(options, "ending", selection)
    only_named = parse_flag("onlyNamed", options.get("onlyNamed", "false"))
    if only_named and not isinstance(starting, Named) and not isinstance(ending, Named):
        raise BadOption("option onlyNamed needs offsets or times in JSON that name streams or topics")
    if "maxTriggerDelay" in options and "minEventsPerTrigger" not in options:
        raise BadOption("option maxTriggerDelay is how long to wait for minEventsPerTrigger: give both")
    typed = _typed(options)
    return SourceOptions(
        connection=Connection.from_options(options),
        selection=selection,
        members=_members(options),
        starting=starting,
        ending=ending or "latest",
        only_named=only_named,
        events_max=_count(options, "maxEventsPerTrigger", OFFSET_MAX),
        events_min=_count(options, "minEventsPerTrigger", OFFSET_MAX),
        trigger_delay_s=_delay(options),
        bytes_max=_count(options, "maxBytesPerTrigger", OFFSET_MAX),
        partitions_min=_count(options, "minPartitions", SPARK_PARTITIONS_MAX),
        fail_on_data_loss=parse_flag("failOnDataLoss", options.get("failOnDataLoss", "true")),
        history=parse_flag("history", options.get("history", "true")),
        columns=_columns(options) if typed is None else COLUMNS,
        typed=typed,
        group=options.get("group") or None,
        given=frozenset(options),
    )


def _selection(options: Mapping[str, str]) -> Selection:
    if ("subscribe" in options) == ("assign" in options):
        raise BadOption(
            "options subscribe and assign contradict each other: give one of them"
            if "assign" in options
            else f"option subscribe is missing: the topics or patterns to read, such as plant.>. {CATALOG_TABLES}"
        )
    if "assign" in options:
        if "exclude" in options:
            raise BadOption("options assign and exclude contradict each other: leave the topic out of assign")
        return parse_assigned(options["assign"])
    return parse_selection("subscribe", options["subscribe"], options.get("exclude", ""))


def _members(options: Mapping[str, str]) -> Members | None:
    if "members" not in options:
        return None
    try:
        return Members(options["members"].lower())
    except ValueError:
        raise BadOption(f"option members is one of {', '.join(Members)}, not {options['members']!r}") from None


def _delay(options: Mapping[str, str]) -> float:
    if "maxTriggerDelay" not in options:
        return SPARK_TRIGGER_DELAY_S
    return parse_duration("maxTriggerDelay", options["maxTriggerDelay"], SPARK_TRIGGER_DELAY_S_MAX)


def _count(options: Mapping[str, str], name: str, most: int) -> int | None:
    return parse_count(name, options[name], 1, most) if name in options else None


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    has_headers = parse_flag("includeHeaders", options.get("includeHeaders", "true"))
    known = [name for name in COLUMNS if has_headers or name != "headers"]
    columns = parse_list(options.get("columns", ",".join(known)))
    unknown = next((name for name in columns if name not in COLUMNS), None)
    if unknown is not None or not columns:
        raise BadOption(f"option columns: there is no column {unknown!r}", known=", ".join(COLUMNS))
    if not has_headers and "headers" in columns:
        raise BadOption("options columns and includeHeaders contradict each other: give one of them")
    return columns


def _typed(options: Mapping[str, str]) -> TypedOptions | None:
    """The column names are not checked here: which columns exist is known only with the schema."""
    if not parse_flag("typed", options.get("typed", "false")):
        if given := next((name for name in TYPED_OPTIONS[1:] if name in options), None):
            raise BadOption(f"option {given} is for typed=true")
        return None
    if "schemaFile" in options and "schemaVersion" in options:
        raise BadOption("options schemaFile and schemaVersion contradict each other: give one of them")
    return TypedOptions(
        file=options.get("schemaFile"),
        version=_count(options, "schemaVersion", SCHEMA_VERSION_MAX),
        columns=parse_list(options["columns"]) if "columns" in options else None,
        has_headers=parse_flag("includeHeaders", options.get("includeHeaders", "true")),
    )


def _where(options: Mapping[str, str], side: Literal["starting", "ending"], selection: Selection) -> Where | None:
    names = (f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp")
    given = [name for name in names if name in options]
    if len(given) > 1:
        raise BadOption(f"options {given[0]} and {given[1]} contradict each other: give one of them")
    if not given:
        return None
    name, text = given[0], options[given[0]]
    if name == names[1]:
        return parse_time(name, text)
    for edge in EDGES:
        if text.lower() == edge and name == names[0]:
            return edge
    where = parse_offsets(name, text) if name == names[0] else parse_times(name, text)
    _check_selected(name, where, selection)
    return where


def _check_selected(option: str, where: NamedOffsets | NamedTimes, selection: Selection) -> None:
    for topic in sorted(where.topics()):
        if not selection.selects_topic(topic):
            raise BadOption(f"option {option} names {topic}, which option subscribe does not select")
    for place in where.places():
        if not selection.selects(place):
            raise BadOption(f"option {option} names {place}, which option assign does not select")


def parse_time(option: str, text: str) -> datetime:
    """ISO 8601 with a zone, or milliseconds since 1970 as the Kafka source takes them."""
    if text.isascii() and text.isdigit():
        return time_of(parse_count(option, text, 0, MILLISECONDS_MAX))
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
