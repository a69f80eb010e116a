"""The doors of a node's ports: bounds from its configuration, and from the files that the process may have open."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from structlog.stdlib import BoundLogger

from weft.doors import Door, Doorkeeper, DoorLimits, TurnedAway
from weft.doors.descriptors import Descriptors, plan
from weft.doors.http import http_limits
from weft.limits import QUIC_CONNECTIONS_MAX
from weft.log.rocks_store import files_for_log
from weft.node.config import NodeConfig

COATY_SURPLUS_MAX: Final = 16  # connections at a time that are hung up on with a word
PEERS_BESIDE_MAX: Final = 8  # dialled because others told of them, while there is no link to a configured one


class Entrances:
    """``files_max``: what the system allows this process; UsageError if it is too little. ``tell`` hears who was turned
    away."""

    def __init__(self, config: NodeConfig, files_max: int, tell: Callable[[TurnedAway], None]) -> None:
        self._config = config
        dialled_max = 2 * len(config.peers) + PEERS_BESIDE_MAX  # a link and the one that takes its place
        self.files: Descriptors = plan(files_max, files_for_log(files_max), dialled_max)
        self.keeper = Doorkeeper(self.files.connections, tell)

    def log(self, logger: BoundLogger) -> None:
        files = self.files
        logger.info(
            "files_shared_out",
            allowed=files.limit,
            log=files.log,
            node=files.node,
            admin=files.admin,
            ca=files.ca,
            connections=files.connections,
        )

    def admin(self) -> Door:
        return self.keeper.door("admin", http_limits(self.files.admin), apart=True)

    def ca(self) -> Door:
        return self.keeper.door("ca", http_limits(self.files.ca), apart=True)

    def exmp(self, name: str, connections_max: int) -> Door:
        """Its sessions have deadlines of their own, and say why they end."""
        limits = self._config.limits
        bounds = DoorLimits(
            connections_max,
            limits.connections_of_host_max,
            limits.strangers_max,
            limits.strangers_of_host_max,
            limits.stranger_grace_s,
        )
        return self.keeper.door(name, bounds)

    def coaty(self) -> Door:
        """Its handshakes have deadlines of their own, and whoever is one too many is told so."""
        most = self._config.gateway.coaty.connections_max + COATY_SURPLUS_MAX
        return self.keeper.door("coaty", self._open_to_all(most, math.inf))

    def quic(self) -> Door:
        """All connections share one socket, so they need no descriptors."""
        bounds = self._open_to_all(QUIC_CONNECTIONS_MAX, self._config.limits.handshake_timeout_s)
        return self.keeper.door("emm-quic", bounds, apart=True)

    def _open_to_all(self, connections_max: int, stranger_s: float) -> DoorLimits:
        """Where a handshake is all there is to prove: no address gets more than half of the places."""
        limits, half = self._config.limits, connections_max // 2
        return DoorLimits(
            connections_max,
            min(half, limits.connections_of_host_max),
            min(half, limits.strangers_max),
            min(half, limits.strangers_of_host_max),
            limits.stranger_grace_s,
            stranger_s,
        )
