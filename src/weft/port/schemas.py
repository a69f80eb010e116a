"""The schemas of topics, as services and gateways may use them (LAK-02).

Who publishes asks ``EventChecks`` first, at every door. Topics without a schema cost one look-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from weft.model import Batch, Pattern, Topic
from weft.schema.errors import SchemaBroken
from weft.schema.registry import Change, TopicSchema

Checked = Callable[[Mapping[int, SchemaBroken]], None]  # hears which of them may not be published, by their places


class Payloads:
    """The payloads of some events, taken out a part at a time."""

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
        """Bytes of all of them."""
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
    """Everything is called on the event loop. ``rules`` is another object whenever a topic may have got a schema that
    had none: until then, a topic to which nothing applies need not be asked for again."""

    @property
    def rules(self) -> object: ...

    def applies(self, topic: Topic) -> bool:
        """Whether events of this topic are checked at all."""

    def check(self, publisher: object, topic: Topic, payloads: Payloads, done: Checked, *, first_only: bool) -> None:
        """``done`` is called once: at once, or later if there is much to check. What one publisher has for one topic
        keeps its order. ``first_only``: the first event that may not be published is enough to know."""


class NoChecks:
    """``EventChecks`` where there are no schemas."""

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
    """Rights are asked by whoever calls. Everything waits until this node has read what its log has of schemas."""

    async def list(self) -> list[TopicSchema]:
        """In the order of their patterns."""

    async def of_topic(self, topic: Topic) -> TopicSchema | None:
        """The one that counts."""

    async def put(self, pattern: Pattern, change: Change, by: str, *, dry_run: bool) -> TopicSchema:
        """Durable when it returns, and in force at this node. Raise UsageError."""

    async def remove(self, pattern: Pattern, by: str) -> None:
        """Raise NoSchema."""
