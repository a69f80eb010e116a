"""A connection that is kept up: it is made again whenever it ends, after a longer pause each time that fails
(EMM-28)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from weft.chance import Chance
from weft.errors import WeftError
from weft.transport.backoff import Backoff
from weft.transport.quic.links import QUIC_CONNECT_TIMEOUT_S, QuicLinks
from weft.wire.udp import Address

QUIC_BACKOFF_S_MIN: Final = 0.1  # a restarted node is back after a second or two
QUIC_BACKOFF_S_MAX: Final = 30.0  # after a long outage, nobody waits longer than this
HALF_CHANCE: Final = 0.5  # half of a pause is chance, so that nodes that lost the same node do not return together


class KeptConnection:
    """``root`` returns the certificates to trust; it is called at each dial, because they may have been replaced.
    ``on_up`` is told each time where to send to; ``on_failed`` is told why a dial failed and how long the next one
    waits."""

    def __init__(
        self,
        links: QuicLinks,
        host_and_port: tuple[str, int],
        root: Callable[[], bytes],
        on_up: Callable[[Address], None],
        on_failed: Callable[[WeftError, float], None],
        chance: Chance,
    ) -> None:
        self.address: Address | None = None  # while it is up
        self._links = links
        self._host, self._port = host_and_port
        self._root = root
        self._on_up = on_up
        self._on_failed = on_failed
        self._backoff = Backoff(QUIC_BACKOFF_S_MIN, QUIC_BACKOFF_S_MAX, HALF_CHANCE, chance)

    async def dial(self, timeout_s: float = QUIC_CONNECT_TIMEOUT_S) -> Address:
        """Connect once. PeerError, UsageError or CertificateRefused if that does not work."""
        address = await self._links.connect(self._host, self._port, self._root(), timeout_s=timeout_s)
        self.address = address
        self._on_up(address)
        return address

    def start(self) -> asyncio.Task[None]:
        """Keep it until the task is cancelled."""
        task = asyncio.create_task(self.run())
        task.add_done_callback(_tell_defect)
        return task

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                address = self.address or await self.dial()
            except WeftError as error:
                pause_s = self._backoff.next_s()
                self._on_failed(error, pause_s)
            else:
                await self._stand(address)
                pause_s = self._backoff.next_s()
            await asyncio.sleep(pause_s)

    async def _stand(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            await self._links.standing(address)
        finally:
            self.address = None
        self._backoff.on_lived(loop.time() - began_s)


def _tell_defect(task: asyncio.Task[None]) -> None:
    """Report an exception of the task. There should be none, so it is a bug of ours, and must not go unnoticed."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "a kept QUIC connection", "exception": error, "task": task})
