"""The doors of a node's ports, with bounds from its configuration and from the number of files that the process may
have open."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from structlog.stdlib import BoundLogger

from weft.doors import Door, Doorkeeper, DoorLimits, TurnedAway
from weft.doors.descriptors import Descriptors, FileLimit, plan
from weft.doors.http import http_limits
from weft.limits import QUIC_CONNECTIONS_MAX
from weft.log.rocks_store import files_for_log
from weft.node.config import NodeConfig

COATY_SURPLUS_MAX: Final = 16  # connections beyond the bound that may be open at a time, to be told why and closed
PEERS_BESIDE_MAX: Final = 8  # dialled because others mentioned them, while there is no link to a configured peer

FEW_FILES_ADVICE: Final = "raise the hard limit (ulimit -Hn, LimitNOFILE=), or set limits.connections_max lower"


def plan_files(config: NodeConfig, allowed: int) -> Descriptors:
    """How a node with this configuration uses its files; UsageError if they are too few."""
    dialled_max = 2 * len(config.peers) + PEERS_BESIDE_MAX  # a link and its replacement
    return plan(allowed, files_for_log(allowed), dialled_max)


class Entrances:
    """``limit``: how many files the system allows this process; UsageError if they are too few. ``tell`` is told who
    was turned away."""

    def __init__(self, config: NodeConfig, limit: FileLimit, tell: Callable[[TurnedAway], None]) -> None:
        self._config = config
        self._limit = limit
        self.files = plan_files(config, limit.now)
        self.keeper = Doorkeeper(self.files.connections, tell)

    def log(self, logger: BoundLogger) -> None:
        files = self.files
        told = {
            "allowed": files.limit,
            "before": self._limit.before,
            "log": files.log,
            "grpc": files.node,
            "admin": files.admin,
            "ca": files.ca,
            "connections": files.connections,
        }
        if lacking := files.lacks(self._config.limits.connections_max):
            logger.warning("files_shared_out", **told, lacking=lacking, advice=FEW_FILES_ADVICE)
        else:
            logger.info("files_shared_out", **told)

    def admin(self) -> Door:
        return self.keeper.door("admin", http_limits(self.files.admin), apart=True)

    def ca(self) -> Door:
        return self.keeper.door("ca", http_limits(self.files.ca), apart=True)

    def exmp(self, name: str, connections_max: int) -> Door:
        """The door for EXMP. Its sessions have their own deadlines, and tell the client why they end."""
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
        """The door for Coaty. Handshakes have their own deadlines, and connections beyond the bound get an answer."""
        most = self._config.gateway.coaty.connections_max + COATY_SURPLUS_MAX
        return self.keeper.door("coaty", self._open_to_all(most, math.inf))

    def quic(self) -> Door:
        """The door for QUIC. All connections share one socket, so they need no file descriptors."""
        bounds = self._open_to_all(QUIC_CONNECTIONS_MAX, self._config.limits.handshake_timeout_s)
        return self.keeper.door("emm-quic", bounds, apart=True)

    def _open_to_all(self, connections_max: int, stranger_s: float) -> DoorLimits:
        """For ports where a handshake is the only proof: no address gets more than half of the places."""
        limits, half = self._config.limits, connections_max // 2
        return DoorLimits(
            connections_max,
            min(half, limits.connections_of_host_max),
            min(half, limits.strangers_max),
            min(half, limits.strangers_of_host_max),
            limits.stranger_grace_s,
            stranger_s,
        )
