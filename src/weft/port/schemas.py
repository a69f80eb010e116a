"""The schemas of topics, as services and gateways may use them (LAK-02).

Before publishing, services and gateways ask ``EventChecks``. Topics without a schema cost one look-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from weft.model import Batch, Pattern, Topic
from weft.schema.errors import SchemaBroken
from weft.schema.registry import Change, TopicSchema

Checked = Callable[[Mapping[int, SchemaBroken]], None]  # gets the index of each event that breaks the schema, and why


class Payloads:
    """The payloads of some events, taken out piece by piece."""

    def __init__(self, source: Batch | Sequence[bytes]) -> None:
        few = source.few if isinstance(source, Batch) else None
        self._list: Sequence[bytes] | None = None if isinstance(source, Batch) else source
        if few is not None:
            self._list = few.payloads
        self._batch = source if isinstance(source, Batch) else None

    def __len__(self) -> int:
        if self._list is not None:
            return len(self._list)
        assert self._batch is not None, "it is one or the other"
        return len(self._batch)

    @property
    def size(self) -> int:
        """The size of all of them."""
        if self._list is not None:
            return sum(map(len, self._list))
        assert self._batch is not None, "it is one or the other"
        return int(self._batch.payloads.nbytes)

    def part(self, first: int, end: int) -> Sequence[bytes]:
        if self._list is not None:
            return self._list[first:end]
        assert self._batch is not None, "it is one or the other"
        found: list[bytes] = self._batch.payloads.slice(first, end - first).to_pylist()
        return found


class EventChecks(Protocol):
    """All methods are called on the event loop. ``rules`` becomes another object whenever a topic without a schema may
    have got one. As long as it stays the same, a topic to which nothing applied need not be checked again."""

    @property
    def rules(self) -> object: ...

    def applies(self, topic: Topic) -> bool:
        """Whether events of this topic are checked at all."""

    def check(self, publisher: object, topic: Topic, payloads: Payloads, done: Checked, *, first_only: bool) -> None:
        """Check payloads, and call ``done`` once: before this returns, or later if there is much to check. One
        publisher's events for one topic keep their order. ``first_only``: stop at the first event that breaks the
        schema."""


class NoChecks:
    """``EventChecks`` for a node without schemas."""

    rules: object = None

    def applies(self, topic: Topic) -> bool:
        return False

    def check(self, publisher: object, topic: Topic, payloads: Payloads, done: Checked, *, first_only: bool) -> None:
        done({})


async def check_one(checks: EventChecks, topic: Topic, payload: bytes) -> None:
    """Raise SchemaBroken if this event may not be published there."""
    if not checks.applies(topic):
        return
    outcome: asyncio.Future[Mapping[int, SchemaBroken]] = asyncio.get_running_loop().create_future()
    checks.check(outcome, topic, Payloads([payload]), lambda broken: _tell(outcome, broken), first_only=True)
    for error in (await outcome).values():
        raise error


def _tell(outcome: asyncio.Future[Mapping[int, SchemaBroken]], broken: Mapping[int, SchemaBroken]) -> None:
    if not outcome.done():
        outcome.set_result(broken)


class SchemaStore(Protocol):
    """The callers check the rights. All methods wait until this node has read all schemas in its log."""

    async def list(self) -> list[TopicSchema]:
        """All schemas in the order of their patterns."""

    async def of_topic(self, topic: Topic) -> TopicSchema | None:
        """The schema that counts for a topic."""

    async def put(self, pattern: Pattern, change: Change, by: str, *, dry_run: bool) -> TopicSchema:
        """Durable when this returns, and in force at this node. Raise UsageError."""

    async def remove(self, pattern: Pattern, by: str) -> None:
        """Raise NoSchema."""
