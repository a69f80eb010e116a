"""Buckets of keys and values: their names, their revisions, and how an entry is written as an event.

The entries of bucket ``settings`` are the events of topic ``weft.kv.settings``. The event's key is the entry's key, its
payload the value. The rest is in headers, all text:

===================  ===================================================================================
header               meaning
===================  ===================================================================================
``weft-kv``          the time of the hybrid logical clock: milliseconds since 1970 << 16 | counter
``weft-kv-op``       ``delete``, or ``settings`` (of the bucket, under the empty key); absent: a value
``weft-kv-expires``  when the value expires for readers, in milliseconds since 1970; absent: never
``weft-kv-by``       the caller that wrote it, as the node names callers: ``key k3``
``weft-kv-node``     the node that wrote it, if it is not the origin of the stream: it has lost its disk since
===================  ===================================================================================

Time and node together make the revision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from weft.errors import UsageError
from weft.limits import MIB
from weft.model.event import Event
from weft.model.stream import NODE_ID, NodeId
from weft.model.topic import Topic, parse_pattern, parse_topic, quoted

KV_PREFIX: Final = "weft.kv."
KEY_VALUES: Final = parse_pattern("weft.kv.>")
RIGHTS_PREFIX: Final = "kv."  # a right to topic kv.<bucket> is a right to the bucket
SETTINGS_KEY: Final = ""  # no entry has it
OWN_BUCKETS: Final = "weft"  # the first token of buckets that belong to the mesh itself

BUCKET_BYTES_MAX: Final = 128  # leaves room for the prefix in a topic
VALUE_BYTES_MAX: Final = 1 * MIB  # a value is sent and read as a whole; larger things are events
HISTORY: Final = 5  # revisions of a key that are kept, unless the bucket says otherwise
HISTORY_MAX: Final = 64
TTL_S_MAX: Final = 10 * 365.25 * 86_400  # a longer one is treated as never
AUTHOR_CHARS_MAX: Final = 128

COUNTER_BITS: Final = 16
TIME_MAX: Final = (1 << 63) - 1
EXPIRES_MS_MAX: Final = TIME_MAX >> COUNTER_BITS

TIME: Final = "weft-kv"
OP: Final = "weft-kv-op"
EXPIRES: Final = "weft-kv-expires"
AUTHOR: Final = "weft-kv-by"
NODE: Final = "weft-kv-node"
NUMBER: Final = re.compile(r"[1-9][0-9]{0,18}")
REVISION: Final = re.compile(rf"([1-9][0-9]{{0,14}})\.(0|[1-9][0-9]{{0,4}})@({NODE_ID.pattern})")


class Revision(NamedTuple):
    """One write of a key. Revisions have the same order everywhere: by time, then by node."""

    time: int  # of the hybrid logical clock
    node: NodeId

    @property
    def time_ms(self) -> int:
        return self.time >> COUNTER_BITS

    def __str__(self) -> str:
        return f"{self.time_ms}.{self.time & ((1 << COUNTER_BITS) - 1)}@{self.node}"


def parse_revision(text: str) -> Revision:
    """Parse ``1763305200000.0@n1`` as a revision, or raise UsageError. Takes untrusted text."""
    found = REVISION.fullmatch(text) if len(text) <= 128 else None
    if found is not None:
        time = int(found[1]) << COUNTER_BITS | int(found[2])
        if int(found[2]) < 1 << COUNTER_BITS and time <= TIME_MAX:
            return Revision(time, NodeId(found[3]))
    raise UsageError(f"{quoted(text)} is not a revision: write MILLISECONDS.COUNTER@NODE")


# --- names -----------------------------------------------------------------------------------------------------------


def parse_bucket(text: str) -> str:
    """Check the name of a bucket, or raise UsageError. The rules are those for topics."""
    if len(text.encode("utf-8", "surrogatepass")) > BUCKET_BYTES_MAX:
        raise UsageError(f"the name of bucket {quoted(text)} is too long", limit=BUCKET_BYTES_MAX)
    return parse_topic(text)


def parse_key(text: str) -> str:
    """Check the key of an entry, or raise UsageError. The rules are those for topics, so that patterns select keys."""
    return parse_topic(text)


def check_value(key: str, value: bytes) -> None:
    if len(value) > VALUE_BYTES_MAX:
        raise UsageError("the value is too large", key=key, bytes=len(value), limit=VALUE_BYTES_MAX)


def check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s <= TTL_S_MAX:
        raise UsageError("a time to live must be more than 0 and at most ten years", ttl_s=ttl_s)


def topic_of(bucket: str) -> Topic:
    """The topic of a bucket's entries."""
    return Topic(KV_PREFIX + bucket)


