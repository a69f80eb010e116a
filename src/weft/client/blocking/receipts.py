"""The receipt of an event on its way, for programs without asyncio."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from weft.client.chunk import Published
from weft.errors import WeftError
from weft.model import Receipt


class ReceiptFuture(Future[Receipt]):
    """Done when the event has its receipt or has failed. ``flush`` raises a failure that nobody waits for."""

    def __init__(self, published: Published) -> None:
        """On the client's thread."""
        super().__init__()
        self._published = published
        published.when_done(self._settle)

    def result(self, timeout: float | None = None) -> Receipt:
        self._published.watch()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._published.watch()
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[Receipt]], Any]) -> None:
        self._published.watch()
        super().add_done_callback(fn)

    def _settle(self) -> None:
        if not self.set_running_or_notify_cancel():  # it was cancelled, so nobody waits for it
            return
        try:
            self.set_result(self._published.result())
        except WeftError as error:
            self.set_exception(error)
