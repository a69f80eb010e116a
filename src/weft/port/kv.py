"""Buckets of keys and values, as services and gateways may use them (CON-05). Rights are asked by whoever calls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from weft.errors import UsageError, WeftError
from weft.model import Pattern
from weft.model.key_value import BucketSettings, Revision

ABSENT: Final = ""  # in the place of a revision: the key must have no value


class NotHeldWhole(UsageError):
    """This node had to leave entries of the bucket out, so it answers nothing of it."""


class State(StrEnum):
    """What the latest writing of a key means to readers now."""

    PUT = "put"
    DELETED = "deleted"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Item:
    """A key with what it is now. ``value`` is empty unless there is one; ``expires_ms`` is 0 if it never does."""

    key: str
    state: State
    revision: Revision
    expires_ms: int
    author: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Write:
    """``value`` None deletes. ``if_revision``: None writes whatever there is."""

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
    """Changes of one bucket; of a key that changes several times before it is taken, the last one counts."""

    async def next(self, bytes_max: int) -> list[Item]:
        """What has changed; waits until something has."""

    def end(self, error: WeftError) -> None:
        """``next`` raises this from now on."""

    def close(self) -> None: ...


class KeyValueStore(Protocol):
    """Everything is called on the event loop, and waits until this node has read what its log has of buckets."""

    async def get(self, bucket: str, key: str, at_least: Revision | None) -> Item | None: ...

    async def write(self, write: Write) -> Revision:
        """Durable when it returns, and seen by whoever reads here from then on."""

    async def items(self, bucket: str, pattern: Pattern, after: str, bytes_max: int) -> tuple[list[Item], str]:
        """Live keys in order, as far as there is room; and where to go on, empty at the end."""

    async def history(self, bucket: str, key: str) -> list[Item]: ...

    async def buckets(self) -> list[BucketInfo]: ...

    async def configure(self, bucket: str, settings: BucketSettings, author: str, *, force: bool) -> None: ...

    async def watch(self, bucket: str, pattern: Pattern, *, snapshot: bool, gone: bool) -> Watching:
        """``snapshot``: begin with all keys there are; ``gone``: with those that are gone as well."""
