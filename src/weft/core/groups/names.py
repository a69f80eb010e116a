"""Names of groups and members, and the topic on which nodes talk about a group.

A group's name is the tail of a topic and an owner of positions in the log, so it has to be fit for both.
"""

from __future__ import annotations

import re
from typing import Final

from weft.core.topics import GROUPS_PREFIX
from weft.errors import UsageError
from weft.model import NodeId, Topic
from weft.model.stream import NODE_ID, NUMBER
from weft.model.topic import quoted

GROUP_NAME_CHARS_MAX: Final = 64  # as the log has it, and short enough for a topic
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
# What a member without a name is called. Nobody can choose such a name: no name has a "#".
UNNAMED: Final = re.compile(rf"{NODE_ID.pattern}#{NUMBER}")


def parse_group(text: str) -> str:
    """``text`` as the name of a group, or UsageError."""
    return _parse("group", text)


def parse_member(text: str) -> str:
    """``text`` as the name that a member chose for itself, or UsageError."""
    return _parse("member", text)


def unnamed(node: NodeId, subscription: int) -> str:
    """What a member is called that did not choose a name: like no other in the mesh."""
    return f"{node}#{subscription}"


def is_member(text: str) -> bool:
    """Whether a member can be called that, by its own choice or without."""
    return _is_name(text) or UNNAMED.fullmatch(text) is not None


def topic_of(group: str) -> Topic:
    return Topic(GROUPS_PREFIX + group)


def group_of(topic: Topic) -> str | None:
    """The group that a topic is about, if it is about one."""
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
