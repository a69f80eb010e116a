"""The blocking client behind the interface of the asyncio one, so that the same stories try both.

What is a coroutine there is called in a thread here; everything else is called where the story runs.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any

from weft.client import Client, Connecting, Subscription, blocking

TWINS: dict[type, type] = {blocking.Client: Client, blocking.Subscription: Subscription}


class AsAsync:
    """A blocking object with the methods of its asyncio twin."""

    def __init__(self, twin: Any) -> None:
        self._twin = twin
        self._asynchronous = TWINS[type(twin)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # stories look inside
            return getattr(self._twin._inner, name)
        found = getattr(self._twin, name)
        original = inspect.getattr_static(self._asynchronous, name)
        if inspect.iscoroutinefunction(original):

            async def called(*args: Any, **kwargs: Any) -> Any:
                return wrapped(await asyncio.to_thread(found, *args, **kwargs))

            return called
        if callable(found):
            return lambda *args, **kwargs: wrapped(found(*args, **kwargs))
        return found

    async def __aenter__(self) -> AsAsync:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsAsync:
        return self

    async def __anext__(self) -> Any:
        event = await asyncio.to_thread(self._twin.next)
        if event is None:
            raise StopAsyncIteration
        return event


class Ticket:
    """As ``Published``: nobody waits for it until it is awaited."""

    def __init__(self, future: Future[Any]) -> None:
        self.done = future.done
        self.result = lambda: future.result(0)
        self._future = future

    def __await__(self) -> Any:
        return asyncio.wrap_future(self._future).__await__()


class ConnectingInThread:
    """As ``Connecting``."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._client: Any = None

    async def _connect(self) -> Any:
        self._client = AsAsync(await asyncio.to_thread(blocking.Client, self._connecting))
        return self._client

    def __await__(self) -> Any:
        return self._connect().__await__()

    async def __aenter__(self) -> Any:
        return await self._connect()

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


def wrapped(found: Any) -> Any:
    if type(found) in TWINS:
        return AsAsync(found)
    if isinstance(found, Future):
        return Ticket(found)
    return each(found) if isinstance(found, Iterator) else found


async def each(items: Iterator[Any]) -> AsyncIterator[Any]:
    end = object()
    while (item := await asyncio.to_thread(next, items, end)) is not end:
        yield item
