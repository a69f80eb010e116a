"""How far streams have been read, as Spark keeps it in a checkpoint and as people write it into an option. Pure.

    {"plant.line1.temp": {"node-a/0/7": 1234}}

is: of the topic, in the partition 0 of what node-a accepted, in epoch 7 of its log, 1234 is the next offset to read.

Spark compares offsets as text, so there is one text for one meaning: names are sorted. (SPARK.md, trap 2)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from weft.errors import UsageError
from weft.limits import OFFSET_MAX
from weft.model import Epoch, NodeId, Position, Stream, Topic, parse_node_id, parse_topic
from weft.model.stream import check_place
from weft.spark.option_values import BadOption

EARLIEST: Final = -2  # in options only, as in those of the Kafka source
LATEST: Final = -1


class Place(NamedTuple):
    """A stream in one life of its origin's log: what offsets count in."""

    stream: Stream
    epoch: Epoch

    def __str__(self) -> str:
        return f"{self.stream}:e{self.epoch}"


Offsets = Mapping[Place, int]
Json = dict[str, dict[str, int]]


class BadOffsets(UsageError):
    """Offsets that nobody can have written down."""


def to_json(offsets: Offsets) -> Json:
    found: Json = {}
    for place in sorted(offsets, key=_names):
        found.setdefault(place.stream.topic, {})[_names(place)[1]] = offsets[place]
    return found


def _names(place: Place) -> tuple[str, str]:
    return place.stream.topic, f"{place.stream.origin}/{place.stream.partition}/{place.epoch}"


def from_json(given: object, *, least: int = 0) -> dict[Place, int]:
    """What ``to_json`` made, or BadOffsets; numbers from ``least`` on."""
    try:
        topics = msgspec.convert(given, Json)
    except msgspec.ValidationError as error:
        raise BadOffsets(f'offsets look like {{"topic": {{"node/0/1": 42}}}}, not so: {error}') from None
    found = {}
    for topic, places in topics.items():
        for name, offset in places.items():
            if not least <= offset <= OFFSET_MAX:
                raise BadOffsets(f"there is no offset {offset} in {topic} {name}", least=least, limit=OFFSET_MAX)
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


def parse_offsets(option: str, text: str) -> dict[Place, int]:
    """Offsets in an option, -2 for the earliest and -1 for the latest, or BadOption."""
    try:
        return from_json(msgspec.json.decode(text), least=EARLIEST)
    except (msgspec.DecodeError, BadOffsets) as error:
        raise BadOption(f"option {option} is earliest, latest or offsets in JSON: {error}") from None


def positions(offsets: Offsets) -> list[Position]:
    return [Position(place.stream, place.epoch, offset) for place, offset in sorted(offsets.items())]


def place_of(topic: str, origin: str, partition: int, epoch: int) -> Place:
    """By its parts, as rows of the source have them: they were checked on their way in."""
    return Place(Stream(Topic(topic), NodeId(origin), partition), Epoch(epoch))
