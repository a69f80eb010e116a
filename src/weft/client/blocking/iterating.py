"""Asynchronous iterators as plain ones, for programs without asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from weft.client.background import begin
from weft.client.loop_thread import LoopThread


def each(thread: LoopThread, items: Any) -> Iterator[Any]:
    """Turn an asynchronous iterator into a plain one, which closes it in the end."""
    try:
        while True:
            try:
                yield thread.run(_next(items))
            except StopAsyncIteration:
                return
    finally:
        thread.run(items.aclose())


def each_ahead(thread: LoopThread, items: AsyncIterator[Any]) -> Iterator[Any]:
    """Do the same, and always fetch the next item in advance."""
    ahead = thread.run(Ahead.begun(items))
    try:
        while not ahead.is_over:
            found = thread.run(ahead.take())
            if found is not None:
                yield found
    finally:
        if not ahead.is_over:
            thread.run(ahead.close())


class Ahead:
    """Fetches the next item of an asynchronous iterator in advance. Its methods run on the client's thread. Each call
    there costs as much as some hundred events, so one call returns an item and whether it is the last."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self._coming = begin(asyncio.get_running_loop(), _next(items))
        self.is_over = False

    @classmethod
    async def begun(cls, items: AsyncIterator[Any]) -> Ahead:
        return cls(items)

    async def take(self) -> Any:
        """The next item; None if there is none."""
        item = await self._taken()
        if item is not None:
            self._coming = begin(asyncio.get_running_loop(), _next(self._items))
            await asyncio.sleep(0)  # an iterator that has ended says so at once
            if self._coming.done() and isinstance(self._coming.exception(), StopAsyncIteration):
                self.is_over = True
        return item

    async def _taken(self) -> Any:
        try:
            return await self._coming
        except BaseException as error:
            self.is_over = True
            if isinstance(error, StopAsyncIteration):
                return None
            raise

    async def close(self) -> None:
        """Wait for the item under way, then close the iterator, which must not be running at that moment."""
        self._coming.cancel()
        await asyncio.gather(self._coming, return_exceptions=True)
        await self._items.aclose()


async def _next(items: Any) -> Any:
    return await anext(items)
