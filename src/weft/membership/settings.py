"""The knobs of membership, with their ranges, and the two formulas that follow the size of the mesh."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import Final

from weft import limits
from weft.errors import UsageError

DAY_S: Final = 86_400.0

# Knob -> least, most. Below, nodes are busier with each other than with events; above, nobody would call it a mesh.
RANGES: Final[dict[str, tuple[float, float]]] = {
    "gossip_interval_s": (0.1, 60.0),
    "gossip_fan_out": (1, 16),
    "spread_delay_s": (0.001, 1.0),
    "spread_multiplier": (1, 10),
    "probe_interval_s": (0.2, 60.0),
    "probe_timeout_s": (0.05, 30.0),
    "probe_helpers": (0, 16),
    "suspicion_multiplier": (1, 20),
    "heartbeat_interval_s": (limits.HEARTBEAT_INTERVAL_S_MIN, limits.HEARTBEAT_INTERVAL_S_MAX),
    "unreachable_s": (10.0, 30 * DAY_S),
    "dead_retention_s": (10.0, 30 * DAY_S),
    "rejoin_interval_s": (1.0, 300.0),
    "leave_timeout_s": (0.1, 60.0),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How eagerly nodes talk about each other. The defaults and their reasons are in ``weft.limits``."""

    gossip_interval_s: float = limits.GOSSIP_INTERVAL_S
    gossip_fan_out: int = limits.GOSSIP_FAN_OUT
    spread_delay_s: float = limits.SPREAD_DELAY_S
    spread_multiplier: int = limits.SPREAD_MULTIPLIER
    probe_interval_s: float = limits.PROBE_INTERVAL_S
    probe_timeout_s: float = limits.PROBE_TIMEOUT_S
    probe_helpers: int = limits.PROBE_HELPERS
    suspicion_multiplier: int = limits.SUSPICION_MULTIPLIER
    heartbeat_interval_s: float = limits.HEARTBEAT_INTERVAL_S
    unreachable_s: float = limits.UNREACHABLE_S
    dead_retention_s: float = limits.DEAD_RETENTION_S
    rejoin_interval_s: float = limits.REJOIN_INTERVAL_S
    leave_timeout_s: float = limits.LEAVE_TIMEOUT_S

    def __post_init__(self) -> None:
        for knob, (least, most) in RANGES.items():
            value = getattr(self, knob)
            if not least <= value <= most:  # written so that NaN fails too
                raise UsageError(f"{knob} is out of range", value=value, least=least, most=most)
        if self.probe_timeout_s >= self.probe_interval_s:
            raise UsageError(
                "probe_timeout_s has to leave time for indirect probes within probe_interval_s",
                value=self.probe_timeout_s,
                below=self.probe_interval_s,
            )


def spread_times(members: int, multiplier: int) -> int:
    """To how many peers a node passes a change on: with log n each, nearly all of n hear of it."""
    return multiplier * ceil(log2(members + 1))


def suspicion_timeout_s(members: int, multiplier: int, probe_interval_s: float) -> float:
    """How long a suspect may refute: word to it and back takes a number of hops that grows with log n."""
    return multiplier * log2(members + 1) * probe_interval_s
