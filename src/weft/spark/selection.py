"""Which streams a job reads: topics by name and pattern, minus excluded ones, or only some partitions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from weft.limits import PARTITIONS_MAX
from weft.model import BadPattern, BadTopic, Pattern, Topic, matches, parse_pattern, parse_topic
from weft.model.topic import covers
from weft.spark.offsets import Place
from weft.spark.option_values import BadOption, parse_list

SPARK_PATTERNS_MAX: Final = 256  # in one job: for each pattern, planning makes a call to every node
EXCLUDED: Final = "!"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is read. ``partitions``: if there are any, only these partitions of their topics are read."""

    patterns: tuple[Pattern, ...]
    excluded: tuple[Pattern, ...] = ()
    partitions: Mapping[Topic, frozenset[int]] | None = None

    def selects_topic(self, topic: Topic) -> bool:
        return _any_matches(self.patterns, topic) and not _any_matches(self.excluded, topic)

    def selects(self, place: Place) -> bool:
        stream = place.stream
        if not self.selects_topic(stream.topic):
            return False
        return self.partitions is None or stream.partition in self.partitions.get(stream.topic, ())

    def asked(self) -> tuple[Pattern, ...]:
        """The patterns to ask nodes about: all except those that others cover."""
        found: list[Pattern] = []
        for pattern in sorted(self.patterns, key=_width):
            if not any(covers(each, pattern) for each in found):
                found.append(pattern)
        return tuple(found)

    def unmatched(self, topics: Iterable[Topic]) -> list[Pattern]:
        """The patterns that select none of these topics."""
        there = set(topics)
        return [pattern for pattern in self.patterns if not any(matches(pattern, topic) for topic in there)]

    def __str__(self) -> str:
        return ",".join((*self.patterns, *(f"{EXCLUDED}{pattern}" for pattern in self.excluded)))


def parse_selection(option: str, text: str, exclude: str = "") -> Selection:
    """Parse topics and patterns separated by commas; a leading ``!`` excludes what the pattern selects. BadOption."""
    parts = parse_list(text)
    wanted = [part for part in parts if not part.startswith(EXCLUDED)]
    unwanted = [part.removeprefix(EXCLUDED) for part in parts if part.startswith(EXCLUDED)]
    if not wanted:
        raise BadOption(f"option {option} selects nothing: name a topic or pattern to read, such as plant.>")
    patterns = _parsed(option, wanted)
    excluded = (*_parsed(option, unwanted), *_parsed("exclude", parse_list(exclude)))
    _check_count(option, (*patterns, *excluded))
    for each in excluded:
        if all(covers(each, pattern) for pattern in patterns):
            raise BadOption(f"option {option} selects nothing: all of it is left out by {each}")
    return Selection(patterns, excluded)


def parse_assigned(text: str) -> Selection:
    """Parse partitions of topics, ``{"topic": [0, 1]}`` as the Kafka source takes them. Raises BadOption."""
    try:
        topics = msgspec.json.decode(text, type=dict[str, list[int]])
        partitions = {parse_topic(topic): frozenset(numbers) for topic, numbers in topics.items()}
    except (msgspec.DecodeError, BadTopic) as error:
        raise BadOption(f'option assign looks like {{"topic": [0, 1]}}, not so: {error}') from None
    for topic, numbers in partitions.items():
        if not numbers or not all(0 <= number < PARTITIONS_MAX for number in numbers):
            raise BadOption(f"option assign: {topic} needs partitions, from 0 to {PARTITIONS_MAX - 1}")
    if not partitions:
        raise BadOption("option assign names no topic")
    _check_count("assign", tuple(partitions))
    return Selection(tuple(map(parse_pattern, partitions)), partitions=partitions)


def _parsed(option: str, texts: Sequence[str]) -> tuple[Pattern, ...]:
    try:
        return tuple(map(parse_pattern, texts))
    except BadPattern as error:
        raise BadOption(f"option {option}: {error}") from None


def _check_count(option: str, patterns: Sequence[str]) -> None:
    if len(patterns) > SPARK_PATTERNS_MAX:
        raise BadOption(
            f"option {option} has too many topics: use patterns", have=len(patterns), limit=SPARK_PATTERNS_MAX
        )


def _any_matches(patterns: Iterable[Pattern], topic: Topic) -> bool:
    return any(matches(pattern, topic) for pattern in patterns)


def _width(pattern: Pattern) -> tuple[bool, int]:
    """A sort key: patterns that may cover others come first."""
    tokens = pattern.split(".")
    return tokens[-1] != ">", -tokens.count("*")
