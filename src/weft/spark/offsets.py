"""How far streams have been read, in the form that checkpoints keep and that people write into options. Pure.

    {"plant.line1.temp": {"node-a/0/7": 1234}}

means: of this topic, in partition 0 of what node-a accepted, in epoch 7 of its log, the next offset to read is 1234.

Spark compares offsets as text, so equal offsets must have the same text: names are sorted. (SPARK.md, trap 2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from weft.errors import UsageError
from weft.limits import OFFSET_MAX, PARTITIONS_MAX
from weft.model import Epoch, NodeId, Position, Stream, Topic, parse_node_id, parse_topic
from weft.model.stream import check_place
from weft.spark.option_values import BadOption

EARLIEST: Final = -2  # in options only, as in the Kafka source
LATEST: Final = -1
MILLISECONDS_MAX: Final = 253_402_300_799_999  # the year 9999, where Python's dates end
SPARK_TIMES_MAX: Final = 64  # different times in one option: each is a call to every node
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
T = TypeVar("T")


class Place(NamedTuple):
    """A stream in one epoch of its origin's log. Offsets are counted within it."""

    stream: Stream
    epoch: Epoch

    def __str__(self) -> str:
        return f"{self.stream}:e{self.epoch}"


Offsets = Mapping[Place, int]
Json = dict[str, dict[str, int]]


class BadOffsets(UsageError):
    """Offsets that are not valid."""


def to_json(offsets: Offsets) -> Json:
    found: Json = {}
    for place in sorted(offsets, key=_names):
        found.setdefault(place.stream.topic, {})[_names(place)[1]] = offsets[place]
    return found


def _names(place: Place) -> tuple[str, str]:
    return place.stream.topic, f"{place.stream.origin}/{place.stream.partition}/{place.epoch}"


def from_json(given: object) -> dict[Place, int]:
    """Read what ``to_json`` made; raise BadOffsets."""
    try:
        topics = msgspec.convert(given, Json)
    except msgspec.ValidationError as error:
        raise BadOffsets(f'offsets look like {{"topic": {{"node/0/1": 42}}}}, not so: {error}') from None
    found = {}
    for topic, places in topics.items():
        for name, offset in places.items():
            if not 0 <= offset <= OFFSET_MAX:
                raise BadOffsets(f"there is no offset {offset} in {topic} {name}", least=0, limit=OFFSET_MAX)
            found[_place(topic, name)] = offset
    return found


def _place(topic: str, name: str) -> Place:
    origin, *numbers = name.split("/")
    if len(numbers) != 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        raise BadOffsets(f"{name!r} of {topic} does not look like node/partition/epoch")
    partition, epoch = map(int, numbers)
    try:
        check_place(epoch, 0)
        return Place(Stream(parse_topic(topic), parse_node_id(origin), partition), Epoch(epoch))
    except UsageError as error:
        raise BadOffsets(f"{name!r} of {topic} is not a stream: {error}") from None


# --- in options ------------------------------------------------------------------------------------------------------


# A topic, a partition of it at every origin, or one stream.
Key: TypeAlias = Topic | tuple[Topic, int] | Place


@dataclass(frozen=True, slots=True)
class Named(Generic[T]):
    """What an option says of topics, of their partitions and of single streams. The most specific entry counts."""

    by_key: Mapping[Key, T]

    def of(self, place: Place) -> T | None:
        stream = place.stream
        keys: tuple[Key, ...] = (place, (stream.topic, stream.partition), stream.topic)
        return next((self.by_key[key] for key in keys if key in self.by_key), None)

    def places(self) -> list[Place]:
        """The streams that the option names one by one."""
        return [key for key in self.by_key if isinstance(key, Place)]

    def topics(self) -> set[Topic]:
        return {_topic(key) for key in self.by_key}


def _topic(key: Key) -> Topic:
    match key:
        case Place():
            return key.stream.topic
        case (topic, _):
            return topic
        case _:
            return key


@dataclass(frozen=True, slots=True)
class NamedOffsets(Named[int]):
    """Offsets, EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True)
class NamedTimes(Named[datetime]):
    """Times of events."""


def parse_offsets(option: str, text: str) -> NamedOffsets:
    """Parse offsets in an option; -2 is the earliest and -1 the latest. Raises BadOption."""
    try:
        return NamedOffsets(_by_key(text, "offset", EARLIEST, OFFSET_MAX))
    except BadOffsets as error:
        raise BadOption(
            f'option {option} is earliest, latest or offsets in JSON, {{"topic": 42}}, {{"topic": {{"0": 42}}}} or '
            f'{{"topic": {{"node/0/1": 42}}}}: {error}'
        ) from None


def parse_times(option: str, text: str) -> NamedTimes:
    """Parse times in an option, in milliseconds since 1970. Raises BadOption."""
    try:
        by_key = _by_key(text, "time", 0, MILLISECONDS_MAX)
        if (have := len(set(by_key.values()))) > SPARK_TIMES_MAX:
            raise BadOffsets("too many different times", have=have, limit=SPARK_TIMES_MAX)
    except BadOffsets as error:
        raise BadOption(
            f"option {option} is milliseconds since 1970 in JSON, "
            f'{{"topic": 1794755611716}} or {{"topic": {{"0": 1794755611716}}}}: {error}'
        ) from None
    return NamedTimes({key: time_of(milliseconds) for key, milliseconds in by_key.items()})


def time_of(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def _by_key(text: str, what: str, least: int, most: int) -> dict[Key, int]:
    """Parse numbers by topic, by partition or by stream, depending on the form of the names. Raises BadOffsets."""
    try:
        given = msgspec.json.decode(text, type=dict[str, int | dict[str, int]])
    except msgspec.DecodeError as error:
        raise BadOffsets(str(error)) from None
    found: dict[Key, int] = {}
    for name, inner in given.items():
        for key, number in [("", inner)] if isinstance(inner, int) else inner.items():
            if not least <= number <= most:
                raise BadOffsets(f"there is no {what} {number} in {name} {key}".rstrip(), least=least, limit=most)
            found[_key(name, key)] = number
    return found


def _key(topic: str, name: str) -> Key:
    if "/" in name:
        return _place(topic, name)
    try:
        parsed = parse_topic(topic)
    except UsageError as error:
        raise BadOffsets(str(error)) from None
    if not name:
        return parsed
    if name.isascii() and name.isdigit() and len(name) <= len(str(PARTITIONS_MAX)) and int(name) < PARTITIONS_MAX:
        return parsed, int(name)
    raise BadOffsets(f"{name!r} of {topic} is neither a partition nor node/partition/epoch", limit=PARTITIONS_MAX - 1)


def positions(offsets: Offsets) -> list[Position]:
    return [Position(place.stream, place.epoch, offset) for place, offset in sorted(offsets.items())]


def place_of(topic: str, origin: str, partition: int, epoch: int) -> Place:
    """Make a place from its parts, as rows of the source have them. They were checked when they were received."""
    return Place(Stream(Topic(topic), NodeId(origin), partition), Epoch(epoch))
