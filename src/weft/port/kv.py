"""Buckets of keys and values, as services and gateways may use them (CON-05). The callers check the rights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from weft.errors import UsageError, WeftError
from weft.model import Pattern
from weft.model.key_value import BucketSettings, Revision
from weft.port.pages import PageRoom

ABSENT: Final = ""  # used instead of a revision: the key must have no value


class NotHeldWhole(UsageError):
    """This node had to leave out entries of the bucket, so it answers no questions about the bucket."""


class State(StrEnum):
    """What the latest write of a key means to readers now."""

    PUT = "put"
    DELETED = "deleted"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Item:
    """A key as it is now. ``value`` is empty unless there is one; ``expires_ms`` is 0 if it never expires."""

    key: str
    state: State
    revision: Revision
    expires_ms: int
    author: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Write:
    """``value`` None deletes. ``if_revision`` None writes unconditionally."""

    bucket: str
    key: str
    value: bytes | None
    author: str
    ttl_s: float | None = None
    if_revision: str | None = None
    copies: int = 0


@dataclass(frozen=True, slots=True)
class BucketInfo:
    name: str
    keys: int  # with a value
    settings: BucketSettings


class Watching(Protocol):
    """Changes of one bucket. If a key changes several times before it is taken, the last change counts."""

    async def next(self, bytes_max: int) -> list[Item]:
        """Return what has changed; wait until something has."""

    def end(self, error: WeftError) -> None:
        """From now on, ``next`` raises this error."""

    def close(self) -> None: ...


class KeyValueStore(Protocol):
    """All methods are called on the event loop. They wait until this node has read all buckets in its log."""

    async def get(self, bucket: str, key: str, at_least: Revision | None) -> Item | None: ...

    async def write(self, write: Write) -> Revision:
        """Durable when this returns; readers at this node see it from then on."""

    async def items(self, bucket: str, pattern: Pattern, after: str, bytes_max: int) -> tuple[list[Item], str]:
        """Live keys in order, as many as fit; and where to go on, empty at the end."""

    async def history(
        self, bucket: str, key: str, before: Revision | None, room: PageRoom
    ) -> tuple[list[Item], Revision | None]:
        """The writes of a key before that revision, the latest first, as many as fit. Also the revision of the last one
        that fitted, or None if there are no more."""

    async def buckets(self, after: str, may_see: Callable[[str], bool], room: PageRoom) -> tuple[list[BucketInfo], str]:
        """Buckets in order, as many as fit; and where to go on, empty at the end."""

    async def configure(self, bucket: str, settings: BucketSettings, author: str, *, force: bool) -> None: ...

    async def watch(self, bucket: str, pattern: Pattern, *, snapshot: bool, gone: bool) -> Watching:
        """``snapshot``: begin with all existing keys; ``gone``: include those that are gone."""
