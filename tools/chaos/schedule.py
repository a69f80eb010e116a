"""Which fault happens when, to whom and for how long. A pure function of the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final

KINDS: Final = (
    "kill",  # SIGKILL, then start again
    "pause",  # SIGSTOP, SIGCONT
    "cut",  # no packets between two nodes
    "isolate",  # no packets between a node and all others, clients included
    "lossy",  # some of a node's packets are dropped
    "slow",  # a node's link has little bandwidth
    "clock",  # a node's clock jumps, and later jumps back
    "disk",  # a node's disk is full
    "flip",  # a node is killed, and bytes of its write-ahead log are flipped
    "rotate",  # a new intermediate CA; certificates are renewed by it
    "revoke",  # an API key is made, used and revoked
    "upgrade",  # all nodes are restarted, one after the other
    "drivers",  # the Spark drivers are killed with all that belongs to them (SIGKILL)
    "guest",  # a sixth node joins, takes events, and leaves for good
)
CALM_S: Final = 45.0  # before the first fault and after the last one, at most a fifth of the run each
GAP_S: Final = (4.0, 22.0)  # between the beginnings of two faults
LASTS_S: Final[dict[str, tuple[float, float]]] = {
    "kill": (0.5, 12.0),
    "pause": (1.0, 25.0),
    "cut": (3.0, 40.0),
    "isolate": (3.0, 30.0),
    "lossy": (5.0, 40.0),
    "slow": (5.0, 40.0),
    "clock": (5.0, 40.0),
    "disk": (5.0, 25.0),
    "flip": (0.0, 0.0),
    "rotate": (0.0, 0.0),
    "revoke": (0.0, 0.0),
    "upgrade": (0.0, 0.0),
    "drivers": (0.0, 0.0),
    "guest": (15.0, 60.0),
}
# Rare ones: they stop the mesh's work for longer, or have to follow each other at some distance.
RARE: Final = ("flip", "rotate", "revoke", "upgrade", "drivers")
WEIGHTS: Final = {kind: 0 if kind == "guest" else 1 if kind in RARE else 4 for kind in KINDS}  # one guest is enough
LOSS: Final = (0.02, 0.3)
RATES_KBIT: Final = (64, 256, 1024)
# Forward by 90 s at most: what a node writes to a bucket is held back by others until its time has nearly come.
JUMPS_S: Final = (-7200, -600, -90, -20, 20, 50, 90)
TWO_SIDED: Final = ("cut",)
WITHOUT_TARGET: Final = ("rotate", "revoke", "upgrade", "drivers", "guest")


@dataclass(frozen=True, slots=True)
class Fault:
    """``amount``: the share of packets that is lost, a rate in kbit/s, or the seconds that a clock jumps."""

    at_s: float
    kind: str
    target: str = ""
    other: str = ""
    lasts_s: float = 0.0
    amount: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def plan(seed: int, seconds: float, nodes: Sequence[str], kinds: Sequence[str] = KINDS) -> tuple[Fault, ...]:
    """Every kind once, if the time allows, then any of them. Two faults may overlap, but not at one node."""
    chance = Random(seed)  # noqa: S311 - the same seed has to give the same faults
    calm_s = min(CALM_S, seconds / 5)
    first = list(kinds)
    chance.shuffle(first)
    faults: list[Fault] = []
    at_s = calm_s
    while at_s < seconds - calm_s:
        kind = first.pop() if first else chance.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
        fault = _fault(chance, at_s, kind, nodes, seconds - calm_s - at_s)
        if not any(_collide(fault, other) for other in faults):
            faults.append(fault)
        elif kind not in {each.kind for each in faults}:
            first.append(kind)
        at_s = round(at_s + chance.uniform(*GAP_S), 1)
    return tuple(faults)


def _fault(chance: Random, at_s: float, kind: str, nodes: Sequence[str], left_s: float) -> Fault:
    target, other = chance.sample(list(nodes), 2)
    lasts_s = round(min(chance.uniform(*LASTS_S[kind]), left_s), 1)
    loss, rate, jump = round(chance.uniform(*LOSS), 2), chance.choice(RATES_KBIT), chance.choice(JUMPS_S)
    amount = {"lossy": loss, "slow": float(rate), "clock": float(jump)}.get(kind, 0.0)
    return Fault(
        at_s,
        kind,
        "" if kind in WITHOUT_TARGET else target,
        other if kind in TWO_SIDED else "",
        lasts_s,
        amount,
    )


def _collide(one: Fault, other: Fault) -> bool:
    """Whether they meet at a node. What goes around all nodes waits for nobody: it copes."""
    overlap = one.at_s < other.at_s + other.lasts_s and other.at_s < one.at_s + one.lasts_s
    return overlap and bool({one.target, one.other} & {other.target, other.other} - {""})


def tell(fault: Fault) -> str:
    """One line of the story."""
    what = {
        "kill": f"{fault.target} is killed (SIGKILL) and down for {fault.lasts_s} s",
        "pause": f"{fault.target} is stopped (SIGSTOP) for {fault.lasts_s} s",
        "cut": f"no packets pass between {fault.target} and {fault.other} for {fault.lasts_s} s",
        "isolate": f"{fault.target} is cut off from everybody for {fault.lasts_s} s",
        "lossy": f"{fault.amount:.0%} of {fault.target}'s packets are lost for {fault.lasts_s} s",
        "slow": f"{fault.target} has {fault.amount:.0f} kbit/s for {fault.lasts_s} s",
        "clock": f"{fault.target}'s clock jumps by {fault.amount:+.0f} s for {fault.lasts_s} s",
        "disk": f"{fault.target}'s disk is full for {fault.lasts_s} s",
        "flip": f"{fault.target} is killed, bytes of its write-ahead log are flipped, and it is repaired",
        "rotate": "the CA gets a new intermediate",
        "revoke": "an API key is made, used and revoked",
        "upgrade": "all nodes are restarted, one after the other",
        "drivers": "the Spark drivers are killed (SIGKILL)",
        "guest": f"a sixth node joins, takes events for {fault.lasts_s} s, and leaves for good",
    }[fault.kind]
    return f"{fault.at_s:7.1f} s  {what}"
