"""The topic of an event: the configured rules, and what becomes of names that cannot be topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from weft.core.topics import is_own
from weft.errors import UsageError
from weft.limits import TOPIC_BYTES_MAX
from weft.model import Pattern, Topic, matches, parse_topic
from weft.model.topic import BadTopic

GATEWAY_EMM_TOPICS_MAX: Final = 10_000  # event names that get a topic of their own; all others share one
EVENT: Final = "{event}"  # in a rule's topic: stands for the name
PREFIX: Final = "emm."
HELLO_TOPIC: Final = parse_topic("weft.emm.hello")
HEARTBEAT_TOPIC: Final = parse_topic("weft.emm.heartbeat")
QUARANTINE_TOPIC: Final = parse_topic("weft.quarantine.emm")
OTHER: Final = "other"  # the name that stands for names beyond the limit
_SUBSTITUTE: Final = "_"


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Events whose name (made a topic) matches ``event`` go to ``topic``, in which ``{event}`` stands for the name."""

    event: Pattern
    topic: str

    def __post_init__(self) -> None:
        try:
            parse_topic(self.topic.replace(EVENT, "event"))
        except BadTopic as error:
            raise UsageError(
                f"a rule's topic must be a topic, in which {EVENT} may stand for the name: {error}"
            ) from None
        if is_own(Topic(self.topic)):
            raise UsageError("a rule's topic cannot be an internal topic of the mesh", topic=self.topic)


class Place(NamedTuple):
    """A topic, and whether it shows the name."""

    topic: Topic
    tells: bool


class TopicMap:
    """From names of events to topics, cached. The first rule that matches counts; without one it is ``prefix``.

    Senders could invent names without end, and a topic lasts for ever: beyond ``topics_max`` names, new ones go where
    the name ``other`` goes, and their events carry the name in a header.
    """

    def __init__(
        self, rules: Sequence[TopicRule] = (), prefix: str = PREFIX, topics_max: int = GATEWAY_EMM_TOPICS_MAX
    ) -> None:
        if is_own(parse_topic(f"{prefix}{OTHER}")):
            raise UsageError("events of devices cannot go to internal topics of the mesh", prefix=prefix)
        self._rules = tuple(rules)
        self._prefix = prefix
        self._topics_max = topics_max
        self._places: dict[str, Place] = {}

    def place(self, name: str) -> Place:
        found = self._places.get(name)
        if found is None:
            if len(self._places) >= self._topics_max:
                return Place(self._topic(OTHER), tells=False)
            found = self._places[name] = self._placed(name)
        return found

    def _placed(self, name: str) -> Place:
        fit = topic_name(name)
        topic = self._topic(fit)
        return Place(topic, fit == name and topic.endswith(name))

    def _topic(self, fit: str) -> Topic:
        """The topic for a valid name, with what stands around it; cut if both together are too long."""
        for rule in self._rules:
            if matches(rule.event, Topic(fit)):
                return _within(rule.topic, fit)
        return _within(f"{self._prefix}{EVENT}", fit)


def topic_name(name: str) -> str:
    """The name with everything replaced that a topic must not have: ``line 1/temp`` becomes ``line_1/temp``."""
    try:
        return parse_topic(name)
    except BadTopic:
        tokens = ("".join(map(_fit, token)) or _SUBSTITUTE for token in name.split("."))
        return _cut(".".join(tokens), TOPIC_BYTES_MAX)


def _fit(character: str) -> str:
    return character if character.isprintable() and character not in " *>" else _SUBSTITUTE


def _within(template: str, fit: str) -> Topic:
    """A name at the beginning could be that of one of the mesh's own topics: then it gets the prefix after all."""
    if is_own(Topic(template.replace(EVENT, fit))):
        template = f"{PREFIX}{template}"
    room = TOPIC_BYTES_MAX - len(template.replace(EVENT, "").encode())
    return parse_topic(template.replace(EVENT, _cut(fit, max(room // max(template.count(EVENT), 1), 1))))


def _cut(text: str, bytes_max: int) -> str:
    """Cut to this length, leaving no empty token at the end."""
    if len(text.encode()) <= bytes_max:
        return text
    return text.encode()[:bytes_max].decode(errors="ignore").rstrip(".") or _SUBSTITUTE
