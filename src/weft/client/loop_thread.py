"""An event loop on a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, TypeVar

from weft.client.errors import Closed

P = ParamSpec("P")
T = TypeVar("T")
STOP_TIMEOUT_S: Final = 5.0


class LoopThread:
    """Runs coroutines for any number of threads. ``on_exit`` runs at the end of the interpreter at the latest.

    The thread is a daemon, so that a program that forgot to close its client can end; ``atexit`` closes the client
    while threads can still run.
    """

    def __init__(
        self,
        on_exit: Callable[[], None],
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name="weft client", daemon=True)
        self._on_exit = on_exit
        self._thread.start()
        atexit.register(on_exit)

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine and return its result. After ``timeout_s``, cancel it and raise TimeoutError."""
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function that needs a running loop, and return its result."""

        async def called() -> T:
            return function(*args, **kwargs)

        return self.run(called())

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the blocking client was called from its own thread, which would wait for ever")
        if self._loop.is_closed():
            work.close()
            raise Closed("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        atexit.unregister(self._on_exit)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        """Run until it is stopped. Then cancel everything that still runs, and let connections close."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            loop = runner.get_loop()
            asyncio.set_event_loop(loop)
            loop.run_forever()
