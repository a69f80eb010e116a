"""Topics of the mesh that have an owner: ``weft.<kind>.<owner>.<id>`` (SEC-03).

The topic names its owner, so every node can tell from the topic alone whose it is. ``security`` decides what an owner
is made of; clients ask their node for theirs (``Whoami``). The id is random or a digest, so nobody can guess it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.model.topic import Topic

OWNER: Final = re.compile(r"[0-9a-f]{16}")
OWNED_ID_BYTES: Final = 16
OWNED: Final = re.compile(rf"weft\.(inbox|staging|decisions)\.({OWNER.pattern})\.[0-9a-f]{{{2 * OWNED_ID_BYTES}}}")


class OwnedKind(StrEnum):
    INBOX = "inbox"  # where replies to requests arrive: others write there, the owner reads
    STAGING = "staging"  # rows of a Spark job on their way
    DECISIONS = "decisions"  # which of these rows count


OWNED_PREFIXES: Final = tuple(f"weft.{kind}." for kind in OwnedKind)


class Owned(NamedTuple):
    kind: OwnedKind
    owner: str


def owned_topic(kind: OwnedKind, owner: str, own_id: str) -> Topic:
    """Make the topic. Raise UsageError for an owner or an id that is not valid."""
    topic = f"weft.{kind}.{owner}.{own_id}"
    if not OWNED.fullmatch(topic):
        raise UsageError("not a topic with an owner", topic=topic[:200])
    return Topic(topic)


def read_owned(name: str) -> Owned | None:
    """Read the parts of such a topic, or of such a pattern without wildcards; None for all others."""
    if not name.startswith(OWNED_PREFIXES):  # as with nearly all topics
        return None
    found = OWNED.fullmatch(name)
    return None if found is None else Owned(OwnedKind(found[1]), found[2])