def bucket_of(topic: str) -> str | None:
    """The bucket whose entries a topic has; None if it is no bucket's topic."""
    return topic[len(KV_PREFIX) :] if topic.startswith(KV_PREFIX) else None


def is_of_mesh(bucket: str) -> bool:
    """Whether a bucket belongs to the mesh itself: clients neither read nor write it."""
    return bucket.split(".", 1)[0] == OWN_BUCKETS


def right_to(bucket: str) -> Topic:
    """The topic whose rights decide: the right to publish to it allows writing, the right to subscribe allows
    reading."""
    return Topic(RIGHTS_PREFIX + bucket)


# --- entries as events -----------------------------------------------------------------------------------------------


class Op(StrEnum):
    PUT = "put"
    DELETE = "delete"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """``owner``: the only node that takes writes; empty: every node does. ``history``: how many revisions of each key
    are kept."""

    owner: str = ""
    history: int = HISTORY


class _SettingsText(msgspec.Struct, forbid_unknown_fields=False):
    owner: str = ""
    history: int = HISTORY


class Record(NamedTuple):
    """An entry as it is written."""

    op: Op
    key: str
    time: int
    expires_ms: int  # 0: never
    author: str
    value: bytes
    node: str = ""  # the node that wrote it, if it is not the origin of the stream

    def revision(self, origin: NodeId) -> Revision:
        return Revision(self.time, NodeId(self.node) if self.node else origin)

    def headers(self) -> dict[str, str]:
        headers = {TIME: str(self.time)}
        if self.op is not Op.PUT:
            headers[OP] = self.op.value
        if self.expires_ms:
            headers[EXPIRES] = str(self.expires_ms)
        if self.author:
            headers[AUTHOR] = self.author
        if self.node:
            headers[NODE] = self.node
        return headers


def read_record_untrusted(event: Event) -> Record | None:
    """Read what an event of a bucket says; None if no node writes such an event."""
    headers = event.headers or {}
    time, expires = headers.get(TIME, ""), headers.get(EXPIRES)
    if event.key is None or not NUMBER.fullmatch(time) or int(time) > TIME_MAX:
        return None
    if expires is not None and (not NUMBER.fullmatch(expires) or int(expires) > EXPIRES_MS_MAX):
        return None
    try:
        op = Op(headers.get(OP, Op.PUT))
        key = event.key.decode()
        if key or op is not Op.SETTINGS:
            parse_key(key)
    except (ValueError, UsageError):
        return None
    if (op is Op.SETTINGS) != (key == SETTINGS_KEY):
        return None
    author, node = headers.get(AUTHOR, "")[:AUTHOR_CHARS_MAX], headers.get(NODE, "")
    if node and not NODE_ID.fullmatch(node):
        return None
    return Record(op, key, int(time), 0 if expires is None else int(expires), author, event.payload, node)


def settings_value(settings: BucketSettings) -> bytes:
    return msgspec.json.encode(_SettingsText(settings.owner, settings.history))


def read_settings_untrusted(value: bytes) -> BucketSettings | None:
    """Read settings; None if they are not valid."""
    try:
        found = msgspec.json.decode(value, type=_SettingsText)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not 1 <= found.history <= HISTORY_MAX or (found.owner and not NODE_ID.fullmatch(found.owner)):
        return None
    return BucketSettings(found.owner, found.history)
