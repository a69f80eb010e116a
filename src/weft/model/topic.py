"""Topics and the patterns that select them.

A topic is one or more tokens joined by dots, ``plant.line1.temp``, at most TOPIC_BYTES_MAX bytes of UTF-8. A token is
one or more visible characters: any Unicode character that is not in a category "other" (Cc control, Cf format, Cs
surrogate, Co private use, Cn unassigned) or "separator" (Zs, Zl, Zp), and is not ``.``, ``*`` or ``>``. The running
Python's ``unicodedata`` decides what is assigned. Two topics are the same if their characters are the same: nothing is
normalised or case-folded.

A pattern is a topic in which a whole token may be ``*`` (exactly one token) and the last one may be ``>`` (one or more
tokens). A pattern without either selects the topic of that name.

Both are plain strings, except for the type checker, which makes sure that they were parsed. The parsers take untrusted
text, too: their work and their error texts are bounded, whatever comes in.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, NewType

from weft.errors import UsageError
from weft.limits import TOPIC_BYTES_MAX

Topic = NewType("Topic", str)
Pattern = NewType("Pattern", str)

ONE: Final = "*"  # exactly one token
REST: Final = ">"  # one or more tokens, at the end

# The shape alone. str.isprintable() checks that characters are visible: it refuses the categories named above, with the
# single exception of U+0020.
TOPIC_SHAPE: Final = re.compile(r"[^.*> ]+(?:\.[^.*> ]+)*")
PATTERN_SHAPE: Final = re.compile(r"(?:(?:\*|[^.*> ]+)\.)*(?:\*|>|[^.*> ]+)")

UTF8_BYTES_PER_CHARACTER_MAX: Final = 4
QUOTED_CHARACTERS_MAX: Final = 64  # of a refused name in its error: enough to recognise it


class BadTopic(UsageError):
    """Not a valid topic; the text says what is wrong with it and where."""


class BadPattern(UsageError):
    """Not a valid pattern; the text says what is wrong with it and where."""


def parse_topic(text: str) -> Topic:
    """Parse a topic, or raise BadTopic."""
    if not _fits(text) or not TOPIC_SHAPE.fullmatch(text) or not text.isprintable():
        raise BadTopic(f"topic {quoted(text)}{_fault(text, _wildcards_in_topic)}")
    return Topic(text)


def parse_pattern(text: str) -> Pattern:
    """Parse a pattern, or raise BadPattern."""
    if not _fits(text) or not PATTERN_SHAPE.fullmatch(text) or not text.isprintable():
        raise BadPattern(f"pattern {quoted(text)}{_fault(text, _wildcards_in_pattern)}")
    return Pattern(text)


def matches(pattern: Pattern, topic: Topic) -> bool:
    """Whether ``pattern`` selects ``topic``. This is the definition, against which every faster index is tested."""
    wanted, tokens = pattern.split("."), topic.split(".")
    if wanted[-1] == REST:
        del wanted[-1]
        if len(tokens) <= len(wanted):
            return False  # nothing is left that ">" could stand for
        del tokens[len(wanted) :]
    return len(wanted) == len(tokens) and all(want in (ONE, token) for want, token in zip(wanted, tokens, strict=True))


def covers(pattern: Pattern, other: Pattern) -> bool:
    """Whether ``pattern`` selects every topic that ``other`` selects, if topics could have any length.

    (Near the length limit, some patterns select the same few topics without covering each other by this definition.
    Interest that is merged by it is then a little longer than necessary, but never wrong.)
    """
    wide, narrow = pattern.split("."), other.split(".")
    if wide[-1] == REST:
        del wide[-1]
        if len(narrow) <= len(wide):
            return False  # `other` selects topics that leave nothing for ">", perhaps only such
        del narrow[len(wide) :]
    elif narrow[-1] == REST:
        return False  # `other` selects topics of any number of tokens
    return len(wide) == len(narrow) and all(want in (ONE, token) for want, token in zip(wide, narrow, strict=True))


def overlaps(one: Pattern, other: Pattern) -> bool:
    """Whether some topic is selected by both, if topics could have any length."""
    ours, theirs = one.split("."), other.split(".")
    for mine, yours in zip(ours, theirs, strict=False):
        if REST in (mine, yours):
            return True  # it stands for as many tokens as the other needs, and that is at least one
        if mine != yours and ONE not in (mine, yours):
            return False
    return len(ours) == len(theirs)


def _fits(text: str) -> bool:
    if len(text) * UTF8_BYTES_PER_CHARACTER_MAX <= TOPIC_BYTES_MAX:
        return True
    return len(text) <= TOPIC_BYTES_MAX and _utf8_bytes(text) <= TOPIC_BYTES_MAX


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))  # surrogates are refused by name, not by the codec


def _fault(text: str, fault_of_wildcards: Callable[[str, bool], str]) -> str:
    """Say what is wrong with a refused name, as text to follow the name itself."""
    if not text:
        return " is empty"
    size = _utf8_bytes(text)
    if size > TOPIC_BYTES_MAX:
        return f" is {size} bytes, the limit is {TOPIC_BYTES_MAX}"
    tokens = text.split(".")
    for number, token in enumerate(tokens, 1):
        if not token:
            return f": token {number} is empty"
        for character in token:
            if kind := _invisible_kind(character):
                return f" has {kind} character U+{ord(character):04X} in token {number}"
        if fault := fault_of_wildcards(token, number == len(tokens)):
            return f": token {number}: {fault}"
    raise AssertionError("the fast check refused a name in which the slow one finds no fault")


def _wildcards_in_topic(token: str, last: bool) -> str:
    return next((f'"{sign}" is only allowed in patterns' for sign in (ONE, REST) if sign in token), "")


def _wildcards_in_pattern(token: str, last: bool) -> str:
    if token == REST and not last:
        return f'"{REST}" is only allowed as the last token'
    return next((f'"{sign}" must be a whole token' for sign in (ONE, REST) if sign in token and token != sign), "")


def _invisible_kind(character: str) -> str:
    """What kind of unwanted character this is, with its article; empty for a visible one."""
    match unicodedata.category(character):
        case "Cc":
            return "a control"
        case "Cf":
            return "a format"
        case "Cs":
            return "a surrogate"
        case "Co":
            return "a private use"
        case "Cn":
            return "an unassigned"
        case "Zs" | "Zl" | "Zp":
            return "a whitespace"
        case _:
            return ""


def quoted(text: str) -> str:
    """The name as errors show it: invisible characters are escaped, and its length is bounded."""
    clipped = text[:QUOTED_CHARACTERS_MAX]
    return f'"{repr(clipped)[1:-1]}{"..." if len(text) > len(clipped) else ""}"'


# --- topics with an owner --------------------------------------------------------------------------------------------
#
# ``weft.<kind>.<owner>.<id>`` (SEC-03). The topic names its owner, so every node can tell from the topic alone whose it
# is. ``security`` decides what an owner is made of; clients ask their node for theirs (``Whoami``). The id is random or
# a digest, so nobody can guess it.

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
