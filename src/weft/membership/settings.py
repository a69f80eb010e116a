"""The knobs of membership, with their ranges, and the two formulas that follow the size of the mesh."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import Final

from weft.errors import UsageError

HEARTBEAT_INTERVAL_S_MIN: Final = 2.0  # PL-03
HEARTBEAT_INTERVAL_S_MAX: Final = 10.0  # PL-03
DAY_S: Final = 86_400.0

# Each knob with its smallest and greatest value. Below, nodes talk more about each other than about events; above,
# nobody would call it a mesh.
RANGES: Final[dict[str, tuple[float, float]]] = {
    "gossip_interval_s": (0.1, 60.0),
    "gossip_fan_out": (1, 16),
    "spread_delay_s": (0.001, 1.0),
    "spread_multiplier": (1, 10),
    "probe_interval_s": (0.2, 60.0),
    "probe_timeout_s": (0.05, 30.0),
    "probe_helpers": (0, 16),
    "suspicion_multiplier": (1, 20),
    "heartbeat_interval_s": (HEARTBEAT_INTERVAL_S_MIN, HEARTBEAT_INTERVAL_S_MAX),
    "unreachable_s": (10.0, 30 * DAY_S),
    "dead_retention_s": (10.0, 30 * DAY_S),
    "rejoin_interval_s": (1.0, 300.0),
    "leave_timeout_s": (0.1, 60.0),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How often nodes talk about each other."""

    gossip_interval_s: float = 1.0  # a node that missed a change has it a second later; an exchange costs about 1 KiB
    gossip_fan_out: int = 3  # links served per round, so that a node's traffic does not grow with its links
    spread_delay_s: float = 0.05  # changes within this time are sent together; each hop adds at most this delay
    spread_multiplier: int = 2  # a change goes to 2 log2(n) peers: random meshes miss fewer than one node in a thousand
    probe_interval_s: float = 1.0  # the same as in SWIM and memberlist
    probe_timeout_s: float = 0.5  # a round trip around the world, with room for a pause of the interpreter
    probe_helpers: int = 3  # with 10 % loss, all three fail together once in 150 times
    suspicion_multiplier: int = 3  # 6 s for three nodes, 30 s for a thousand: time to hear of it and to refute
    heartbeat_interval_s: float = 5.0  # a silent link is unhealthy after 15 to 20 s; probes are faster
    unreachable_s: float = 600.0  # a node out of reach is probably alive, so it is not suspected sooner
    dead_retention_s: float = 3600.0  # people may look for a node that died within the last hour
    rejoin_interval_s: float = 5.0  # between dials of a node without links; each link has its own backoff per address
    leave_timeout_s: float = 2.0  # a goodbye takes a few spread delays; a stuck link must not hold up a shutdown

    def __post_init__(self) -> None:
        for knob, (least, most) in RANGES.items():
            value = getattr(self, knob)
            if not least <= value <= most:  # written so that NaN is refused, too
                raise UsageError(f"{knob} is out of range", value=value, least=least, most=most)
        if self.probe_timeout_s >= self.probe_interval_s:
            raise UsageError(
                "probe_timeout_s has to leave time for indirect probes within probe_interval_s",
                value=self.probe_timeout_s,
                below=self.probe_interval_s,
            )


def spread_times(members: int, multiplier: int) -> int:
    """To how many peers a node passes a change on. If each node tells about log n peers, nearly all n nodes hear of
    it."""
    return multiplier * ceil(log2(members + 1))


def suspicion_timeout_s(members: int, multiplier: int, probe_interval_s: float) -> float:
    """How long a suspect may take to refute. The suspicion has to reach it, and its answer has to come back; the number
    of hops for that grows with log n."""
    return multiplier * log2(members + 1) * probe_interval_s
