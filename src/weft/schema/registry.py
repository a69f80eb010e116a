"""The schemas of a mesh: which topics have one, in which versions, and what happens to events that break it. Pure.

Each pattern has one record: an entry of the bucket ``weft.schemas``, as JSON, which every node has (docs/kv.md). Its
versions are in it, the latest last. If two nodes set it while they cannot reach each other, the later writing counts.

A topic may match several patterns. The most specific one counts: the patterns are compared token by token from the
left, and at the first token at which they differ a name goes before ``*``, and ``*`` before ``>``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import KIB
from weft.model import Pattern, Topic, matches, parse_pattern
from weft.model.topic import ONE, REST
from weft.schema.compatibility import Compatibility, breaks
from weft.schema.errors import IncompatibleSchema
from weft.schema.kinds import parse_schema
from weft.schema.values import BadSchema, Kind, Schema

SCHEMAS_BUCKET: Final = "weft.schemas"
PATTERNS_MAX: Final = 1_000  # of a mesh: every node keeps all of them ready, some 100 KiB each at worst
VERSIONS_MAX: Final = 16  # of one pattern; the oldest go first
VERSIONS_BYTES_MAX: Final = 256 * KIB  # of their texts: a value of a bucket has 1 MiB, and JSON may double a text
BREAKS_SHOWN_MAX: Final = 10  # in one refusal


class Mode(StrEnum):
    """What happens with events that break the schema."""

    OFF = "off"  # nobody looks; readers have the columns
    WARN = "warn"  # they are counted and logged
    REJECT = "reject"  # they are refused


class Version(msgspec.Struct, frozen=True):
    number: int
    kind: Kind
    text: str
    at_us: int
    by: str  # who set it, as nodes know their callers: ``key k3``

    def schema(self) -> Schema:
        """BadSchema if this node cannot read it: a later version of weft may know more."""
        return parse_schema(self.kind, self.text)


class TopicSchema(msgspec.Struct, frozen=True):
    """What was set for one pattern; there is at least one version."""

    pattern: str
    mode: Mode
    compatibility: Compatibility
    versions: tuple[Version, ...]

    @property
    def latest(self) -> Version:
        return self.versions[-1]


class Change(msgspec.Struct, frozen=True):
    """What a caller wants to set. None leaves it as it is, or takes the default for a new pattern."""

    schema: Schema | None = None
    mode: Mode | None = None
    compatibility: Compatibility | None = None


def changed(pattern: Pattern, before: TopicSchema | None, change: Change, at_us: int, by: str) -> TopicSchema:
    """The record after the change, or UsageError. The same text again is no new version."""
    if before is None:
        if change.schema is None:
            raise UsageError("no schema is set for this pattern: give one", pattern=pattern)
        first = _version(1, change.schema, at_us, by)
        return TopicSchema(pattern, change.mode or Mode.WARN, change.compatibility or Compatibility.BACKWARD, (first,))
    rule = change.compatibility or before.compatibility
    versions = before.versions
    if change.schema is not None and (change.schema.kind, change.schema.text) != _said(before.latest):
        _check_follows(pattern, before.latest, change.schema, rule)
        versions = _trimmed((*versions, _version(before.latest.number + 1, change.schema, at_us, by)))
    return TopicSchema(pattern, change.mode or before.mode, rule, versions)


def _said(version: Version) -> tuple[Kind, str]:
    return version.kind, version.text


def _version(number: int, schema: Schema, at_us: int, by: str) -> Version:
    return Version(number, schema.kind, schema.text, at_us, by)


def _check_follows(pattern: Pattern, latest: Version, new: Schema, rule: Compatibility) -> None:
    if rule is Compatibility.NONE:
        return
    try:
        old = latest.schema()
    except BadSchema as error:
        raise IncompatibleSchema(
            f"this node cannot read the latest version, so it cannot compare another one with it: {error}",
            pattern=pattern,
        ) from None
    if found := breaks(old, new, rule):
        shown = "; ".join(map(str, found[:BREAKS_SHOWN_MAX]))
        more = f"; and {len(found) - BREAKS_SHOWN_MAX} more" if len(found) > BREAKS_SHOWN_MAX else ""
        raise IncompatibleSchema(
            f"the new version is not compatible with version {latest.number}: {shown}{more}",
            pattern=pattern,
            compatibility=rule.value,
        )


def _trimmed(versions: tuple[Version, ...]) -> tuple[Version, ...]:
    versions = versions[-VERSIONS_MAX:]
    while len(versions) > 1 and sum(len(each.text.encode()) for each in versions) > VERSIONS_BYTES_MAX:
        versions = versions[1:]
    return versions


# --- which one counts ------------------------------------------------------------------------------------------------


def most_specific(topic: Topic, patterns: Iterable[Pattern]) -> Pattern | None:
    """Of the patterns that select the topic, the one that counts."""
    return min((each for each in patterns if matches(each, topic)), key=specificity, default=None)


def specificity(pattern: Pattern) -> tuple[int, ...]:
    """The smaller, the more specific, among patterns that select the same topic."""
    ranks = {ONE: 1, REST: 2}
    return tuple(ranks.get(token, 0) for token in pattern.split("."))


# --- as entries of the bucket ----------------------------------------------------------------------------------------


def key_of(pattern: Pattern) -> str:
    """Keys of buckets are written as topics, which patterns are not."""
    return blake2b(pattern.encode(), digest_size=16).hexdigest()


def write_record(record: TopicSchema) -> bytes:
    return msgspec.json.encode(record)


def read_record_untrusted(key: str, value: bytes) -> TopicSchema | None:
    """None if it is not valid: only nodes write these, but a later version may write others."""
    try:
        record = msgspec.json.decode(value, type=TopicSchema)
        pattern = parse_pattern(record.pattern)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, UsageError):
        return None
    return record if record.versions and key == key_of(pattern) else None


def parsed_versions(record: TopicSchema) -> tuple[Schema | None, Sequence[Schema]]:
    """The latest version and the others that can be read, which Avro payloads may have been written with."""
    schemas: list[Schema | None] = []
    for version in record.versions:
        try:
            schemas.append(version.schema())
        except BadSchema:
            schemas.append(None)
    return schemas[-1], tuple(each for each in schemas[:-1] if each is not None)
