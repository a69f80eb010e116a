"""Names of groups and members, and the topic on which nodes talk about a group.

A group's name ends the group's topic, and owns the group's positions in the log, so it has to be valid for both.
"""

from __future__ import annotations

import re
from typing import Final

from weft.core.topics import GROUPS_PREFIX
from weft.errors import UsageError
from weft.model import NodeId, Topic
from weft.model.stream import NODE_ID, NUMBER
from weft.model.topic import quoted

GROUP_NAME_CHARS_MAX: Final = 64  # as the log allows, and short enough for a topic
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
# The name of a member that chose none. Nobody can choose such a name, because no name may contain a "#".
UNNAMED: Final = re.compile(rf"{NODE_ID.pattern}#{NUMBER}")


def parse_group(text: str) -> str:
    """``text`` as the name of a group, or UsageError."""
    return _parse("group", text)


def parse_member(text: str) -> str:
    """``text`` as the name that a member chose for itself, or UsageError."""
    return _parse("member", text)


def unnamed(node: NodeId, subscription: int) -> str:
    """The name of a member that did not choose one: unique in the mesh."""
    return f"{node}#{subscription}"


def is_member(text: str) -> bool:
    """Whether this can be a member's name, chosen or not."""
    return _is_name(text) or UNNAMED.fullmatch(text) is not None


def topic_of(group: str) -> Topic:
    return Topic(GROUPS_PREFIX + group)


def group_of(topic: Topic) -> str | None:
    """The group that a topic is about; None if it is about none."""
    name = topic.removeprefix(GROUPS_PREFIX)
    return name if name != topic and _is_name(name) else None


def _parse(kind: str, text: str) -> str:
    if not _is_name(text):
        raise UsageError(
            f"{quoted(text)} is not a name for a {kind}: 1 to {GROUP_NAME_CHARS_MAX} ASCII letters, digits, '_', '-' "
            "and single dots inside, not beginning with '-'"
        )
    return text


def _is_name(text: str) -> bool:
    return len(text) <= GROUP_NAME_CHARS_MAX and NAME.fullmatch(text) is not None
