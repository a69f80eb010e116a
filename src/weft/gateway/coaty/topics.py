"""Topics of Coaty on topics of the mesh and back: ``coaty.<namespace>.<event>[.<filter>]`` (COA-12). Pure.

Filters may contain what a topic of the mesh must not: wildcards, blanks, dots in the wrong place. Such characters are
escaped as in URLs, ``%2A`` for ``*``. Answers carry their correlation id in the payload and as key, not in the topic,
because otherwise every call would leave a topic behind. Raw events, and values on external IO routes, which look the
same on the wire, are on ``coaty.<namespace>.RAW.<topic>``.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote_to_bytes

from weft.errors import UsageError
from weft.model import Pattern, parse_pattern, parse_topic
from weft.model import Topic as MeshTopic
from weft.wire.coaty import EventType, Topic, require_raw_topic

PREFIX: Final = "coaty"
OBJECTS: Final = "objects"  # the topic of all current objects: no event code has this length
BRIDGES: Final = "bridges"  # the topic on which the bridges of a mesh tell each other what they listen to
RAW: Final = "RAW"  # instead of an event code: bytes on a topic outside Coaty's own


def mesh_topic(topic: Topic) -> MeshTopic:
    """Where events of a Coaty topic appear; UsageError if the name is too long for the mesh."""
    tokens = [PREFIX, _escaped(topic.namespace), topic.event]
    if topic.filter is not None:
        tokens.append(_escaped(topic.filter))
    return parse_topic(".".join(tokens))


def coaty_topic(namespace: str, topic: MeshTopic, correlation_id: str | None) -> Topic | None:
    """The Coaty topic for an event on a topic of the mesh; None if it does not belong to this namespace.

    UsageError if it looks as if it did, but is not valid.
    """
    head = f"{PREFIX}.{_escaped(namespace)}."
    if not topic.startswith(head) or topic in (objects_topic(namespace), bridges_topic(namespace)):
        return None
    code, _, rest = topic[len(head) :].partition(".")
    try:
        event = EventType(code)
    except ValueError:
        raise UsageError("there is no Coaty event of this name", topic=topic, event=code) from None
    return Topic(namespace, event, _unescaped(rest) or None, correlation_id if event.is_response else None)


def raw_mesh_topic(namespace: str, topic: str) -> MeshTopic:
    """Where bytes on a raw topic appear; UsageError if the name is too long for the mesh."""
    return parse_topic(f"{PREFIX}.{_escaped(namespace)}.{RAW}.{_escaped(topic)}")


def raw_topic(namespace: str, topic: MeshTopic) -> str | None:
    """The raw topic for an event on a topic of the mesh; None if it does not belong to this namespace.

    UsageError if it looks as if it did, but is not valid.
    """
    head = f"{PREFIX}.{_escaped(namespace)}.{RAW}."
    if not topic.startswith(head):
        return None
    found = _unescaped(topic[len(head) :])
    require_raw_topic(found)
    return found


def bridges_topic(namespace: str) -> MeshTopic:
    return parse_topic(f"{PREFIX}.{_escaped(namespace)}.{BRIDGES}")


def objects_topic(namespace: str) -> MeshTopic:
    return parse_topic(f"{PREFIX}.{_escaped(namespace)}.{OBJECTS}")


def events_pattern(namespace: str) -> Pattern:
    return parse_pattern(f"{PREFIX}.{_escaped(namespace)}.>")


def _escaped(text: str) -> str:
    """Letters of any language stay; characters with a meaning for the mesh, or forbidden ones, are escaped."""
    tokens = text.split(".")
    shown = "".join(_shown(character) for character in text)
    return shown if all(tokens) else shown.replace(".", "%2E")


def _shown(character: str) -> str:
    is_plain = character.isprintable() and not character.isspace() and character not in "*>%"
    return character if is_plain else quote(character, safe="")


def _unescaped(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise UsageError("topic is not UTF-8 behind its escapes", topic=text) from None
