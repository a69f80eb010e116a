"""Topics of the mesh that belong to somebody: ``weft.<kind>.<owner>.<id>`` (SEC-03).

The owner stands in the topic, so every node can tell from the topic alone whose it is. What it is made of is the
business of ``security``; clients ask their node for their own (``Whoami``). The id is random or a digest: nobody
guesses it.
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
    INBOX = "inbox"  # where replies to requests come in: others write there, the owner reads
    STAGING = "staging"  # rows of a Spark job on their way
    DECISIONS = "decisions"  # which of them count


OWNED_PREFIXES: Final = tuple(f"weft.{kind}." for kind in OwnedKind)


class Owned(NamedTuple):
    kind: OwnedKind
    owner: str


def owned_topic(kind: OwnedKind, owner: str, own_id: str) -> Topic:
    """Raise UsageError for an owner or an id that is none."""
    topic = f"weft.{kind}.{owner}.{own_id}"
    if not OWNED.fullmatch(topic):
        raise UsageError("not a topic with an owner", topic=topic[:200])
    return Topic(topic)


def read_owned(name: str) -> Owned | None:
    """Of a topic, or of a pattern without wildcards."""
    if not name.startswith(OWNED_PREFIXES):  # as nearly all
        return None
    found = OWNED.fullmatch(name)
    return None if found is None else Owned(OwnedKind(found[1]), found[2])
