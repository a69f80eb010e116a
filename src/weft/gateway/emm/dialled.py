"""The nodes to which a gateway connects by QUIC: it keeps each connection, and logs when it comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from random import SystemRandom
from typing import Final

from structlog.stdlib import BoundLogger

from weft.errors import WeftError
from weft.gateway.emm.settings import Target
from weft.transport.addresses import Address as HostAndPort
from weft.transport.quic import KeptConnection, QuicLinks
from weft.wire.udp import Address

CHANCE: Final = SystemRandom()


class Dialled:
    """``on_up`` is called for each connection that is made, with the address to send to. ``root`` may be called at any
    time.
    """

    def __init__(
        self,
        links: QuicLinks,
        targets: Iterable[Target],
        root: Callable[[], bytes],
        on_up: Callable[[Target, Address], None],
        logger: BoundLogger,
    ) -> None:
        self._links = links
        self._root = root
        self._on_up = on_up
        self._logger = logger
        self._told: dict[Target, str] = {}  # what was logged last
        self._kept = {target: self._connection(target) for target in targets}
        self._tasks: list[asyncio.Task[None]] = []

    def _connection(self, target: Target) -> KeptConnection:
        up, failed = partial(self._came, target), partial(self._failed, target)
        return KeptConnection(self._links, (target.host, target.port), self._root, up, failed, CHANCE)

    def start(self) -> None:
        """Raise UsageError if there are no certificates against which to check others."""
        if self._kept:
            self._root()
        self._tasks = [each.start() for each in self._kept.values()]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def address(self, target: Target) -> Address | None:
        """Where to send to; None while there is no connection."""
        return self._kept[target].address

    def _came(self, target: Target, address: Address) -> None:
        self._told.pop(target, None)
        self._logger.info("emm_quic_connected", address=_shown(target))
        self._on_up(target, address)

    def _failed(self, target: Target, error: WeftError, pause_s: float) -> None:
        """Log each reason once in a row: a node that is away for days fails every half a minute."""
        if self._told.get(target) != str(error):
            self._told[target] = str(error)
            self._logger.warning(
                "emm_quic_backoff", address=_shown(target), reason=str(error), retry_s=round(pause_s, 3)
            )


def _shown(target: Target) -> str:
    return f"quic://{HostAndPort(target.host, target.port)}"
