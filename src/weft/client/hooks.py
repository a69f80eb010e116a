"""What an application can watch: a hook for every connection, retry and batch, and logs under ``weft.client``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, ParamSpec

LOG: Final = logging.getLogger("weft.client")
P = ParamSpec("P")


class Hooks:
    """Called on the client's event loop, per connection or batch, never per event. Be quick; exceptions are logged.

    Inherit and override the methods that you need: those of this class do nothing.
    """

    def on_connected(self, address: str, node: str, purpose: str) -> None:
        """A stream is open, for the purpose ``publish`` or ``subscribe``."""

    def on_disconnected(self, address: str, node: str, purpose: str, reason: str) -> None:
        """An open stream has ended, and we did not end it. (If a stream cannot be opened, ``on_retry`` is called, or
        the error is raised.)"""

    def on_retry(self, purpose: str, delay_s: float, reason: str) -> None:
        """Something failed, and will be tried again after the delay."""

    def on_published(self, topic: str, events: int, size_bytes: int, latency_s: float) -> None:
        """A batch was acknowledged, ``latency_s`` after it was first sent."""

    def on_publish_failed(self, topic: str, events: int, reason: str) -> None:
        """A batch was given up."""

    def on_delivered(self, topic: str, events: int, size_bytes: int) -> None:
        """A batch was handed to the application."""


def notify(hook: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a hook. An error in the application's hook must not stop the client."""
    try:
        hook(*args, **kwargs)
    except Exception:
        LOG.exception("hook %s failed", getattr(hook, "__name__", hook))
