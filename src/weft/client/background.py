"""Tasks of the client's own, which outlive the calls that begin them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def begin(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """A task that has nothing of its beginner's context: not the span, which is over long before the task is."""
    return Context().run(loop.create_task, work, name=name)
