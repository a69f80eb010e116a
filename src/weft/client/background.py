"""Tasks that the client starts for itself, and that outlive the calls that start them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def begin(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """Start a task in an empty context. Above all, the task must not inherit its starter's span, which ends long before
    the task does."""
    return Context().run(loop.create_task, work, name=name)
